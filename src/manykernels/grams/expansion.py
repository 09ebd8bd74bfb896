"""What a fitted model keeps of the kernels for new rows: support samples, or a function a kernel and no sample.

`cross_apply` and the like are products of kernels between new rows and support samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit

from manykernels.grams.factored.prediction import (
    CHUNK_ROWS,
    FourierSeries,
    KernelPart,
    LandmarkFunction,
    read_once,
    total,
)
from manykernels.grams.lazy import TileEvaluator
from manykernels.grams.pair_stack import pair_scores
from manykernels.grams.rows.columns import Reading
from manykernels.grams.rows.opening import is_chunked, open_rows
from manykernels.kernels import FittedBank, Gaussian, Linear, PreparedRows
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.table_kernels import TableKernels
from manykernels.kernels.pairs.bank import ProductKernels
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.encoding import numbers_of
from manykernels.validation.arrays import Array, check_columns, check_vector
from manykernels.validation.parameters import WithoutCaches

CHUNK_ENTRIES = 8 * 2**20  # float64 values held at once while predicting


@dataclass(frozen=True, eq=False)
class Expansion(WithoutCaches):
    """The functions ``f_k(x) = sum_m f_km(x)`` of a model, without intercepts, on active kernels.

    In support samples ``f_km(x) = d_km sum_i rho_ki k_m(x, x_i)``; of kernels held as factors it is a function of a
    few numbers, whatever the training rows were, and there is no support.
    """

    bank: FittedBank  # active kernels only (the first kernel if there is none)
    active: Array  # (m,) int: positions of the active kernels among all
    n_kernels: int  # number of all kernels
    weights: Array  # (K, m) float64: ``d`` of the active kernels; (1, m) if all functions in support samples share them
    support: PreparedRows[Any] | None = None  # support samples, as that bank needs them
    # (K, n_support) float64: ``rho`` of the support samples
    coefficients: Array = field(default_factory=lambda: np.zeros((0, 0)))
    parts: tuple[KernelPart, ...] = ()  # the functions where there is no support

    @classmethod
    def create(cls, bank: FittedBank, prepared: PreparedRows[Any], weights: Array, coefficients: Array) -> Expansion:
        """Keep the parts of a fitted bank and the training rows for the model."""
        active, support = np.flatnonzero(weights.any(axis=0)), np.flatnonzero(coefficients.any(axis=0))
        kept = bank.take(active if active.size else [0])
        rows = kept.narrow(prepared).take(support).detach()
        own = coefficients if len(support) == coefficients.shape[1] else coefficients[:, support]
        return cls(kept, active, len(bank), weights[:, active], rows, own)

    @property
    def stores_samples(self) -> bool:
        """Whether support samples are stored, unlike for functions of factors."""
        return self.support is not None

    @property
    def expansion(self) -> Expansion:
        """The functions themselves, as functions of factors give theirs."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the active kernels."""
        return tuple(self.bank.names) if self.active.size else ()

    @property
    def n_targets(self) -> int:
        """Number of functions, K."""
        return len(self.weights if self.support is None else self.coefficients)

    def scores(self, X: object) -> Array:
        """Return the functions without intercept at new rows, (n, K) float64."""
        if is_chunked(X):
            return np.concatenate(list(self._evaluate_chunks(X, self.scores)))
        if self.support is None:
            table = Table.wrap(X)
            scores = np.zeros((len(table), self.n_targets))
            for at, reading in self._readings(table):
                scores[at] = total(self.parts, self.n_targets, reading, at.stop - at.start).T
            return scores
        few = self.scores_of_few(X)
        if few is not None:
            return few
        rows = self.bank.prepare(X)
        if self._empty:
            return np.zeros((rows.n_samples, self.n_targets))
        return cross_scores(self.bank, rows, self.support, self.weights, self.coefficients)

    def scores_of_few(self, X: object) -> Array | None:
        """Return the same for few rows of a table, kernel by kernel and hardly by BLAS; None if there are more."""
        few_rows = 8  # that are predicted kernel by kernel: what all kernels share takes longer to prepare
        if not isinstance(X, Table) or not 1 <= len(X) <= few_rows or not self._kernel_functions:
            return None
        values = self.bank.table.values(X)
        moderate = 1e100  # values whose squares and sums are far from overflow
        if not np.abs(values).max() < moderate:  # something is missing, or to be refused
            return None
        out = np.zeros((self.n_targets, len(values)))
        points: list[Array] = [values[:, places] for places in self._places]
        for target, group, function in self._kernel_functions:
            out[target] += function(points[group])
        return out.T

    def let_go(self) -> None:
        """Release the pieces of functions of single columns, quickly recomputed."""
        for part in self.parts:
            if isinstance(part.function, FourierSeries):
                part.function._drop_caches()

    @cached_property
    def _places(self) -> list[Array]:
        """The used columns of every group of kernels."""
        own: Any = self.bank.raw
        return [np.searchsorted(own.used, group.positions) for group in own.groups]

    @cached_property
    def _kernel_functions(self) -> list[tuple[int, int, LandmarkFunction]]:
        """Functions of Gaussian and linear kernels, with target and group; empty for other kernels."""
        bank, own, support = self.bank, self.bank.raw, self.support
        if not isinstance(own, TableKernels) or self._empty or support is None:
            return []
        plain = all(type(spec) in (Gaussian, Linear) and spec.column_widths is None for spec in own.specs)
        if not plain or own.sparse or bank.center or support.factors is not None:
            return []
        found = []
        for index, (group, places) in enumerate(zip(own.groups, self._places, strict=True)):
            points = support.data.points(index)
            if group.family == "squared_distance" and len(places) > 1:  # which are shifted
                points = points + own.shifts[places]
            for kernel, spec in zip(group.kernels, group.specs, strict=True):
                weights = self.weights[:, kernel, None] * bank.scales[kernel] * self.coefficients
                found += [(k, index, LandmarkFunction(spec, points, row)) for k, row in enumerate(weights) if row.any()]
        return found

    def active_contributions(self, X: object) -> Array:
        """Return the contribution of every active kernel to every function, (m, n, K) float64."""
        if is_chunked(X):
            return np.concatenate(list(self._evaluate_chunks(X, self.active_contributions)), axis=1)
        if self.support is None:
            table = Table.wrap(X)
            out = np.zeros((self.active.size, len(table), self.n_targets))
            for at, reading in self._readings(table):
                for part in self.parts:
                    out[part.kernel, at, part.target] = part(reading(part.kernel))
            return out
        rows = self.bank.prepare(X)
        out = np.zeros((self.active.size, rows.n_samples, self.n_targets))
        for at, values in (
            () if self._empty else _chunks(self.bank, rows, self.support, self.weights, self.coefficients)
        ):
            out[:, at] = values
        return out

    def _evaluate_chunks(self, X: Any, function: Callable[[Any], Array]) -> Iterator[Array]:
        """Yield a function of every chunk of rows, evaluated where the chunk is."""
        source = open_rows(X)
        names, known = source.columns, self.bank.table.column_names
        every = range(source.n_columns)
        chosen = every if names is None or known is None else [j for j in every if names[j] in known]
        own = None if names is None else [names[j] for j in chosen]
        return source.map(partial(_chunk_function, function, own), chosen)

    def contributions(self, X: object) -> Array:
        """Return the contribution of every kernel to every function, (M, n, K) float64; zero for inactive kernels."""
        active = self.active_contributions(X)
        parts = np.zeros((self.n_kernels, *active.shape[1:]))
        parts[self.active] = active
        return parts

    @property
    def _empty(self) -> bool:
        return not self.active.size or not self.coefficients.shape[1]

    def _readings(self, table: Table) -> Iterator[tuple[slice, Callable[[int], Reading]]]:
        """Yield slices of rows with their prepared form."""
        kernels = list(zip(self.bank.table.specs, self.bank.table.positions, strict=True))
        if any(own.kind != "number" for own in self.bank.table.encodings) and len(table) > CHUNK_ROWS:
            self.bank.table.values(table)  # reads each column once: the form of dates in text is that of all rows
        for start in range(0, len(table), CHUNK_ROWS):
            at = slice(start, min(start + CHUNK_ROWS, len(table)))
            whole = at == slice(0, len(table))
            values = self.bank.table.values(table if whole else table[np.arange(at.start, at.stop)])
            yield at, read_once(kernels, partial(self._reading, values))

    def _reading(self, values: Any, kernel: int) -> Reading:
        """Return standardized rows in the form of an active kernel, NaN for missing values."""
        own = self.bank.table
        places, family = np.searchsorted(own.used, own.positions[kernel]), own.specs[kernel].family
        if family == "features":
            return Reading(values.objects[int(places[0])], None)  # what is missing has no features
        points = np.ascontiguousarray(numbers_of(values)[:, places])
        gaps = np.isnan(points)
        if family == "missing":
            return Reading(np.where(gaps, UNSEEN, 0.0), None)
        if not gaps.any():
            return Reading(points, None)
        return Reading(np.where(gaps, 0.0, points), ~gaps.any(axis=1))


