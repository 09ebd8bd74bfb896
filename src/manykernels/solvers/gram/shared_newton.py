"""Newton's method over kernel weights that several classes or targets share.

    minimize_d  J(d) + h(d),      J(d) = min_{R, b} L(F) + sum_m d_m tr R'K_m R / 2,      F = sum_m d_m K_m R + 1 b'

    dJ/dd_m = -u_m^2 / 2,      d2J/(dd_m dd_l) = <K_m R, P K_l R>,      u_m^2 = tr R'K_m R

``P = (W^- + I (x) K)^-1`` with the curvature ``W`` of the loss is what the last Newton step of the fit at ``d``
factorized (`shared_systems`). Every step minimizes the quadratic model over the weights, then runs the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr

from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers import BlockL1
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.newton_system import (
    BOUNDARY,
    CENTERING,
    CLOSEST,
    ENOUGH_DECREASE,
    FIRST_SET,
    INNER_SHARE,
    MOST_HALVINGS,
    MOST_PROGRAM_STEPS,
    MOST_SHORTENINGS,
    MOST_STEPS,
    NEARLY_VIOLATED,
    PROGRAM_GAP,
    SHORTENING,
    SharedSystem,
)
from manykernels.solvers.gram.set_weights import NodeWeights
from manykernels.solvers.gram.start import best_scale
from manykernels.solvers.gram.weight_variables import free_kernels

if TYPE_CHECKING:
    from manykernels.objective.certificate import Certificate
    from manykernels.objective.losses import AnyLoss
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array


# The convex program over the kernel weights that a Newton step solves, by a primal-dual interior point.
#
#     minimize_x  -a'(x - d) + (x - d)' G (x - d) / 2 + sum_m h_m(x_m)    over x >= 0
#
# with ``h_m' = B_m^2 / 2`` of `Regularizer.norm_bound`: ``u_m^2 <= B_m(x_m)^2``, with equality where ``x_m > 0``, for
# the squared norms that the quadratic model predicts. A set of weights has ``sum_m g(x_m)`` limited instead, and
# ``u_m^2 <= tau g'(x_m)`` with one multiplier ``tau`` for all kernels (`Regularizer.weight_limit`).


@dataclass(frozen=True, eq=False)
class WeightProgram:
    """Data of the program: ``a``, ``G``, ``d`` and the regularizer of the kernels."""

    linear: Array
    quadratic: Array
    current: Array
    regularizer: Regularizer

    def solve(self) -> Array:
        """Return the minimizer, with zeros where the multiplier says so."""
        x = self._start()
        half = float((self.linear / self._bound(x, 1.0)[0]).max()) if self.regularizer.weight_set else 0.0
        s = np.maximum(self._slope(x, half), 0.1 * np.abs(self.linear).mean())
        for _ in range(MOST_PROGRAM_STEPS):
            gap, residual = float(x @ s), self._slope(x, half) - s
            sizes = np.abs(self.linear) + s
            if gap <= PROGRAM_GAP * float(x @ sizes) and np.abs(residual).max() <= 1e-13 * sizes.max():
                break
            dx, ds, dhalf = self._direction((x, s, half), residual, CENTERING * gap / x.size)
            length = min(_longest(x, dx), _longest(s, ds), _longest(self._pole() - x, -dx))
            x, s, half = x + length * dx, s + length * ds, half + length * dhalf
        return np.where(self._zero(x, s), 0.0, x)

    def _start(self) -> Array:
        if self.regularizer.weight_set:
            typical = self.regularizer.weights_from_norms(np.ones(self.current.shape))
            mixed = np.maximum(self.current, 0.01 * typical)
            return mixed * (float(typical.sum()) / float(mixed.sum()))
        typical = np.abs(self.linear) / np.maximum(self.quadratic.diagonal(), np.finfo(np.float64).tiny)
        return np.minimum(np.maximum(self.current, 0.1 * float(np.median(typical))), 0.9 * self._pole())

    def _pole(self) -> Array:
        return np.broadcast_to(self.regularizer.weight_range[1], self.current.shape)

    def _bound(self, x: Array, half: float) -> tuple[Array, Array]:
        """``B^2 / 2`` and the derivative."""
        if self.regularizer.weight_set:
            slopes, bends, _ = self.regularizer.weight_limit(x)
            return half * slopes, half * bends / x
        squares, slopes = self.regularizer.norm_bound(x)
        return squares / 2, slopes

    def _slope(self, x: Array, half: float) -> Array:
        return self.quadratic @ (x - self.current) - self.linear + self._bound(x, half)[0]

    def _direction(
        self, point: tuple[Array, Array, float], residual: Array, target: float
    ) -> tuple[Array, Array, float]:
        x, s, half = point
        diagonal = self._bound(x, half)[1] + s / x
        scale = 1.0 / np.sqrt(self.quadratic.diagonal() + diagonal)
        factor = cho_factor(scale[:, None] * self.quadratic * scale + np.diag(scale**2 * diagonal + 1e-15), lower=True)
        dx, dhalf = scale * cho_solve(factor, scale * (target / x - s - residual)), 0.0
        if self.regularizer.weight_set:
            slopes, _, missing = self.regularizer.weight_limit(x)
            pull = scale * cho_solve(factor, scale * slopes)
            dhalf = (float(slopes @ dx) - missing) / float(slopes @ pull)
            dx = dx - dhalf * pull
        return dx, (target - s * dx) / x - s, dhalf

    def _zero(self, x: Array, s: Array) -> Array:
        """Whether a weight is smaller than the multiplier, both in their units."""
        if not self.regularizer.sparse:
            return np.zeros(x.shape, dtype=bool)
        return x / x.max() < s / np.abs(self.linear).max()


def _longest(value: Array, change: Array) -> float:
    """Largest step in [0, 1] strictly inside the domain."""
    shrinking = change < 0
    return min(1.0, BOUNDARY * float((value[shrinking] / -change[shrinking]).min())) if shrinking.any() else 1.0


# Functions of several targets at fixed kernel weights ``d``, by Newton's method: ``f_t = sum_m d_m K_m r_t + b_t``.
#
# With ``K = sum_m d_m K_m`` it minimizes ``sum_i s_i l(y_i, (K R + b)_i) + tr(R' K R) / 2`` over ``R`` (N, T) and
# ``b``. With ``rho = -s dl(F)`` and the curvature ``W`` of the loss at ``F = K R + b``, a step solves
#
#     (1 + W K) dR = rho - R - W db,    1'(R + dR) = 0


@dataclass
class FixedWeightFit:
    """A point ``(R, b)`` at the weighted sum ``gram`` of kernels.

    Attributes
    ----------
    problem : Problem
    gram : (N, N)
    rho : (N, T)
    b : (T,)
    products : (N, T)
        ``K R``.
    system : SharedSystem or None
        Of the last Newton step.
    steps : int
        Newton steps so far.
    """

    problem: Problem
    gram: Array
    rho: Array
    b: Array
    system: SharedSystem | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        self.products = self.gram @ self.rho
        self._shrink()

    def _shrink(self) -> None:
        """Multiply the coefficients by the best power of a fourth, or by zero.

        Those of other weights may have scores so large here that a loss is flat there and Newton's method lost.
        """
        shares = np.append(0.25 ** np.arange(12.0), 0.0)
        values = np.array([self._parts(share * self.rho, share * self.products, self.b) for share in shares])
        best = shares[values.argmin(axis=0)]
        self.rho, self.products = best * self.rho, best * self.products

    def solve(self, accuracy: float) -> FixedWeightFit:
        """Take Newton steps until the predicted gain is below ``accuracy``, in units of the objective."""
        for _ in range(MOST_STEPS):
            gain, length = self._step()
            if gain <= accuracy or not length:
                break
        return self

    def scores(self) -> Array:
        """``K R + b`` (N, T)."""
        return self.products + self.b

    def _step(self) -> tuple[float, float]:
        """Take a single step; return half of the predicted decrease, and the longest length."""
        drho, db = self._direction()
        dproducts = self.gram @ drho
        excess = self.rho - self._dual_of_scores()
        slopes = self._whole(excess * dproducts).sum(axis=0) - self._whole((self.rho - excess) * db).sum(axis=0)
        lengths = self._lengths(drho, db, dproducts, slopes)
        self.rho = self.rho + lengths * drho
        self.b = self.b + lengths * db
        self.products = self.products + lengths * dproducts
        self.steps += 1
        return -0.5 * float(slopes.sum()), float(lengths.max())

    def _direction(self) -> tuple[Array, Array]:
        """Return the step."""
        residual = self._dual_of_scores() - self.rho
        if not self.problem.loss.linear_dual:
            self.system = None  # its factors are let go of before there are others
        if self.system is None:
            self.system = SharedSystem(
                self.gram,
                self.problem.weight[:, None] * self.problem.loss.curvature(self.problem.y, self.scores()),
                self.problem,
            )
        taken, db = self.system.bordered(self.gram @ residual, (self.rho + residual).sum(axis=0))
        return residual - taken, db

    def _dual_of_scores(self) -> Array:
        return -self.problem.weight[:, None] * self.problem.loss.derivative(self.problem.y, self.scores())

    def _lengths(self, drho: Array, db: Array, dproducts: Array, slopes: Array) -> Array:
        """Return a step length for every independent part: the longest halving with sufficient decrease."""
        start = self._parts(self.rho, self.products, self.b)
        lengths = np.ones(slopes.shape)
        rounding = 1e-15 * np.abs(start)
        for _ in range(MOST_HALVINGS):
            moved = (self.rho + lengths * drho, self.products + lengths * dproducts, self.b + lengths * db)
            bad = ~(self._parts(*moved) <= start + ENOUGH_DECREASE * lengths * slopes + rounding)
            if not bad.any():
                return lengths
            lengths = np.where(bad, lengths / 2, lengths)
        return np.where(bad, 0.0, lengths)

    def _parts(self, rho: Array, products: Array, b: Array) -> Array:
        """Objective of every target, or the sum if coupled by the loss."""
        losses = self.problem.weight @ self.problem.loss.parts(self.problem.y, products + b)
        return losses + 0.5 * self._whole(rho * products).sum(axis=0)

    def _whole(self, values: Array) -> Array:
        """Sum over targets if coupled by the loss."""
        return values.sum(axis=1, keepdims=True) if self.problem.loss.coupled else values


Model = Any  # in place of that of one target: dual coefficients (N, T), kernel weights (M,) and intercepts (T,)


@dataclass
class _State:
    fit: FixedWeightFit
    weights: Array
    norms: Array = field(default_factory=lambda: np.zeros(0))
    gap: float = np.inf
    primal: float = np.inf  # of the fit at its weights, once a step has found it
    nodes: NodeWeights | None = None  # of a penalty that is a sum of norms
    rotation: Array | None = None  # of the targets, (T', T), where there are more of them than samples


@dataclass(frozen=True, kw_only=True)
class SharedNewton(Solver):
    r"""Newton's method over the kernel weights, with a fit for all classes or targets at every set of weights.

    With :math:`J(d) = \min_{R, b} \sum_i s_i \ell(y_i, F_i) + \frac12 \sum_m d_m \operatorname{tr} R' K_m R`, where
    :math:`F = \sum_m d_m K_m R + b`, the problem is to minimize :math:`J(d) + h(d)` over the weights. The derivatives
    are :math:`-u_m^2/2` and :math:`\langle K_m R, P K_l R \rangle`, with the inverse :math:`P` factorized in the last
    Newton step of the fit. Every iteration solves the resulting quadratic program over the relevant kernels, and then
    the fit. Penalties without bounds on the norms alternate with the fit, by the known best weights; sums of norms,
    like a tree, have a weight for every norm, and a program over the norm weights (`node_weights`).

    Notes
    -----
    The squared loss needs a factorization per step for all targets; of more targets than samples it sees a rotation of
    as many targets as samples, which changes neither norms nor losses. Other losses need one a target.

    References
    ----------
    O. Chapelle, A. Rakotomamonjy, "Second order optimization of kernel parameters", NIPS workshop 2008, for a single
    target. C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning" (2006), section 3.5, for the system of
    the multinomial loss.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_regularizer
    >>> from manykernels.objective import Problem
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> Y = np.column_stack([np.sin(6 * x), np.cos(6 * x)])
    >>> solution = SharedNewton(tol=1e-8).solve(Problem(kernels, Y, "squared", get_regularizer("l1", 0.1)))
    >>> str(solution.status), solution.dual_coef.shape, solution.kernel_weights.shape
    ('converged', (30, 2), (3,))
    """

    name: ClassVar[str] = "shared_newton"
    unpenalized: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    @classmethod
    def refusals(cls, problem: Problem) -> list[str]:
        """Return the missing capabilities for ``problem``, in words; empty if none."""
        if problem.unpenalized.size and not problem.loss.linear_dual:
            return ["beside kernels without a penalty it needs the squared loss; on factors there are no such limits"]
        return super().refusals(problem)

    @classmethod
    def refusals_of(cls, loss: AnyLoss, regularizer: Regularizer) -> list[str]:
        """Return the missing capabilities for a loss and a penalty, in words; empty if none."""
        each = loss.each
        return [] if each.smooth else [f"it needs a loss with a derivative, which '{each.name}' does not have"]

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the given model, or for dense penalties from weights for the norms."""
        rho, weights, b = start
        if not weights.any():
            weights = _first_weights(problem, rho)
        rotated, rotation = _rotated(problem)
        if rotation is not None:
            rho, b = rho @ rotation.T, rotation @ b
        fit = FixedWeightFit(rotated, problem.stack.combine(weights), rho, np.asarray(b))
        accuracy = INNER_SHARE * problem.loss_at_zero if weights.any() else np.inf
        return _State(fit.solve(accuracy), weights, rotation=rotation)

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Keep the gap, which sets the accuracy of the next fit, and the norms of all kernels."""
        state.gap = certificate.gap if np.isfinite(certificate.gap) else np.inf
        if not state.norms.size:
            state.norms = _norms(problem, state.fit.rho)
        else:
            state.norms = certificate.dual_norms

    def step(self, problem: Problem, state: _State) -> None:
        """Move the weights, solve the fit, and shorten the step without decrease."""
        if Capability.FIXED_WEIGHTS in problem.regularizer.capabilities:
            state.fit.solve(max(INNER_SHARE * min(state.gap, problem.loss_at_zero), CLOSEST * problem.loss_at_zero))
            return
        before = state.primal if np.isfinite(state.primal) else _primal(problem, state.fit, state.weights)
        if state.nodes is not None and self._move(problem, state, before):
            return
        newton = Capability.MULTIPLIERS in problem.regularizer.capabilities
        wanted = _newton_weights(problem, state) if newton else None
        for attempt in range(MOST_SHORTENINGS if wanted is not None else 0):
            weights = state.weights + SHORTENING**attempt * (wanted - state.weights)
            if self._improve(problem, state, weights, before):
                return
        norms = state.weights * _norms(problem, state.fit.rho) * problem.penalties**2
        self._improve(problem, state, problem.regularizer.weights_from_norms(norms) / problem.penalties**2, np.inf)
        if not newton and problem.regularizer.norms_of(norms.size) is not None:
            state.nodes = NodeWeights.create(problem.regularizer, norms)

    def _move(self, problem: Problem, state: _State, before: float) -> bool:
        """Take a step over the weights of summed norms; return whether the objective decreased."""
        nodes = state.nodes
        assert nodes is not None
        wanted = _newton_nodes(problem, state, nodes)
        for attempt in range(MOST_SHORTENINGS if wanted is not None else 0):
            moved = nodes.reweight(nodes.x + SHORTENING**attempt * (wanted - nodes.x))
            if self._improve(problem, state, moved.weights / problem.penalties**2, before):
                state.nodes = moved
                return True
        return False

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return dual coefficients, weights and intercepts."""
        fit, rotation = state.fit, state.rotation
        b = fit.b - fit.b.mean() if problem.loss.coupled else fit.b
        return (fit.rho, state.weights, b) if rotation is None else (
            fit.rho @ rotation, state.weights, b @ rotation
        )  # fmt: skip

    def newton_steps(self, state: _State) -> int:
        """Return the number of systems factorized for machines."""
        return state.fit.steps

    def _improve(self, problem: Problem, state: _State, weights: Array, before: float) -> bool:
        """Solve the fit for the weights and accept an objective below ``before``, up to rounding."""
        old = state.fit
        fit = FixedWeightFit(old.problem, problem.stack.combine(weights), old.rho, old.b, steps=old.steps)
        fit.solve(max(INNER_SHARE * min(state.gap, problem.loss_at_zero), CLOSEST * problem.loss_at_zero))
        primal = _primal(problem, fit, weights)
        if primal > before + CLOSEST * abs(before):
            old.steps = fit.steps
            return False
        state.fit, state.weights, state.primal = fit, weights, primal
        return True


