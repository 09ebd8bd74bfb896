"""SILP: cutting planes of the value as a function of the kernel weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from manykernels.exceptions import InvalidInputError
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.published.cone_program import import_clarabel
from manykernels.solvers.published.cutting_plane import CutState, CuttingPlane
from manykernels.validation.arrays import check_positive

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.base import Solver
    from manykernels.validation.arrays import Array


# LevelMKL: the same cuts, steadied by a projection on a level set.


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
    fallback: ClassVar[type[Solver] | None] = InteriorPoint

    def __post_init__(self) -> None:
        if check_positive(self.level, "level", upper=1.0) == 1:
            raise InvalidInputError("level must be below 1: at 1 every point with the best value is low enough.")

    def check(self, problem: Problem) -> None:
        """Raise `IncompatibleError` for problems it cannot solve, and ``ImportError`` without Clarabel."""
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

    Each iteration solves ``max tau  s.t.  tau <= sum_m theta_m S_m(rho^t)`` over the simplex for all learners so far,
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
    fallback: ClassVar[type[Solver] | None] = InteriorPoint

    def next_weights(self, state: CutState) -> Array:
        """Return the minimizer of the cuts."""
        return state.minimum.theta
