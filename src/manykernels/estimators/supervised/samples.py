"""Training samples after the one check: rows, targets and weights, and the samples of weight zero left out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from manykernels.estimators.supervised.targets import check_lengths, invalid_input
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import KernelStack, PairKernels, Pairs
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.pairs.data import as_pairs
from manykernels.kernels.precomputed.stack import as_kernel_stack
from manykernels.kernels.tables.encoding import some
from manykernels.validation.arrays import Array, TableLike

UNLIKE = 10.0  # standard deviation of a sparse column beside the median one, from which on it is told
Rows = Table | KernelStack | Pairs  # checked; all are indexed by samples


def checked_rows(
    estimator: BaseEstimator, X: TableLike, *, precomputed: bool, reset: bool, read: Array | None = None
) -> Rows:
    """Check X, and keep (``reset``) or compare its number and names of columns; the only place where that happens.

    Of the columns that are known by name, a DataFrame to predict needs those in the mask ``read`` only.
    """
    if precomputed:
        stack = as_kernel_stack(X, square=reset)
        if reset:
            estimator.n_features_in_ = stack.n_samples
        return stack
    if isinstance(X, Pairs) or isinstance(getattr(estimator, "kernels", None), PairKernels):
        return _checked_pairs(estimator, X, reset)
    table = Table.of(X, sparse=getattr(estimator, "_takes_sparse", False))
    if not reset:
        table = table.completed(getattr(estimator, "feature_names_in_", None))
        if _has_what_is_read(estimator, table, read):
            return table
    try:
        with invalid_input():
            validate_data(estimator, table.head, reset=reset, skip_check_array=True)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}{_what_is_read(estimator, table, read)}") from error
    if reset and table.is_sparse and getattr(estimator, "kernels", None) is None:
        _warn_of_spreads(table)
    return table


def _warn_of_spreads(table: Table) -> None:
    """Say that sparse columns are read as they are, where one width cannot suit them all."""
    mean, square = (np.asarray(each.mean(axis=0)).ravel() for each in (table.data, table.data.power(2)))
    spreads = np.sqrt(np.maximum(square - mean**2, 0.0))
    spreads = spreads[spreads > 0]
    if len(spreads) and spreads.max() > UNLIKE * np.median(spreads):
        warnings.warn(
            "X is sparse, so its columns are not standardized, and their standard deviations differ: the largest is "
            f"{spreads.max():.3g}, the median {np.median(spreads):.3g}. Large columns decide what kernels of all "
            "columns see; divide them by their size first, such as by MaxAbsScaler, which keeps X sparse.",
            UserWarning,
            stacklevel=6,
        )


def _checked_pairs(estimator: BaseEstimator, X: TableLike, reset: bool) -> Pairs:
    """Return pairs, if the estimator has kernels of pairs or none of its own."""
    if getattr(estimator, "kernels", None) is not None and not isinstance(estimator.kernels, PairKernels):
        raise InvalidInputError(
            f"X are Pairs, but kernels is a {type(estimator.kernels).__name__}: give kernels=PairKernels(left, right) "
            "with a bank for each kind of members, or None for the default ones."
        )
    pairs = as_pairs(X)
    if reset:
        estimator.n_features_in_ = 2
        estimator.__dict__.pop("feature_names_in_", None)
    return pairs


def _has_what_is_read(estimator: BaseEstimator, table: Table, read: Array | None) -> bool:
    """Whether a table lacks columns, but none that the kernels use, and has no others than those of fit."""
    known = getattr(estimator, "feature_names_in_", None)
    if read is None or known is None or table.columns is None or table.n_columns >= len(known):
        return False
    return set(known[read]) <= set(table.columns) <= set(known)


def _what_is_read(estimator: BaseEstimator, table: Table, read: Array | None) -> str:
    """Return which columns would do, where that is fewer than all."""
    known = getattr(estimator, "feature_names_in_", None)
    if read is None or known is None or table.columns is None or read.all():
        return ""
    return f"\nThe kernels read only: {some(list(known[read]))}."


def check_alignment(rows: Rows, y: ArrayLike) -> None:
    """Refuse views without common samples, and targets with the labels of their samples in another order."""
    if not isinstance(rows, Table) or rows.views is None:
        return
    rows.views.check_overlap()
    if not isinstance(y, (pd.Series, pd.DataFrame)):
        return
    index = rows.views.index
    if len(index) == len(y) and not y.index.equals(index) and not len(index.difference(y.index)):
        raise InvalidInputError(
            "y has the labels of the samples of the views, but in another order. Pass views.align(y)."
        )


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of positive weight, out of those that were given."""

    rows: Rows
    y: Array  # (n,) labels, (n,) or (n, K) numbers
    weight: Array  # (n,) float64: Positive
    kept: Array  # (n,) int: positions of these samples among the given ones
    n_given: int
    # (n,) float64 or None: the weights without those of the classes, where there are such
    own_weight: Array | None = None
    groups: Array | None = None  # (n,) int: samples that belong together, whose targets change places as a whole

    @classmethod
    def of(cls, rows: Rows, y: Array, weight: Array, groups: ArrayLike | None = None) -> Samples:
        """Leave out the samples of weight zero."""
        check_lengths(len(rows), len(y))
        kept = np.flatnonzero(weight)
        labels = None if groups is None else np.asarray(groups)
        together = pd.factorize(labels)[0] if labels is not None and labels.shape == (len(y),) else None
        if len(kept) == len(weight):
            return cls(rows, y, weight, kept, len(weight), groups=together)
        some = None if together is None else together[kept]
        return cls(rows[kept], y[kept], weight[kept], kept, len(weight), groups=some)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())

    def with_targets(self, targets: Array, weight: Array | None = None) -> Samples:
        """Return the samples with other targets, and other positive weights if they are given."""
        if weight is None:
            return replace(self, y=targets)
        return replace(self, y=targets, weight=weight, own_weight=self.weight)
