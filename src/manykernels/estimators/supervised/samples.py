"""Training samples: checked rows, targets and weights, with labels as signs and without zero weights."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from numbers import Integral
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from manykernels.exceptions import InvalidInputError, warn
from manykernels.kernels import KernelStack, PairKernels, Pairs
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.pairs.data import as_pairs
from manykernels.kernels.precomputed.stack import as_kernel_stack
from manykernels.kernels.tables.encoding import some
from manykernels.validation.arrays import (
    BEYOND_FLOATS,
    LARGEST_FLOAT,
    Array,
    Order,
    TableLike,
    check_nonnegative_vector,
    check_positive,
    check_positive_vector,
    check_readable,
)
from manykernels.validation.parameters import drop_attributes, listed

MOST_NAMED = 6  # columns in a message
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-100, 1e100  # of all weights
Rows = Table | KernelStack | Pairs  # checked; all are indexed by samples


def check_rows(
    estimator: BaseEstimator, X: TableLike, *, precomputed: bool, reset: bool, read: Array | None = None
) -> Rows:
    """Check X, and keep (``reset``) or compare the number and names of columns; the only place where that happens.

    Of the columns known by name, a DataFrame to predict needs those in the mask ``read`` only.
    """
    rows = _check_rows(estimator, X, precomputed=precomputed, reset=reset, read=read)
    if read is not None and isinstance(rows, Table):
        estimator._expansion.bank.table.warn_of_unseen(rows)
    return rows


def _check_rows(estimator: BaseEstimator, X: TableLike, *, precomputed: bool, reset: bool, read: Array | None) -> Rows:
    """Return checked rows of X."""
    if precomputed:
        stack = as_kernel_stack(X, square=reset)
        if reset:
            estimator.n_features_in_ = stack.n_samples
        return stack
    if isinstance(X, Pairs) or isinstance(getattr(estimator, "kernels", None), PairKernels):
        if getattr(estimator, "kernels", None) is not None and not isinstance(estimator.kernels, PairKernels):
            raise InvalidInputError(
                f"X are Pairs, but kernels is a {type(estimator.kernels).__name__}: give kernels=PairKernels(left, "
                "right) with a bank for each kind of members, or None for the default ones."
            )
        pairs = as_pairs(X)
        if reset:
            estimator.n_features_in_ = 2
            drop_attributes(estimator, ["feature_names_in_"])
        return pairs
    table = Table.wrap(X, sparse=getattr(estimator, "_takes_sparse", False))
    if not reset:
        table = table.completed(getattr(estimator, "feature_names_in_", None))
        if _matches_columns(estimator, X, table, read):
            return table
    try:
        with invalid_input():
            validate_data(estimator, table.head, reset=reset, skip_check_array=True)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}{_what_is_read(estimator, table, read)}") from error
    if reset and table.is_sparse and getattr(estimator, "kernels", None) is None:
        _warn_of_spreads(table)
    return table


def _matches_columns(estimator: BaseEstimator, X: TableLike, table: Table, read: Array | None) -> bool:
    """Return whether the columns of new rows are plainly those of the fit, or have all that the model reads.

    The comparison of scikit-learn takes as long as to predict few rows.
    """
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return isinstance(X, np.ndarray) and table.n_columns == getattr(estimator, "n_features_in_", None)
    if table.columns is None:
        return False
    few = read is not None and table.n_columns < len(known)
    return table.columns == tuple(known) or (few and set(known[read]) <= set(table.columns) <= set(known))


def part_of(rows: Rows, numbers: Array, order: Order) -> Rows:
    """Return some rows; of a table in row or column order, which kernels held as factors read."""
    part = rows[numbers]
    return part.order_by_columns() if order == "F" and isinstance(part, Table) else part


def _warn_of_spreads(table: Table) -> None:
    """Warn of sparse columns of unequal spreads, unscaled under a single width."""
    mean, square = (np.asarray(each.mean(axis=0)).ravel() for each in (table.data, table.data.power(2)))
    spreads = np.sqrt(np.maximum(square - mean**2, 0.0))
    spreads = spreads[spreads > 0]
    unlike = 10.0  # standard deviation of a sparse column beside the median one, from which on it is told
    if len(spreads) and spreads.max() > unlike * np.median(spreads):
        warn(
            "X is sparse, so its columns are not standardized, and their standard deviations differ: the largest is "
            f"{spreads.max():.3g}, the median {np.median(spreads):.3g}. Large columns dominate kernels of all "
            f"columns; scale them first, for example with MaxAbsScaler, which keeps X sparse.",
        )


def _what_is_read(estimator: BaseEstimator, table: Table, read: Array | None) -> str:
    """Return the columns that would suffice, if fewer than all."""
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
    """The samples of positive weight."""

    rows: Rows
    y: Array  # (n,) labels, (n,) or (n, K) numbers
    weight: Array  # (n,) float64: Positive
    kept: Array  # (n,) int: positions of these samples among the given ones
    n_given: int
    groups: Array | None = None  # (n,) int: samples that belong together, whose targets change places as a whole

    @classmethod
    def create(cls, rows: Rows, y: Array, weight: Array, groups: ArrayLike | None = None) -> Samples:
        """Leave out the samples of weight zero."""
        check_lengths(len(rows), len(y))
        kept = np.flatnonzero(weight)
        labels = None if groups is None else np.asarray(groups)
        together = pd.factorize(labels)[0] if labels is not None and labels.shape == (len(y),) else None
        if len(kept) == len(weight):
            return cls(rows, y, weight, kept, len(weight), groups=together)
        some = None if together is None else together[kept]
        return cls(rows[kept], y[kept], weight[kept], kept, len(weight), groups=some)

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())

    def dealt(
        self,
        cv: object,
        splits: Callable[[Array, Any], Iterable[tuple[Array, Array]]],
        y: Array,
        groups: ArrayLike | None,
    ) -> list[tuple[Array, Array]]:
        """Return folds of the given samples; a number of folds is dealt among those that count.

        Splitters, and rows named, know of all samples given.
        """
        if len(self.kept) == self.n_given or not (cv is None or isinstance(cv, Integral)):
            return list(splits(y, groups))
        own = groups if groups is None or np.shape(groups)[:1] != (self.n_given,) else np.asarray(groups)[self.kept]
        return [(self.kept[train], self.kept[test]) for train, test in splits(y[self.kept], own)]

    def with_targets(self, targets: Array, weight: Array | None = None) -> Samples:
        """Return the samples with other targets, and optionally other positive weights."""
        return replace(self, y=targets, weight=self.weight if weight is None else weight)


# --- targets and weights --------------------------------------------------------------------------------------------


@contextmanager
def invalid_input() -> Iterator[None]:
    """Turn the errors of scikit-learn's checks into InvalidInputError, words unchanged."""
    try:
        yield
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInputError(str(error)) from error


