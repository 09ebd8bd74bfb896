"""Kernels whose points repeat, held as matrices among the distinct ones: ``K_m = P T_m P'``.

``P`` (N, v) maps every sample to one of ``v`` distinct points, few for a column of categories, counts or rounded
numbers. Sums over samples with the same point come first, so a product ``K_m r = P T_m (P' r)`` and a form ``(P' r)'
T_m (P' r)`` read ``v^2 / 2`` entries in place of ``N^2 / 2``, with as few evaluations. A weighted sum is formed among
distinct points, and spread once for all kernels of a column. Linear kernels of single columns need no matrix, only the
columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from manykernels.grams.base import GramStack, GramView, mirror_upper
from manykernels.grams.lazy import LazyStack
from manykernels.grams.loops import add_spread
from manykernels.grams.packed import PackedStack
from manykernels.grams.rank_one import RankOneStack
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class Distinct:
    """Kernels as functions of the same points, with the distinct point of every sample."""

    kernels: Array  # (m,) int: positions among all kernels, increasing
    samples: Array  # (v,) int: of each distinct point a sample that has it
    codes: Array  # (N,) uint32: the distinct point of each sample

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of kernels and of distinct points."""
        return len(self.kernels), len(self.samples)


@dataclass(frozen=True, eq=False)
class Lines:
    """Linear kernels of single columns, products of a single feature."""

    kernels: Array  # (m,) int: positions among all kernels, increasing
    features: Array  # (m, N) float64

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of kernels, without a matrix among points."""
        return len(self.kernels), 0


@dataclass(frozen=True, eq=False)
class _Part:
    """Some kernels among the distinct points of the samples, or among all samples."""

    kernels: Array  # (m,) int: positions among all kernels
    stack: GramStack  # among distinct points
    codes: Array | None  # (N,) uint32; None among all samples
    stored: Array | None  # what is held, a row a kernel: a feature, or a packed triangle; None is evaluated

    @cached_property
    def _segments(self) -> tuple[Array, Array]:
        """The samples in the order of their points, and the offsets of the points."""
        assert self.codes is not None
        order = np.argsort(self.codes, kind="stable")
        return order, np.searchsorted(self.codes[order], np.arange(self.stack.n_samples))

    def gathered(self, columns: Array) -> Array:
        """Return ``P' R``, (v, k)."""
        if self.codes is None:
            return columns
        order, starts = self._segments
        return np.add.reduceat(columns[order], starts, axis=0)

    def spread(self, values: Array) -> Array:
        """Return ``P V`` for values (..., v, k)."""
        return values if self.codes is None else np.take(values, self.codes, axis=-2)

    def points(self, samples: Array) -> Array:
        """Return the distinct points of samples."""
        return samples if self.codes is None else self.codes[samples].astype(np.intp)


def _make_part(kernels: Array, own: GramStack, codes: Array | None, dtype: DTypeLike | None) -> _Part:
    """Return kernels as a part, packed if stored."""
    if dtype is None:
        return _Part(kernels, own, codes, None)
    packed = PackedStack.from_stack(own, dtype=dtype)
    return _Part(kernels, packed, codes, packed.packed)


