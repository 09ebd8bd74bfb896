"""The inner search: the best member of a family for pair weights, with an upper bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize

from manykernels.discovery.families.base import KernelFamily, PairWeights
from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_count, check_nonnegative, check_points
from manykernels.validation.parameters import check_instance

# Upper bounds on functions of one parameter that are known at points, with their slopes, and not too steep between.


MOST_EVALUATIONS = 4000  # of a bound on a family of one parameter


@dataclass(frozen=True, eq=False)
class Profile:
    """Values of a function at the points of a grid."""

    values: Array  # ndarray of shape (n_points,)
    slopes: Array  # ndarray of shape (n_points,)
    steep: Array  # ndarray of shape (n_points,): bounds on the fourth derivative from each point on
    rounding: float  # by which values may be wrong

    def join(self, other: Profile) -> Profile:
        """Return the profile extended by the points of another."""
        return Profile(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.slopes, other.slopes]),
            np.concatenate([self.steep, other.steep]),
            self.rounding,
        )

    def coefficients(self, left: Array, right: Array, width: Array) -> tuple[Array, Array]:
        """Return the Bernstein coefficients (4, n_cells) of the cubic in every cell, and the error bound."""
        inner = self.values[left] + self.slopes[left] * width / 3, self.values[right] - self.slopes[right] * width / 3
        cubic = np.stack([self.values[left], *inner, self.values[right]])
        return cubic, self.steep[left] * width**4 / 384 + self.rounding


def bounded_maximum(profile: Callable[[Array], Profile], grid: Array, best: float, slack: float) -> float:
    """Return an upper bound on the maximum of a function whose fourth derivative is bounded.

    Between two points the function is below the cubic through values and slopes plus ``h^4 / 384`` times the bound on
    the fourth derivative (the error of Hermite interpolation), and a cubic is below the Bernstein coefficients. Cells
    whose bound is above the best value, or what is known as ``best``, by more than ``slack`` are halved.
    """

    def tops(known: list[Profile], left: Array, right: Array, width: Array) -> Array:
        cubic, over = known[0].coefficients(left, right, width)
        highest: Array = cubic.max(axis=0) + over
        return highest

    return _bounded([profile], grid, tops, lambda known: max(best, float(known[0].values.max())), lambda _: slack)


def bounded_ratio(
    upper: Callable[[Array], Profile], lower: Callable[[Array], Profile], grid: Array, tol: float
) -> float:
    """Return an upper bound on the largest ratio of two functions, the lower one non-negative; infinite without one.

    Between two points a function is the cubic through values and slopes, give or take ``h^4 / 384`` times the bound on
    the fourth derivative, and a ratio of cubics is at most the largest ratio of their Bernstein coefficients, if those
    below are positive. Cells whose bound is above the best ratio known by more than ``tol``, relative, are halved.
    """
    return _bounded([upper, lower], grid, _cell_ratios, _best_ratio, lambda best: tol * abs(best))


def _bounded(
    profiles: Sequence[Callable[[Array], Profile]],
    grid: Array,
    tops_of: Callable[[list[Profile], Array, Array, Array], Array],
    best_of: Callable[[list[Profile]], float],
    allowed: Callable[[float], float],
) -> float:
    """Halve the cells of a grid until no bound is above the best value by more than is allowed, or all is spent."""
    known, used = [profile(grid) for profile in profiles], len(grid)
    left, right, settled = np.arange(len(grid) - 1), np.arange(1, len(grid)), -np.inf
    while True:  # at most MOST_EVALUATIONS
        best = best_of(known)
        tops = tops_of(known, left, right, grid[right] - grid[left])
        unsure = tops > best + allowed(best)
        settled = max(settled, float(np.max(tops[~unsure], initial=-np.inf)))
        if not unsure.any() or used + int(unsure.sum()) > MOST_EVALUATIONS:
            return max(settled, best, float(np.max(tops[unsure], initial=-np.inf)))
        left, right = left[unsure], right[unsure]
        middle = (grid[left] + grid[right]) / 2
        new = np.arange(len(grid), len(grid) + len(middle))
        grid, used = np.concatenate([grid, middle]), used + len(middle)
        known = [seen.join(profile(middle)) for seen, profile in zip(known, profiles, strict=True)]
        left, right = np.concatenate([left, new]), np.concatenate([new, right])


def _best_ratio(known: list[Profile]) -> float:
    """Return the largest ratio at a point where the lower function is positive beyond rounding."""
    above, below = known
    sure = below.values > below.rounding
    return float(np.max(above.values[sure] / below.values[sure], initial=-np.inf))


def _cell_ratios(known: list[Profile], left: Array, right: Array, width: Array) -> Array:
    """Return a bound on the ratio in every cell."""
    (tops, over), (bottoms, under) = (part.coefficients(left, right, width) for part in known)
    tops, bottoms = tops + over, bottoms - under
    ratios = np.divide(tops, bottoms, out=np.full_like(tops, np.inf), where=bottoms > 0)
    largest: Array = ratios.max(axis=0)
    return largest


ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a sum of products, relative to that of their sizes
DIGITS = 6  # of the parameters found: those that labels show, so that different kernels have different names


@dataclass(frozen=True)
class SearchSettings:
    """How members of a family are searched for.

    Parameters
    ----------
    n_starts : int, default=5
        Most points from which L-BFGS-B climbs.
    shrinkage : float, default=0.0
        ``lambda`` of (6.2): the objective loses ``lambda sum_j (p_j - mean p)^2``.
    max_steps : int or None, default=None
        Most iterations of a climb in several parameters, to the end by default. Climbs start from equal parameters: few
        steps keep them near each other, as shrinkage does.
    proof : int, default=0
        Most evaluations for a bound that holds for all widths, one a feature (one stage, :func:`discover_greedily`);
        0 makes none, and the certificate then is relative to the best member found.

    Examples
    --------
    >>> SearchSettings(n_starts=3)
    SearchSettings(n_starts=3, shrinkage=0.0, max_steps=None, proof=0)
    """

    n_starts: int = 5
    shrinkage: float = 0.0
    max_steps: int | None = None
    proof: int = 0

    def __post_init__(self) -> None:
        check_count(self.n_starts, "n_starts")
        check_nonnegative(self.shrinkage, "shrinkage")
        check_count(1 if self.max_steps is None else self.max_steps, "max_steps")
        check_count(self.proof, "proof", least=0)


def check_settings(settings: SearchSettings | None) -> SearchSettings:
    """Return ``settings``, or the default for None."""
    chosen = SearchSettings() if settings is None else settings
    return check_instance(chosen, SearchSettings, "settings", "SearchSettings(n_starts=5)")


@dataclass(frozen=True, eq=False)
class BestMember:
    """The best member found.

    Attributes
    ----------
    parameter : ndarray of shape (n_parameters,)
    value : float
        ``<A, K_p>`` there, without shrinkage.
    """

    parameter: Array
    value: float


@dataclass(frozen=True, eq=False)
class FamilySearch:
    """A family on the points of a training set; a member's ``parameter`` has shape (n_parameters,).

    Parameters
    ----------
    family : KernelFamily
    points : ndarray of shape (n_samples, n_columns)
    settings : SearchSettings

    Raises
    ------
    InvalidInputError
        If one of them is something else, or members of a finite family do not fit the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import FamilySearch, GaussianFamily, PairWeights
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> search = FamilySearch(GaussianFamily(0.01, 10.0), x)
    >>> best = search.maximize(PairWeights.rank_one(np.sin(6.0 * x[:, 0])))
    >>> 0.1 < best.parameter[0] < 0.4
    np.True_
    """

    family: KernelFamily
    points: Array
    settings: SearchSettings = SearchSettings()
    prepared: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_instance(self.family, KernelFamily, "family", "GaussianFamily(0.1, 10.0)")  # type: ignore[type-abstract]  # any of them
        check_settings(self.settings)
        object.__setattr__(self, "points", check_points(self.points))
        wrong = next((member for member in self.family.members or () if len(member) != self.n_parameters), None)
        if wrong is not None:
            raise InvalidInputError(
                f"On these columns a member of {self.family!r} has {self.n_parameters} parameter(s), but {wrong!r} has "
                f"{len(wrong)}."
            )
        object.__setattr__(self, "prepared", self.family.prepare(self.points))

    @property
    def n_parameters(self) -> int:
        """Number of parameters of a member."""
        return self.family.n_parameters(self.points.shape[1])

    def gram(self, parameter: Array) -> Array:
        """Return the Gram matrix (n_samples, n_samples) of a member."""
        return self.family.gram(self.prepared, parameter)

    def objective(self, coordinate: Array, pairs: PairWeights) -> tuple[float, Array]:
        """Return what the search maximizes, and the gradient, in the search coordinates (n_parameters,).

        Returns
        -------
        value : float
            ``<A, K_p> - shrinkage sum_j (p_j - mean p)^2``.
        gradient : ndarray of shape (n_parameters,)
        """
        parameter = self.family.parameter(coordinate)
        value, gradient = self.family.inner(self.prepared, parameter, pairs)
        spread = parameter - parameter.mean()
        value -= self.settings.shrinkage * float(spread @ spread)
        gradient = gradient - 2.0 * self.settings.shrinkage * spread
        return value, gradient * self.family.scale(parameter)

    def maximize(
        self, pairs: PairWeights, *, near: Sequence[Array] = (), rng: np.random.Generator | None = None
    ) -> BestMember:
        """Return the best member found for pair weights.

        One parameter: the highest local maxima of a grid, every climbed by L-BFGS-B between the neighbors. Several:
        from equal parameters (the best of the one-parameter grid along the diagonal), from ``near``, and from random
        points.

        Parameters
        ----------
        pairs : PairWeights
            ``A``.
        near : sequence of ndarray of shape (n_parameters,), optional
            Parameters to start from.
        rng : numpy.random.Generator, optional
            For random starts; none without it.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.discovery import FamilySearch, GaussianFamily, PairWeights
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> search, pairs = FamilySearch(GaussianFamily(0.1, 10.0), x), PairWeights.rank_one(np.sin(6.0 * x[:, 0]))
        >>> search.maximize(pairs).parameter.shape
        (1,)
        """
        if self.family.members is not None:
            values = self._member_products(pairs)
            best = int(np.argmax(values))
            return BestMember(np.array(self.family.members[best]), float(values[best]))
        low, high = self._box()
        grid = self._grid()
        diagonal = self._along_diagonal(grid, pairs)
        tops = _local_maxima(diagonal)[: self.settings.n_starts]
        if self.n_parameters == 1:
            ends = [(grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)]) for top in tops]
            climbs = [(grid[[top]], [end]) for top, end in zip(tops, ends, strict=True)]
        else:
            starts = [np.full(self.n_parameters, grid[tops[0]]), *(self.family.coordinate(p) for p in near)]
            while rng is not None and len(starts) < self.settings.n_starts:  # at most n_starts
                starts.append(rng.uniform(low, high, self.n_parameters))
            climbs = [(start, [(low, high)] * self.n_parameters) for start in starts[: self.settings.n_starts]]
        tops_reached = [self._climb(start, bounds, pairs) for start, bounds in climbs]
        return max(tops_reached, key=lambda pair: pair[0])[1]

    def bound(self, pairs: PairWeights, known: BestMember, slack: float) -> float | None:
        """Return a number that ``<A, K_p>`` exceeds nowhere in the family; None if the family has no such bound.

        Parameters
        ----------
        pairs : PairWeights
        known : BestMember
            The best member known.
        slack : float
            How far above ``known.value`` the bound may stay.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.discovery import FamilySearch, GaussianFamily, PairWeights
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> search, pairs = FamilySearch(GaussianFamily(0.1, 10.0), x), PairWeights.rank_one(np.sin(6.0 * x[:, 0]))
        >>> best = search.maximize(pairs)
        >>> search.bound(pairs, best, 1e-3) >= best.value
        True
        """
        if self.family.members is not None:
            return known.value
        fourth = self.family.fourth_derivative(self.prepared, pairs) if self.n_parameters == 1 else None
        if fourth is None:
            return None
        # Rounding of the values themselves is not something that a finer grid could remove.
        return bounded_maximum(
            lambda u: Profile(*self._profile(u, pairs), np.full(len(u), fourth), 0.0), self._grid(), known.value, slack
        )

    def ratio_bound(self, upper: PairWeights, lower: PairWeights, tol: float = 1e-3) -> float | None:
        """Return a number that ``<A, K_p> / <B, K_p>`` exceeds nowhere in the family; None if there is no such bound.

        Parameters
        ----------
        upper, lower : PairWeights
            ``A`` and ``B``; ``<B, K_p>`` must not be negative anywhere.
        tol : float, default=1e-3
            How far above the largest ratio, relative to it, the bound may stay.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.discovery import FamilySearch, GaussianFamily, PairWeights
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> search, one = FamilySearch(GaussianFamily(0.1, 10.0), x), PairWeights.rank_one(np.ones(20))
        >>> round(search.ratio_bound(one, one), 2)
        1.0
        """
        if self.family.members is not None:
            above, below = self._member_products(upper), self._member_products(lower)
            kept = below > 0
            return float(np.max(above[kept] / below[kept])) if kept.any() else None
        if self.n_parameters > 1 or self.family.fourth_derivative(self.prepared, upper) is None:
            return None
        bound = bounded_ratio(
            lambda u: self._steep_profile(u, upper), lambda u: self._steep_profile(u, lower), self._grid(), tol
        )
        return bound if np.isfinite(bound) else None

    def _steep_profile(self, grid: Array, pairs: PairWeights) -> Profile:
        """Return values, slopes and how steep the fourth derivative is from every point of the grid on."""
        steep = self.family.fourth_derivatives(self.prepared, self.family.parameter(grid[:, None]), pairs)
        return Profile(*self._profile(grid, pairs), steep, ROUNDING * (abs(pairs.trace) + pairs.magnitude))

    def _box(self) -> tuple[float, float]:
        ends = self.family.coordinate(np.array([self.family.low, self.family.high]))
        return float(ends[0]), float(ends[1])

    def _grid(self) -> Array:
        low, high = self._box()
        return np.linspace(low, high, 1 + int(np.ceil((high - low) / self.family.resolution(self.prepared))))

    def _along_diagonal(self, grid: Array, pairs: PairWeights) -> Array:
        rows = np.repeat(grid[:, None], self.n_parameters, axis=1)
        return self.family.inner_many(self.prepared, self.family.parameter(rows), pairs)[0]

    def _profile(self, grid: Array, pairs: PairWeights) -> tuple[Array, Array]:
        """Return values and slopes in the search coordinate of a family of a single parameter."""
        parameters = self.family.parameter(grid[:, None])
        values, slopes = self.family.inner_many(self.prepared, parameters, pairs)
        return values, slopes[:, 0] * self.family.scale(parameters)[:, 0]

    def _climb(
        self, start: Array, bounds: Sequence[tuple[float, float]], pairs: PairWeights
    ) -> tuple[float, BestMember]:
        scale = max(abs(self.objective(start, pairs)[0]), np.finfo(np.float64).tiny)

        def descend(coordinate: Array) -> tuple[float, Array]:
            value, gradient = self.objective(coordinate, pairs)
            return -value / scale, -gradient / scale

        options: dict[str, float] = {"ftol": 1e-14, "gtol": 1e-10}
        if self.settings.max_steps is not None and self.n_parameters > 1:
            options["maxiter"] = self.settings.max_steps
        summit = minimize(descend, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        parameter = self.round_parameters(self.family.parameter(summit.x))
        value, _ = self.objective(self.family.coordinate(parameter), pairs)
        return value, BestMember(parameter, self.family.inner(self.prepared, parameter, pairs)[0])

    def round_parameters(self, parameter: Array) -> Array:
        """Return the parameters with the digits of labels, inside the bounds."""
        short = np.array([float(f"{number:.{DIGITS}g}") for number in parameter])
        return np.clip(short, self.family.low, self.family.high)

    def _member_products(self, pairs: PairWeights) -> Array:
        """Return ``<A, K_p>`` of every member of a list."""
        return self.family.inner_many(self.prepared, np.array(self.family.members), pairs)[0]


def _local_maxima(values: Array) -> Array:
    """Return the positions of local maxima of a sequence, ends included, the highest first."""
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    maxima = np.flatnonzero((values >= padded[:-2]) & (values >= padded[2:]))
    return maxima[np.argsort(-values[maxima], kind="stable")]
