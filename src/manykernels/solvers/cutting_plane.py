"""Cutting planes over kernel weights on the simplex: SILP and LevelMKL."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manykernels._validation import check_positive
from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import LOSSES
from manykernels.solvers._cone_program import import_clarabel
from manykernels.solvers._cut_model import CutMinimum, CutModel
from manykernels.solvers._refinement import refinements, with_best_intercept
from manykernels.solvers._simplex_point import SimplexPoint, kernel_weights, starting_weights
from manykernels.solvers.base import Solver

if TYPE_CHECKING:
    from manykernels._validation import Array
    from manykernels.objective.problem import Problem
    from manykernels.solvers.base import Model

WORTH_CERTIFYING = 0.5  # a certificate costs passes: only for gaps that shrank by as much
ROUNDING = 1e-14


@dataclass
class CutState:
    """The last machine, the best one, the cuts and the minimum of their model."""

    point: SimplexPoint
    best: SimplexPoint
    cuts: CutModel
    minimum: CutMinimum
    certified_gap: float = np.inf

    @property
    def gap(self) -> float:
        """How far the model lies below the best value."""
        return max(self.best.value - self.minimum.value, 0.0)


@dataclass(frozen=True, kw_only=True)
class CuttingPlane(Solver):
    """What cutting-plane methods share: a machine and a cut an iteration, a linear program for the lower bound.

    Minimizes ``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) sum_m t_m^2 / theta_m`` over the simplex.
    The machine at ``theta^t`` gives the cut ``J(theta) >= J(theta^t) + g_t'(theta - theta^t)`` with
    ``g_tm = -u_tm^2/(2 lambda)``.

    Notes
    -----
    The multipliers of the linear program average the dual coefficients of the machines. That average proves the lower
    bound of the program in the certificate of the library, so it is offered as a model along with the best machine's.
    """

    accepts_losses: ClassVar[frozenset[str]] = frozenset(LOSSES)
    accepts_regularizers: ClassVar[frozenset[str]] = frozenset({"simplex"})
    attainable_gap: ClassVar[float] = 1e-6

    @abstractmethod
    def next_weights(self, state: CutState) -> Array:
        """Return the weights at which the next machine is fitted."""

    def initialize(self, problem: Problem, start: Model) -> CutState:
        """Cut at the weights of the given model, or at equal ones."""
        point = SimplexPoint.at(problem, starting_weights(problem, start[1]), self.tol)
        cuts = CutModel.of(point)
        return CutState(point, point, cuts, cuts.minimum(point.theta, point.value, np.inf))

    def step(self, problem: Problem, state: CutState) -> None:
        """Fit a machine, add its cut, minimize the model."""
        gap = state.gap
        state.point = state.point.moved(self.next_weights(state), self.tol)
        state.best = min(state.best, state.point, key=lambda point: point.value)
        state.cuts = state.cuts.with_cut(state.point)
        state.minimum = state.cuts.minimum(state.best.theta, state.best.value, gap)

    def worth_certifying(self, problem: Problem, state: CutState) -> bool:
        """Certify when the gap of the cuts has halved, when it is rounding, or when the best machine is good enough."""
        small = ROUNDING * max(abs(state.best.value), problem.tiny)
        if state.gap > max(WORTH_CERTIFYING * state.certified_gap, small) and state.best.relative_gap > self.tol:
            return False
        state.certified_gap = min(state.gap, state.certified_gap)
        return True

    def extract(self, problem: Problem, state: CutState) -> Model:
        """Return the best machine, or the average that proves the lower bound on the best machine's weights."""
        if state.best.relative_gap <= self.tol:
            return state.best.model()
        d = kernel_weights(problem, state.best.theta)
        averages = [with_best_intercept(problem, rho, d) for rho in refinements(problem, state.minimum.rho, d)]
        return min([state.best.model(), *averages], key=lambda model: problem.certificate(*model).relative_gap)

    def newton_steps(self, state: CutState) -> int:
        """Return the linear systems solved inside all machines."""
        return state.point.steps


@dataclass(frozen=True, kw_only=True)
class SILP(CuttingPlane):
    """Semi-infinite linear program: the next weights minimize the cuts (Sonnenburg et al. 2006).

    Each iteration solves ``max tau  s.t.  tau <= sum_m theta_m S_m(rho^t)`` over the simplex for all machines so far,
    by HiGHS; it needs no step length, and jumps between corners until it has enough cuts.

    References
    ----------
    S. Sonnenburg, G. Raetsch, C. Schaefer, B. Schoelkopf, "Large scale multiple kernel learning", JMLR 7 (2006).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import Simplex
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", Simplex(0.1))
    >>> SILP(tol=1e-6).solve(problem).kernel_weights.round(6).tolist()
    [0.0, 0.0, 10.0]
    """

    name: ClassVar[str] = "silp"

    def next_weights(self, state: CutState) -> Array:
        """Return the minimizer of the cuts."""
        return state.minimum.theta


@dataclass(frozen=True, kw_only=True)
class LevelMKL(CuttingPlane):
    """Level method: the next weights are the nearest ones at which the cuts are low enough (Xu et al. 2009).

    With the best value ``U`` and the minimum ``L`` of the cuts, the last weights are projected on
    ``{theta : every cut <= level U + (1 - level) L}`` by Clarabel, which needs the extra ``conic``:
    ``pip install 'manykernels[conic]'``. Steadier than SILP; the gap falls by about the same factor in each iteration.

    Parameters
    ----------
    level : float
        Between 0 and 1; near 1 moves are short.

    References
    ----------
    Z. Xu, R. Jin, I. King, M. Lyu, "An extended level method for efficient multiple kernel learning", NIPS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import Simplex
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", Simplex(0.1))
    >>> LevelMKL(tol=1e-6).solve(problem).kernel_weights.round(2).tolist()
    [0.0, 0.0, 10.0]
    """

    level: float = 0.9

    name: ClassVar[str] = "levelmkl"

    def initialize(self, problem: Problem, start: Model) -> CutState:
        """Check the level, then cut at the weights of the given model, or at equal ones."""
        import_clarabel()
        if check_positive(self.level, "level", upper=1.0) == 1:
            raise InvalidInputError("level must be below 1: at 1 every point with the best value is low enough.")
        return super().initialize(problem, start)

    def next_weights(self, state: CutState) -> Array:
        """Return the projection of the last weights on the level set."""
        best = state.best
        level = best.value - (1.0 - self.level) * state.gap
        return state.cuts.nearest(state.point.theta, level, best.theta, best.value, state.gap)
