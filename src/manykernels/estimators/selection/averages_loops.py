"""The compiled loop of a step of averages, with one or two reads of vectors of samples."""

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST
from manykernels.validation.arrays import Array

ROWS_RAISED = 256  # of a kernel in single precision that are raised to double precision at once


@compiled(fastmath=FAST)
def go_along(
    curves: Array, strengths: Array, energy: Array, way: Array, moved: Array, shift: Array, x: Array, along: Array,
    u: Array, out: Array,
) -> None:  # fmt: skip
    """Go to the minimum of the model of every target along the conjugate direction, all (K, n) but (K,) numbers.

    The direction ``way`` changes functions by ``moved`` and intercepts by ``shift``; ``x`` and ``along`` are what steps
    and changes of scores add up to, ``u`` is the remainder of the gradient. Targets whose ``energy`` is zero stay. To
    ``out`` (K, 3) go the length, by what the left slope of the intercept changes, and the square of ``u``.
    """
    for k in range(len(x)):
        curvature = 0.0
        for i in range(x.shape[1]):
            change = moved[k, i] + shift[k]
            curvature += curves[k, i] * change * change + strengths[k] * way[k, i] * moved[k, i]
        length = energy[k] / curvature if energy[k] > 0.0 and curvature > 0.0 else 0.0
        rise, square = 0.0, 0.0
        for i in range(x.shape[1]):
            change = moved[k, i] + shift[k]
            bent = curves[k, i] * change
            x[k, i] += length * way[k, i]
            along[k, i] += length * change
            left = u[k, i] - length * (bent + strengths[k] * way[k, i])
            u[k, i] = left
            rise += bent
            square += left * left
        out[k, 0], out[k, 1], out[k, 2] = length, length * rise, square


def exact_product(features: Array, vectors: Array) -> Array:
    """Return the product in double precision, converted a few rows at a time."""
    out = np.empty((len(features), vectors.shape[1]), order="F")
    n_rows = ROWS_RAISED if features.dtype != np.float64 else max(len(features), 1)
    for rows in (slice(start, start + n_rows) for start in range(0, len(features), n_rows)):
        out[rows] = features[rows].astype(np.float64, copy=False) @ vectors
    return out