class DistinctStack(GramStack):
    """Kernels among the distinct points of their columns, beside those that have a matrix among all samples.

    Made by `build_stack` where predicted to pay. Entries are those of the kernels themselves: nothing is rounded or
    left out.

    Parameters
    ----------
    stack : GramStack
        All kernels among all samples, for example a `LazyStack`: what is evaluated.
    distinct : sequence of Distinct
        Kernels that are functions of few points; the rest have a separate part.
    dtype : float32, float64 or None
        Hold all parts as packed triangles of the type; None evaluates them in every pass, as ``stack`` does.
    lines : Lines or None
        Kernels held as a single feature each, whatever ``dtype`` is.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.grams import LazyStack
    >>> from manykernels.kernels import Gaussian, KernelBank
    >>> X = [[0.0], [1.0], [0.0]]
    >>> bank = KernelBank([("narrow", Gaussian(1.0)), ("wide", Gaussian(5.0))]).fit(X)
    >>> lazy = LazyStack(bank, bank.prepare(X))
    >>> repeats = Distinct(np.array([0, 1]), np.array([0, 1]), codes=np.array([0, 1, 0], dtype=np.uint32))
    >>> stack = DistinctStack(lazy, [repeats])
    >>> bool(np.allclose(stack.combine([1.0, 2.0]), lazy.combine([1.0, 2.0]), rtol=1e-12))
    True
    """

    def __init__(
        self,
        stack: LazyStack,
        distinct: Sequence[Distinct],
        *,
        dtype: DTypeLike | None = None,
        lines: Lines | None = None,
    ) -> None:
        entries = stack.dtype if dtype is None else dtype
        super().__init__(stack.n_kernels, stack.n_samples, entries, names=stack.names, n_threads=stack.n_threads)
        self.in_memory, self.evaluates, self.spare_bytes = dtype is not None, dtype is None, stack.spare_bytes
        apart = [*(own.kernels for own in distinct), *([] if lines is None else [lines.kernels])]
        rest = np.setdiff1d(np.arange(stack.n_kernels), np.concatenate(apart))
        parts = [
            _make_part(own.kernels, GramView(stack, own.kernels, own.samples), own.codes, dtype) for own in distinct
        ]
        if rest.size:
            parts.append(_make_part(rest, stack.take(rest), None, dtype))
        self._lines: list[_Part] = []
        if lines is not None:
            features = RankOneStack(lines.features)
            self._lines = [_Part(lines.kernels, features, None, features.features)]
        self._parts = [*self._lines, *parts]
        for part in self._parts[len(self._lines) :]:
            # Few entries, which threads would wait for.
            part.stack.n_threads = stack.n_threads if part.codes is None else 1
        self._owners, self._places = np.empty(self.n_kernels, dtype=np.intp), np.empty(self.n_kernels, dtype=np.intp)
        for at, part in enumerate(self._parts):
            self._owners[part.kernels], self._places[part.kernels] = at, np.arange(len(part.kernels))

    @property
    def stacks(self) -> list[GramStack]:
        """The stacks among distinct points, and the stack among all samples."""
        return [part.stack for part in self._parts]

    @property
    def storage(self) -> list[tuple[Array, GramStack]]:
        """The stored feature or packed triangle of every kernel, with the stack."""
        return [(part.stored, part.stack) for part in self._parts if part.stored is not None]

    @property
    def nbytes(self) -> int:
        """Bytes of the triangles among distinct points and among all samples; columns are no entries."""
        return sum(part.stack.nbytes for part in self._parts[len(self._lines) :])

    @property
    def quad_cost(self) -> float:
        return sum(part.stack.quad_cost for part in self._parts)

    @property
    def n_entries(self) -> int:
        return sum(part.stack.n_entries for part in self._parts)

    def diag(self) -> Array:
        found = np.empty((self.n_kernels, self.n_samples))
        for part in self._parts:
            found[part.kernels] = part.spread(part.stack.diag()[:, :, None])[:, :, 0]
        return found

    @property
    def largest(self) -> Array:
        found = np.empty(self.n_kernels)
        for part in self._parts:
            found[part.kernels] = part.stack.largest
        return found

    def _parts_of(self, kernels: Array) -> Iterator[tuple[_Part, Array, Array]]:
        """Yield every part with the contained kernels' positions in ``kernels`` and in the part."""
        owners, places = self._owners[kernels], self._places[kernels]
        order = owners.argsort(kind="stable")
        counts = np.bincount(owners)
        ends = counts.cumsum()
        for owner in np.flatnonzero(counts):
            at = order[ends[owner] - counts[owner] : ends[owner]]
            yield self._parts[owner], at, places[at]

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        found = np.empty((len(kernels), len(rows), len(cols)))
        for part, at, own in self._parts_of(kernels):
            found[at] = part.stack._block(part.points(rows), part.points(cols), own)
        return found

    def _triangles(self, kernels: Array, out: Array) -> None:
        for part, at, own in self._parts_of(kernels):
            for some in np.split(np.arange(len(at)), np.flatnonzero(np.diff(at) != 1) + 1):  # rows side by side
                rows = out[at[some[0]] : at[some[-1]] + 1]
                if part.codes is None:
                    part.stack._triangles(own[some], rows)
                else:
                    super()._triangles(kernels[at[some]], rows)

    def _quad(self, r: Array) -> Array:
        found = np.empty(self.n_kernels)
        for part in self._parts:
            found[part.kernels] = part.stack._quad(np.ascontiguousarray(part.gathered(r[:, None])[:, 0]))
        return found

    def _quad_each(self, columns: Array) -> Array:
        found = np.empty((self.n_kernels, columns.shape[1]))
        for part in self._parts:
            found[part.kernels] = part.stack._quad_each(part.gathered(columns))
        return found

    def _apply_each(self, columns: Array, kernels: Array) -> Array:
        found = np.empty((len(kernels), *columns.shape))
        for part, at, own in self._parts_of(kernels):
            found[at] = part.spread(part.stack._apply_each(part.gathered(columns), own))
        return found

    def _apply(self, weights: Array, active: Array, columns: Array) -> Array:
        total = np.zeros(columns.shape)
        for part, at, own in self._parts_of(active):
            weighted = np.zeros(len(part.kernels))
            weighted[own] = weights[active[at]]
            total += part.spread(part.stack._apply(weighted, own, part.gathered(columns)))
        return total

    def _combine(self, weights: Array, active: Array) -> Array:
        total, spread, lines = None, [], []
        for part, at, own in self._parts_of(active):
            weighted = np.zeros(len(part.kernels))
            weighted[own] = weights[active[at]]
            if part.codes is not None:
                spread.append((part.stack._combine(weighted, own), part.codes))
            elif isinstance(part.stack, RankOneStack):
                lines.append((part.stack, weighted, own))
            else:
                total = part.stack._combine(weighted, own)
        total = np.zeros((self.n_samples, self.n_samples)) if total is None else total
        for stack, weighted, own in lines:  # in the memory of the sum: a second matrix would be its largest array
            stack.add_to(total, weighted, own)
        band = 64  # rows of a sum that are written at once
        for top in range(0, self.n_samples if spread else 0, band):  # rows that stay in a cache from part to part
            for table, codes in spread:
                add_spread(table, codes, top, min(top + band, self.n_samples), total)
        if spread or lines:
            mirror_upper(total)
        return total
