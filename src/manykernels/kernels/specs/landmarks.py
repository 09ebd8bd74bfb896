r"""A kernel as a few points of the training rows show it, landmarks or knots: of finite rank, so factors are exact.

On a single column, with knots ``t_1 < ... < t_r`` among the training values, functions may have a shape everywhere:
increasing, decreasing, convex or concave. The functions interpolate the base kernel linearly, ``f(x) = sum_k h_k(x)
f(t_k)`` with the hat functions ``h_k``, and their norm is the smallest of any function of the base kernel through
``f(t_1), ..., f(t_r)``:

.. math:: k(x, z) = h(x)' K_{tt} h(z) = \phi(x)'\phi(z), \qquad \phi(x) = C' h(x), \quad K_{tt} = C C'

A line through knots rises where the values at knots do, and is convex where the slopes rise from knot to knot, so the
shape is ``G v >= 0`` of the coefficients ``v`` of ``f = phi'v``, finitely many inequalities, and holds between knots as
it does at them. Beyond the knots functions are constant, or go on as lines if convex or concave.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import eigh

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelOfFeatures, KernelSpec, as_points, register_kernel
from manykernels.kernels.specs.distances import MedianDistances, shuffled_by_content
from manykernels.validation.arrays import Array, check_count, check_positive
from manykernels.validation.parameters import check_flag

MOST_LANDMARKS = 2000
SMALLEST_EIGENVALUE = 1e-10  # beside the largest, of the kernel on the points: below it, directions are rounding


@register_kernel
@dataclass(frozen=True)
class Landmarks(KernelOfFeatures):
    r"""A kernel projected on landmarks, ``k(x, z) = base(x, P) base(P, P)^-1 base(P, z)``.

    A sum of landmark kernels equals a machine on Nystroem features. The rank is at most the number of landmarks, so
    factors of kernels of many columns, with interactions of every order, are exact. Landmarks are training rows drawn
    by content, independent of the row order. Columns are first divided by their standard deviation, binary columns by
    the difference; a stretched column has a sharper kernel.

    Parameters
    ----------
    base : KernelSpec
        The width is in units of the divided columns.
    count : int, default=300
        Of landmarks, at most 2000.
    stretched : int, optional
        Position of the stretched column among those of the kernel.
    stretch : float, default=4.0
        Multiplier of the column.
    center : bool, default=True
        Whether functions have mean zero over the landmarks, so constants are left to the intercept.
    points : tuple of tuple of float, optional
        The landmarks; learned by :meth:`KernelBank.fit` where None.
    units : tuple of float, optional
        Multiplier of every column, 0 for constants; learned with the landmarks.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.kernels import KernelBank, Landmarks, Matern
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> fitted = KernelBank.joint(Landmarks(Matern("median", 0.5), count=20)).fit(X)
    >>> int(np.linalg.matrix_rank(fitted.table.specs[0](X)))
    20

    Notes
    -----
    Williams and Seeger, Using the Nystroem method to speed up kernel machines (2001).
    """

    kind: ClassVar[str] = "landmarks"
    costly: ClassVar[bool] = True
    base: KernelSpec
    count: int = 300
    stretched: int | None = None
    stretch: float = 4.0
    center: bool = True
    points: tuple[tuple[float, ...], ...] | None = None
    units: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.base, KernelSpec) or self.base.family == "missing":
            raise InvalidInputError(
                f"The base of a kernel on landmarks must be a kernel of numbers, got {self.base!r}."
            )
        check_count(self.count, "count", least=2, most=MOST_LANDMARKS)
        if self.stretched is not None:
            object.__setattr__(self, "stretched", check_count(self.stretched, "stretched", least=0))
        object.__setattr__(self, "stretch", check_positive(self.stretch, "stretch"))
        check_flag(self.center, "center")
        if (self.points is None) != (self.units is None):
            raise InvalidInputError("Give both points and units, or neither: fitting a bank learns them.")
        if self.points is not None:
            self._take_points()

    def _take_points(self) -> None:
        """Check and keep points and units as tuples of floats."""
        points, units = as_points(self.points, "points"), np.asarray(self.units, dtype=np.float64).ravel()
        if not len(points) or points.shape[1] != len(units) or not np.isfinite(points).all() or not (units >= 0).all():
            raise InvalidInputError(
                f"points must be rows of finite numbers, and units one number a column, none negative; got points of "
                f"shape {points.shape} and {len(units)} units."
            )
        object.__setattr__(self, "points", tuple(map(tuple, points.tolist())))
        object.__setattr__(self, "units", tuple(units.tolist()))

    @cached_property
    def pending(self) -> bool:
        """Whether the landmarks are still to be drawn."""
        return self.points is None

    @cached_property
    def label(self) -> str:
        """The label of the base, how many landmarks at most, and the stretched column."""
        sharp = "" if self.stretched is None else f", column {self.stretched} times {self.stretch:g}"
        return f"{self.base.label} on {self.count} landmarks{sharp}{'' if self.center else ' as it is'}"

    def resolve(self, medians: MedianDistances) -> Self:
        """Return the kernel with landmarks among training points; a median width refers to scaled columns."""
        if self.points is not None:
            return self
        rows = medians.rows()
        if not isinstance(rows, np.ndarray):
            raise InvalidInputError(f"The kernel {self.label!r} needs dense columns, and these are sparse.")
        units = column_units(rows)
        base = self.base.resolve(MedianDistances(rows * units)) if self.base.pending else self.base
        if len(rows) > self.count:
            rows = rows[shuffled_by_content(rows)[: self.count]]
        points = np.unique(rows, axis=0) if len(rows) else np.zeros((1, len(units)))
        return replace(self, base=base, points=tuple(map(tuple, points.tolist())), units=tuple(units.tolist()))

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise unless the base can act on the columns, with the stretched column among them."""
        self.base.check_columns(n_columns, name)
        if self.stretched is not None and self.stretched >= n_columns:
            raise InvalidInputError(f"{name} stretches column {self.stretched} of {n_columns}, counted from 0.")
        if self.units is not None and len(self.units) != n_columns:
            raise InvalidInputError(f"{name} has landmarks of {len(self.units)} columns, but got {n_columns}.")

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array, Array]:
        """Column factors, landmarks, and the basis and the mean of features."""
        if self.points is None or self.units is None:
            raise InvalidInputError(f"The landmarks of {self.label} are learned when its bank is fitted.")
        units = np.array(self.units)
        if self.stretched is not None:
            units[self.stretched] *= self.stretch
        points = np.array(self.points) * units
        gram = self.base(points)
        values, vectors = eigh(gram)
        kept = values > SMALLEST_EIGENVALUE * max(float(values[-1]), 1e-300)
        basis = vectors[:, kept] / np.sqrt(values[kept]) if kept.any() else np.zeros((len(points), 1))
        mean = (gram @ basis).mean(axis=0) if self.center else np.zeros(basis.shape[1])
        return units, points, basis, mean

    @property
    def rank(self) -> int:
        """The number of features, known once landmarks are."""
        return self.count if self.points is None else self._factors[2].shape[1]

    def features(self, A: Array) -> Array:
        """Return rows ``z(x)`` with ``k(x, x') = z(x)'z(x')``.

        Examples
        --------
        >>> from manykernels.kernels import Landmarks, Linear
        >>> Landmarks(Linear(), points=((1.0,), (3.0,)), units=(1.0,)).features([[2.0], [4.0]]).round(6)
        array([[0.],
               [2.]])
        """
        _, _, basis, mean = self._factors
        return np.asarray(self._evaluate_at_landmarks(A) @ basis - mean)

    def function(self, A: Array, v: Array) -> Array:
        """Return ``z(x)'v`` at rows, (n,), by products with the base kernel alone.

        Examples
        --------
        >>> from manykernels.kernels import Landmarks, Linear
        >>> spec = Landmarks(Linear(), points=((1.0,), (3.0,)), units=(1.0,))
        >>> spec.function([[2.0], [4.0]], np.array([0.5])).round(6)
        array([0., 1.])
        """
        _, _, basis, mean = self._factors
        return np.asarray(self._evaluate_at_landmarks(A) @ (basis @ v) - mean @ v)

    def adjoint(self, A: Array, rho: Array) -> Array:
        """Return ``sum_i rho_i z(x_i)``, (rank,), or (rank, k) of k columns, as in `function`.

        Examples
        --------
        >>> from manykernels.kernels import Landmarks, Linear
        >>> spec = Landmarks(Linear(), points=((1.0,), (3.0,)), units=(1.0,))
        >>> spec.adjoint([[2.0], [4.0]], np.array([1.0, 2.0])).round(6)
        array([4.])
        """
        _, _, basis, mean = self._factors
        shift: Any = mean * rho.sum() if rho.ndim == 1 else np.outer(mean, rho.sum(axis=0))
        return np.asarray(basis.T @ (self._evaluate_at_landmarks(A).T @ rho) - shift)

    def _evaluate_at_landmarks(self, A: Array) -> Array:
        """Return the base kernel between rows and landmarks, (n, n_landmarks)."""
        units, points, _, _ = self._factors
        return self.base(as_points(A) * units, points)


