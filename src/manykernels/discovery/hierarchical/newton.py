"""A norm on a graph of products, the reduced problem on a hull, and the primal-dual Newton iteration on the kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from manykernels.discovery.base import best_scaling
from manykernels.discovery.hierarchical.product_grid import NodeGrams
from manykernels.objective.losses.bound import BoundLoss
from manykernels.objective.problem import Problem
from manykernels.solvers.gram.iteration import PRUNING_FACTORS, Linearized, PrimalDual
from manykernels.solvers.gram.newton_system import NewtonSystem
from manykernels.solvers.gram.sample_variables import SampleVariables, paired_samples
from manykernels.solvers.gram.start import START_BARRIER, START_FRACTION, interior_point
from manykernels.solvers.gram.weight_variables import LinearWeights, lift
from manykernels.solvers.run import OutOfTimeError
from manykernels.validation.arrays import Array

# The hierarchical norm on a hull, its weights, and the certificate of its dual: all in closed form.
#
# With ``a_v = d_v^2``, ``A(w)`` the ancestors of ``w`` and ``D(v)`` the descendants of ``v`` (both with the node
# itself),
#
#     Omega(t)  = (lambda/2) (sum_v d_v ||t_{D(v)}||)^2 = (lambda/2) min_{eta in simplex} sum_w t_w^2 / zeta_w(eta)
#     zeta_w    = 1 / sum_{v in A(w)} a_v / eta_v
#     Omega*(u) = (1/(2 lambda)) max_{eta in simplex} sum_w zeta_w(eta) u_w^2
#
# ``zeta`` is concave and homogeneous, so the shares ``pi_wv = zeta_w a_v / eta_v``, which sum to one over ``A(w)``, say
# everything: the derivative by ``log eta_v`` of the sum in ``Omega*`` is ``sum_w pi_wv zeta_w u_w^2``.


@dataclass(frozen=True, eq=False)
class HierarchicalNorm:
    """The norm ``sum_v d_v ||t_{D(v)}||`` on ``p`` nodes, and ``Omega``, half the square times ``strength``."""

    above: Array
    penalties: Array
    strength: float

    @cached_property
    def squares(self) -> Array:
        """Squared penalties ``a_v`` (p,)."""
        return np.square(self.penalties)

    def group_norms(self, t: Array) -> Array:
        """Return ``||t_{D(v)}||`` (p,) for block norms ``t`` (p,)."""
        top = float(np.max(t, initial=0.0))
        return top * np.sqrt(np.square(t / top) @ self.above) if top > 0 else np.zeros(len(t))

    def norm(self, t: Array) -> float:
        """Return ``sum_v d_v ||t_{D(v)}||``."""
        return float(self.penalties @ self.group_norms(t))

    @property
    def formulas(self) -> HierarchicalNorm:
        """The family, also the source of the value."""
        return self

    def value(self, t: Array) -> float:
        """Return ``Omega(t)``."""
        return 0.5 * self.strength * self.norm(t) ** 2

    def zeta(self, eta: Array) -> Array:
        """Return the node weights ``zeta`` (p,) of positive group weights ``eta`` (p,)."""
        return 1.0 / (self.above @ (self.squares / eta))

    def shares(self, eta: Array) -> tuple[Array, Array]:
        """Return ``zeta`` (p,) and ``pi`` (p, p) with unit row sums."""
        zeta = self.zeta(eta)
        return zeta, (zeta[:, None] * self.above) * (self.squares / eta)

    def dual_squares(self, eta: Array, squared_norms: Array) -> Array:
        """Return for every group the square that bounds the dual norm, whatever the positive ``eta``.

        ``u`` is split into ``g_v = pi_wv u_w`` on each ``D(v)``, and any split bounds the dual norm:
        ``max_{t: norm(t) <= 1} t'u <= max_v ||g_v|| / d_v``, with equality at the best ``eta``.
        """
        zeta, pi = self.shares(eta)
        return ((zeta * squared_norms) @ pi) / eta


# Numbers that follow from no theorem: they decide the time, not what is certified.
START_SHARE = 0.3  # of the gap per pair, which the first step aims at
LIFT = 0.1  # of the last gap, which complementarity products are raised to when nodes are added
MOST_STEPS = 200  # on one hull

# Group weights
MOST_GROWTH = 10.0  # of a group weight in one step, and most that it may shrink


# The kernel side of the primal-dual Newton system for the hierarchical norm.
#
# For fixed dual coefficients the group weights solve ``max sum_w zeta_w(eta) u_w^2 / (2 lambda)`` on the simplex. With
# slacks ``s_v >= 0`` of ``eta_v >= 0`` and scaled directions ``deta = eta xi`` the linearized conditions are
#
#     (diag(s eta) + diag(pi'h) - pi' diag(h) pi) xi + nu eta = pi'h / 2 + target + pi' (zeta x) / lambda,   eta'xi = 0
#
# where ``h = zeta u^2 / lambda`` and ``x_w = rho'K_w drho``. The matrix is positive semidefinite since ``zeta`` is
# concave; without the slacks it is singular along ``xi = 1``, which the constraint excludes. Kernel weights ``zeta /
# lambda`` change by ``zeta (pi xi) / lambda``, so that their coupling to ``x`` is a dense, positive semidefinite matrix
# of rank ``p - 1``.


@dataclass
class HierarchicalWeights:
    """Group weights ``eta`` on the simplex with slacks, the interface of the Newton iteration."""

    norm: HierarchicalNorm
    eta: Array
    slack: Array
    weights: Array = field(init=False)
    _target: float = field(default=0.0, init=False)
    _zeta: Array = field(init=False, repr=False)
    _shares: Array = field(init=False, repr=False)
    _scale: Array = field(init=False, repr=False)
    _level: float = field(default=1.0, init=False)
    _factor: Array = field(init=False, repr=False)
    _normal: Array = field(init=False, repr=False)
    _fixed: Array = field(init=False, repr=False)
    _growth: Array = field(init=False, repr=False)
    weight_change: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._set_weights()

    @classmethod
    def start(cls, norm: HierarchicalNorm, squared_norms: Array, eta: Array) -> HierarchicalWeights:
        """Return variables at group weights ``eta`` with slacks matching the squared norms."""
        gains = norm.dual_squares(eta, squared_norms) / (2.0 * norm.strength)
        top = max(1.1 * float(gains.max()), np.finfo(np.float64).tiny)
        smallest_relative_slack = 0.02  # of the multiplier of the simplex, at the start
        return cls(norm, eta, np.maximum(top - gains, smallest_relative_slack * top))

    def grow(self, norm: HierarchicalNorm, squared_norms: Array, share: float) -> HierarchicalWeights:
        """Return variables on a larger hull, with the present nodes first.

        New group weights are in proportion to ``d_v``, for which the shares among new groups are those of the bound
        on the descendants of a source.
        """
        added = norm.penalties[self.eta.size :]
        eta = np.concatenate([self.eta, share * added / max(float(added.max(initial=0.0)), 1e-300)])
        return HierarchicalWeights.start(norm, squared_norms, eta / eta.sum())

    @property
    def n_pairs(self) -> int:
        """Number of complementarity products."""
        return self.eta.size

    def complementarity(self) -> float:
        """Return the sum of the products of group weights and slacks."""
        return float(self.eta @ self.slack)

    def recenter(self, barrier: float) -> None:
        """Lift products to at least ``barrier``, and return to the simplex."""
        slope = float(self.eta.max()) / max(self._level, float(self.slack.max()))
        self.slack, eta = lift(self.slack, self.eta, barrier, slope)
        self.eta = eta / eta.sum()
        self._set_weights()

    def linearize(self, products: Array, squared_norms: Array, target: float) -> LinearWeights:
        """Linearize, with a factor in the place of the coupling: ``dweights = shift + factor' factor x`` for ``x``."""
        strength = self.norm.strength
        heights = self._zeta * squared_norms / strength
        pulls = heights @ self._shares
        self._target, self._level = target, max(0.5 * float(pulls.sum()), np.finfo(np.float64).tiny)
        self._factorize(heights, pulls)
        wanted = 0.5 * pulls + self._target_change() + self.slack * self.eta
        self._fixed = self._projected(wanted) + self._normal * (1.0 - self.eta.sum()) / (self.eta @ self._normal)
        shift = self._zeta * (self._shares @ self._fixed) / strength
        squared_bound = 2.0 * self.norm.strength * self._level * self.norm.squares
        right = (self._shares.T * self._zeta) * (self._scale[:, None] / self.norm.strength)
        factor = solve_triangular(self._factor, right, lower=True, check_finite=False)
        normal = solve_triangular(self._factor, self._scale * self.eta, lower=True, check_finite=False)
        normal /= np.linalg.norm(normal)
        return LinearWeights(products, factor - np.outer(normal, normal @ factor), shift, squared_bound)

    def set_direction(self, products: Array) -> tuple[float, float]:
        """Derive all directions from ``products = q_w'drho``."""
        pull = (self._zeta * products) @ self._shares / self.norm.strength
        self._growth = self._fixed + self._projected(pull)
        self.weight_change = self._zeta * (self._shares @ self._growth) / self.norm.strength
        return 1.0, 1.0  # what limits them is asked of the groups

    @property
    def _dslack(self) -> Array:
        return self._target_change() / self.eta - self.slack * self._growth

    def move(self, step: float) -> None:
        """Take the step.

        Group weights shrink along a straight line of their reciprocals, so they stay positive; kernel weights follow
        from them exactly, not from their linearization. Slacks are kept near their targets: they stand for nothing
        else, and one that is too small lets the group weight grow without bound.
        """
        growth = np.clip(step * self._growth, -MOST_GROWTH, MOST_GROWTH)
        slack = self.slack + step * self._dslack
        eta = self.eta * np.where(growth > 0, 1.0 + growth, 1.0 / (1.0 - growth))
        self.eta = eta / eta.sum()
        central = self._target / self.eta
        farthest = 3.0  # factor that a complementarity product may be off its target
        self.slack = np.clip(slack, central / farthest, farthest * central)
        self._set_weights()

    def longest_step(self) -> float:
        """Return the longest step within the validity of the linearization."""
        return min(1.0, MOST_GROWTH / max(float(np.abs(self._growth).max()), MOST_GROWTH))

    def inactive(self, factor: float | Array = 1.0) -> Array:
        """Return the nodes of zero weight: nodes with such a group, in doubt with a group small by ``factor``."""
        groups = self.eta * self._level < factor * self.slack
        chosen: Array = groups @ self.norm.above.T > 0
        return chosen

    def _target_change(self) -> Array:
        """Return the target change of the products of slack and group weight."""
        return self._target - self.slack * self.eta

    def _set_weights(self) -> None:
        self._zeta, self._shares = self.norm.shares(self.eta)
        self.weights = self._zeta / self.norm.strength

    def _factorize(self, heights: Array, pulls: Array) -> None:
        matrix = -(self._shares.T * heights) @ self._shares
        # On the constraint this term is constant; off it, it lifts the direction in which all weights grow alike.
        matrix += max(float(pulls.sum()), self.complementarity()) * np.outer(self.eta, self.eta)
        matrix[np.diag_indices_from(matrix)] += pulls + self.slack * self.eta
        self._scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), np.finfo(np.float64).tiny))
        self._factor = _robust_cholesky(matrix * self._scale * self._scale[:, None])
        self._normal = self._solve(self.eta)

    def _solve(self, right: Array) -> Array:
        half = solve_triangular(self._factor, self._scale * right, lower=True, check_finite=False)
        return self._scale * solve_triangular(self._factor, half, lower=True, trans="T", check_finite=False)

    def _projected(self, right: Array) -> Array:
        """Solve with the constraint ``eta'xi = 0``."""
        x = self._solve(right)
        return x - self._normal * ((self.eta @ x) / (self.eta @ self._normal))


