"""Gaussian kernels of two or three columns: all widths of the columns from a nonuniform Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from manykernels.grams.factored.fourier_factor import (
    gaussian_coefficients,
    periodization_error,
    reach,
    truncation_error,
)
from manykernels.grams.factored.nystroem import NystroemStack
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import Gaussian, KernelSpec
from manykernels.kernels.specs.distances import require_width
from manykernels.validation.arrays import Array

PASS_TOL = 1e-12  # of the expansion, and asked of the transform
MAX_MODES = 2**21
A_MODE = 500.0  # multiplications that take as long as a frequency of a transform
AN_ENTRY = 20.0  # the same of a kernel of two rows: 12 ns beside 0.6 ns (310 ns a frequency, 87 x 87 x 85 of them)


def has_window(spec: KernelSpec, n_columns: int) -> bool:
    """Return whether a nonuniform transform supports a kernel, and is installed."""
    isotropic = isinstance(spec, Gaussian) and spec.column_widths is None
    dimensions = (2, 3)
    return isotropic and n_columns in dimensions and find_spec("finufft") is not None


@dataclass(frozen=True, eq=False)
class Window:
    """Frequencies of some widths on some columns."""

    columns: tuple[int, ...]
    middles: tuple[float, ...]
    periods: tuple[float, ...]
    modes: tuple[int, ...]  # frequencies of every column, negative ones included
    coefficients: tuple[Array, ...]  # tuple of (modes, W)
    errors: Array  # (W,): bounds on |quad - rho' K rho| / ||rho||_1^2

    @classmethod
    def plan(cls, columns: tuple[int, ...], widths: Array, table: ColumnTable) -> Window | None:
        """Choose periods that leave room for the widest kernel.

        None if the frequencies are too many, or the transform slower than a kernel of all pairs of rows, the cost of
        landmarks.
        """
        low, high = (np.array([side[j] for j in columns]) for side in (table.low, table.high))
        periods = high - low + reach(PASS_TOL) * widths.max()
        last = np.ceil(reach(PASS_TOL) * periods / (2 * np.pi * widths.min())).astype(int)
        frequencies = float(np.prod(2.0 * last + 1))
        if frequencies > MAX_MODES or A_MODE * frequencies > AN_ENTRY * len(widths) * float(table.n_rows) ** 2:
            return None
        parts, missed = [], np.zeros(len(widths))
        for extent, period, top in zip(high - low, periods, last, strict=True):
            omega = 2 * np.pi / period * np.abs(np.arange(-top, top + 1))
            parts.append(gaussian_coefficients(omega, widths, period))
            error = periodization_error(extent, period, widths) + truncation_error(omega[0], widths, period)
            missed = missed + error + missed * error
        transform_error = 1e-11  # of a Fourier sum beside ||rho||_1: ten times what the transform is asked for
        errors = missed + (1 + missed) * (2 * transform_error + transform_error**2)
        middles = tuple((0.5 * (low + high)).tolist())
        return cls(columns, middles, tuple(periods.tolist()), tuple((2 * last + 1).tolist()), tuple(parts), errors)

    def quads(self, spectrum: Array) -> Array:
        """Return ``rho' K rho`` of every width, (W,)."""
        axes = "abc"[: len(self.columns)]
        terms = ",".join(f"{axis}w" for axis in axes)
        power = spectrum.real**2 + spectrum.imag**2
        return np.einsum(f"{axes},{terms}->w", power, *self.coefficients, optimize=True)