def _norms(problem: Problem, rho: Array, kernels: Array | None = None) -> Array:
    """Dual norms ``u_m`` (m,)."""
    chosen = np.arange(problem.n_kernels) if kernels is None else kernels
    return np.sqrt(np.maximum(problem.stack.squares(rho, chosen), 0.0)) / problem.penalties[chosen]


def _primal(problem: Problem, fit: FixedWeightFit, weights: Array) -> float:
    """Objective of the model of a fit."""
    active, norms = np.flatnonzero(weights), np.zeros(problem.n_kernels)
    norms[active] = problem.penalties[active] ** 2 * weights[active] * _norms(problem, fit.rho, active)
    return fit.problem.empirical_loss(fit.scores()) + problem.regularizer.value(norms)


def _first_weights(problem: Problem, rho: Array) -> Array:
    """Return starting weights: unique weights, weights of the best multiple of the norms, or none."""
    regularizer, norms = problem.regularizer, _norms(problem, rho)
    if Capability.FIXED_WEIGHTS in regularizer.capabilities:
        weights = np.broadcast_to(regularizer.weight_range[1], norms.shape)
    elif Capability.SMOOTH_CONJUGATE in regularizer.capabilities:
        scale, _ = best_scale(problem, rho, norms)
        weights = regularizer.weights(regularizer.conjugate_derivative(scale * norms), scale * norms)
    elif regularizer.weight_set:
        chosen = norms >= np.sort(norms)[-min(FIRST_SET, norms.size)] if regularizer.sparse else norms >= 0
        weights = regularizer.weights_from_norms(chosen.astype(np.float64))
    elif Capability.MULTIPLIERS in regularizer.capabilities:  # none, but for kernels whose weight is given
        weights = np.where(free_kernels(regularizer, norms.size)[0], 0.0, regularizer.weight_range[1])
    else:  # weights in closed form never leave zero: equal ones, which balance penalty and loss
        squares = float(norms @ norms)
        weights = np.full(norms.shape, 2.0 * problem.loss_at_zero / squares if squares > 0 else 1.0)
    return weights / problem.penalties**2