def _robust_cholesky(matrix: Array) -> Array:
    """Factorize a matrix of unit diagonal, with a jitter only if needed."""
    jitters = (0.0, 1e-14, 1e-12, 1e-10)  # relative to the unit diagonal
    for jitter in jitters:
        try:
            return cholesky(matrix + jitter * np.eye(len(matrix)), lower=True)
        except LinAlgError:
            continue
    raise LinAlgError("the Newton matrix of the group weights is not positive definite")


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """The problem on the kernels of a hull, in the words of the Newton iteration."""

    base: Problem
    stack: NodeGrams
    regularizer: HierarchicalNorm

    @property
    def penalties(self) -> Array:
        """Ones: the penalties of the nodes are in the norm."""
        return np.ones(len(self.regularizer.penalties))

    @property
    def fit_intercept(self) -> bool:
        """Whether there is an intercept."""
        return self.base.fit_intercept

    @property
    def tiny(self) -> float:
        """Floor of the denominator of the relative gap."""
        return self.base.tiny

    @property
    def bound(self) -> BoundLoss:
        """The loss of all scores."""
        return self.base.bound


class HierarchicalNewton(PrimalDual):
    """The iteration with group weights: a dense coupling of the kernel weights, and a dual bound in closed form."""

    _share: float = START_SHARE

    @property
    def _groups(self) -> HierarchicalWeights:
        return cast(HierarchicalWeights, self.kernels)

    def _dual(self) -> float:
        """Return the dual value of the coefficients, times the best factor; ``sum rho = 0`` at the price."""
        norm, problem, rho = self._groups.norm, self.problem, self.samples.rho
        bound = float(norm.dual_squares(self._groups.eta, self._squared_norms).max()) / (2.0 * norm.strength)
        return best_scaling(problem.bound.conjugate, rho, bound)[1] - self._price()

    def _price(self) -> float:
        """Return what the dual value may lose when ``sum rho`` is made zero: that sum times the largest score.

        The slope of the dual value by every coefficient is of the size of a score, in units of the target unchanged.
        """
        if not self.problem.fit_intercept:
            return 0.0
        largest = float(np.abs(self.samples.scores()).max()) + abs(self.b)
        return abs(float(self.samples.rho.sum())) * largest

    def _factorize(self, linear: Linearized) -> NewtonSystem:
        (diagonal, _), weights = linear
        matrix = self.problem.stack.combine(self.kernels.weights)
        matrix[np.diag_indices_from(matrix)] += diagonal
        coupled = weights.coupling @ weights.rows
        matrix += coupled.T @ coupled
        return NewtonSystem(matrix, self.problem.fit_intercept)

    def step(self, wanted: float) -> None:
        """Take one Newton step toward a share of the present gap.

        No predictor: group weights enter nonlinearly, and products that fall too fast leave the region in which the
        linearization means anything.
        """
        self._tracked, self._modeled = self.samples.scores(), self.scores()
        at_point = self._linearized(0.0)
        system = self._factorize(at_point)
        drho, db, longest = self._direction(system, self._linearized(self._next_target(wanted)))
        if not np.isfinite(drho).all():
            raise FloatingPointError("the Newton direction is not finite")
        dproducts = self._products_of(drho)
        trusted = min(self._trusted_step(drho, dproducts, at_point[1].squared_bound), self._groups.longest_step())
        primal_step, dual_step = (min(step, trusted) for step in self._shorten(longest))
        fast, slow = 0.1, 0.5  # the same after a step that was almost whole, and after any other
        full = 0.9  # of a step that counts as almost whole
        self._share = fast if min(primal_step, dual_step) > full else slow
        linear = self.samples.move(primal_step, dual_step)
        self._groups.move(dual_step)
        self.b += dual_step * db
        self._set_products(self._products + primal_step * dproducts if linear else self._products_of(self.samples.rho))

    def _next_target(self, wanted: float) -> float:
        primal, dual = self.bounds()
        pairs = self.samples.n_pairs + self.kernels.n_pairs
        return float(min(max(self._share * max(primal - dual, 0.0), wanted) / pairs, self.barrier()))

    @property
    def group_weights(self) -> Array:
        """``eta`` (p,), on the simplex."""
        return self._groups.eta

    def weights_for(self, allowed: float) -> Array:
        """Return the kernel weights with as many zeros as keep the gap at most ``allowed``."""
        dual = self.bounds()[1]
        pruned = np.where(self.kernels.inactive(np.array(PRUNING_FACTORS)[:, None]), 0.0, self.kernels.weights)
        return next((d for d in pruned if self._primal(d) - dual <= allowed), self.kernels.weights)


