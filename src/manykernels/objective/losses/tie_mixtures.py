"""What the samples of a tie add to the conjugate of the partial likelihood, without a pair of every two of them.

Where a dual point is a share ``c`` of slopes, a term of a tie adds ``sum_j a_j phi(x_j)`` with ``phi(x) = m log m`` at
``m = c x + 1 - c``, ``a_j`` being the shares of the weights of the tie and ``x_j = kappa exp(z_j)``. With Efron's
correction a tie of ``d`` events has ``d`` terms, which differ by ``kappa`` only. Since ``D(x) = c x log x - phi(x)`` is
convex and the first part sums in closed form, tangents of ``D`` at a few ``kappa`` bound all terms from above.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

NODES = 32  # terms of a tie that are summed exactly; of more, tangents at as many


@compiled()
def tie_mixtures(
    scale: float,
    z: Array,
    shares: Array,
    log_kappa: Array,
    sizes: Array,
    first_sample: Positions,
    first_term: Positions,
    counts: Positions,
    steps: Positions,
) -> float:
    """Return an upper bound of the sum over terms of ``size sum_j a_j phi(x_j)``; exact for ties of up to 32 events."""
    whole = 0.0
    for g in range(counts.size):
        low, high = first_sample[g], first_sample[g] + counts[g]
        first, last = first_term[g], first_term[g] + steps[g]
        if steps[g] <= NODES:
            for t in range(first, last):
                for j in range(low, high):
                    mixed = scale * np.exp(log_kappa[t] + z[j]) + 1.0 - scale
                    if mixed > 0.0:
                        whole += sizes[t] * shares[j] * mixed * np.log(mixed)
            continue
        top = log_kappa[first:last].max()
        bottom = log_kappa[first:last].min()
        space = max((top - bottom) / (NODES - 1), 1e-300)
        plain, scored, most = 0.0, 0.0, z[low:high].max()
        for j in range(low, high):
            plain += shares[j] * np.exp(z[j] - most)
            scored += shares[j] * np.exp(z[j] - most) * (z[j] - most)
        values, slopes = np.zeros(NODES), np.zeros(NODES)
        for k in range(NODES):
            for j in range(low, high):
                log_x = bottom + k * space + z[j]
                x = np.exp(log_x)
                mixed = scale * x + 1.0 - scale
                if x > 0.0:
                    values[k] += shares[j] * (scale * x * log_x - mixed * np.log(mixed))
                    slopes[k] += shares[j] * scale * x * (log_x - np.log(mixed))
                elif mixed > 0.0:
                    values[k] -= shares[j] * mixed * np.log(mixed)
        for t in range(first, last):
            k = min(int((log_kappa[t] - bottom) / space + 0.5), NODES - 1)
            log_most = log_kappa[t] + most
            tangent = values[k] + slopes[k] * np.expm1(log_kappa[t] - bottom - k * space)
            whole += sizes[t] * (scale * np.exp(log_most) * (log_most * plain + scored) - tangent)
    return whole