def _rotated(problem: Problem) -> tuple[Problem, Array | None]:
    """Return the problem on as many targets as samples where there are more and only their products count."""
    if not problem.loss.linear_dual or problem.n_targets <= problem.n_samples:
        return problem, None
    rotation, small = qr(problem.y.T, mode="economic")
    return replace(problem, y=small.T), rotation.T


def _newton_weights(problem: Problem, state: _State) -> Array:
    """Return the weights at the minimum of the quadratic model on the relevant kernels, zero for all others."""
    regularizer, fit = problem.regularizer, state.fit
    kernels = _candidates(problem, state)
    if not kernels.size:
        return state.weights
    squares = problem.penalties[kernels] ** 2
    products = np.stack([problem.stack.matrix(m) @ fit.rho for m in kernels]) / squares[:, None, None]
    if fit.system is None:
        fit.solve(np.inf)
    assert fit.system is not None
    own = regularizer.take(kernels)
    norms = np.sqrt(np.maximum(np.einsum("mit,it->m", products, fit.rho), 0.0))
    program = WeightProgram(
        linear=_linear(own, norms),
        quadratic=fit.system.products(products),
        current=state.weights[kernels] * squares,
        regularizer=own,
    )
    weights = np.where(free_kernels(regularizer, problem.n_kernels)[0], 0.0, state.weights)
    weights[kernels] = program.solve() / squares
    return weights


