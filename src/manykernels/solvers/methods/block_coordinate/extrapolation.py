"""Anderson extrapolation of a fixed point iteration on non-negative weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.methods.block_coordinate.tuning import (
    AFTER_FAILURE,
    DISTRUST,
    FARTHEST,
    GROWING,
    LARGEST_POWER,
    MEMORY,
    NOTICED,
    RECOVERY,
    SHARE_OF_GAP,
)

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array

TINY = 1e-300


class Extrapolation:
    """Extrapolate ``weights -> mapped`` from its last few evaluations.

    Works on square roots of the weights: weights that vanish at the solution then do so at a linear rate, which the
    extrapolation recognizes, while on logarithms they would run off to minus infinity. Coordinates count by their
    importance for the objective, relative to their size. (Type II of Anderson's method.)

    References
    ----------
    H. Walker, P. Ni, "Anderson acceleration for fixed-point iterations", SIAM J. Numer. Anal. 49 (2011).
    """

    def __init__(self) -> None:
        self._roots: list[Array] = []
        self._changes: list[Array] = []
        self._trust = 1.0
        self._power = 1.0

    def record(self, weights: Array, mapped: Array) -> None:
        """Remember one evaluation of the iteration, which did not make things worse."""
        self._trust = min(1.0, RECOVERY * self._trust)
        roots = np.sqrt(weights)
        self._roots = [*self._roots, roots][-MEMORY:]
        self._changes = [*self._changes, np.sqrt(mapped) - roots][-MEMORY:]

    def failed(self) -> None:
        """Forget old evaluations, which did not help, and go less far the next time."""
        self._trust *= DISTRUST / RECOVERY
        self._power = 1.0
        self._roots, self._changes = self._roots[-AFTER_FAILURE:], self._changes[-AFTER_FAILURE:]

    def stretched(self) -> Array:
        """Return weights changed by a power of the factor by which the iteration changes them; squared with each call.

        The direction is that of the iteration itself, which crawls where the factor is close to one.
        """
        self._power = min(2.0 * self._power, LARGEST_POWER)
        roots, change = self._roots[-1], self._changes[-1]
        factor = np.divide(roots + change, roots, out=np.ones(roots.size), where=roots > 0)
        return np.asarray(roots**2 * np.clip(factor ** (2.0 * self._power), 1.0 / FARTHEST, FARTHEST))

    def proposal(self, importance: Array, gap: float = 0.0) -> Array | None:
        """Return extrapolated weights, or None with fewer than two evaluations."""
        if len(self._roots) < 2:
            return None
        roots, change = self._roots[-1], self._changes[-1]
        scale = np.divide(np.sqrt(importance), roots, out=np.zeros(roots.size), where=roots > 0)
        root_steps, change_steps = np.diff(self._roots, axis=0).T, np.diff(self._changes, axis=0).T
        size = float(np.abs(scale * change).max())
        if size == 0:
            return None
        system, right = scale[:, None] * change_steps / size, scale * change / size
        mix = np.linalg.lstsq(system, right, rcond=1e-10)[0]
        mapped = roots + change
        extrapolated = np.maximum(mapped - (root_steps + change_steps) @ mix, 0.0)
        extrapolated = np.where(change > 0, np.maximum(extrapolated, roots), extrapolated)
        proposal = np.clip(extrapolated**2, mapped**2 / FARTHEST, mapped**2 * FARTHEST)
        proposal = np.maximum(proposal, self._revived(importance, gap))
        # Between what the iteration itself says and the proposal, on a logarithmic scale.
        return np.where(proposal > 0, mapped**2 * (proposal / np.maximum(mapped**2, TINY)) ** self._trust, 0.0)

    def _revived(self, importance: Array, gap: float) -> Array:
        """Return weights worth noticing for those that grow from next to nothing, 0 for all others."""
        roots, change = self._roots[-1], self._changes[-1]
        noticed = max(NOTICED * float(importance.sum()), SHARE_OF_GAP * gap)
        growing = (change > GROWING * roots) & (importance < noticed) & (importance > 0)
        return np.where(growing, roots**2 * noticed / np.where(growing, importance, 1.0), 0.0)
