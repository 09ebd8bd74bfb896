"""Cutting planes over kernel weights on the simplex: SILP and LevelMKL.

With ``J`` of `simplex_point` and the learner at ``theta^t``, whose coefficients give ``u_t``,

    J(theta) >= J(theta^t) + g_t'(theta - theta^t),      g_tm = -u_tm^2 / (2 lambda)

SILP goes to the minimum of the largest of the cuts; LevelMKL to the point nearest to the last one at which all are at
most ``level U + (1 - level) L``, between the best value ``U`` and the minimum ``L`` of the cuts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import OptimizeResult, linprog

from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.papers.solvers.conic import ConeProgram, add_best_intercept, import_clarabel, refinements
from manykernels.papers.solvers.simplex_point import (
    ACCURACY,
    CUT_ROUNDING,
    MOST_IDLE,
    NARROWER,
    NEGLIGIBLE,
    SMALLEST_GAP,
    USELESS_CUTS,
    WORTH_A_CUT,
    WORTH_CERTIFYING,
    SimplexMethod,
    SimplexPoint,
    kernel_weights,
)
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array, check_positive

# The piecewise linear lower model of a convex function of kernel weights on the simplex.


# HiGHS now and then takes a bounded program for an unbounded one; what fools one of these does not fool the next.
ATTEMPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("highs-ds", {}),
    ("highs-ds", {"presolve": False}),
    ("highs-ipm", {}),
)


@dataclass(frozen=True, eq=False)
class CutMinimum:
    """Minimum of the cutting-plane model: place, value, and the average of dual coefficients as the proof."""

    theta: Array  # ndarray of shape (M,)
    value: float  # A lower bound of the function on the simplex, up to the accuracy of the linear program
    # ndarray of shape (N,): sum_t pi_t rho_t with the multipliers pi of the cuts. The dual is concave, so its value
    # here is no smaller than value: the certificate of the library sees what the linear program promises
    rho: Array


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts ``J(theta) >= constants_t + slopes_t'theta``, a cut per learner."""

    constants: Array  # ndarray of shape (T,)
    slopes: Array  # ndarray of shape (T, M)
    coefficients: Array  # ndarray of shape (T, N): the dual coefficients that each cut comes from

    @classmethod
    def create(cls, point: SimplexPoint) -> Cuts:
        """Return the cut at a single point."""
        return cls(np.array([point.cut_intercept]), point.slopes[None], point.fit.rho[None])

    def value(self, theta: Array) -> float:
        """Return the largest cut at ``theta``, a bound from below."""
        return float((self.constants + self.slopes @ theta).max())

    def minimum(self, center: Array, upper: float, gap: float) -> CutMinimum:
        """Minimize the model over the simplex, by HiGHS.

        Cuts differ by the gap, and weights move by the square root: with ``theta = center + eta x`` and ``tau = upper +
        gap t`` the program keeps entries of order one, while HiGHS in plain units knows ten digits.
        """
        zoom = _Zoom.create(center, upper, gap, np.abs(self.slopes).max())
        rows, right = zoom.cuts(self.constants, self.slopes)
        n_cuts, n_kernels = rows.shape
        found = _solve_program(
            c=np.append(np.zeros(n_kernels), 1.0),
            A_ub=np.hstack([rows, -np.ones((n_cuts, 1))]),
            b_ub=right,
            A_eq=np.append(np.ones(n_kernels), 0.0)[None],
            b_eq=[0.0],
            bounds=[*((low, None) for low in zoom.lowest), (None, None)],
        )
        shares = np.maximum(-found.ineqlin.marginals, 0.0)
        rho = (shares / shares.sum()) @ self.coefficients
        return CutMinimum(zoom.weights(found.x[:-1]), upper + zoom.height * float(found.x[-1]), rho)

    def nearest(self, theta: Array, level: float, center: Array, upper: float, gap: float) -> Array:
        """Return the nearest point to ``theta`` on the simplex with a model value of at most ``level``, by Clarabel."""
        zoom = _Zoom.create(center, upper, gap, np.abs(self.slopes).max())
        rows, right = zoom.cuts(self.constants, self.slopes)
        right = right + (level - upper) / zoom.height
        sizes = np.maximum(np.abs(rows).max(axis=1), np.finfo(np.float64).tiny)
        program, indices = ConeProgram(theta.size), np.arange(theta.size)
        program.quadratic[:], program.linear[:] = 1.0, (center - theta) / zoom.width
        program.add("Nonnegative", right / sizes, -rows / sizes[:, None], indices[None])
        program.add("Nonnegative", -zoom.lowest, np.ones((1, 1)), indices[:, None])
        program.add("Zero", np.zeros(1), np.ones((1, theta.size)), indices[None])
        options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), ACCURACY)
        return zoom.weights(program.solve(**options).x, NEGLIGIBLE)