def check_lengths(n_samples: int, n_targets: int) -> None:
    """Raise ``InvalidInputError`` unless X and y have equal length of at least two."""
    if n_samples != n_targets:
        raise InvalidInputError(f"X has {n_samples} samples but y has {n_targets}; they must have the same length.")
    if n_samples < 2:
        raise InvalidInputError(f"There is only n_samples={n_samples}; at least 2 samples are needed.")


def _n_columns(y: Any) -> int:
    """Return the number of columns of targets, 0 of a vector; objects that only become arrays have no shape."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return int(shape[1]) if len(shape) == 2 else 0


def label_matrix(y: Any) -> Array | None:
    """Return several labels a sample as 0, 1 and NaN for gaps, (N, T) float64; None of a single column.

    Raises
    ------
    InvalidInputError
        If columns hold anything else, or one value only.
    """
    if not issparse(y):
        y = np.asarray(y) if isinstance(y, (list, tuple)) and all(np.ndim(row) == 1 for row in y) else y
        if _n_columns(y) < 2:
            return None
    try:
        table = np.asarray(y.todense() if issparse(y) else pd.DataFrame(y).astype(np.float64), dtype=np.float64)
    except (TypeError, ValueError):
        table = np.full(np.shape(y), np.inf)
    if not (np.isin(table, (0.0, 1.0)) | np.isnan(table)).all():
        raise InvalidInputError(
            f"y has the shape {table.shape}: several labels a sample must each be 0 or 1, or missing. For columns of "
            "other classes take scikit-learn's MultiOutputClassifier, or give one column, such as y[:, 0]."
        )
    return table


def label_signs(labels: Array, weights: Array | None, names: Array, *, of_fold: bool) -> tuple[Array, float | None]:
    """Return signs of labels (n, T), times their weights if there are some, and the largest weight, None for ones.

    Missing labels, and one of a label that a fold has one value of, have the smallest weight.
    """
    known = np.isfinite(labels)
    signs = np.where(labels == 1.0, 1.0, -1.0)
    positive, negative = ((known & (signs == sign)).any(axis=0) for sign in (1.0, -1.0))
    constant = ~(positive & negative)
    if constant.any() and not of_fold:
        shown = listed(map(repr, names[constant][:MOST_NAMED].tolist()), int(constant.sum()))
        raise InvalidInputError(
            f"{int(constant.sum())} of {len(names)} labels have one value only ({shown}): nothing can be learned of "
            "them. Leave out these columns of y."
        )
    if weights is None and known.all() and not constant.any():
        return signs, None
    smallest_label = 1e-8  # weight of a missing label, beside one
    weighted = np.where(known, signs if weights is None else signs * weights, smallest_label * signs)
    weighted[0, constant] = np.where(negative[constant], smallest_label, -smallest_label)
    return weighted, float(np.abs(weighted).max())


def label_factors(class_weight: Mapping[Any, float] | str | None, labels: Array, weight: Array) -> Array | None:
    """Return the weight of every label (n, T) by its value and column; None for ones."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = [weight @ (labels == value) for value in (0.0, 1.0)]
        none, one = (np.sum(totals, axis=0) / (2.0 * np.maximum(total, SMALLEST_TOTAL)) for total in totals)
        return np.where(labels == 1.0, one, none)
    none, one = class_factors(class_weight, np.array([0, 1]), np.array([0, 1]), np.ones(2))
    return np.where(labels == 1.0, one, none)