def _newton_nodes(problem: Problem, state: _State, nodes: NodeWeights) -> Array | None:
    """Return the weights of norms at the minimum of the quadratic model, zero for irrelevant norms."""
    fit, norms = state.fit, _norms(problem, state.fit.rho)
    nodes = nodes.entering(problem.regularizer, norms, problem.loss_at_zero)
    kernels = nodes.candidates(norms / NEARLY_VIOLATED)
    if not kernels.size:
        return None
    products = np.stack([problem.stack.matrix(m) @ fit.rho for m in kernels])
    products /= (problem.penalties[kernels] ** 2)[:, None, None]
    if fit.system is None:
        fit.solve(np.inf)
    assert fit.system is not None
    chosen = np.flatnonzero(nodes.members[:, kernels].any(axis=1))
    taken = nodes.select(chosen, kernels)
    slopes, bends = taken.derivatives(norms[kernels], fit.system.products(products))
    each = BlockL1(1.0)
    linear = _linear(each, np.sqrt(2.0 * slopes))
    found = WeightProgram(linear=linear, quadratic=bends, current=taken.x, regularizer=each).solve()
    x = np.zeros_like(nodes.x)
    x[chosen] = taken.reweight(found).drop_useless().x
    return x


def _linear(regularizer: Regularizer, norms: Array) -> Array:
    """Return ``u^2 / 2``; above a hard bound C, a nearly linear substitute based on ``1/u``."""
    if not regularizer.dual_constraint:
        return norms**2 / 2
    bound = np.broadcast_to(regularizer.inactive_below, norms.shape)
    return np.where(norms > bound, bound**2 / 2 + norms**2 * (norms / bound - 1.0), norms**2 / 2)