def _solve_program(**program: object) -> OptimizeResult:
    """Solve a linear program, in another way where HiGHS fails."""
    accuracy = {"primal_feasibility_tolerance": ACCURACY, "dual_feasibility_tolerance": ACCURACY}
    for method, options in ATTEMPTS:
        found = linprog(**program, method=method, options=accuracy | options)
        if found.x is not None:
            return found
    raise LinAlgError(f"HiGHS could not solve the linear program of the cuts: {found.message}")


@dataclass(frozen=True, eq=False)
class _Zoom:
    """``theta = center + width x``, ``tau = upper + height t``."""

    center: Array
    upper: float
    width: float
    height: float

    @classmethod
    def create(cls, center: Array, upper: float, gap: float, steepness: float) -> _Zoom:
        height = min(max(gap, SMALLEST_GAP * steepness), steepness) or 1.0
        return cls(center, upper, np.sqrt(height / steepness) if steepness > 0 else 1.0, height)

    @property
    def lowest(self) -> Array:
        """``x`` where weights are zero."""
        return -self.center / self.width

    def cuts(self, constants: Array, slopes: Array) -> tuple[Array, Array]:
        """Return ``(rows, right)`` of ``rows x - t <= right``; since ``sum x = 0``, slopes count from a pivot's."""
        relative = slopes - slopes[:, [int(self.center.argmax())]]
        return relative * (self.width / self.height), (self.upper - constants - slopes @ self.center) / self.height

    def weights(self, x: Array, negligible: float = ACCURACY) -> Array:
        """Return ``theta``, exactly on the simplex, with zeros for negligible ``x``."""
        theta = np.where(x > self.lowest + negligible, self.center + self.width * x, 0.0)
        theta = np.maximum(theta, 0.0)
        return theta / theta.sum()


@dataclass
class CutState:
    """The last learner, the best learner, the cuts and the minimum of their model."""

    point: SimplexPoint
    best: SimplexPoint
    cuts: Cuts
    minimum: CutMinimum
    certified_gap: float = np.inf
    useless: int = 0
    narrowest: float = np.inf
    idle: int = 0

    @property
    def gap(self) -> float:
        """How far the model lies below the best value."""
        return max(self.best.value - self.minimum.value, 0.0)