def _check_objects(labels: Array) -> None:
    """Reject objects that are no labels of classes of one kind."""
    kinds = sorted({type(label).__name__ for label in labels})
    if len(kinds) > 1 and not all(isinstance(label, (int, float, np.number, np.bool_)) for label in labels):
        raise InvalidInputError(
            f"y holds labels of different types ({', '.join(kinds)}), which cannot be sorted. Convert them to "
            f"text: [str(label) for label in y]."
        )
    if (plain := pd.api.types.infer_dtype(labels)) in ("boolean", "integer"):
        raise InvalidInputError(
            f"y holds {plain} labels in an array of objects, as left by pandas after missing values. Convert "
            f"them: y.astype({'bool' if plain == 'boolean' else 'int'})."
        )
    if not isinstance(labels[0], (str, bytes, int, float, np.generic)):
        raise InvalidInputError(f"y holds labels of type {kinds[0]}. Make them text: [str(label) for label in y].")
    if any(isinstance(label, int) and abs(label) > LARGEST_FLOAT for label in labels):
        raise InvalidInputError(f"y holds {BEYOND_FLOATS}; as labels of classes, make them text.")


def class_labels(y: ArrayLike) -> Array:
    """Return class labels as a vector of any type, (N,)."""
    dtype = getattr(y, "dtype", None)
    if kind := NO_LABELS.get(getattr(dtype, "kind", "")):
        raise InvalidInputError(f"y holds {kind} ({dtype}). As labels of classes, make them text: y.astype(str).")
    check_readable(y, "y")
    _refuse_gaps(y)
    with invalid_input():
        given = _numpy_labels(y)
        if _n_columns(given) > 1:
            raise InvalidInputError(
                f"y has the shape {np.asarray(given).shape}, several labels a sample. MKLClassifier learns them; here "
                "give one column, such as y[:, 0], or take scikit-learn's MultiOutputClassifier."
            )
        labels = column_or_1d(given, warn=True)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        if labels.dtype == object:
            _check_objects(labels)
        if labels.dtype.kind != "f":
            n_classes = len(np.unique(labels))
            if n_classes == len(labels) > 2:
                raise InvalidInputError(
                    f"y has {n_classes} different labels for {n_classes} samples: every sample would be a separate "
                    f"class. Check the column; for numbers use a regressor, such as MKLRegressor."
                )
        check_classification_targets(labels)
    return labels


NO_LABELS = {"M": "dates", "m": "durations", "c": "complex numbers", "T": "text of variable width"}


