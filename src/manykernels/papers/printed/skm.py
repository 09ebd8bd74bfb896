"""What Theorem 1 and Corollary 1 of Bach, Lanckriet and Jordan (2004) promise of the smoothed support kernel machine.

With smoothing ``a_j = kappa``, ``d_j = 1 - kappa`` and ``r = max_j a_j^2 / d_j^2``, an ``epsilon``-optimal solution of
the smoothed problem is ``(eps1, eps2)``-optimal for the support kernel machine:

    eps1 = n C r (2 + r),      eps2 = epsilon + C max_j M_j a_j^2 / d_j^4,      M_j = max_u sum_v |K_j(u, v)|

The digits of our copy of the paper are unreadable; these were restored and are tested on random problems.
"""

import numpy as np
from numpy.typing import ArrayLike

from manykernels.validation.arrays import check_positive


def smoothing_errors(kernels: ArrayLike, constant: float, kappa: float) -> tuple[float, float]:
    """Return the ``eps1`` and the ``eps2`` that smoothing alone may cost, by Theorem 1 (``epsilon = 0``).

    Parameters
    ----------
    kernels : array-like of shape (n_kernels, n_samples, n_samples)
        With unit diagonals, as in the paper.
    constant : float
        ``C`` of the support vector machine.
    kappa : float
        Smoothing, in (0, 1).

    Returns
    -------
    eps1, eps2 : float
        In the units of the paper: of the objective ``max_j alpha'K_j alpha / (2 d_j^2) - sum alpha``, and of a margin.

    Examples
    --------
    >>> import numpy as np
    >>> eps1, eps2 = smoothing_errors(np.eye(4)[None], 1.0, 0.5)
    >>> eps1, eps2
    (12.0, 4.0)
    """
    grams, kappa = np.asarray(kernels, dtype=np.float64), check_positive(kappa, "kappa")
    constant, ratio = check_positive(constant, "constant"), (kappa / (1 - kappa)) ** 2
    reach = float(np.abs(grams).sum(axis=2).max())
    return grams.shape[1] * constant * ratio * (2 + ratio), constant * reach * ratio / (1 - kappa) ** 2


def sufficient_kappa(kernels: ArrayLike, constant: float, eps1: float, eps2: float) -> float:
    """Return the largest smoothing for which Corollary 1 promises ``(eps1, eps2)``-optimality.

    Parameters
    ----------
    kernels : array-like of shape (n_kernels, n_samples, n_samples)
        With unit diagonals.
    constant : float
        ``C`` of the support vector machine.
    eps1, eps2 : float
        The tolerances; stages are solved to ``eps2 / 2``.

    Returns
    -------
    float
        ``kappa``. Far below the one at which the conditions hold in practice: the corollary says that the algorithm
        ends, and not how soon.

    Examples
    --------
    >>> import numpy as np
    >>> kappa = sufficient_kappa(np.eye(4)[None], 1.0, 12.0, 8.0)
    >>> round(kappa, 6)
    0.5
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        found = smoothing_errors(kernels, constant, middle) if middle > 0 else (0.0, 0.0)
        low, high = (middle, high) if found[0] <= eps1 and found[1] <= eps2 / 2 else (low, middle)
    return low
