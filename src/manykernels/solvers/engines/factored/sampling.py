"""Rows that stand for all in a sum of curvatures: those that bend most for certain, the others by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.rows import RowVector, on_rows, sums

Array = NDArray[Any]

CERTAIN_ROUNDS = 3


def sampled_rows(bends: Array, rows: int) -> tuple[Array, Array]:
    """Return about ``rows`` rows with weights whose sums are those of ``bends`` on average; the same every time."""
    weights = sampled_weights(bends, rows)
    chosen = np.flatnonzero(weights)
    return chosen, weights[chosen]


def sampled_weights(bends: Any, rows: int) -> Any:
    """Return these weights of all rows, here or beside the rows; zero for those not chosen."""
    bent, total = sums(bends > 0, bends)
    if bent <= rows:
        return bends
    factor = rows / total
    for _ in range(CERTAIN_ROUNDS):
        certain = factor * bends >= 1.0
        count, rest = sums(certain, bends[~certain])
        if not 0 < count < rows:
            break
        factor = (rows - count) / rest
    return on_rows(_drawn, bends, bends.starts() if isinstance(bends, RowVector) else 0, rows, factor)


def _drawn(bends: Array, start: int, seed: int, factor: float) -> Array:
    """Return the weights of rows from ``start`` on, each chosen with a chance in proportion to what it bends."""
    generator = np.random.default_rng(seed)
    generator.bit_generator.advance(start)  # type: ignore[attr-defined]  # one number a row before these
    chances = np.minimum(factor * bends, 1.0)
    chosen = generator.random(len(bends)) < chances
    return np.divide(bends, chances, out=np.zeros(len(bends)), where=chosen)
