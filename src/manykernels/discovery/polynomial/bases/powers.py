"""How powers of base kernels are normalized: each by its own scale, so that products of them are again products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels import ColumnPower
from manykernels.validation.arrays import Array

NORMALIZATIONS = ("power", "centered", None)
SMALLEST_SPREAD = 1e-12  # of a power, relative to its root mean square: below, it is a constant


def check_normalize(normalize: Any) -> str | None:
    """Return the normalization of powers, or raise ``InvalidInputError``."""
    if normalize is not None and (not isinstance(normalize, str) or normalize not in NORMALIZATIONS):
        raise InvalidInputError(f"normalize must be 'power', 'centered' or None, got {normalize!r}.")
    return normalize


@dataclass(frozen=True, eq=False)
class ColumnPowers:
    """Powers of columns, ``((x/u)^a - c) / s``.

    u is the root mean square of the column, s that of ``(x/u)^a - c``, or one where that is a constant.

    Parameters
    ----------
    units : (r,) float64
    centered : bool
        Whether c is the mean of ``(x/u)^a``; else it is zero.
    features : (r, N) float64
        What means are taken over.
    """

    units: Array
    centered: bool
    features: Array

    @classmethod
    def of(cls, features: Array, normalize: str) -> ColumnPowers:
        """Return the powers of columns in rows."""
        largest = np.abs(features).max(axis=1, initial=0.0)
        largest[largest == 0] = 1.0
        units = largest * np.sqrt(np.mean((features / largest[:, None]) ** 2, axis=1))
        return cls(np.where(units > 0, units, 1.0), normalize == "centered", features)

    def scales(self, level: int) -> tuple[Array, Array]:
        """Return centers and scales of a level, (r,) each; kept."""
        if level not in self._known:
            self._known[level] = self._measured(level)
        return self._known[level]

    @cached_property
    def _known(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _measured(self, level: int) -> tuple[Array, Array]:
        raised = (self.features / self.units[:, None]) ** level
        centers = raised.mean(axis=1) if self.centered else np.zeros(len(raised))
        spreads = np.sqrt(np.mean((raised - centers[:, None]) ** 2, axis=1))
        whole = np.sqrt(np.mean(raised**2, axis=1))
        return centers, np.where(spreads > SMALLEST_SPREAD * whole, spreads, 1.0)

    def level(self, level: int, values: Array | None = None) -> Array:
        """Return a level of every column, (r, n), of values or of those that means were taken over."""
        centers, scales = self.scales(level)
        values = self.features if values is None else values
        return ((values / self.units[:, None]) ** level - centers[:, None]) / scales[:, None]

    def spec(self, j: int, level: int) -> ColumnPower:
        """Return the kernel of a level of one column."""
        centers, scales = self.scales(level)
        return ColumnPower(level, float(self.units[j]), float(centers[j]), float(scales[j]))


def unit_diagonals(grams: Array, *, overwrite: bool) -> Array:
    """Return Gram matrices divided by their mean diagonals; zero ones stay as they are."""
    means = mean_diagonals(grams)
    return np.divide(grams, means[:, None, None], out=grams if overwrite else None)


def mean_diagonals(grams: Array, level: int = 1) -> Array:
    """Return the mean diagonals of entrywise powers, one where they are zero, (r,)."""
    means: Array = np.mean(np.einsum("jnn->jn", grams) ** level, axis=1)
    return np.where(means > 0, means, 1.0)
