"""A kernel as a few training rows show it: of finite rank, so that factors of it are exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import eigh

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelOfFeatures, KernelSpec, as_points, register_kernel
from manykernels.kernels.specs.distances import MedianDistances, shuffled_by_content
from manykernels.validation.arrays import Array, check_count, check_positive
from manykernels.validation.parameters import check_flag

MOST_LANDMARKS = 2000
SMALLEST_EIGENVALUE = 1e-10  # beside the largest, of the kernel on landmarks: below it, directions are rounding


@register_kernel
@dataclass(frozen=True)
class Landmarks(KernelOfFeatures):
    r"""A kernel projected on landmarks, ``k(x, z) = base(x, P) base(P, P)^-1 base(P, z)``.

    A sum of such kernels is what machines on Nystroem features fit. The rank is at most the number of landmarks, so
    that kernels of many columns, which act in interactions of every order, can be held as factors that leave nothing
    out. Landmarks are training rows drawn by what they hold: other orders of the rows give the same. Columns are
    divided by their standard deviation, those of two values by the difference of these, before the base sees them; one
    may be stretched, in which the kernel is then sharper than in the others.

    Parameters
    ----------
    base : KernelSpec
        Its width is in units of the divided columns.
    count : int, default=300
        Of landmarks, at most 2000.
    stretched : int, optional
        Position of the stretched column among those of the kernel.
    stretch : float, default=4.0
        What that column is multiplied by.
    center : bool, default=True
        Whether functions have mean zero over the landmarks, so that constants are left to the intercept.
    points : tuple of tuple of float, optional
        The landmarks; learned by :meth:`KernelBank.fit` where it is None.
    units : tuple of float, optional
        What each column is multiplied by, 0 for one that does not vary; learned with the landmarks.

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
        if check_count(self.count, "count", least=2) > MOST_LANDMARKS:
            raise InvalidInputError(f"count must be at most {MOST_LANDMARKS} landmarks, got {self.count}.")
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
        """Return the kernel with landmarks among training points; a median width is one of divided columns."""
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
        """Raise if the base cannot act on the columns, or the stretched one is not among them."""
        self.base.check_columns(n_columns, name)
        if self.stretched is not None and self.stretched >= n_columns:
            raise InvalidInputError(f"{name} stretches column {self.stretched} of {n_columns}, counted from 0.")
        if self.units is not None and len(self.units) != n_columns:
            raise InvalidInputError(f"{name} has landmarks of {len(self.units)} columns, but got {n_columns}.")

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array, Array]:
        """What columns are multiplied by, landmarks, and the basis and the mean of features."""
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
        units, points, basis, mean = self._factors
        return np.asarray(self.base(as_points(A) * units, points) @ basis - mean)


def column_units(rows: Array) -> Array:
    """Return what makes standard deviations, or the difference of the only two values, one; 0 for one value."""
    units = np.zeros(rows.shape[1])
    for j, column in enumerate(rows.T):
        levels = np.unique(column)
        if len(levels) > 1:
            units[j] = 1.0 / (levels[1] - levels[0] if len(levels) == 2 else column.std())
    return units
