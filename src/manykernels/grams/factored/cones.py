r"""Projections on cones ``{v: G v >= 0}``: what dual norms and blocks of functions with a shape are made of.

.. math:: \max_{G v \ge 0,\, \lVert v \rVert \le 1} g'v = \min_{\mu \ge 0} \lVert g + G'\mu \rVert

The minimum is a nonnegative least squares problem, and the residual the projection on the cone. *Any* nonnegative
multipliers give an upper bound, so a bound made of them is one whatever rounding does to their digits.

C. Lawson, R. Hanson, Solving Least Squares Problems (1974), chapter 23, with multipliers to begin from.
"""

import numpy as np
from scipy.linalg import null_space

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

CLOSE = 1e-14  # of the sizes of both: a product of a row and a residual that is rounding
ON_FACE = 1e-9  # of the length of a vector: an inequality this close is at its end
DEPENDENT = 1e-11  # of its length: what rows must add to those before them


@compiled()
def least_squares(A: Array, b: Array, chosen: Array, Q: Array, R: Array, z: Array) -> bool:
    """Set ``z`` to the least squares solution of the chosen rows of ``A`` (c, r); tell whether they are independent.

    Gram and Schmidt, twice; the last of the chosen is the one that may depend on the rest.
    """
    count, size = chosen.size, A.shape[1]  # loops over entries compile several times as fast as sums of arrays
    for k in range(count):
        row, new = A[chosen[k]], Q[k]
        length = np.sqrt(np.dot(row, row))
        for j in range(size):
            new[j] = row[j]
        for i in range(k + 1):
            R[i, k] = 0.0
        for _ in range(2):
            for i in range(k):
                part = np.dot(Q[i], new)
                R[i, k] += part
                for j in range(size):
                    new[j] -= part * Q[i, j]
        left = np.sqrt(np.dot(new, new))
        if left <= DEPENDENT * length:
            return False
        R[k, k] = left
        for j in range(size):
            new[j] /= left
    for k in range(count - 1, -1, -1):
        total = np.dot(Q[k], b)
        for j in range(k + 1, count):
            total -= R[k, j] * z[j]
        z[k] = total / R[k, k]
    return True


@compiled()
def clear(mu: Array) -> None:
    """Set all entries to zero."""
    for k in range(mu.size):
        mu[k] = 0.0


@compiled()
def set_rest(Q: Array, count: int, b: Array, rest: Array) -> None:
    """Set ``rest`` to ``b`` less the projection on the first rows of ``Q``, twice, for orthogonality."""
    for j in range(rest.size):
        rest[j] = b[j]
    for _ in range(2):
        for k in range(count):
            part = np.dot(Q[k], rest)
            for j in range(rest.size):
                rest[j] -= part * Q[k, j]


@compiled()
def most_pulled(A: Array, mu: Array, lengths: Array, barred: Array, unit: float, rest: Array) -> int:
    """Return the row that enters next, or -1: the largest product of a unit row with ``rest``."""
    left, best, entering = np.sqrt(np.dot(rest, rest)), 0.0, -1
    for k in range(mu.size):
        if mu[k] > 0.0 or barred[k]:
            continue
        pull = np.dot(A[k], rest)
        if pull > CLOSE * lengths[k] * (left + unit) and pull > best * lengths[k]:
            best, entering = pull / lengths[k], k
    return entering


@compiled()
def multipliers(A: Array, b: Array, mu: Array, rest: Array) -> None:
    """Improve ``mu >= 0`` (c,) to the minimizer of ``||A' mu - b||``, and set ``rest`` to ``b - A' mu``.

    Starts at the positive multipliers. The rest is a projection, with rounding independent of the size of multipliers,
    large for nearly dependent rows.
    """
    n_rows, size = A.shape
    most = min(n_rows, size)
    Q, R, z = np.empty((most, size)), np.zeros((most, most)), np.empty(most)
    lengths, barred = np.empty(n_rows), np.zeros(n_rows, dtype=np.bool_)
    places, count = np.empty(n_rows + 1, dtype=np.int64), 0
    for k in range(n_rows):
        lengths[k] = np.sqrt(np.dot(A[k], A[k]))
        count += mu[k] > 0.0
    unit = np.sqrt(np.dot(b, b))
    if count > most:
        clear(mu)
    added = -1
    for _ in range(10 * n_rows + 10):
        while True:  # at most as often as there are positive multipliers
            count = 0
            for k in range(n_rows):
                if mu[k] > 0.0:
                    places[count] = k
                    count += 1
            if added >= 0:
                places[count] = added
                count += 1
            if count == 0:
                break
            chosen = places[:count]
            if chosen.size > most or not least_squares(A, b, chosen, Q, R, z):
                if added >= 0:  # it is a combination of the others
                    barred[added], added = True, -1
                    continue
                clear(mu)  # multipliers from elsewhere, which tell nothing here
                count = 0
                break
            if added >= 0 and z[chosen.size - 1] <= 0.0:
                barred[added], added = True, -1
                continue
            step, first = 1.0, -1
            for i in range(chosen.size):
                old = mu[chosen[i]]
                if z[i] <= 0.0 and (first < 0 or old < step * (old - z[i])):
                    step, first = (old / (old - z[i]) if old > z[i] else 0.0), i
            for i in range(chosen.size):
                k = chosen[i]
                mu[k] = max(mu[k] + step * (z[i] - mu[k]), 0.0)
            if added >= 0 and step > 0.0:
                for k in range(n_rows):
                    barred[k] = False
            added = -1
            if first < 0:
                break
            mu[chosen[first]] = 0.0
        set_rest(Q, count, b, rest)
        added = most_pulled(A, mu, lengths, barred, unit, rest)
        if added < 0:
            return


@compiled()
def project(G: Array, g: Array, mu: Array, out: Array) -> float:
    """Set ``out`` to the projection ``g + G'mu`` of ``g`` on the cone; return the length. ``mu`` is where to begin."""
    goal = np.empty(g.size)
    for j in range(g.size):
        goal[j] = -g[j]
    multipliers(G, goal, mu, out)
    for j in range(g.size):
        out[j] = -out[j]
    return np.sqrt(np.dot(out, out))


def polar_norm(G: Array | None, g: Array) -> float:
    """Return the largest product of ``g`` with a unit vector in the cone; without a cone the length of ``g``."""
    if G is None or not len(G):
        return float(np.linalg.norm(g))
    g, mu = np.ascontiguousarray(g, dtype=np.float64), np.zeros(len(G))
    project(G, g, mu, np.empty(g.size))
    return float(np.linalg.norm(g + mu @ G))  # a bound whatever the digits of the multipliers are


def active_inequalities(G: Array, v: Array) -> Array:
    """Return the active inequalities of ``v``, up to rounding."""
    return G[G @ v <= ON_FACE * float(np.linalg.norm(v))]


def face(G: Array, v: Array) -> Array:
    """Return an orthonormal basis (r, f) of the moves of ``v`` within the active inequalities."""
    rows = active_inequalities(G, v)
    return np.asarray(null_space(rows)) if len(rows) else np.eye(len(v))
