"""Rows that stand for all in a sum of curvatures: those that bend most for certain, the others by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CERTAIN_ROUNDS = 3


def sampled_rows(bends: Array, rows: int) -> tuple[Array, Array]:
    """Return about ``rows`` rows with weights whose sums are those of ``bends`` on average; the same every time."""
    bent = np.flatnonzero(bends)
    if len(bent) <= rows:
        return bent, bends[bent]
    chances = rows * bends / float(bends.sum())
    for _ in range(CERTAIN_ROUNDS):
        certain = chances >= 1.0
        left, rest = rows - int(certain.sum()), float(bends[~certain].sum())
        if left <= 0 or rest <= 0:
            break
        chances = np.where(certain, 1.0, left * bends / rest)
    chances = np.minimum(chances, 1.0)
    chosen = np.flatnonzero(np.random.default_rng(rows).random(len(bends)) < chances)
    return chosen, bends[chosen] / chances[chosen]
