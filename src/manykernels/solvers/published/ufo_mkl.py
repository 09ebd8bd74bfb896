"""UFO-MKL: online learning with an elastic net on the norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from manykernels.objective.capabilities import Capability
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.published.online import OnlineSolver

if TYPE_CHECKING:
    from manykernels.solvers.base import Solver


# OBSCURE: online and batch learning with a group norm.


@dataclass(frozen=True, kw_only=True)
class Obscure(OnlineSolver):
    """OBSCURE, online and batch learning with a group norm (Orabona, Jie and Caputo 2010).

    Minimizes ``sum_i s_i l(y_i, f_i + b) + (lambda/2) ||t||_q^2`` with ``1 < q < 2``, which is the lp ball of kernel
    weights with ``p = q / (2 - q)``; with the exponent ``q`` in place of the square it is the penalty ``"lq"``, and the
    ridge at ``q = 2``. After every update ``d_m = (u_m / ||u||_r)^(r - 2) / lambda`` with ``1/q + 1/r = 1``. The
    paper's ``q = 2 log M / (2 log M - 1)``, at which the norm is within a factor ``sqrt(e)`` of the 1-norm, is
    ``p = log M / (log M - 1)``.

    The first epoch is the online stage: each sample is met once, and the penalty grows with their number. The epochs
    after it are the batch stage.

    Parameters
    ----------
    step_rule : {"implicit", "subgradient"}
        Steps that maximize the dual along the sample at hand, or plain subgradients, which no gap is promised for.
    random_state : int
        Seed of the order of the samples.

    References
    ----------
    F. Orabona, L. Jie, B. Caputo, "Online-batch strongly convex multi kernel learning", CVPR 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import LpBall
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", LpBall(1.0, p=1.5))
    >>> solution = Obscure().solve(problem)
    >>> int(np.argmax(solution.kernel_weights)), solution.certificate.relative_gap <= 1e-2
    (2, True)
    """

    name: ClassVar[str] = "obscure"
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CLOSED_CONJUGATE, Capability.POWER_FORM})


@dataclass(frozen=True, kw_only=True)
class UFOMKL(OnlineSolver):
    """UFO-MKL, online learning with an elastic net on the norms (Orabona and Jie 2011).

    Minimizes ``sum_i s_i l(y_i, f_i + b) + C sum_m (r t_m + (1 - r) t_m^2 / 2)`` with ``r = l1_ratio < 1``: the paper's
    ``alpha ||w||_{2,1} + (lambda/2) ||w||_{2,q}^2`` at q = 2; with its own ``q = 2 log M / (2 log M - 1)`` it is
    `GroupElasticNet.published`, which this solver takes as well. After every update
    ``d_m = (1 - C r / u_m)_+ / (C (1 - r))``, so that kernels enter and leave while it learns. The block 1-norm alone
    (``r = 1``) is not strongly convex, which the method needs.

    Parameters
    ----------
    step_rule : {"implicit", "subgradient"}
        Steps that maximize the dual along the sample at hand, or the published ones, which no gap is promised for.
    random_state : int
        Seed of the order of the samples.

    References
    ----------
    F. Orabona, L. Jie, "Ultra-fast optimization algorithm for sparse multi kernel learning", ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import ElasticNet
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", ElasticNet(1.0, l1_ratio=0.9))
    >>> solution = UFOMKL().solve(problem)
    >>> solution.active.tolist(), solution.certificate.relative_gap <= 1e-2
    ([2], True)
    """

    name: ClassVar[str] = "ufo_mkl"
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CLOSED_CONJUGATE, Capability.SQUARE_FORM, Capability.STRONG_CONVEXITY}
    )
