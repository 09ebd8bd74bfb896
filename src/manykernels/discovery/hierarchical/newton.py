"""The reduced problem of hierarchical kernel learning: the primal-dual Newton iteration on the kernels of a hull."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from manykernels.discovery.family_certificate import best_scaling
from manykernels.discovery.hierarchical.norm import HierarchicalNorm
from manykernels.discovery.hierarchical.tuning import FAST, FULL, LIFT, MOST_STEPS, SLOW, START_SHARE, WANTED_SHARE
from manykernels.discovery.hierarchical.weights import HierarchicalWeights
from manykernels.objective.problem import Problem
from manykernels.solvers.engines.newton_system import NewtonSystem
from manykernels.solvers.engines.primal_dual.iteration import PrimalDual
from manykernels.solvers.engines.primal_dual.sample_variables import SampleVariables, start_samples
from manykernels.solvers.engines.primal_dual.start import interior_point
from manykernels.solvers.engines.primal_dual.tuning import PRUNING_FACTORS, START_BARRIER, START_FRACTION
from manykernels.validation.arrays import Array


class NodeGrams(Protocol):
    """Products of the Gram matrices of the nodes: what a Newton step asks of them."""

    def combine(self, d: Array) -> Array:
        """Return ``sum_w d_w K_w`` (N, N), a new array."""

    def apply_each(self, R: Array) -> Array:
        """Return ``K_w R`` (p, N) for one vector."""


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

    def empirical_loss(self, z: Array) -> float:
        """Return the loss of the scores ``z``."""
        return self.base.empirical_loss(z)

    def conjugate_loss(self, rho: Array) -> float:
        """Return the conjugate loss of ``rho``."""
        return self.base.conjugate_loss(rho)


class HierarchicalNewton(PrimalDual):
    """The iteration with group weights: a dense coupling of the kernel weights, and a dual bound in closed form."""

    _share: float = START_SHARE

    @property
    def _groups(self) -> HierarchicalWeights:
        return cast(HierarchicalWeights, self.kernels)

    def _dual(self) -> float:
        """Return the dual value of the coefficients, times the best factor; ``sum rho = 0`` at its price."""
        norm, problem, rho = self._groups.norm, self.problem, self.samples.rho
        bound = float(norm.dual_squares(self._groups.eta, self._squared_norms).max()) / (2.0 * norm.strength)
        return best_scaling(problem.conjugate_loss, rho, bound)[1] - self._price()

    def _price(self) -> float:
        """Return what the dual value may lose when ``sum rho`` is made zero: that sum times the largest score.

        The slope of the dual value by each coefficient is of the size of a score, in units of the target as it is.
        """
        if not self.problem.fit_intercept:
            return 0.0
        largest = float(np.abs(self.samples.scores()).max()) + abs(self.b)
        return abs(float(self.samples.rho.sum())) * largest

    def _factorize(self) -> tuple[Array, NewtonSystem]:
        diagonal, _ = self.samples.linearize(0.0)
        factor, _ = self.kernels.linearize(self._squared_norms, 0.0)
        matrix = self.problem.stack.combine(self.kernels.weights)
        matrix[np.diag_indices_from(matrix)] += diagonal
        coupled = factor @ self._products
        matrix += coupled.T @ coupled
        return factor, NewtonSystem(matrix, self.problem.fit_intercept)

    def _step(self, wanted: float) -> None:
        """Take one Newton step toward a share of the present gap.

        No predictor: group weights enter nonlinearly, and products that fall too fast leave the region in which the
        linearization means anything.
        """
        factor, system = self._factorize()
        drho, db = self._direction(system, factor, self._next_target(wanted))
        if not np.isfinite(drho).all():
            raise FloatingPointError("the Newton direction is not finite")
        dproducts = self._products_of(drho)
        trusted = min(self._trusted_step(drho, dproducts), self._groups.longest_step())
        primal_step, dual_step = (min(self._shortened(step), trusted) for step in self.samples.longest_steps())
        self._share = FAST if min(primal_step, dual_step) > FULL else SLOW
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
        pruned = (self._pruned(factor) for factor in PRUNING_FACTORS)
        return next((d for d in pruned if self._primal(d) - dual <= allowed), self.kernels.weights)


def start_newton(problem: ReducedProblem, rho: Array, b: float) -> HierarchicalNewton:
    """Return the iteration from equal group weights and dual coefficients near ``rho``."""
    base, norm = problem.base, problem.regularizer
    rho = interior_point(base, rho)
    eta = np.full(len(norm.penalties), 1.0 / len(norm.penalties))
    squared_norms = np.maximum(problem.stack.apply_each(rho) @ rho, 0.0)
    bound = float(norm.dual_squares(eta, squared_norms).max()) / (2 * norm.strength)
    scale, value = best_scaling(problem.conjugate_loss, rho, bound)
    scale *= START_FRACTION
    barrier = START_BARRIER * max(value, 1e-3 * base.loss_at_zero, base.tiny) / (2 * base.n_samples + len(eta))
    kernels = HierarchicalWeights.start(norm, scale**2 * squared_norms, eta)
    kernels.recenter(barrier)
    return _newton(problem, start_samples(base, scale * rho, b, barrier), kernels, b)


def _newton(
    problem: ReducedProblem, samples: SampleVariables, kernels: HierarchicalWeights, b: float
) -> HierarchicalNewton:
    return HierarchicalNewton(cast(Problem, problem), samples, cast(Any, kernels), b)


def grown_newton(last: HierarchicalNewton, problem: ReducedProblem, gap: float) -> HierarchicalNewton:
    """Return the point of ``last`` on a larger hull, whose first nodes are those of ``last``."""
    samples, old, norm = last.samples, last._groups, problem.regularizer
    barrier = max(LIFT * gap / (samples.n_pairs + len(norm.penalties)), last.barrier())
    samples.recenter(barrier)
    share = float(np.clip(barrier / old.slack.max(), 1e-6, 0.5 / len(norm.penalties)))
    squared_norms = np.maximum(problem.stack.apply_each(samples.rho) @ samples.rho, 0.0)
    kernels = old.grown(norm, squared_norms, share)
    kernels.recenter(barrier)
    return _newton(problem, samples, kernels, last.b)


def descend(iteration: HierarchicalNewton, tol: float, deadline: float = np.inf) -> tuple[int, bool]:
    """Take Newton steps until the relative gap over the hull is at most ``tol``."""
    for step in range(MOST_STEPS + 1):
        primal, dual = iteration.bounds()
        unit = max(abs(primal), iteration.problem.tiny)
        if primal - dual <= tol * unit:
            return step, True
        if step == MOST_STEPS or time.perf_counter() > deadline:
            return step, False
        iteration.newton_step(WANTED_SHARE * tol * unit)
    raise AssertionError("the loop returns in its last round")
