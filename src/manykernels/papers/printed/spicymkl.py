"""SpicyMKL as printed: Table 1, and Table 2 with the multipliers (28) to (41), of Suzuki and Tomioka (2011).

    rho     = argmin l0*(rho) + sum_m env(||alpha_m + gamma rho||_m) + (b + gamma sum rho)^2 / (2 gamma)
                     + sum_ij max(0, xi_ij + gamma h_j(rho_i))^2 / (2 gamma)                          (25), (41)
    alpha_m = prox(alpha_m + gamma rho),   b = b + gamma sum rho,   xi_ij = max(0, xi_ij + gamma h_j(rho_i))

with ``gamma = 2^t``, Newton's method and Armijo's rule inside, and the dual value of section 6.1 for the stop.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.linalg import solve

from manykernels.exceptions import IncompatibleError
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.validation.arrays import Array, check_count, check_positive

TABLE_1 = ("logistic", "squared")  # losses whose conjugate is smooth where it is finite
TABLE_2 = ("hinge", "epsilon_insensitive")  # losses that need multipliers
ARMIJO = 1e-4  # share of the predicted decrease; the paper gives none
MOST_NEWTON_STEPS = 200  # of one inner problem
MOST_HALVINGS = 50
DECREMENT = 1e-10  # of the inner objective: where Newton's method stops; the paper says "approximate minimizer"
JITTER = 1e-12  # of the largest diagonal entry: a multiplier that is zero has no curvature


@dataclass(frozen=True, eq=False)
class PrintedRun:
    """The end of a run of the printed algorithm and its history.

    Parameters
    ----------
    coefficients : ndarray of shape (n_kernels, n_samples)
        ``alpha``, one vector a kernel.
    intercept : float
    dual_coef : ndarray of shape (n_samples,)
        ``rho`` of the last inner problem.
    kernel_norms : ndarray of shape (n_kernels,)
        ``||alpha_m||``.
    history : DataFrame
        A row per outer iteration: ``iteration``, ``gamma``, ``newton_steps``, ``primal``, ``dual``, ``relative_gap``,
        ``active``.
    converged : bool
        Whether the relative gap reached the tolerance.
    """

    coefficients: Array
    intercept: float
    dual_coef: Array
    kernel_norms: Array
    history: pd.DataFrame
    converged: bool


def solve_as_printed(
    problem: Problem,
    *,
    tol: float = 0.01,
    max_iter: int = 30,
    gamma: Callable[[int], float] = lambda t: 2.0**t,
) -> PrintedRun:
    """Run SpicyMKL as the paper prints it; `SpicyMKL` is the solver of the library.

    Parameters
    ----------
    problem : Problem
        With the logistic or the squared loss (Table 1), the hinge or the epsilon-insensitive loss (Table 2), and a
        penalty that is a sum over norms with a second derivative: block 1-norm, elastic net, ridge.
    tol : float
        Relative duality gap at which it stops; 0.01 in the paper.
    max_iter : int
        Most outer iterations.
    gamma : callable
        The proximity parameter of outer iteration 1, 2, ...; the paper suggests ``2**t``.

    Returns
    -------
    PrintedRun

    Raises
    ------
    IncompatibleError
        For another loss or penalty, sample weights, kernel penalties, or a problem without an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.papers import spicymkl
    >>> from manykernels.papers.printed.spicymkl import solve_as_printed
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> run = solve_as_printed(spicymkl(0.5).problem(kernels, np.where(x > 0.4, 1.0, -1.0)))
    >>> run.converged, run.history["gamma"].tolist()[:3]
    (True, [2.0, 4.0, 8.0])
    """
    _check(problem)
    tol, max_iter = check_positive(tol, "tol"), check_count(max_iter, "max_iter")
    state = _State(problem)
    rows = []
    for t in range(1, max_iter + 1):
        steps = state.minimize(gamma(t))
        state.update()
        rows.append({"iteration": t, "gamma": state.gamma, "newton_steps": steps} | state.bounds())
        if rows[-1]["relative_gap"] <= tol:
            break
    return PrintedRun(state.alpha, state.b, state.rho, state.norms, pd.DataFrame(rows), rows[-1]["relative_gap"] <= tol)


def _check(problem: Problem) -> None:
    """Raise `IncompatibleError` for a problem that the tables do not pose."""
    name = problem.loss.name
    if name not in TABLE_1 + TABLE_2:
        raise IncompatibleError(f"The tables are for the losses {TABLE_1 + TABLE_2}, got {name!r}.")
    if not {Capability.SEPARABLE, Capability.CURVATURE} <= problem.regularizer.capabilities:
        raise IncompatibleError(f"The penalty {problem.regularizer.name!r} is not a smooth function of each norm.")
    if not problem.fit_intercept or np.any(problem.weight != 1) or np.any(problem.penalties != 1):
        raise IncompatibleError("The printed problem has an intercept, but no sample weights and no kernel penalties.")


@dataclass
class _State:
    """Primal variables ``alpha``, ``b``, ``xi`` and the dual ``rho`` of the inner problem, with products of kernels."""

    problem: Problem
    kernels: Array = field(init=False)
    gamma: float = 1.0
    b: float = 0.0

    def __post_init__(self) -> None:
        problem, n = self.problem, self.problem.n_samples
        self.kernels = np.stack([problem.stack.combine(unit) for unit in np.eye(problem.n_kernels)])
        self.alpha = np.zeros((problem.n_kernels, n))
        self.norms = np.zeros(problem.n_kernels)
        low, high = problem.loss.dual_bounds(problem.y)
        bounded = np.isfinite(low).all()
        self.rho = (low + high) / 2 if bounded else np.zeros(n)
        self.barrier = problem.loss.name == "logistic"
        # Constraints h(rho) = slopes * rho + offsets <= 0, (B, N): the ends of the dual box, (30) and (31).
        constrained = problem.loss.name in TABLE_2
        self.slopes = np.array([[1.0], [-1.0]]) if constrained else np.zeros((0, 1))
        self.offsets = np.stack([-high, low]) if constrained else np.zeros((0, n))
        self.xi = np.zeros(self.offsets.shape)
        # |rho| = rho + 2 s with s >= 0 and rho + s >= 0, (35).
        self.kink = float(problem.loss.kink)
        self.s = np.zeros(n)
        self.eta = np.zeros((2, n))

    def minimize(self, gamma: float) -> int:
        """Minimize over ``rho`` (and ``s``) by Newton's method with Armijo's rule; return the number of steps."""
        self.gamma = gamma
        point = np.r_[self.rho, self.s] if self.kink else self.rho
        value, gradient, hessian = self._inner(point)
        steps = 0
        while steps < MOST_NEWTON_STEPS:  # at most MOST_NEWTON_STEPS
            steps += 1
            hessian[np.diag_indices_from(hessian)] += JITTER * hessian.diagonal().max()
            direction = -solve(hessian, gradient, assume_a="sym")
            slope = float(gradient @ direction)
            size = 1.0
            for _ in range(MOST_HALVINGS):
                moved = point + size * direction
                if self._value(moved) <= value + ARMIJO * size * slope:
                    break
                size /= 2
            else:
                break
            point = moved
            value, gradient, hessian = self._inner(point)
            if -slope <= DECREMENT * max(1.0, abs(value)):
                break
        n = self.problem.n_samples
        self.rho, self.s = point[:n], point[n:] if self.kink else self.s
        return steps

    def update(self) -> None:
        """Update the primal variables: (11) and (12), (28) to (31), (38) to (40)."""
        v, sizes = self._move(self.rho)
        shrunk = self.problem.regularizer.prox(sizes, self.gamma)
        share = np.divide(shrunk, sizes, out=np.zeros(sizes.size), where=sizes > 0)
        self.alpha, self.norms = share[:, None] * v, shrunk
        self.b += self.gamma * float(self.rho.sum())
        self.xi = np.maximum(0.0, self.xi + self.gamma * (self.slopes * self.rho + self.offsets))
        if self.kink:
            self.eta = np.maximum(0.0, self.eta + self.gamma * self._kink_constraints(self.rho, self.s))

    def bounds(self) -> dict[str, float]:
        """Return the objective of ``alpha`` and ``b``, the dual value of section 6.1 and their relative gap."""
        problem = self.problem
        z = (self.kernels @ self.alpha[:, :, None]).sum(axis=0)[:, 0] + self.b
        primal = problem.empirical_loss(z) + problem.regularizer.value(self.norms)
        rho = self.rho - self.rho.mean()
        u = problem.dual_norms(rho)
        rho, u = (part * problem.regularizer.dual_scale(u) for part in (rho, u))
        dual = -problem.conjugate_loss(rho) - problem.regularizer.conjugate(u)
        if not np.isfinite(dual):  # outside the dual box, of which section 6.1 says nothing
            dual = problem.dual(self.rho)
        active = int(np.count_nonzero(self.norms))
        return {"primal": primal, "dual": dual, "relative_gap": (primal - dual) / primal, "active": active}

    def _move(self, rho: Array) -> tuple[Array, Array]:
        """Return ``alpha_m + gamma rho`` and its norms."""
        v = self.alpha + self.gamma * rho
        squares = (v * (self.kernels @ v[:, :, None])[:, :, 0]).sum(axis=1)
        return v, np.sqrt(np.maximum(squares, 0.0))

    def _kink_constraints(self, rho: Array, s: Array) -> Array:
        """Return the constraints of (35) on the auxiliary variable."""
        return np.stack([-s, -rho - s])

    def _value(self, point: Array) -> float:
        """Return the inner objective, infinite outside the domain of the conjugate loss."""
        problem, gamma, n = self.problem, self.gamma, self.problem.n_samples
        rho, s = point[:n], point[n:]
        with np.errstate(invalid="ignore"):
            conjugate = problem.loss.conjugate(problem.y, rho) if self.barrier else self._smooth(rho)
        _, sizes = self._move(rho)
        shrunk = problem.regularizer.prox(sizes, gamma)
        envelope = (sizes @ sizes - (sizes - shrunk) @ (sizes - shrunk)) / (2 * gamma) - problem.regularizer.value(
            shrunk
        )
        total = float(np.sum(conjugate)) + envelope + (self.b + gamma * rho.sum()) ** 2 / (2 * gamma)
        total += float(np.sum(self._pressed(rho) ** 2)) / (2 * gamma)
        if self.kink:
            pressed = np.maximum(0.0, self.eta + gamma * self._kink_constraints(rho, s))
            total += self.kink * float((rho + 2 * s).sum()) + float(np.sum(pressed**2)) / (2 * gamma)
        return total if np.isfinite(total) else np.inf

    def _smooth(self, rho: Array) -> Array:
        """Return the conjugate without its kink, also outside the dual box: linear but for the squared loss."""
        square = rho**2 / 2 if self.problem.loss.name == "squared" else 0.0
        return np.asarray(square - self.problem.y * rho)

    def _pressed(self, rho: Array) -> Array:
        """Return ``max(0, xi + gamma h(rho))``."""
        return np.maximum(0.0, self.xi + self.gamma * (self.slopes * rho + self.offsets))

    def _inner(self, point: Array) -> tuple[float, Array, Array]:
        """Return value, gradient (26) and Hessian (27) of the inner objective."""
        problem, gamma, n = self.problem, self.gamma, self.problem.n_samples
        rho, s = point[:n], point[n:]
        v, sizes = self._move(rho)
        shrunk = problem.regularizer.prox(sizes, gamma)
        squared = problem.loss.name == "squared"
        slope = problem.loss.conjugate_derivative(problem.y, rho) if self.barrier else squared * rho - problem.y
        bend = problem.loss.conjugate_second_derivative(problem.y, rho) if self.barrier else np.full(n, float(squared))
        pressed = self._pressed(rho)
        gradient = slope + self.b + gamma * rho.sum() + (self.slopes * pressed).sum(axis=0)
        hessian = np.diag(bend + gamma * (pressed > 0).sum(axis=0)) + gamma
        for m in np.flatnonzero(shrunk > 0):
            share = shrunk[m] / sizes[m]
            bent = 1.0 / (1.0 + gamma * problem.regularizer.second_derivative(shrunk)[m])
            image = self.kernels[m] @ v[m]
            gradient += share * image
            hessian += gamma * (share * self.kernels[m] + (bent - share) / sizes[m] ** 2 * np.outer(image, image))
        if not self.kink:
            return self._value(point), gradient, hessian
        first, second = np.maximum(0.0, self.eta + gamma * self._kink_constraints(rho, s))
        gradient = np.r_[gradient + self.kink - second, 2 * self.kink - first - second]
        cross = np.diag(gamma * (second > 0))
        corner = np.diag(gamma * (1.0 * (first > 0) + (second > 0)))
        return self._value(point), gradient, np.block([[hessian + cross, cross], [cross, corner]])
