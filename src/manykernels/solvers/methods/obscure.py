"""OBSCURE: online and batch learning with a group norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from manykernels.objective.capabilities import Capability
from manykernels.solvers.engines.online.solver import OnlineSolver
from manykernels.solvers.methods.interior_point import InteriorPoint

if TYPE_CHECKING:
    from manykernels.solvers.base import Solver


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