def column_units(rows: Array) -> Array:
    """Return units of unit standard deviation, or unit difference for binary columns; 0 for constants."""
    units = np.zeros(rows.shape[1])
    for j, column in enumerate(rows.T):
        levels = np.unique(column)
        if len(levels) > 1:
            units[j] = 1.0 / (levels[1] - levels[0] if len(levels) == 2 else column.std())
    return units


SHAPES = ("increasing", "decreasing", "convex", "concave")
SIGNS = {"increasing": 1.0, "decreasing": -1.0, "convex": 1.0, "concave": -1.0}  # of differences that must be positive


@register_kernel
@dataclass(frozen=True)
class Shaped(KernelOfFeatures):
    r"""A kernel of a single column whose functions rise, fall, are convex or concave: lines between knots.

    Functions equal functions of the base kernel at knots, quantiles of the training rows, and are linear in between;
    the shape holds at every value of the column. Beyond the training rows functions are constant, or linear if convex
    or concave. Between knots at a distance :math:`h` the interpolation error is at most :math:`h^2 \max |f''| / 8`.

    Parameters
    ----------
    base : KernelSpec
        A kernel of a single number.
    shape : str or sequence of str
        ``"increasing"``, ``"decreasing"``, ``"convex"`` or ``"concave"``, or two that can hold together, for example
        ``"increasing and concave"``.
    knots : int, default=32
        At most 500. A column of no more values has the knots there.
    points : tuple of float, optional
        The knots, increasing; learned by :meth:`KernelBank.fit` where None.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, MKLRegressor
    >>> from manykernels.kernels import Gaussian, Shaped
    >>> x = np.linspace(-2, 2, 200)[:, None]
    >>> y = np.sin(2 * x[:, 0])
    >>> bank = KernelBank([("curve", Shaped(Gaussian(1.0), "increasing"), [0])])
    >>> model = MKLRegressor(bank, alpha=0.001).fit(x, y)
    >>> bool((np.diff(model.predict(np.linspace(-5, 5, 999)[:, None])) >= -1e-9).all())
    True

    Notes
    -----
    Shapes require kernels held as factors, with ``representation`` ``"auto"`` or ``"factored"``. The kernel function
    itself ignores the shape.
    """

    kind: ClassVar[str] = "shaped"
    base: KernelSpec
    shape: str
    knots: int = 32
    points: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        unfit = not isinstance(self.base, KernelSpec) or self.base.kind == self.kind
        if unfit or self.base.family in ("missing", "features"):
            raise InvalidInputError(
                f"The base of a kernel with a shape must be a kernel of numbers without one, got {self.base!r}."
            )
        object.__setattr__(self, "shape", check_shape_names(self.shape))
        most_knots = 500
        check_count(self.knots, "knots", least=2, most=most_knots)
        if self.points is not None:
            points = np.asarray(self.points, dtype=np.float64).ravel()
            if not len(points) or not np.isfinite(points).all() or not (np.diff(points) > 0).all():
                raise InvalidInputError(f"The points of a kernel with a shape must increase, got {self.points!r}.")
            object.__setattr__(self, "points", tuple(points.tolist()))

    @cached_property
    def pending(self) -> bool:
        """Whether the knots are still to be learned."""
        return self.points is None

    @cached_property
    def label(self) -> str:
        """The label of the base, and the shape."""
        return f"{self.base.label}, {self.shape}"

    def resolve(self, medians: MedianDistances) -> Self:
        """Return the kernel with knots at quantiles of training points."""
        if self.points is not None:
            return self
        base = self.base.resolve(medians) if self.base.pending else self.base
        rows: Any = medians.rows()
        if not isinstance(rows, np.ndarray):
            raise InvalidInputError(f"The kernel {self.label!r} needs dense columns, and these are sparse.")
        values = np.unique(rows)
        if len(values) > self.knots:
            ranks = np.linspace(0.0, 1.0, self.knots)
            values = np.unique(np.quantile(rows, ranks, method="inverted_cdf"))
        points = values.tolist() or [0.0]
        return replace(self, base=base, points=tuple(points))

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise if there is not a single column."""
        if n_columns != 1:
            raise InvalidInputError(
                f"{name} has the shape {self.shape!r}, which needs one column, but there are {n_columns}. Use "
                f"KernelBank.per_feature, or one column."
            )
        self.base.check_columns(n_columns, name)

    def reads(self, column: int) -> frozenset[str]:
        """Return the ordered kinds readable by the base."""
        return self.base.reads(column) - {"category"}

    @cached_property
    def _root(self) -> tuple[Array, Array]:
        """Knots, and ``C`` with the kernel ``C C'`` on the knots."""
        if self.points is None:
            raise InvalidInputError(f"The knots of {self.label} are learned when its bank is fitted.")
        knots = np.array(self.points)
        values, vectors = eigh(self.base(knots[:, None]))
        kept = values > SMALLEST_EIGENVALUE * max(float(values[-1]), np.finfo(np.float64).tiny)
        return knots, vectors[:, kept] * np.sqrt(values[kept]) if kept.any() else np.zeros((len(knots), 1))

    @property
    def rank(self) -> int:
        """The number of features, known once knots are."""
        return self.knots if self.points is None else self._root[1].shape[1]

    def features(self, A: Array) -> Array:
        """Return rows ``phi(x)`` with ``k(x, x') = phi(x)'phi(x')``.

        Examples
        --------
        >>> from manykernels.kernels import Linear, Shaped
        >>> kernel = Shaped(Linear(), "increasing", points=(1.0, 2.0))
        >>> abs(kernel.features([[0.0], [1.5], [9.0]])).round(6).ravel().tolist()
        [1.0, 1.5, 2.0]
        """
        return self.interpolate(self._root[1], A)

    def interpolate(self, values: Array, A: Array) -> Array:
        """Return lines through values (r, k) at knots, at points (n, 1): (n, k)."""
        beyond = "conv" in self.shape or "conc" in self.shape
        return lines(np.array(self.points), values, as_points(A)[:, 0], beyond=beyond)

    def knot_values(self, v: Array) -> Array:
        """Return the values ``phi(t_k)'v`` at knots (r,)."""
        return np.asarray(self._root[1] @ v)

    @cached_property
    def constraints(self) -> Array:
        """The rows of ``G``, of unit length, with ``G v >= 0`` for functions of the shape, (c, rank)."""
        knots, root = self._root
        found = [np.zeros((0, root.shape[1]))]
        rounding = 1e-12  # of the largest value of a function of norm one: inequalities below it hold for all functions
        largest = rounding * np.sqrt(np.einsum("kr,kr->k", root, root).max())
        for word in self.shape.split(" and "):
            rows = SIGNS[word] * (bends(knots, root) if word in ("convex", "concave") else np.diff(root, axis=0))
            sizes = np.linalg.norm(rows, axis=1)
            kept = sizes > largest
            found.append(rows[kept] / sizes[kept, None])
        return np.vstack(found)


