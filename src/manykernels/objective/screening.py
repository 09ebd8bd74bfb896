"""Which kernels a certificate proves to be zero in every optimal model: the gap-safe sphere test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manykernels.objective.capabilities import Capability

if TYPE_CHECKING:
    from manykernels.objective.certificate import Certificate
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array

__all__ = ["proved_inactive"]


def proved_inactive(problem: Problem, certificate: Certificate) -> Array:
    r"""Return which kernels have weight zero in every optimal model, as the duality gap proves.

    The losses have second derivatives of at most :math:`L`, hence the dual is strongly concave, and its maximizer
    :math:`\rho^*` lies in a ball around the feasible dual point :math:`\rho` of the certificate:

    .. math:: \sum_i (\rho^*_i - \rho_i)^2 / s_i \le 2 L (P - D), \qquad
       \sqrt{\rho^{*\prime} K_m \rho^*} \le \sqrt{\rho' K_m \rho} + \sqrt{2 L (P - D) \sum_i s_i (K_m)_{ii}} .

    A kernel whose right-hand side, over its factor :math:`w_m`, is below the threshold of the penalty is zero.

    Parameters
    ----------
    problem : Problem
        With an L1 or elastic net penalty and a loss of bounded curvature; for others nothing is proved.
    certificate : Certificate
        Of any model of that problem.

    Returns
    -------
    ndarray of shape (n_kernels,), bool
        False says that nothing was proved; a smaller gap proves more.

    Notes
    -----
    The bound on rounding that the certificate carries is added to its gap. The sum of diagonal entries bounds the
    largest eigenvalue of the weighted kernel; no pass over the stack is needed.

    References
    ----------
    E. Ndiaye, O. Fercoq, A. Gramfort, J. Salmon, "Gap Safe screening rules for sparsity enforcing penalties", JMLR 18
    (2017), Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> stack = np.stack([np.eye(2), 0.01 * np.eye(2)])
    >>> problem = Problem(stack, np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
    >>> proved_inactive(problem, problem.certificate(np.array([-0.35, 0.35]), np.array([1.857, 0.0]), 2.0))
    array([False,  True])
    """
    threshold = np.asarray(problem.regularizer.inactive_below)
    able = Capability.BOUNDED_CURVATURE in problem.loss.capabilities
    gap = certificate.gap + certificate.rounding
    if not threshold.any() or not able or not np.isfinite(gap) or len(certificate.dual_norms) != problem.n_kernels:
        return np.zeros(problem.n_kernels, dtype=bool)
    largest = problem.stack.diag_sums(problem.weight)
    radii = np.sqrt(2.0 * problem.loss.curvature_bound * max(gap, 0.0) * np.maximum(largest, 0.0)) / problem.penalties
    scale = 1.0 - certificate.kkt.scaling
    return np.asarray(scale * certificate.dual_norms + radii < threshold)