def _numpy_labels(y: Any) -> Any:
    """Return labels of the types of pandas and Arrow in the type of NumPy with the same values.

    scikit-learn makes floats of nullable booleans and integers, so that True is predicted as 1.0.
    """
    if isinstance(y, pd.DataFrame):
        return _numpy_labels(y.iloc[:, 0]).to_frame() if y.shape[1] == 1 else y
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    plain = getattr(dtype, "numpy_dtype", dtype)
    return y.astype(plain) if getattr(plain, "kind", "") in ("b", "i", "u") else y


def numeric_targets(y: ArrayLike, *, advice: str = "use MKLClassifier", loss: object = "") -> Array:
    """Return regression targets as finite float64, (N,) or (N, K).

    Several columns are a copy; with the loss ``"squared"`` many columns in single precision stay so.
    """
    if issparse(y) and np.ndim(y) == 2 and np.shape(y)[1] > 1:
        y = cast("Any", y).toarray()
    check_readable(y, "y")
    hint = NO_RATE if loss in ("poisson", "gamma") else ""
    _refuse_gaps(y, hint)
    with invalid_input():
        many_targets = 8  # from here on targets may be in single precision
        try:
            y = np.asarray(y) if isinstance(y, (np.matrix, np.ma.MaskedArray)) else y
            kept = loss == "squared" and _n_columns(y) >= many_targets
            dtype = [np.float64, np.float32] if kept else np.float64
            found = check_array(y, dtype=dtype, ensure_2d=False, ensure_min_samples=1, input_name="y")
        except OverflowError as error:
            raise InvalidInputError(f"y holds {BEYOND_FLOATS} ({error}).") from error
        except TypeError as error:
            raise InvalidInputError(
                f"y must hold numbers ({error}). Turn dates into numbers, such as days since a date; to learn classes, "
                f"{advice}."
            ) from error
        except ValueError as error:
            if "infinity" in str(error):
                _refuse_infinite(np.asarray(y, dtype=np.float64), hint)
            if "could not convert" not in str(error):
                raise
            raise InvalidInputError(f"y must hold numbers ({error}). To learn classes, {advice}.") from error
    if found.ndim == 2:
        found = np.array(found, order="F")  # problems read columns, and models keep them
        release_pages(y)
    return found


def release_pages(values: object) -> None:
    """Give back the memory of pages that were read from a read-only memory map.

    The operating system reads them from the file again when they are needed.
    """
    source = getattr(values, "_mmap", None) if isinstance(values, np.memmap) and values.mode == "r" else None
    if source is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        source.madvise(mmap.MADV_DONTNEED)


NO_RATE = " A rate such as counts / exposure is not defined where the exposure is 0: leave these rows out."


def _refuse_infinite(y: Array, hint: str) -> None:
    """Raise ``InvalidInputError`` with the first infinite target."""
    rows = np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))
    raise InvalidInputError(
        f"Input y contains infinity: {len(rows)} of {len(y)} rows have an infinite target or one beyond float64, the "
        f"first at position {rows[0]}. Fit on the rows that have a finite target (numpy.isfinite).{hint}"
    )


def _refuse_gaps(y: Any, hint: str = "") -> None:
    """Say where targets or labels are missing, in a table by the columns, and the way out."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1 and y.dtype.kind in "fO":
        y = pd.DataFrame(y)
    if not isinstance(y, pd.DataFrame):
        missing = np.asarray(pd.isna(y))
        if missing.ndim == 1 and missing.any():
            raise InvalidInputError(
                f"Input y contains NaN: {missing.sum()} of {len(missing)} values are missing, the first at position "
                f"{missing.argmax()}. Fit on the rows that have a target: rows = ~pandas.isna(y).{hint}"
            )
        return
    if len(gaps := y.isna().sum().loc[lambda count: count > 0]):
        shown = listed((f"{name!r} ({count} of {len(y)})" for name, count in gaps.head(MOST_NAMED).items()), len(gaps))
        raise InvalidInputError(
            f"Input y contains NaN: values are missing in {len(gaps)} of {y.shape[1]} outputs: {shown}. Fit each of "
            "these on the rows that have it (rows = y[name].notna(); fit(X[rows], y[name][rows])), or impute."
        )


def names_of_targets(y: ArrayLike) -> Array | None:
    """Return the column names of a DataFrame or Series, (K,) text; None unless distinct texts."""
    named = y.columns if isinstance(y, pd.DataFrame) else [y.name] if isinstance(y, pd.Series) else []
    names = list(named)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    return np.array(names, dtype=object)


def encode_labels(labels: Array) -> tuple[Array, Array, Array]:
    """Return classes, the class number of every sample, and the columns of signs of the problems to solve."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError(
            f"y has only one class, {classes.tolist()[0]!r} (of samples with positive weight); a classifier needs at "
            "least two classes."
        )
    positive = codes[:, None] == (np.arange(len(classes)) if len(classes) > 2 else np.array([1]))
    return classes, codes, np.where(positive, 1.0, -1.0)


