"""Upper bounds on functions of one parameter that are known at points, with their slopes, and not too steep between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.validation.arrays import Array

MOST_EVALUATIONS = 4000  # of a bound on a family of one parameter


@dataclass(frozen=True, eq=False)
class Profile:
    """What is known of a function at the points of a grid.

    Attributes
    ----------
    values, slopes : ndarray of shape (n_points,)
    steep : ndarray of shape (n_points,)
        Bounds on the fourth derivative from each point on.
    rounding : float
        By which values may be wrong.
    """

    values: Array
    slopes: Array
    steep: Array
    rounding: float

    def joined(self, other: Profile) -> Profile:
        """Return the profile with the points of another one behind."""
        return Profile(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.slopes, other.slopes]),
            np.concatenate([self.steep, other.steep]),
            self.rounding,
        )

    def coefficients(self, left: Array, right: Array, width: Array) -> tuple[Array, Array]:
        """Return the Bernstein coefficients (4, n_cells) of the cubic in every cell, and how far off it may be."""
        inner = self.values[left] + self.slopes[left] * width / 3, self.values[right] - self.slopes[right] * width / 3
        cubic = np.stack([self.values[left], *inner, self.values[right]])
        return cubic, self.steep[left] * width**4 / 384 + self.rounding


def bounded_maximum(profile: Any, grid: Array, fourth: float, best: float, slack: float) -> float:
    """Return an upper bound on the maximum of a function whose fourth derivative is bounded.

    Between two points the function is below the cubic through values and slopes plus ``h^4 / 384`` times the bound on
    its fourth derivative (the error of Hermite interpolation), and a cubic is below its Bernstein coefficients. Cells
    whose bound is above the best value by more than ``slack`` are halved.
    """
    values, slopes = profile(grid)
    used, best = len(grid), max(best, float(values.max()))
    left, right = np.arange(len(grid) - 1), np.arange(1, len(grid))
    settled = best
    while True:
        width = grid[right] - grid[left]
        tops = np.maximum(values[left], values[right])
        tops = np.maximum(tops, values[left] + slopes[left] * width / 3)
        tops = np.maximum(tops, values[right] - slopes[right] * width / 3) + fourth * width**4 / 384
        # Rounding of the values themselves is not something that a finer grid could remove.
        unsure = tops > best + slack
        settled = max(settled, float(np.max(tops[~unsure], initial=settled)))
        if not unsure.any() or used + int(unsure.sum()) > MOST_EVALUATIONS:
            return max(settled, float(np.max(tops[unsure], initial=settled)))
        left, right = left[unsure], right[unsure]
        middle = (grid[left] + grid[right]) / 2
        new = np.arange(len(grid), len(grid) + len(middle))
        grid = np.concatenate([grid, middle])
        more = profile(middle)
        values, slopes = np.concatenate([values, more[0]]), np.concatenate([slopes, more[1]])
        used, best = used + len(middle), max(best, float(more[0].max()))
        left, right = np.concatenate([left, new]), np.concatenate([new, right])


def bounded_ratio(
    upper: Callable[[Array], Profile], lower: Callable[[Array], Profile], grid: Array, tol: float
) -> float:
    """Return an upper bound on the largest ratio of two functions, the lower one non-negative; infinite without one.

    Between two points a function is its cubic through values and slopes, give or take ``h^4 / 384`` times the bound on
    its fourth derivative, and a ratio of cubics is at most the largest ratio of their Bernstein coefficients, if those
    below are positive. Cells whose bound is above the best ratio known by more than ``tol``, relative, are halved.
    """
    above, below, used = upper(grid), lower(grid), len(grid)
    left, right, settled = np.arange(len(grid) - 1), np.arange(1, len(grid)), -np.inf
    while True:
        best = _best_ratio(above, below)
        tops = _cell_ratios(above, below, grid, left, right)
        unsure = tops > best + tol * abs(best)
        settled = max(settled, float(np.max(tops[~unsure], initial=-np.inf)))
        if not unsure.any() or used + int(unsure.sum()) > MOST_EVALUATIONS:
            return max(settled, best, float(np.max(tops[unsure], initial=-np.inf)))
        left, right = left[unsure], right[unsure]
        middle = (grid[left] + grid[right]) / 2
        new = np.arange(len(grid), len(grid) + len(middle))
        grid, used = np.concatenate([grid, middle]), used + len(middle)
        above, below = above.joined(upper(middle)), below.joined(lower(middle))
        left, right = np.concatenate([left, new]), np.concatenate([new, right])


def _best_ratio(above: Profile, below: Profile) -> float:
    """Return the largest ratio at a point where the lower function is positive beyond rounding."""
    known = below.values > below.rounding
    return float(np.max(above.values[known] / below.values[known], initial=-np.inf))


def _cell_ratios(above: Profile, below: Profile, grid: Array, left: Array, right: Array) -> Array:
    """Return a bound on the ratio in every cell."""
    width = grid[right] - grid[left]
    (tops, over), (bottoms, under) = (part.coefficients(left, right, width) for part in (above, below))
    tops, bottoms = tops + over, bottoms - under
    ratios = np.divide(tops, bottoms, out=np.full_like(tops, np.inf), where=bottoms > 0)
    largest: Array = ratios.max(axis=0)
    return largest