def _candidates(problem: Problem, state: _State) -> Array:
    """Return the kernels of free weight, and the worst violators among the rest."""
    regularizer, active = problem.regularizer, state.weights > 0
    if not regularizer.sparse:
        return np.arange(problem.n_kernels)
    free = free_kernels(regularizer, active.size)[0]
    active &= free
    bounds = np.broadcast_to(_least_bound(problem, state), active.shape)
    ratios = np.divide(state.norms, bounds, out=np.full(active.shape, np.inf), where=bounds > 0)
    room = max(FIRST_SET, int(active.sum()))
    worst = np.flatnonzero(free & ~active & (ratios >= NEARLY_VIOLATED))
    worst = worst[np.argsort(-ratios[worst], kind="stable")][:room]
    return np.sort(np.concatenate([np.flatnonzero(active), worst]))


def _least_bound(problem: Problem, state: _State) -> Any:
    """Return the dual norm below which a kernel has no weight, estimated for a set of weights."""
    regularizer, active = problem.regularizer, state.weights > 0
    if not regularizer.weight_set:
        return regularizer.inactive_below
    slopes = regularizer.weight_limit((problem.penalties**2 * state.weights)[active])[0]
    least = regularizer.weight_limit(np.zeros(1))[0][0]
    return np.sqrt(least * float((state.norms[active] ** 2 / slopes).max()))