def likeliest(classes: Array, values: Array) -> Array:
    """Return the class of the largest score; a single score decides between two by the sign."""
    return classes[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]


def sample_weights(sample_weight: ArrayLike | None, n_samples: int) -> Array:
    """Return sample weights as a vector, ones by default; at least one must be positive."""
    if sample_weight is None:
        return np.ones(n_samples)
    check_readable(sample_weight, "sample_weight")
    values = np.asarray(sample_weight)
    if values.ndim == 0:
        return np.full(n_samples, check_positive(values[()], "sample_weight"))
    weight = check_nonnegative_vector(values, n_samples, "sample_weight")
    if not weight.any():
        raise InvalidInputError("sample_weight is zero for every sample; at least one must be positive.")
    if not SMALLEST_TOTAL <= weight.sum() <= LARGEST_TOTAL:
        raise InvalidInputError(
            f"sample_weight sums to {weight.sum():.3g}, where float64 loses the objective. Rescale it, for example to "
            f"a mean of 1."
        )
    return weight


def class_factors(class_weight: Mapping[Any, float] | str | None, classes: Array, codes: Array, weight: Array) -> Array:
    """Return the weight of every class, (n_classes,) float64."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, weights=weight, minlength=len(classes))
        return weight.sum() / (len(classes) * totals)
    if not isinstance(class_weight, Mapping):
        raise InvalidInputError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}.")
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in set(labels)]
    # A training fold may lack a class that the dict knows; a misspelled label leaves another one without weight.
    if unknown and any(label not in class_weight for label in labels):
        raise InvalidInputError(f"class_weight names {unknown[:5]}, but the classes are {labels[:20]}.")
    factors = [check_positive(class_weight.get(label, 1.0), f"class_weight[{label!r}]") for label in labels]
    return np.array(factors)


def kernel_factors(kernel_penalties: ArrayLike | Mapping[str, float] | None, names: tuple[str, ...]) -> Array | None:
    """Return the penalty of every kernel, (M,) float64, or None if all are 1."""
    if kernel_penalties is None:
        return None
    if not isinstance(kernel_penalties, Mapping):
        values = np.asarray(kernel_penalties)
        if values.shape != (len(names),):
            raise InvalidInputError(
                f"kernel_penalties must have one entry for each of the {len(names)} kernels, got shape {values.shape}."
            )
        if (free := np.flatnonzero(values == 0)).size:
            raise InvalidInputError(_zero_penalty_message(f"entry {free[0]} of kernel_penalties", names[free[0]]))
        return check_positive_vector(values, len(names), "kernel_penalties")
    factors = np.ones(len(names))
    for pattern, factor in sorted(kernel_penalties.items(), key=lambda item: item[0] in names):
        chosen = [name == pattern if pattern in names else fnmatchcase(name, str(pattern)) for name in names]
        if not any(chosen):
            raise InvalidInputError(f"kernel_penalties names {pattern!r}, but the kernels are {list(names[:5])} ...")
        if factor == 0:
            raise InvalidInputError(_zero_penalty_message(f"kernel_penalties[{pattern!r}]", pattern))
        factors[chosen] = check_positive(factor, f"kernel_penalties[{pattern!r}]")
    return factors


def _zero_penalty_message(what: str, name: str) -> str:
    """Return the message for a penalty factor of zero."""
    return (
        f"{what} is 0, but factors must be positive. To fit a kernel without penalty, pass penalty={{{name!r}: None}}."
    )
