"""State of the working-set loop: history, current point, functions of kernels, warm starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from manykernels.grams.factored import ColumnTable, FactoredStack, FactorOperator
from manykernels.grams.factored.prediction import KernelFunction
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.certificate import DualBound
from manykernels.solvers.factored.objective import Coefficients, FactoredObjective, KnownCurvature, Point, both
from manykernels.solvers.solution import Solution
from manykernels.validation.arrays import Array

COARSE = 1e-3  # share of the trace that the first factors leave
FIRST_SMOOTHING = 0.5


@dataclass(frozen=True, eq=False)
class Component:
    """The function of an active kernel: ``f_m(x) = z_m(x)' v``, or ``d sum_i rho_i k(x, x_i)`` where ``tol`` is None.

    With shared weights, a component has a single target.
    """

    kernel: int
    coefficients: Array
    tol: float | None
    target: int = 0

    def each(self, n_targets: int) -> Iterator[Component]:
        """Yield the functions of all targets, from coefficients in turn."""
        if n_targets == 1:
            yield self
            return
        for target, part in enumerate(self.coefficients.reshape(n_targets, -1)):
            yield replace(self, coefficients=part, target=target)

    def function(self, stack: FactoredStack) -> KernelFunction:
        """Return the function, independent of stack and rows."""
        if self.tol is None:
            return stack.expansion(self.kernel, self.coefficients)
        return stack.function(self.kernel, self.coefficients, self.tol)

    def values(self, stack: FactoredStack, table: ColumnTable, rows: Array | slice = slice(None)) -> Array:
        """Return the function at rows of a table, (n,)."""
        reading = table.reading(stack.spec_of(self.kernel), stack.columns_of(self.kernel), rows)
        return reading.masked(self.function(stack)(reading.points))


@dataclass(frozen=True)
class ExactContinuation:
    """Result of N x N matrices for a problem: the solution, and the part for the continuation on factors."""

    solution: Solution
    components: tuple[Component, ...]  # its functions
    kernels: Array  # those with a function
    norms: Array  # of these functions, before penalties
    point: Point  # scores and intercept
    primal: float  # the objective, recomputed from kernel values


@dataclass(frozen=True)
class Round:
    """A certified point: an entry of the history of a fit."""

    round: int
    elapsed_s: float
    primal: float
    dual: float
    relative_gap: float
    approximate_gap: float
    working: int
    active: int
    rank: int
    newton_steps: int
    factor_tol: float
    evaluated: int


@dataclass(frozen=True, eq=False)
class DualPass:
    """Dual coefficients with the results of a pass over all kernels, valid for any penalty."""

    problem: Problem
    rho: Array
    quads: tuple[Array, Array]
    growth: Array | None = None  # (M,): of dual norms, beside the threshold's fall, since the strength before

    def is_of(self, stack: FactoredStack) -> bool:
        """Return whether rows and kernels are the same."""
        return bool(self.problem.stack.is_twin_of(stack))

    def serves(self, problem: Problem) -> bool:
        """Return whether another problem differs at most by the penalty."""
        own = self.problem
        return (
            problem.stack.is_twin_of(own.stack)
            and problem.loss == own.loss
            and not problem.bound.couples_samples
            and problem.fit_intercept == own.fit_intercept
            and np.array_equal(problem.unpenalized, own.unpenalized)
            and np.array_equal(problem.y, own.y)
            and np.array_equal(problem.weight, own.weight)
        )


@dataclass
class State:
    """Where the loop stands."""

    kernels: Array
    operators: list[FactorOperator]
    objective: FactoredObjective | None
    point: Point
    slopes: Array
    factor_tol: float = COARSE
    mu: float | Array = FIRST_SMOOTHING
    primal: float = np.inf
    norms: Array = field(default_factory=lambda: np.zeros(0))
    own_gap: float = 0.0
    smoothing_gap: float = 0.0
    samples: Any = None  # the interior point of a loss with kinks
    smooths: bool = False  # whether interior points led nowhere, so that such a loss is smoothed
    best: DualBound | None = None
    steps: int = 0
    exact: ExactContinuation | None = None
    matrices: Any = None
    rounds: list[Round] = field(default_factory=list)
    known: KnownCurvature = field(default_factory=KnownCurvature)
    certified: DualPass | None = None
    began: Start | None = None
    # The best dual coefficients that steps met, the factors' products with them, and the scores behind them
    products: tuple[Array, Array, Array] | None = None

    def record(self, number: int, elapsed_s: float, gap: float, size: float) -> None:
        """Add a certified point to the history; gaps are relative to ``size``."""
        assert self.best is not None
        gaps = max(gap, 0.0) / size, max(self.own_gap, 0.0) / size
        rank = 0 if self.objective is None else self.objective.rank
        sizes = len(self.kernels), int(np.sum(self.norms > 0)), rank, self.steps
        values = self.primal, self.best.value, *gaps
        self.rounds.append(Round(number, elapsed_s, *values, *sizes, self.factor_tol, self.best.evaluated))


NOT_KEPT: dict[str, Any] = {"before": None, "certified": None, "samples": None, "center": 0.0}


@dataclass(frozen=True)
class Start:
    """Warm start of another problem on the same stack: small, except for optional N x N matrices."""

    kernels: Array  # (g,) int
    coefficients: Coefficients  # of the factors of these kernels
    intercept: Any
    factor_tol: float
    mu: float | Array
    matrices: Any = None  # what a fit went over to, which the next one goes on with
    known: KnownCurvature = field(default_factory=KnownCurvature)
    certified: DualPass | None = None  # its last pass
    strength: float = np.nan  # of its penalty
    before: Start | None = None  # what it began with itself: two strengths say where a path goes
    samples: Any = None  # the interior point of a loss with kinks
    center: Any = 0.0  # what such a loss was smoothed around
    scores: Any = None  # with the intercept, as those of the coefficients themselves

    def extrapolate(self, strength: float) -> tuple[Coefficients, Any, Any]:
        """Return coefficients at another strength, extrapolated linearly from the strength before, or from zero.

        Coefficients of refined factors stay. Intercept and scores are extrapolated only with all coefficients.
        """
        before, share = self.before, 0.0
        if before is not None and before.strength > self.strength:
            share = (self.strength - strength) / (before.strength - self.strength)
        if before is None or not 0.0 < share <= 2.0:
            return self.coefficients, self.intercept, self.scores
        own, old = self.coefficients, before.coefficients
        came, (here, there) = own.v - old.transfer(own.kernels, own.starts), both(own.kernels, old.kernels)
        finer = np.diff(own.starts)[here] != np.diff(old.starts)[there]
        for slot in here[finer].tolist():
            came[own.starts[slot] : own.starts[slot + 1]] = 0.0
        ahead = replace(own, v=own.v + share * came)
        if finer.any() or len(there) < len(old.kernels) or self.scores is None or before.scores is None:
            return ahead, self.intercept, None
        intercept = self.intercept + share * (self.intercept - before.intercept)
        return ahead, intercept, self.scores + share * (self.scores - before.scores)

    @classmethod
    def create(cls, state: State) -> Start | None:
        """Return the summary of a state; None after N x N matrices of few rows, cheap to evaluate anew."""
        if state.matrices is not None:
            none = Coefficients(np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(0))
            return cls(state.kernels, none, state.point.b, state.factor_tol, state.mu, state.matrices)
        if state.objective is None:
            return None
        own = Coefficients.create(state.objective.kernels, state.objective.penalty.starts, state.point.v)
        certified = state.certified
        began, scores = state.began, state.point.z if state.point.whole else None
        return cls(
            own.kernels,
            own,
            state.point.b,
            state.factor_tol,
            state.mu,
            known=state.known,
            certified=certified,
            strength=state.objective.problem.regularizer.strength,
            before=None if began is None else replace(began, **NOT_KEPT),
            samples=state.samples,
            center=state.objective.center,
            scores=scores,
        )


def components_of(state: State) -> Sequence[Component]:
    """Return the functions of the kernels with nonzero coefficients, in the order of the bank."""
    if state.exact is not None:
        return state.exact.components
    if state.objective is None:
        return ()
    own = Coefficients.create(state.objective.kernels, state.objective.penalty.starts, state.point.v)
    parts = zip(own.kernels.tolist(), pairwise(own.starts.tolist()), strict=True)
    found = [Component(m, own.v[low:high], state.factor_tol) for m, (low, high) in parts]
    return sorted(found, key=lambda component: component.kernel)