def _chunk_function(function: Callable[[Any], Array], names: list[Any] | None, data: Any) -> Array:
    """Return a function of a chunk with named columns, also for arrays."""
    return function(pd.DataFrame(data, columns=names) if names and isinstance(data, np.ndarray) else data)


def cross_scores(
    bank: FittedBank, new: PreparedRows[Any], support: PreparedRows[Any], weights: Array, coefficients: Array
) -> Array:
    """Return the functions of models at new rows, (n, K): weights (K, m), or (1, m) of all, and coefficients (K, N)."""
    if len(weights) == 1:
        return cross_apply(bank, new, support, weights[0], coefficients.T)
    scores = np.empty((new.n_samples, len(coefficients)), dtype=coefficients.dtype)
    targets_at_once = 4096  # whose coefficients are copied while predicting
    for first in range(0, len(coefficients), targets_at_once):
        some = slice(first, first + targets_at_once)
        for at, values in _chunks(bank, new, support, weights[some], coefficients[some]):
            scores[at, some] = values.sum(axis=0)
    return scores


def _chunks(
    bank: FittedBank, new: PreparedRows[Any], support: PreparedRows[Any], weights: Array, coefficients: Array
) -> Iterator[tuple[slice, Array]]:
    """Yield slices of rows, and ``d_km sum_i rho_ki k_m(x, x_i)`` there, (m, n, K) of the m kernels with weights."""
    active = weights.any(axis=0)
    per_row = np.count_nonzero(active) * len(coefficients) + coefficients.shape[1]
    step = max(1, CHUNK_ENTRIES // per_row)
    for start in range(0, new.n_samples, step):
        at = slice(start, min(start + step, new.n_samples))
        each = cross_apply_each(bank, new.take(at), support, active.astype(np.float64), coefficients.T)
        yield at, each * weights.T[active][:, None, :]


def cross_apply(
    bank: FittedBank, prepared_new: PreparedRows[Any], prepared_support: PreparedRows[Any], d: ArrayLike, rho: ArrayLike
) -> Array:
    """Decision values ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i)`` of new rows, without the intercept.

    Only kernels with ``d_m != 0`` and samples with ``rho_i != 0`` are computed, a few megabytes at a time.

    Parameters
    ----------
    bank : FittedBank
    prepared_new, prepared_support : PreparedRows
        Rows made ready by the bank.
    d : array_like of shape (n_kernels,)
    rho : array_like of shape (n_support,) or (n_support, k)

    Returns
    -------
    ndarray of shape (n_new,) or (n_new, k), float64

    Examples
    --------
    >>> from manykernels.kernels import KernelBank, Linear
    >>> X = [[1.0], [2.0]]
    >>> bank = KernelBank([("linear", Linear(), None)], normalize=None).fit(X)
    >>> cross_apply(bank, bank.prepare([[3.0]]), bank.prepare(X), [2.0], [1.0, -1.0])
    array([-6.])
    """
    weights, columns, vector = _check_coefficients(bank, prepared_support, d, rho)
    if isinstance(bank.raw, ProductKernels):
        new, support = bank.narrow(prepared_new).data, bank.narrow(prepared_support).data
        scores = pair_scores(bank.raw, new, support, weights, columns)
        return scores[:, 0] if vector else scores
    active, cols = np.flatnonzero(weights), np.flatnonzero(columns.any(axis=1))
    total = np.zeros((prepared_new.n_samples, columns.shape[1]))
    if cols.size:
        tiles, columns = TileEvaluator(bank, prepared_new, prepared_support), columns[cols]
        for at, rows, values in tiles.values(active, prepared_new.n_samples, cols):
            total[rows] += _combined(weights[active[at]], values) @ columns
    return total[:, 0] if vector else total


def cross_apply_each(
    bank: FittedBank, prepared_new: PreparedRows[Any], prepared_support: PreparedRows[Any], d: ArrayLike, rho: ArrayLike
) -> Array:
    """Contribution ``d_m sum_i rho_i k_m(x, x_i)`` of every active kernel; summed over kernels it is `cross_apply`.

    Parameters
    ----------
    bank : FittedBank
    prepared_new, prepared_support : PreparedRows
        Rows made ready by the bank.
    d : array_like of shape (n_kernels,)
    rho : array_like of shape (n_support,) or (n_support, k)

    Returns
    -------
    ndarray of shape (m_active, n_new) or (m_active, n_new, k), float64
        In the order of ``numpy.flatnonzero(d)``.

    Examples
    --------
    >>> from manykernels.kernels import KernelBank, Linear
    >>> X = [[1.0], [2.0]]
    >>> bank = KernelBank([("a", Linear(), None), ("b", Linear(), None)], normalize=None).fit(X)
    >>> cross_apply_each(bank, bank.prepare([[3.0]]), bank.prepare(X), [2.0, 1.0], [1.0, -1.0])
    array([[-6.],
           [-3.]])
    """
    weights, columns, vector = _check_coefficients(bank, prepared_support, d, rho)
    active, cols = np.flatnonzero(weights), np.flatnonzero(columns.any(axis=1))
    if isinstance(bank.raw, ProductKernels):
        new, support = bank.narrow(prepared_new).data, bank.narrow(prepared_support).data
        one = np.eye(bank.n_kernels)
        parts = np.array([pair_scores(bank.raw, new, support, weights[m] * one[m], columns) for m in active])
        parts = parts.reshape(len(active), new.n_samples, columns.shape[1])
        return parts[:, :, 0] if vector else parts
    each = np.zeros((len(active), prepared_new.n_samples, columns.shape[1]))
    if cols.size:
        tiles, columns = TileEvaluator(bank, prepared_new, prepared_support), columns[cols]
        for at, rows, values in tiles.values(active, prepared_new.n_samples, cols):
            each[at, rows] = values @ columns
    each *= weights[active][:, None, None]
    return each[:, :, 0] if vector else each


def cross_combine(
    bank: FittedBank, prepared_new: PreparedRows[Any], prepared_support: PreparedRows[Any], d: ArrayLike
) -> Array:
    """Weighted sum ``sum_m d_m k_m(x, x_i)`` between new rows and other rows, a single kernel matrix.

    Only kernels with ``d_m != 0`` are computed, a few megabytes at a time.

    Parameters
    ----------
    bank : FittedBank
    prepared_new, prepared_support : PreparedRows
        Rows made ready by the bank.
    d : array_like of shape (n_kernels,)

    Returns
    -------
    ndarray of shape (n_new, n_support), float64

    Examples
    --------
    >>> from manykernels.kernels import KernelBank, Linear
    >>> X = [[1.0], [2.0]]
    >>> bank = KernelBank([("linear", Linear(), None)], normalize=None).fit(X)
    >>> cross_combine(bank, bank.prepare([[3.0]]), bank.prepare(X), [2.0])
    array([[ 6., 12.]])
    """
    weights = check_vector(d, bank.n_kernels, "d")
    active = np.flatnonzero(weights)
    total = np.zeros((prepared_new.n_samples, prepared_support.n_samples))
    TileEvaluator(bank, prepared_new, prepared_support).add_sum(weights[active], active, total)
    return total


def _combined(weights: Array, values: Array) -> Array:
    """Return the weighted sum of kernels (m, r, c)."""
    return (weights @ values.reshape(len(values), -1)).reshape(values.shape[1:])


def _check_coefficients(
    bank: FittedBank, support: PreparedRows[Any], d: ArrayLike, rho: ArrayLike
) -> tuple[Array, Array, bool]:
    weights = check_vector(d, bank.n_kernels, "d")
    coefficients = check_columns(rho, support.n_samples, "rho")
    vector = coefficients.ndim == 1
    return weights, coefficients[:, None] if vector else coefficients, vector


def class_probabilities(scores: Array, single: bool) -> Array:
    """Return probabilities from the scores of logistic losses, (n, n_classes); rows sum to 1."""
    if single:
        return expit(np.hstack([-scores, scores]))
    # Relative to the largest score, so that no row is zero however certain the classifiers are.
    logs = -np.logaddexp(0.0, -scores)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
