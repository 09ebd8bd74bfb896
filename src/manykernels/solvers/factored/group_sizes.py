"""A Newton step in the sizes of groups, once these have taken turns: what keeps a gap then is sizes that are uneven.

Scaling dual coefficients by the worst group costs a gap in proportion to what that group is above its limit, while the
primal value is as near as the square of it. Directions of groups are nearly right after a sweep or two, and in sizes
alone the penalty is linear: with ``c_m = Z_m v_m / ||v_m||``, less its mean where there is an intercept, changes ``l``

    C W C'l = -C g - a

of sizes bring groups with slopes ``g`` to their limits ``a``, to first order. On 500 groups of ten columns and 2,000
rows the gap falls to a hundredth for less than two sweeps take, on 2,000 groups of five and 200 rows to a tenth
(benchmarks/group_path.py).
"""

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST, add_columns, column_products
from manykernels.validation.arrays import Array

GRADIENTS, UNEVEN = 20, 0.02  # conjugate ones at most, or to this part of the first residual: each reads C twice


@compiled(fastmath=FAST)
def first_order(C: Array, weights: Array, r: Array) -> Array:
    """Return ``l`` (g,) with ``C W C'l = r``, about, by conjugate gradients; overwrites ``r``."""
    d, found, product, rows = r.copy(), np.zeros(r.size), np.empty(r.size), np.arange(r.size)
    part, image = np.empty(r.size, dtype=C.dtype), np.empty(C.shape[1], dtype=C.dtype)
    first = size = np.dot(r, r)
    for _ in range(GRADIENTS):
        if not size > UNEVEN**2 * first:
            break
        part[:] = d
        image[:] = 0.0
        add_columns(C, rows, part, image)
        for i in range(image.size):
            image[i] *= weights[i]
        column_products(C, rows, image, product)
        length, last = size / np.dot(d, product), size
        for k in range(r.size):
            found[k] += length * d[k]
            r[k] -= length * product[k]
        size = np.dot(r, r)
        for k in range(r.size):
            d[k] = r[k] + size / last * d[k]
    return found


@compiled(fastmath=FAST)
def even_out(
    Z: Array,
    places: Array,
    starts: Array,
    scale: Array,
    weights: Array,
    slopes: Array,
    limits: Array,
    intercept: bool,
    v: Array,
) -> None:
    """Change the sizes of groups of coefficients ``v`` (r,) that are not zero as a Newton step does.

    Factors of a group are rows ``places[starts[m]:starts[m + 1]]`` of Z, times ``scale`` (r,). The quadratic of these
    slopes and weights and the norms times ``limits`` do not grow together: gradients lead down, and no size ends below
    zero.
    """
    norms, alive, count = np.empty(limits.size), np.empty(limits.size, dtype=np.int64), 0
    for m in range(limits.size):
        own = v[starts[m] : starts[m + 1]]
        norms[count] = np.sqrt(np.dot(own, own))
        if norms[count] > 0.0:
            alive[count] = m
            count += 1
    C, sizes, r, total = np.zeros((count, slopes.size), dtype=Z.dtype), np.empty_like(scale), np.empty(count), 0.0
    for i in range(weights.size):
        total += weights[i]
    for k in range(count):
        low, high, row = starts[alive[k]], starts[alive[k] + 1], C[k]
        for j in range(low, high):
            sizes[j] = scale[j] * v[j] / norms[k]
        add_columns(Z, places[low:high], sizes[low:high], row)
        mean, along = 0.0, 0.0
        for i in range(row.size):
            mean += weights[i] * row[i]
        mean = mean / total if intercept else 0.0
        for i in range(row.size):
            row[i] -= mean
            along += row[i] * slopes[i]
        r[k] = -along - limits[alive[k]]
    found, most = first_order(C, weights, r), 1.0
    for k in range(count):
        if most * found[k] < -norms[k]:
            most = -norms[k] / found[k]
    for k in range(count):
        for j in range(starts[alive[k]], starts[alive[k] + 1]):
            v[j] *= 1.0 + most * found[k] / norms[k]
