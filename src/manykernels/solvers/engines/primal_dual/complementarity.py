"""Products of slacks and multipliers, which a primal-dual iteration drives to its barrier parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array


def longest_step(value: Array, change: Array) -> float:
    """Largest step in [0, 1] that keeps ``value + step * change`` non-negative."""
    shrinking = change < 0
    if not shrinking.any():
        return 1.0
    return float(min(1.0, (-value[shrinking] / change[shrinking]).min()))


def lift(slack: Array, multiplier: Array, barrier: float, unit: Array | float = 1.0) -> tuple[Array, Array]:
    """Raise products of ``slack`` and ``multiplier`` to at least ``barrier`` by raising the smaller factor first.

    This moves a converged point back toward the central path. ``unit`` is the natural size of a slack; multipliers
    then have size ``1/unit``.
    """
    low = slack * multiplier < barrier
    root = np.sqrt(barrier)
    first = low & (slack / unit < unit * multiplier)  # the square of a unit may overflow
    second = low & ~first
    larger_multiplier = np.where(first, np.maximum(multiplier, root / unit), multiplier)
    larger_slack = np.where(second, np.maximum(slack, root * unit), slack)
    return np.where(first, barrier / larger_multiplier, larger_slack), np.where(
        second, barrier / larger_slack, larger_multiplier
    )