def start_newton(problem: ReducedProblem, rho: Array, b: float) -> HierarchicalNewton:
    """Return the iteration from equal group weights and dual coefficients near ``rho``."""
    base, norm = problem.base, problem.regularizer
    rho = interior_point(base, rho)
    eta = np.full(len(norm.penalties), 1.0 / len(norm.penalties))
    squared_norms = np.maximum(problem.stack.apply_each(rho) @ rho, 0.0)
    bound = float(norm.dual_squares(eta, squared_norms).max()) / (2 * norm.strength)
    scale, value = best_scaling(problem.bound.conjugate, rho, bound)
    scale *= START_FRACTION
    barrier = START_BARRIER * max(value, 1e-3 * base.loss_at_zero, base.tiny) / (2 * base.n_samples + len(eta))
    kernels = HierarchicalWeights.start(norm, scale**2 * squared_norms, eta)
    kernels.recenter(barrier)
    return _newton(problem, paired_samples(base, scale * rho, barrier), kernels, b)


def _newton(
    problem: ReducedProblem, samples: SampleVariables, kernels: HierarchicalWeights, b: float
) -> HierarchicalNewton:
    return HierarchicalNewton(cast(Problem, problem), samples, cast(Any, kernels), b)


def grow_newton(last: HierarchicalNewton, problem: ReducedProblem, gap: float) -> HierarchicalNewton:
    """Return the point of ``last`` on a larger hull, with the nodes of ``last`` first."""
    samples, old, norm = last.samples, last._groups, problem.regularizer
    barrier = max(LIFT * gap / (samples.n_pairs + len(norm.penalties)), last.barrier())
    samples.recenter(barrier)
    share = float(np.clip(barrier / old.slack.max(), 1e-6, 0.5 / len(norm.penalties)))
    squared_norms = np.maximum(problem.stack.apply_each(samples.rho) @ samples.rho, 0.0)
    kernels = old.grow(norm, squared_norms, share)
    kernels.recenter(barrier)
    return _newton(problem, samples, kernels, last.b)


def descend(iteration: HierarchicalNewton, tol: float) -> tuple[int, bool]:
    """Take Newton steps until the relative gap over the hull is at most ``tol``, or the time is over."""
    wanted_share = 0.1  # of the wanted gap, below which complementarity products need not fall
    for step in range(MOST_STEPS + 1):
        primal, dual = iteration.bounds()
        unit = max(abs(primal), iteration.problem.tiny)
        if primal - dual <= tol * unit:
            return step, True
        if step == MOST_STEPS:
            return step, False
        try:
            iteration.newton_step(wanted_share * tol * unit)
        except OutOfTimeError:  # before anything has moved
            return step, False
    raise AssertionError("the loop returns in its last round")
