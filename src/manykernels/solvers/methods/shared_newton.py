"""Newton's method over kernel weights that several classes or targets share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import qr

from manykernels.objective.capabilities import Capability
from manykernels.objective.shared.problem import one_kernel, squared_norms
from manykernels.solvers.base import Solver
from manykernels.solvers.engines.primal_dual.start import best_scale
from manykernels.solvers.engines.shared_weights.machine import Machine
from manykernels.solvers.engines.shared_weights.program import WeightProgram
from manykernels.solvers.engines.shared_weights.tuning import (
    CLOSEST,
    FIRST_SET,
    INNER_SHARE,
    MOST_SHORTENINGS,
    NEARLY_VIOLATED,
    SHORTENING,
)

if TYPE_CHECKING:
    from manykernels.objective.certificate import Certificate
    from manykernels.objective.shared.problem import SharedProblem
    from manykernels.validation.arrays import Array

Model = Any  # in place of that of one target: dual coefficients (N, T), kernel weights (M,) and intercepts (T,)


@dataclass
class _State:
    machine: Machine
    weights: Array
    norms: Array = field(default_factory=lambda: np.zeros(0))
    gap: float = np.inf
    rotation: Array | None = None  # of the targets, (T', T), where there are more of them than samples


@dataclass(frozen=True, kw_only=True)
class SharedNewton(Solver):
    r"""Newton's method over the kernel weights, with a machine for all classes or targets at each set of weights.

    With :math:`J(d) = \min_{R, b} \sum_i s_i \ell(y_i, F_i) + \frac12 \sum_m d_m \operatorname{tr} R' K_m R`, where
    :math:`F = \sum_m d_m K_m R + b`, the problem is to minimize :math:`J(d) + h(d)` over the weights. Its derivatives
    are :math:`-u_m^2/2` and :math:`\langle K_m R, P K_l R \rangle`, with the inverse :math:`P` that the last Newton
    step of the machine has factorized. Each iteration solves the quadratic program that these define over the kernels
    that matter, and then the machine. Penalties without bounds on the norms, which the program needs, take turns with
    the machine: the best weights for given norms are known.

    Notes
    -----
    The squared loss needs one factorization a step for all targets; of more targets than samples it sees a rotation of
    as many targets as samples, which changes neither norms nor losses. Other losses need one a target.

    References
    ----------
    O. Chapelle, A. Rakotomamonjy, "Second order optimization of kernel parameters", NIPS workshop 2008, for a single
    target. C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning" (2006), section 3.5, for the system of
    the multinomial loss.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import get_regularizer
    >>> from manykernels.objective import SharedProblem
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> Y = np.column_stack([np.sin(6 * x), np.cos(6 * x)])
    >>> solution = SharedNewton(tol=1e-8).solve(SharedProblem(kernels, Y, "squared", get_regularizer("l1", 0.1)))
    >>> str(solution.status), solution.dual_coef.shape, solution.kernel_weights.shape
    ('converged', (30, 2), (3,))
    """

    name: ClassVar[str] = "shared_newton"
    shared: ClassVar[bool] = True

    def initialize(self, problem: Any, start: Model) -> _State:
        """Start from the given model; a penalty that gives every kernel a weight, from weights for its norms."""
        rho, weights, b = start
        if not weights.any():
            weights = _first_weights(problem, rho)
        rotated, rotation = _rotated(problem)
        if rotation is not None:
            rho, b = rho @ rotation.T, rotation @ b
        machine = Machine(rotated, problem.stack.combine(weights), rho, np.asarray(b))
        accuracy = INNER_SHARE * problem.loss_at_zero if weights.any() else np.inf
        return _State(machine.solve(accuracy), weights, rotation=rotation)

    def observe(self, problem: Any, state: _State, certificate: Certificate) -> None:
        """Keep the gap, which says how closely the next machine is worth solving, and the norms of all kernels."""
        state.gap = certificate.gap if np.isfinite(certificate.gap) else np.inf
        if not state.norms.size:
            state.norms = _norms(problem, state.machine.rho)
        else:
            state.norms = certificate.dual_norms

    def step(self, problem: Any, state: _State) -> None:
        """Move the weights, solve the machine for them, and move less far if the objective has not fallen."""
        if Capability.FIXED_WEIGHTS in problem.regularizer.capabilities:
            state.machine.solve(self._accuracy(problem, state))
            return
        before = _primal(problem, state.machine, state.weights)
        newton = Capability.MULTIPLIERS in problem.regularizer.capabilities
        wanted = _newton_weights(problem, state) if newton else None
        for attempt in range(MOST_SHORTENINGS if wanted is not None else 0):
            weights = state.weights + SHORTENING**attempt * (wanted - state.weights)
            if self._improved(problem, state, weights, before):
                return
        norms = state.weights * _norms(problem, state.machine.rho) * problem.penalties**2
        self._improved(problem, state, problem.regularizer.weights_from_norms(norms) / problem.penalties**2, np.inf)

    def extract(self, problem: Any, state: _State) -> Model:
        """Return dual coefficients, weights and intercepts."""
        machine, rotation = state.machine, state.rotation
        b = machine.b - machine.b.mean() if problem.loss.coupled else machine.b
        return (machine.rho, state.weights, b) if rotation is None else (
            machine.rho @ rotation, state.weights, b @ rotation
        )  # fmt: skip

    def newton_steps(self, state: _State) -> int:
        """Return the number of systems factorized for machines."""
        return state.machine.steps

    def _accuracy(self, problem: SharedProblem, state: _State) -> float:
        return max(INNER_SHARE * min(state.gap, problem.loss_at_zero), CLOSEST * problem.loss_at_zero)

    def _improved(self, problem: SharedProblem, state: _State, weights: Array, before: float) -> bool:
        """Solve the machine for these weights and keep it if the objective is below ``before``, up to rounding."""
        old = state.machine
        machine = Machine(old.problem, problem.stack.combine(weights), old.rho, old.b, steps=old.steps)
        machine.solve(self._accuracy(problem, state))
        if _primal(problem, machine, weights) > before + CLOSEST * abs(before):
            old.steps = machine.steps
            return False
        state.machine, state.weights = machine, weights
        return True


def _norms(problem: SharedProblem, rho: Array, kernels: Array | None = None) -> Array:
    """Dual norms ``u_m`` (m,)."""
    chosen = np.arange(problem.n_kernels) if kernels is None else kernels
    return np.sqrt(np.maximum(squared_norms(problem.stack, rho, chosen), 0.0)) / problem.penalties[chosen]


def _primal(problem: SharedProblem, machine: Machine, weights: Array) -> float:
    """Objective of the model of a machine."""
    active, norms = np.flatnonzero(weights), np.zeros(problem.n_kernels)
    norms[active] = problem.penalties[active] ** 2 * weights[active] * _norms(problem, machine.rho, active)
    return machine.problem.empirical_loss(machine.scores()) + problem.regularizer.value(norms)


def _first_weights(problem: SharedProblem, rho: Array) -> Array:
    """Return weights to start from: the only ones there are, those for the best multiple of the norms, or none."""
    regularizer, norms = problem.regularizer, _norms(problem, rho)
    if Capability.FIXED_WEIGHTS in regularizer.capabilities:
        weights = np.broadcast_to(regularizer.weight_range[1], norms.shape)
    elif Capability.SMOOTH_CONJUGATE in regularizer.capabilities:
        scale, _ = best_scale(problem, rho, norms)
        weights = regularizer.weights(regularizer.conjugate_derivative(scale * norms), scale * norms)
    elif regularizer.weight_set:
        chosen = norms >= np.sort(norms)[-min(FIRST_SET, norms.size)] if regularizer.sparse else norms >= 0
        weights = regularizer.weights_from_norms(chosen.astype(np.float64))
    elif Capability.MULTIPLIERS in regularizer.capabilities:
        return np.zeros(norms.shape)
    else:  # weights in closed form never leave zero: equal ones, which balance penalty and loss
        squares = float(norms @ norms)
        weights = np.full(norms.shape, 2.0 * problem.loss_at_zero / squares if squares > 0 else 1.0)
    return weights / problem.penalties**2


def _rotated(problem: SharedProblem) -> tuple[SharedProblem, Array | None]:
    """Return the problem on as many targets as samples where there are more and only their products count."""
    if not problem.loss.linear_dual or problem.n_targets <= problem.n_samples:
        return problem, None
    rotation, small = qr(problem.y.T, mode="economic")
    return replace(problem, y=small.T), rotation.T


def _newton_weights(problem: SharedProblem, state: _State) -> Array:
    """Return the weights that minimize the quadratic model on the kernels that matter, zero for all others."""
    regularizer, machine = problem.regularizer, state.machine
    kernels = _candidates(problem, state)
    squares = problem.penalties[kernels] ** 2
    products = np.stack([one_kernel(problem.stack, m) @ machine.rho for m in kernels]) / squares[:, None, None]
    if machine.system is None:
        machine.solve(np.inf)
    assert machine.system is not None
    own = regularizer.take(kernels)
    norms = np.sqrt(np.maximum(np.einsum("mit,it->m", products, machine.rho), 0.0))
    program = WeightProgram(
        linear=_linear(own, norms),
        quadratic=machine.system.products(products),
        current=state.weights[kernels] * squares,
        regularizer=own,
    )
    weights = np.zeros(problem.n_kernels)
    weights[kernels] = program.solve() / squares
    return weights


def _linear(regularizer: Any, norms: Array) -> Array:
    """Return ``u^2 / 2``; above a hard bound C, what makes ``1/u`` instead of ``u^2`` linear, which it nearly is."""
    if not regularizer.dual_constraint:
        return norms**2 / 2
    bound = np.broadcast_to(regularizer.inactive_below, norms.shape)
    return np.where(norms > bound, bound**2 / 2 + norms**2 * (norms / bound - 1.0), norms**2 / 2)


def _candidates(problem: SharedProblem, state: _State) -> Array:
    """Return the kernels with a weight and the worst violators among the others."""
    regularizer, active = problem.regularizer, state.weights > 0
    if not regularizer.sparse:
        return np.arange(problem.n_kernels)
    bounds = np.broadcast_to(_least_bound(problem, state), active.shape)
    ratios = np.divide(state.norms, bounds, out=np.full(active.shape, np.inf), where=bounds > 0)
    room = max(FIRST_SET, int(active.sum()))
    worst = np.flatnonzero(~active & (ratios >= NEARLY_VIOLATED))
    worst = worst[np.argsort(-ratios[worst], kind="stable")][:room]
    return np.sort(np.concatenate([np.flatnonzero(active), worst]))


def _least_bound(problem: SharedProblem, state: _State) -> Any:
    """Return the dual norm below which a kernel has no weight; in a set of weights, as those with a weight suggest."""
    regularizer, active = problem.regularizer, state.weights > 0
    if not regularizer.weight_set:
        return regularizer.inactive_below
    slopes = regularizer.weight_limit((problem.penalties**2 * state.weights)[active])[0]
    least = regularizer.weight_limit(np.zeros(1))[0][0]
    return np.sqrt(least * float((state.norms[active] ** 2 / slopes).max()))