class WindowStack(NystroemStack):
    """Gaussian kernels of two or three columns; passes by transforms, factors on landmarks.

    ``rho' K rho = sum_k c_k |rhohat(omega_k)|^2`` with products of the coefficients of the columns, and ``rhohat`` from
    a nonuniform fast Fourier transform (Barnett, Magland and af Klinteberg, 2019). Columns that reach too far for their
    narrowest width take the bounds of landmarks.
    """

    _others: NystroemStack | None = None

    @cached_property
    def _windows(self) -> list[tuple[Array, Window | None]]:
        """Return kernels on the same columns together, with their frequencies."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for m, columns in enumerate(self.positions):
            groups.setdefault(columns, []).append(m)
        return [
            (np.array(own), Window.plan(columns, np.array([self._width(m) for m in own]), self.table))
            for columns, own in groups.items()
        ]

    def _width(self, kernel: int) -> float:
        spec: Any = self.specs[kernel]
        return require_width(spec.width)

    @property
    def quad_cost(self) -> float:
        """Multiplications of a transform per window, about, and of landmarks for the rest."""
        planned = [window for _, window in self._windows if window is not None]
        rest = sum(len(own) for own, window in self._windows if window is None)
        modes = sum(float(np.prod(window.modes)) for window in planned)
        return A_MODE * modes + super().quad_cost * rest / max(self.n_kernels, 1)

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``rho' K_m rho``: one transform for all widths of some columns."""
        low, high = np.empty(self.n_kernels), np.empty(self.n_kernels)
        planned = [(own, window) for own, window in self._windows if window is not None]
        rest = [own for own, window in self._windows if window is None]
        if rest:
            others = np.sort(np.concatenate(rest))
            low[others], high[others] = self._landmark_bounds(others).quad_bounds(rho)
        self._count(sum(len(own) for own, _ in planned))
        if planned:
            used = sorted({j for _, window in planned for j in window.columns})
            spectra = self.table.reduce(used, partial(_spectra, [window for _, window in planned]), rho)
            size = float(np.abs(rho).sum()) ** 2
            for (own, window), spectrum in zip(planned, spectra, strict=True):
                quads, errors = self.scales[own] * window.quads(spectrum), self.scales[own] * window.errors * size
                low[own], high[own] = np.maximum(quads - errors, 0.0), np.maximum(quads, 0.0) + errors
        return low, high

    def quad_bounds_each(self, rhos: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Return `quad_bounds` of every vector."""
        if all(window is None for _, window in self._windows):
            return self._landmark_bounds(np.arange(self.n_kernels)).quad_bounds_each(rhos)
        return [self.quad_bounds(rho) for rho in rhos]

    def _landmark_bounds(self, kernels: Array) -> NystroemStack:
        """Return some of the kernels as a stack with passes on landmarks, drawn once."""
        if self._others is None:
            positions, specs = [self.positions[m] for m in kernels], [self.specs[m] for m in kernels]
            self._others = NystroemStack(
                self.table, positions, specs, self.scales[kernels], rank=self.rank, landmarks_by=self.landmarks_by
            )
        return self._others

    @cached_property
    def neighbors(self) -> Array:
        """Return the next narrower and the next wider kernel of the same columns, (M, 2); -1 for none."""
        out = np.full((self.n_kernels, 2), -1)
        for own, _ in self._windows:
            order = own[np.argsort([self._width(m) for m in own])]
            out[order[1:], 0], out[order[:-1], 1] = order[:-1], order[1:]
        return out


def _spectra(windows: Sequence[Window], table: ColumnTable, rho: Array) -> list[Array]:
    """Return the Fourier sums of some rows for every window."""
    import finufft

    made = []
    for window in windows:
        known = table.present(window.columns)
        strengths = (rho if known is None else np.where(known, rho, 0.0)).astype(np.complex128)
        points = table.points(window.columns)
        phases = [
            np.ascontiguousarray(2 * np.pi / period * (points[:, at] - middle))
            for at, (middle, period) in enumerate(zip(window.middles, window.periods, strict=True))
        ]
        transform = finufft.nufft2d1 if len(phases) == 2 else finufft.nufft3d1
        made.append(transform(*phases, strengths, window.modes, eps=PASS_TOL, isign=-1, nthreads=1))
    return made