@dataclass(frozen=True, kw_only=True)
class CuttingPlane(SimplexMethod):
    """What cutting-plane methods share: a learner and a cut an iteration, a linear program for the lower bound.

    Minimizes ``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) sum_m t_m^2 / theta_m`` over the simplex.
    The learner at ``theta^t`` gives the cut ``J(theta) >= J(theta^t) + g_t'(theta - theta^t)`` with
    ``g_tm = -u_tm^2/(2 lambda)``.

    Parameters
    ----------
    alternate : bool
        Whether a learner is fitted at the closed-form weights ``t_m / sum t`` of the best one where cuts do not get on.
        Near a corner of the simplex ``J`` is so steep that cuts tell next to nothing: on kernels of low rank under a
        weak penalty the published method, which is False, takes hundreds of them.

    Notes
    -----
    The multipliers of the linear program average the dual coefficients of the learners. That average proves the lower
    bound of the program in the certificate of the library, so it is offered as a model along with the best learner's.
    """

    max_iter: int = 1000
    alternate: bool = True

    @property
    def is_published(self) -> bool:
        return not self.alternate

    @abstractmethod
    def next_weights(self, state: CutState) -> Array:
        """Return the weights for the next learner."""

    def initialize(self, problem: Problem, start: Model) -> CutState:
        """Cut at the weights of the given model, or at equal weights."""
        point = self.first_point(problem, start)
        cuts = Cuts.create(point)
        return CutState(point, point, cuts, cuts.minimum(point.theta, point.value, np.inf))

    def step(self, problem: Problem, state: CutState) -> None:
        """Fit a learner, add the cut, minimize the model."""
        gap, alternates = state.gap, self.alternate and state.useless >= USELESS_CUTS
        theta = state.best.alternated() if alternates else self.next_weights(state)
        state.point = state.point.move(theta, self.tol)
        useful = alternates or state.point.value < state.best.value - WORTH_A_CUT * gap
        state.useless = 0 if useful else state.useless + 1
        state.best = min(state.best, state.point, key=lambda point: point.value)
        new = Cuts.create(state.point)
        pairs = ((getattr(state.cuts, name), getattr(new, name)) for name in ("constants", "slopes", "coefficients"))
        state.cuts = Cuts(*(np.concatenate(pair) for pair in pairs))
        state.minimum = state.cuts.minimum(state.best.theta, state.best.value, gap)
        state.idle = 0 if state.gap < NARROWER * state.narrowest else state.idle + 1
        state.narrowest = min(state.gap, state.narrowest) if state.idle == 0 else state.narrowest

    def worth_certifying(self, problem: Problem, state: CutState) -> bool:
        """Certify when the gap of the cuts has halved, is rounding or no longer falls, or the best learner will do."""
        if self.alternate and state.idle > MOST_IDLE:
            return True
        small = CUT_ROUNDING * max(abs(state.best.value), problem.tiny)
        if state.gap > max(WORTH_CERTIFYING * state.certified_gap, small) and state.best.relative_gap > self.tol:
            return False
        state.certified_gap = min(state.gap, state.certified_gap)
        return True

    def extract(self, problem: Problem, state: CutState) -> Model:
        """Return the best learner, or the average with the lower bound at the weights of the best learner."""
        if state.best.relative_gap <= self.tol:
            return state.best.model()
        d = kernel_weights(problem, state.best.theta)
        averages = [add_best_intercept(problem, rho, d) for rho in refinements(problem, state.minimum.rho, d)]
        return min([state.best.model(), *averages], key=lambda model: problem.certificate(*model).relative_gap)


# SILP: cutting planes of the value as a function of the kernel weights.


# LevelMKL: the same cuts, steadied by a projection on a level set.


@dataclass(frozen=True, kw_only=True)
class LevelMKL(CuttingPlane):
    """Level method: the next weights are the nearest ones at which the cuts are low enough (Xu et al. 2009).

    With the best value ``U`` and the minimum ``L`` of the cuts, the last weights are projected on ``{theta : every cut
    <= level U + (1 - level) L}`` by Clarabel, which needs the extra ``conic``: ``pip install 'manykernels[conic]'``.
    Steadier than SILP; the gap falls by about the same factor in every iteration.

    Parameters
    ----------
    level : float
        Between 0 and 1; near 1 moves are short.
    alternate : bool
        Whether a learner is fitted at weights in closed form where cuts do not get on; the published method is False.

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

    def __post_init__(self) -> None:
        if check_positive(self.level, "level", upper=1.0) == 1:
            raise InvalidInputError("level must be below 1: at 1 every point with the best value is low enough.")

    def check(self, problem: Problem) -> None:
        """Raise `IncompatibleError` for unsupported problems, and ``ImportError`` without Clarabel."""
        super().check(problem)
        import_clarabel()

    def next_weights(self, state: CutState) -> Array:
        """Return the projection of the last weights on the level set."""
        best = state.best
        level = best.value - (1.0 - self.level) * state.gap
        return state.cuts.nearest(state.point.theta, level, best.theta, best.value, state.gap)


@dataclass(frozen=True, kw_only=True)
class SILP(CuttingPlane):
    """Semi-infinite linear program: the next weights minimize the cuts (Sonnenburg et al. 2006).

    Every iteration solves ``max tau  s.t.  tau <= sum_m theta_m S_m(rho^t)`` over the simplex for all learners so far,
    by HiGHS; it needs no step length, and jumps between corners until it has enough cuts.

    Parameters
    ----------
    alternate : bool
        Whether a learner is fitted at weights in closed form where cuts do not get on; the published method is False.

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