def check_shape_names(shape: object) -> str:
    """Return a shape, or several joined by "and"; reject unknown and contradictory shapes."""
    parts = shape.replace(",", " and ").split(" and ") if isinstance(shape, str) else shape
    words = [str(part).strip() for part in parts] if isinstance(parts, Iterable) else [shape]
    for word in words:
        if word not in SHAPES:
            raise InvalidInputError(
                f"A shape must be one of {', '.join(map(repr, SHAPES))}, or two of them such as 'increasing and "
                f"concave', got {shape!r}."
            )
    chosen = [name for name in SHAPES if name in words]
    for pair in (SHAPES[:2], SHAPES[2:]):
        if set(pair) <= set(chosen):
            raise InvalidInputError(f"A curve cannot be {pair[0]} and {pair[1]}: choose one shape, or a linear kernel.")
    if not chosen:
        raise InvalidInputError(f"A shape must be one of {', '.join(map(repr, SHAPES))}, got {shape!r}.")
    return " and ".join(chosen)


def bends(knots: Array, values: Array) -> Array:
    """Return how far lines through neighbors are above values (r, k) at knots (r,), (r - 2, k).

    Unlike differences of slopes, these do not depend on the spacing of the knots, so that rounding is the same for all.
    """
    steps = np.diff(knots)
    share = (steps[:-1] / (steps[:-1] + steps[1:]))[:, None]
    return np.asarray(share * (values[2:] - values[1:-1]) - (1.0 - share) * (values[1:-1] - values[:-2]))


def lines(knots: Array, values: Array, x: Array, *, beyond: bool) -> Array:
    """Return the values at points (n,) of lines through values (r, k) at knots (r,), constant or linear beyond."""
    if len(knots) == 1:
        return np.repeat(values, len(x), axis=0)
    x = x if beyond else np.clip(x, knots[0], knots[-1])
    cell = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    share = ((x - knots[cell]) / (knots[cell + 1] - knots[cell]))[:, None]
    return np.asarray((1.0 - share) * values[cell] + share * values[cell + 1])
