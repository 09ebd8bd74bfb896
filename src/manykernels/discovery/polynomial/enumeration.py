"""The score of every distinct product of a degree: two factors at a time by one matrix product, prefixes in batches."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, factorial
from typing import Any

import numpy as np

from manykernels.discovery.polynomial.family import PolynomialFamily, multiplicity
from manykernels.discovery.polynomial.product_bases import Index, ProductBase
from manykernels.discovery.polynomial.score_sum import Deadline, ScoreSum
from manykernels.discovery.polynomial.tuning import BATCH, FEWEST, ONE_BY_ONE, PANEL
from manykernels.validation.arrays import Array


def enumerate_degree(family: PolynomialFamily, state: Array, degree: int, total: ScoreSum, deadline: Deadline) -> None:
    """Add the scores of all distinct products of a degree."""
    scale, base = family.scales[degree], family.base
    if degree == 0:
        _add(total, np.array([scale * base.mass(state, None)]), lambda at: [() for _ in at])
    elif degree == 1:
        _add(total, scale * base.masses(state, None), lambda at: [(int(j),) for j in at])
    elif degree == 2:
        _add_panels(family, (), state, total, deadline)
    elif degree == ONE_BY_ONE:
        for j in range(base.n_base):
            _add_panels(family, (j,), base.extend(state, j), total, deadline)
    else:
        for last in range(base.n_base):
            _add_batches(family, state, degree, last, total, deadline)


def _add(total: ScoreSum, scores: Array, indices: Any) -> None:
    total.add(scores)
    total.offer(scores, indices)


def _share(family: PolynomialFamily) -> float:
    """``(p - 1) / p``, the power of the multiplicity in ``w^{-2}``."""
    return 1.0 / family.conjugate_exponent


# --- one prefix -----------------------------------------------------------------------------------------------------


def _add_panels(family: PolynomialFamily, prefix: Index, partial: Array, total: ScoreSum, deadline: Deadline) -> None:
    """Add all products ``prefix + (j, k)`` with ``prefix[-1] <= j <= k``."""
    first = prefix[-1] if prefix else 0
    scale = family.scales[len(prefix) + 2]
    for top in range(first, family.base.n_base, PANEL):
        deadline.check()
        rows = slice(top, min(top + PANEL, family.base.n_base))
        scores = family.base.pair_masses(partial, rows, top)
        _weigh(scores, prefix, top, scale, _share(family))
        width = scores.shape[1]

        def indices(at: Array, top: int = top, width: int = width) -> list[Index]:
            return [(*prefix, top + int(i) // width, top + int(i) % width) for i in at]

        _add(total, scores, indices)


def _weigh(scores: Array, prefix: Index, top: int, scale: float, share: float) -> None:
    """Multiply masses of ``prefix + (j, k)``, j and k from ``top`` on, by ``scale c^share``; zero where ``j > k``."""
    n_rows, last = len(scores), top + scores.shape[1]
    apart = (last, last + 1)  # stand for two further indices

    def factor(*pair: int) -> float:
        return float(scale * multiplicity((*prefix, *pair)) ** share)

    square, diagonal = scores[:, :n_rows], np.arange(n_rows)
    square[np.tril_indices(n_rows, -1)] = 0.0
    twice = square[diagonal, diagonal] * factor(apart[0], apart[0])
    if prefix and prefix[-1] == top:
        corner = square[0, 0] * factor(top, top)
        scores[0] *= factor(top, apart[0]) / factor(*apart)
        twice[0] = corner
    scores *= factor(*apart)
    square[diagonal, diagonal] = twice


# --- prefixes in batches --------------------------------------------------------------------------------------------


def batches(base: ProductBase, state: Array, length: int, last: int) -> Iterator[tuple[Array, Array]]:
    """Yield all non-decreasing multi-indices of a length whose largest index is at most ``last``, with their states."""
    if length == 0 or comb(last + length, length) <= largest_batch(base):
        yield _table(base, state, length, last)
        return
    for j in range(last + 1):
        for indices, states in batches(base, state, length - 1, j):
            yield _with_last(indices, j), base.extend(states, j)


def largest_batch(base: ProductBase) -> int:
    """Return how many states are held at a time."""
    return max(FEWEST, BATCH // base.state_size)


def _table(base: ProductBase, state: Array, length: int, last: int) -> tuple[Array, Array]:
    """Return what one batch yields, sorted by the largest index: those that may be extended by j come first."""
    indices, states = np.zeros((1, 0), dtype=int), state[np.newaxis]
    for level in range(length):
        counts = [comb(j + level, level) for j in range(last + 1)]
        indices = np.concatenate([_with_last(indices[:count], j) for j, count in enumerate(counts)])
        states = np.concatenate([base.extend(states[:count], j) for j, count in enumerate(counts)])
    return indices, states


def _with_last(indices: Array, j: int) -> Array:
    return np.column_stack([indices, np.full(len(indices), j)])


def repeats(indices: Array) -> tuple[Array, Array]:
    """Return ``prod_j (count of j)!`` of sorted multi-indices, and how often each ends with the same index."""
    product, run = np.ones(len(indices), dtype=int), np.ones(len(indices), dtype=int)
    for at in range(1, indices.shape[1]):
        run = np.where(indices[:, at] == indices[:, at - 1], run + 1, 1)
        product *= run
    return product, run


def _add_batches(
    family: PolynomialFamily, state: Array, degree: int, last: int, total: ScoreSum, deadline: Deadline
) -> None:
    """Add all products ``prefix + (j, k)`` with ``prefix[-1] = last <= j <= k``."""
    base = family.base
    rows, cols = (last + at for at in np.triu_indices(base.n_base - last))
    for shorter, states in batches(base, state, degree - 3, last):
        prefixes, states = _with_last(shorter, last), base.extend(states, last)
        width = max(FEWEST, BATCH // max(len(states), base.state_size))
        for at in range(0, len(rows), width):
            deadline.check()
            pairs = rows[at : at + width], cols[at : at + width]
            scores = base.tail_masses(states, *pairs)
            _weigh_batch(family, scores, prefixes, *pairs)
            _add(total, scores, lambda found, prefixes=prefixes, pairs=pairs: _named(found, prefixes, *pairs))


def _weigh_batch(family: PolynomialFamily, scores: Array, prefixes: Array, rows: Array, cols: Array) -> None:
    """Multiply masses of ``prefix + (j, k)`` by ``rho_d^{-2} c^share``."""
    degree, share = prefixes.shape[1] + 2, _share(family)
    denominators, run = (values[:, np.newaxis] for values in repeats(prefixes))
    scores *= family.scales[degree] * (factorial(degree) / denominators) ** share
    last = prefixes[0, -1]
    touching = int(np.count_nonzero(rows == last))  # rows are sorted: these come first
    scores[:, :touching] *= (1.0 / (run + 1)) ** share
    if touching and cols[0] == last:
        scores[:, :1] *= (1.0 / (run + 2)) ** share
    scores[:, np.flatnonzero((rows == cols) & (rows > last))] *= 0.5**share


def _named(found: Array, prefixes: Array, rows: Array, cols: Array) -> list[Index]:
    which, pair = np.divmod(found, len(rows))
    whole = np.column_stack([prefixes[which], rows[pair], cols[pair]])
    return [tuple(index) for index in whole.tolist()]
