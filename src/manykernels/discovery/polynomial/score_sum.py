"""The sum over a polynomial family behind its dual norm, the largest summands, and the time that it may take."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from manykernels.discovery.polynomial.descent import NEGLIGIBLE
from manykernels.discovery.polynomial.product_bases import Index
from manykernels.solvers.run import OutOfTimeError
from manykernels.validation.arrays import Array


class Deadline:
    """When the time of a norm is over."""

    def __init__(self, seconds: float | None = None) -> None:
        self._deadline = np.inf if seconds is None else time.perf_counter() + seconds

    @property
    def left(self) -> float:
        """Seconds left, not negative."""
        return max(0.0, self._deadline - time.perf_counter()) if np.isfinite(self._deadline) else np.inf

    def check(self) -> None:
        """Raise OutOfTimeError if no time is left."""
        if self.left == 0:
            raise OutOfTimeError


class ScoreSum:
    """The sum of q-th powers, kept relative to the largest score, and the largest scores with their kernels.

    Only scores above ``threshold`` can be among the largest.
    """

    def __init__(self, q: float, n_largest: int, n_scores: int) -> None:
        self._q, self._wanted = q, n_largest
        self._least = (NEGLIGIBLE / max(n_scores, 1)) ** (1.0 / q)
        self._top, self._sum = 0.0, 0.0
        self._scores = np.zeros(0)
        self._indices: list[Index] = []
        self.threshold = 0.0

    @property
    def norm(self) -> float:
        """``(sum score^q)^{1/q}``."""
        if self._top == 0 or np.isinf(self._q):
            return self._top
        return self._top * float(self._sum) ** (1.0 / self._q)

    @property
    def so_far(self) -> tuple[float, float]:
        """What has been added so far; give it to ``restore`` to undo later additions."""
        return self._top, self._sum

    def restore(self, total: tuple[float, float]) -> None:
        """Undo additions; largest are kept, for they are scores of the family all the same."""
        self._top, self._sum = total

    def add(self, scores: Array) -> float:
        """Add scores of distinct kernels, and return the largest of them."""
        top = float(scores.max(initial=0.0))
        if top > self._top:
            self._sum *= 0.0 if self._top == 0 or np.isinf(self._q) else (self._top / top) ** self._q
            self._top = top
        if self._top > 0 and not np.isinf(self._q):
            self._sum += self._powers(scores.ravel())
        return top

    def _powers(self, scores: Array) -> float:
        if self._q == 2:
            shares = scores / self._top
            return float(shares @ shares)
        return float(np.sum((scores[scores > self._least * self._top] / self._top) ** self._q))

    def add_sum(self, squares: float) -> None:
        """Add a sum of squares, for q = 2."""
        self.add(np.array([np.sqrt(max(squares, 0.0))]))

    def offer(self, scores: Array, indices: Any) -> None:
        """Keep those of the scores that are among the largest; ``indices(positions)`` names them."""
        if not self._wanted:
            return
        flat = scores.ravel()
        better = np.flatnonzero(flat > self.threshold)
        if len(better) > self._wanted:
            better = better[np.argpartition(flat[better], -self._wanted)[-self._wanted :]]
        self._scores = np.concatenate([self._scores, flat[better]])
        self._indices.extend(indices(better))
        if len(self._scores) > 4 * self._wanted:
            self._shrink()

    def _shrink(self) -> None:
        kept = np.argsort(-self._scores, kind="stable")[: self._wanted]
        self._scores, self._indices = self._scores[kept], [self._indices[i] for i in kept]
        if 0 < self._wanted == len(kept):
            self.threshold = float(self._scores[-1])

    def largest(self) -> tuple[tuple[Index, ...], Array]:
        """Return the kernels of the largest scores with their scores, the largest first."""
        self._shrink()
        return tuple(self._indices), self._scores
