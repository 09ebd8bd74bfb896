"""Losses as minimizers read them, functions of all scores with curvature; those with kinks are smoothed.

    l_mu(y, z) = max over r in [lo, hi] of  r (y - z) - kink |r| - mu (r - c)^2 / 2

in place of ``l(y, z)``, the same without ``mu``. It is below the loss by at most ``mu`` times half the square of the
box. The slopes are dual variables of the true loss, so a certificate of the true loss contains the error. (Y. Nesterov,
Smooth minimization of non-smooth functions, Mathematical Programming 103, 2005.)

The center ``c`` is zero at first, later the dual variables found with the smoothing before: what smoothing adds falls
with ``mu |r - c|``, so a few rounds come to any gap with a smoothing that leaves many samples between the kinks, where
Newton's method needs few steps. This is the proximal point algorithm in the dual variables (R. T. Rockafellar,
Augmented Lagrangians and applications of the proximal point algorithm in convex programming, Mathematics of Operations
Research 1, 1976). With zero as the center, hinge of five classes that share weights, 40 kernels on 30,000 rows, came to
a smoothing of 2e-4 and took 69 steps; with these, 2e-2 and 26.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.objective.losses.curvature import Curvature, SampleCurvature
from manykernels.validation.arrays import Array

FLOOR = 0.1  # of the largest curvature, given to samples without any


class ScoreFunction(abc.ABC):
    """A convex function of the scores of all samples, (N,) or (N, T), for minimizers."""

    @abc.abstractmethod
    def value(self, z: Array) -> float:
        """Return the value."""

    @abc.abstractmethod
    def gradient(self, z: Array) -> Array:
        """Return the gradient, of the shape of the scores."""

    @abc.abstractmethod
    def curvature(self, z: Array) -> Curvature:
        """Return the second derivatives."""

    @abc.abstractmethod
    def curvature_bound(self, z: Array) -> Curvature:
        """Return a bounded diagonal curvature for steps from far away."""

    @abc.abstractmethod
    def conjugate_at(self, rho: Array, scale: float, z: Array) -> float:
        """Return the conjugate at ``-scale rho``, or an upper bound; ``-rho`` are slopes at the scores ``z``."""

    @property
    def outputs(self) -> Sequence[ScoreFunction]:
        """The functions of the scores of every output, for uncoupled outputs."""
        return (self,)

    def error(self, z: Array) -> float:
        """Return the contribution to the gap of the original loss: zero unless smoothed."""
        return 0.0


class Smoothed(ScoreFunction):
    """A sum over samples of a loss with kinks, smoothed by a positive ``mu``; of several outputs one of every (T,).

    ``center`` is of the shape of the scores.
    """

    def __init__(self, exact: Any, mu: float | Array, center: float | Array = 0.0) -> None:
        self.exact, self.mu, self.loss, self.center = exact, mu, exact.each, center
        self._weight = exact.entry_weight
        self._box = self.loss.dual_bounds(exact.y)
        # A center only moves targets: r (y - z) - mu (r - c)^2 / 2 = r (y + mu c - z) - mu r^2 / 2 - mu c^2 / 2.
        self._y = exact.y + mu * center if isinstance(center, np.ndarray) else exact.y

    def _best(self, z: Array) -> Array:
        """Return the ``r`` of the maximum."""
        slack = self._y - z
        pull = np.sign(slack) * np.maximum(np.abs(slack) - self.loss.kink, 0.0)
        return np.clip(pull / self.mu, *self._box)

    def value(self, z: Array) -> float:
        r = self._best(z)
        off = r - self.center
        return float(self.exact.total(r * (self.exact.y - z) - self.loss.kink * np.abs(r) - 0.5 * self.mu * off * off))

    def gradient(self, z: Array) -> Array:
        """Return ``-s r``."""
        return -self._weight * self._best(z)

    def curvature(self, z: Array) -> SampleCurvature:
        """Return ``s / mu`` between the kinks, zero elsewhere."""
        return SampleCurvature(self._weight * self._bends(z))

    def _bends(self, z: Array) -> Array:
        (lo, hi), r = self._box, self._best(z)
        return np.where((r > lo) & (r < hi) & (r != 0 if self.loss.kink else True), 1.0 / self.mu, 0.0)

    def curvature_bound(self, z: Array) -> SampleCurvature:
        """Return curvatures of chords across the kinks where the second derivative vanishes.

        A kink of height ``h`` at distance ``d`` is below a parabola of curvature ``h / (2 d)`` through the present
        value with the present slope, on either side.
        """
        lo, hi = self._box
        slack, kink = self._y - z, self.loss.kink
        above = hi / (2.0 * np.maximum(np.abs(slack - kink), self.mu * np.maximum(hi, 0.5)))
        below = -lo / (2.0 * np.maximum(np.abs(slack + kink), self.mu * np.maximum(-lo, 0.5)))
        return SampleCurvature(self._weight * np.maximum(self._bends(z), above + below))

    def conjugate_at(self, rho: Array, scale: float, z: Array) -> float:
        """Return the conjugate of the loss and ``mu`` times half the squares of the dual variables off the center."""
        squares = float(np.sum(self.mu * (scale * rho - self._weight * self.center) ** 2 / self._weight))
        return float(self.exact.conjugate_at(rho, scale, z)) + 0.5 * squares

    @cached_property
    def outputs(self) -> Sequence[Smoothed]:
        """The same of every output."""
        if self.exact.y.ndim == 1:
            return (self,)
        count = self.exact.y.shape[1]
        each = np.broadcast_to(self.mu, count).tolist()
        centers = np.ascontiguousarray(self.center.T) if isinstance(self.center, np.ndarray) else [self.center] * count
        return tuple(Smoothed(*own) for own in zip(self.exact.outputs, each, centers, strict=True))

    def error(self, z: Array) -> float:
        """Return what smoothing adds to the gap of the true loss: the value, less that of the smoothed dual variables.

        Only samples near a kink add anything, so the sum falls with the square of ``mu``.
        """
        y, r = self.exact.y, self._best(z)
        return float(self.exact.total(self.loss.value(y, z) - (r * (y - z) - self.loss.kink * np.abs(r))))


def check_smoothable(loss: Any) -> None:
    """Reject a loss neither smooth nor smoothable."""
    if not (loss.smooth or loss.piecewise_linear):
        raise IncompatibleError(
            f"The {loss.name} loss is not smooth, and its conjugate is not '-y r + kink |r|' on a box: "
            "the factored engine cannot smooth it. Use a smooth loss, or solve() with the other solvers."
        )


def center_at(exact: Any, slopes: Array) -> float | Array:
    """Return the dual variables of a bound loss at slopes as a center; zero where vectors stay on workers."""
    if not isinstance(slopes, np.ndarray):
        return 0.0
    weight = np.broadcast_to(exact.entry_weight, slopes.shape)
    r = np.divide(-slopes, weight, out=np.zeros_like(slopes), where=weight > 0)
    center: Array = np.clip(r, *exact.each.dual_bounds(exact.y))
    return center


def lifted(curvatures: Array) -> Array:
    """Return curvatures of single samples, none far below the largest."""
    return np.maximum(curvatures, FLOOR * float(curvatures.max()) if curvatures.any() else 1.0)


def smaller_smoothing(exact: Any, z: Array, mu: float | Array, goal: float) -> float | Array:
    """Return a smoothing of a bound loss, ``mu`` at most, whose error at the scores is at most ``goal``.

    With several outputs a value per output (T,), which share the goal equally, except slack of some. A nearly constant
    output has most of the samples near a kink, and thus most of the error: a common smoothing would leave the rest too
    narrow for steps. (Hinge of five classes with shared weights, 40 kernels on 30,000 rows, took 16 CPU seconds instead
    of 25.)
    """
    if len(exact.outputs) == 1 or not isinstance(z, np.ndarray):
        return _smaller(exact, z, float(np.min(mu)), goal)
    parts = list(zip(exact.outputs, z.T, strict=True))
    each = np.array(np.broadcast_to(mu, len(parts)), dtype=np.float64)
    errors = [own.smoothed(most).error(scores) for (own, scores), most in zip(parts, each.tolist(), strict=True)]
    for left, t in zip(range(len(parts), 0, -1), np.argsort(errors).tolist(), strict=True):
        own, scores = parts[t]
        each[t] = _smaller(own, scores, float(each[t]), goal / left)
        goal -= own.smoothed(float(each[t])).error(scores)
    return each


def _smaller(exact: Any, z: Array, mu: float, goal: float) -> float:
    """Return a smoothing of all scores alike."""
    smoothing_steps = 20  # in search of a smoothing of a given error
    for _ in range(smoothing_steps):
        error = exact.smoothed(mu).error(z)
        if error <= goal:
            break
        mu *= float(np.sqrt(0.9 * goal / error))  # the error falls with the square
    return mu
