"""SILP: cutting planes of the value as a function of the kernel weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from manykernels.solvers.engines.simplex_weights.cutting_plane import CutState, CuttingPlane
from manykernels.solvers.methods.interior_point import InteriorPoint

if TYPE_CHECKING:
    from manykernels.solvers.base import Solver
    from manykernels.validation.arrays import Array


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
