"""The score of every distinct product of a degree: two columns at a time by one matrix product, prefixes in batches."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, factorial, prod
from typing import Any

import numpy as np

from manykernels.discovery.polynomial.descent import BATCH, FEWEST, ONE_BY_ONE, PANEL
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.product_bases import Index, Parts, ProductBase
from manykernels.discovery.polynomial.score_sum import Deadline, ScoreSum
from manykernels.validation.arrays import Array

BELOW = np.tri(PANEL, dtype=bool)  # pairs that come again in the other order, or twice the same base kernel


def enumerate_degree(family: PolynomialFamily, state: Array, degree: int, total: ScoreSum, deadline: Deadline) -> None:
    """Add the scores of all distinct products of a degree.

    They are listed by the levels of their base kernels, which are of ascending position: products of the same levels
    have the same number of permutations.
    """
    base = family.base
    if degree == 0:
        _add(total, np.array([family.scales[0] * base.mass(state, None)]), lambda at: [() for _ in at])
    for levels in compositions(degree):
        scale = family.scales[degree] * multiplicity_of(levels) ** (1.0 / family.conjugate_exponent)
        if len(levels) == 1:
            _add(total, scale * base.masses(state, None, levels), lambda at, d=degree: [(int(j),) * d for j in at])
        elif len(levels) == 2:
            _add_panels(base, (), state, levels, scale, total, deadline)
        elif len(levels) == ONE_BY_ONE:
            for j in range(base.n_base - 2):
                extended = base.extend(state, j, levels[0])
                _add_panels(base, (j,) * levels[0], extended, levels[1:], scale, total, deadline)
        else:
            for last in range(len(levels) - 3, base.n_base - 2):
                _add_batches(base, state, levels, last, scale, total, deadline)


def compositions(degree: int) -> Iterator[Parts]:
    """Yield all ways to write a degree as an ordered sum of levels."""
    for first in range(degree, 0, -1):
        for rest in compositions(degree - first) if first < degree else [()]:
            yield (first, *rest)


def multiplicity_of(levels: Parts) -> int:
    """Return how many ordered multi-indices have a product of these levels."""
    return factorial(sum(levels)) // prod(factorial(level) for level in levels)


def _add(total: ScoreSum, scores: Array, indices: Any) -> None:
    if total.add(scores) > total.threshold:
        total.offer(scores, indices)


# --- one prefix -----------------------------------------------------------------------------------------------------


def _add_panels(
    base: ProductBase, prefix: Index, state: Array, levels: Parts, scale: float, total: ScoreSum, deadline: Deadline
) -> None:
    """Add all products of a prefix with two more base kernels ``j < k`` beyond it, at two levels."""
    a, b = levels
    for top in range(prefix[-1] + 1 if prefix else 0, base.n_base - 1, PANEL):
        deadline.check()
        scores = base.pair_masses(state, slice(top, min(top + PANEL, base.n_base)), top, (a, b))
        if scale != 1:
            scores *= scale
        n_rows, width = scores.shape
        scores[:, :n_rows][BELOW[:n_rows, :n_rows]] = 0.0

        def indices(at: Array, top: int = top, width: int = width) -> list[Index]:
            return [prefix + (top + int(i) // width,) * a + (top + int(i) % width,) * b for i in at]

        _add(total, scores, indices)


# --- prefixes in batches --------------------------------------------------------------------------------------------


def batches(base: ProductBase, state: Array, levels: Parts, last: int) -> Iterator[tuple[Array, Array]]:
    """Yield all ascending positions up to ``last``, as many as there are levels, with their states at these levels."""
    length = len(levels)
    if length == 0 or comb(last + 1, length) <= largest_batch(base):
        yield _table(base, state, levels, last)
        return
    for j in range(length - 1, last + 1):
        for columns, states in batches(base, state, levels[:-1], j - 1):
            yield _with_last(columns, j), base.extend(states, j, levels[-1])


def largest_batch(base: ProductBase) -> int:
    """Return how many states are held at a time."""
    return max(FEWEST, BATCH // base.state_size)


def _table(base: ProductBase, state: Array, levels: Parts, last: int) -> tuple[Array, Array]:
    """Return what one batch yields, sorted by the largest position: those that may be extended by j come first."""
    columns, states = np.zeros((1, 0), dtype=int), state[np.newaxis]
    for length, level in enumerate(levels):
        counts = [comb(j, length) for j in range(last + 1)]
        columns = np.concatenate([_with_last(columns[:count], j) for j, count in enumerate(counts)])
        states = np.concatenate([base.extend(states[:count], j, level) for j, count in enumerate(counts)])
    return columns, states


def _with_last(columns: Array, j: int) -> Array:
    return np.column_stack([columns, np.full(len(columns), j)])


def _add_batches(
    base: ProductBase, state: Array, levels: Parts, last: int, scale: float, total: ScoreSum, deadline: Deadline
) -> None:
    """Add all products whose last but two base kernel is ``last``, with two more beyond it."""
    a, b = levels[-2:]
    rows, cols = (last + 1 + at for at in np.triu_indices(base.n_base - last - 1, 1))
    for shorter, states in batches(base, state, levels[:-3], last - 1):
        prefixes, extended = _with_last(shorter, last), base.extend(states, last, levels[-3])
        width = max(FEWEST, BATCH // max(len(extended), base.state_size))
        for at in range(0, len(rows), width):
            deadline.check()
            pairs = rows[at : at + width], cols[at : at + width]
            scores = scale * base.tail_masses(extended, *pairs, (a, b))
            _add(total, scores, lambda found, prefixes=prefixes, pairs=pairs: _named(found, prefixes, pairs, levels))


def _named(found: Array, prefixes: Array, pairs: tuple[Array, Array], levels: Parts) -> list[Index]:
    which, pair = np.divmod(found, len(pairs[0]))
    columns = np.column_stack([prefixes[which], pairs[0][pair], pairs[1][pair]])
    return [tuple(index) for index in np.repeat(columns, levels, axis=1).tolist()]
