"""Dirichlet kernels of any frequency, the family of chapter 3 of the thesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.discovery.families.base import KernelFamily, PairWeights
from manykernels.kernels import Dirichlet, KernelSpec
from manykernels.validation.arrays import Array, check_count

BLOCK_ENTRIES = 2**22  # float64 values of features held at once


@dataclass(frozen=True)
class DirichletFamily(KernelFamily):
    """Dirichlet kernels ``prod_j (1 + 2 sum_{k <= degree} cos(k frequency (x_j - z_j)))`` of any frequency.

    On one column the kernel is a product of ``1 + 2 degree`` features, ``1, sqrt(2) cos(k f x), sqrt(2) sin(k f x)``,
    through which a search over thousands of frequencies costs one product of matrices.

    Parameters
    ----------
    low, high : float
        Smallest (possibly 0) and largest frequency, in radians per unit of the columns.
    degree : int, default=1
        Number of harmonics.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import DirichletFamily
    >>> DirichletFamily(0.0, 20.0).value(np.array([[0.0], [np.pi]]), 1.0).round(4)
    array([[ 3., -1.],
           [-1.,  3.]])
    """

    degree: int = 1

    logarithmic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degree", check_count(self.degree, "degree"))

    def prepare(self, points: Array) -> Array:
        """Return the points, centered: only differences count."""
        return np.ascontiguousarray(points - points.mean(axis=0))

    def gram(self, prepared: Array, parameter: Array) -> Array:
        """Return the Gram matrix of one frequency."""
        return self.spec(parameter)(prepared)

    def spec(self, parameter: Array) -> KernelSpec:
        """Return ``Dirichlet(degree, frequency)``."""
        return Dirichlet(self.degree, float(parameter[0]))

    def inner(self, prepared: Array, parameter: Array, pairs: PairWeights) -> tuple[float, Array]:
        """Return ``<A, K>`` and its derivative by the frequency."""
        if prepared.shape[1] == 1:
            values, slopes = self._by_features(prepared[:, 0], parameter, pairs)
            return float(values[0]), slopes
        value, slope = self._by_columns(prepared, float(parameter[0]))
        return pairs.with_kernel(value), np.array([pairs.with_kernel(slope)])

    def inner_many(self, prepared: Array, parameters: Array, pairs: PairWeights) -> tuple[Array, Array]:
        """Return values and derivatives at many frequencies."""
        if prepared.shape[1] > 1:
            return super().inner_many(prepared, parameters, pairs)
        step = max(1, BLOCK_ENTRIES // (2 * self.degree * len(prepared)))
        parts = [
            self._by_features(prepared[:, 0], parameters[at : at + step, 0], pairs)
            for at in range(0, len(parameters), step)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])[:, None]

    def fourth_derivative(self, prepared: Array, pairs: PairWeights) -> float | None:
        """Return ``2 sum_k k^4 sum_ij |A_ij| (x_i - x_j)^4`` on one column; on more there is no bound."""
        if prepared.shape[1] > 1:
            return None
        x = prepared[:, 0]
        # (x_i - x_j)^4 <= 8 (x_i^4 + x_j^4) would be cheaper and five times larger.
        powers = np.abs(pairs.matrix) * (x[:, None] - x) ** 4
        return 2.0 * float(powers.sum()) * sum(k**4 for k in range(1, self.degree + 1))

    def resolution(self, prepared: Array) -> float:
        """Return a twelfth of the shortest period: ``<A, K>`` holds no frequency above degree times the span."""
        span = float(np.max(np.ptp(prepared, axis=0)))
        whole = self.high - self.low
        return whole if span == 0 else min(whole / 60, 2 * np.pi / (12 * self.degree * span))

    def _by_features(self, x: Array, frequencies: Array, pairs: PairWeights) -> tuple[Array, Array]:
        """Return values and slopes (F,) from the features of every frequency."""
        angles = np.multiply.outer(x, np.multiply.outer(frequencies, np.arange(1, self.degree + 1)))
        cosines, sines = np.cos(angles), np.sin(angles)
        speeds = x[:, None, None] * np.arange(1, self.degree + 1)
        values = np.full(len(frequencies), float(pairs.matrix.sum()))
        slopes = np.zeros(len(frequencies))
        for feature, change in ((cosines, -speeds * sines), (sines, speeds * cosines)):
            if pairs.vector is not None:
                ours, theirs = (np.tensordot(pairs.vector, part, 1) for part in (feature, change))
                values += 2.0 * np.sum(ours**2, axis=1)
                slopes += 4.0 * np.sum(ours * theirs, axis=1)
            else:
                image = np.tensordot(pairs.matrix, feature, 1)
                values += 2.0 * np.einsum("nfk,nfk->f", feature, image)
                slopes += 4.0 * np.einsum("nfk,nfk->f", change, image)
        return values, slopes

    def _by_columns(self, points: Array, frequency: float) -> tuple[Array, Array]:
        """Return the Gram matrix and its derivative, column after column by the product rule."""
        value, slope = np.ones((len(points), len(points))), np.zeros((len(points), len(points)))
        for x in points.T:
            gaps = np.abs(x[:, None] - x)
            factor, change = np.ones_like(gaps), np.zeros_like(gaps)
            for k in range(1, self.degree + 1):
                factor += 2.0 * np.cos(k * frequency * gaps)
                change -= 2.0 * k * gaps * np.sin(k * frequency * gaps)
            slope = slope * factor + value * change
            value = value * factor
        return value, slope
