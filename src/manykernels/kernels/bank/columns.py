"""The table behind the kernels: the columns as numbers, and their positions in a new table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Number
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array

from manykernels.exceptions import InvalidInputError, InvalidInputTypeError
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.specs.objects import read_objects
from manykernels.kernels.tables.encoding import Encoding, plain, select_columns, some
from manykernels.kernels.tables.foreign import is_annotated, is_foreign, to_data_frame
from manykernels.kernels.tables.kinds import (
    READ_AS,
    REFUSAL,
    ColumnIssue,
    compressed,
    describe,
    entry_issues,
    is_sparse_frame,
    kind_of,
    kind_of_dtype,
    refuse,
)
from manykernels.kernels.tables.views import Views
from manykernels.validation.arrays import BEYOND_FLOATS, Array, Order, check_readable

NUMBERS, OBJECTS = Encoding(), Encoding("objects")
ROWS_AT_ONCE = 1024  # that are turned
BY_COLUMNS = (
    50_000  # rows from which on tables that are made here are in column order, as those want them who take many
)


@dataclass(frozen=True, eq=False)
class Table:
    """A table: the column names (None for an array) and a way to the columns as float64.

    Indexing by rows returns a table without a second read.
    """

    data: Any  # DataFrame, float64 array, or rows in compressed form
    columns: tuple[Any, ...] | None
    views: Views | None = None
    _kinds: dict[int, str] = field(default_factory=dict)
    _encodings: dict[int, Encoding] = field(default_factory=dict)
    _read: dict[tuple[int, Encoding], Array] = field(default_factory=dict)  # columns of a DataFrame as they were read
    expanded: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # banks and their kernels here, by identity

    @classmethod
    def wrap(cls, X: object, *, sparse: bool = False) -> Table:
        """Check the shape of ``X`` (DataFrame, Views, array, nested lists) and wrap it; a table stays unchanged.

        Sparse matrices, also of AnnData, and DataFrames of sparse columns stay sparse where ``sparse`` allows it.
        """
        if isinstance(X, Table):
            return X
        if sparse and issparse(X):
            return cls(compressed(X), None)
        if isinstance(X, pd.DataFrame) and X.columns.nlevels == 2:
            X = Views(X)
        if isinstance(X, Views):
            return cls(X.frame, tuple(X.frame.columns), X)
        if sparse and is_annotated(X) and issparse(cast("Any", X).X):
            return cls(compressed(cast("Any", X).X), tuple(cast("Any", X).var_names))
        if is_foreign(X):
            X = to_data_frame(X)
        if isinstance(X, pd.Series):
            raise InvalidInputError(
                "X is a Series, one column or one row of a table. Pass X.to_frame() for a column, X.to_frame().T for a "
                "row, or rows.iloc[[0]] in place of rows.iloc[0]."
            )
        if not isinstance(X, pd.DataFrame):
            return cls(_check_array(X), None)
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise InvalidInputError(f"X must have at least one row and one column, got shape {X.shape}.")
        if not X.columns.is_unique:
            repeated = list(X.columns[X.columns.duplicated()].unique())
            raise InvalidInputError(f"Column names must differ, but {repeated[:5]} appear more than once.")
        return cls(compressed(X) if sparse and is_sparse_frame(X) else X, tuple(X.columns))

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def __getitem__(self, rows: Array) -> Table:
        views = None if self.views is None else self.views[rows]
        if views is not None:
            data: Any = views.frame
        else:
            data = self.data.iloc[rows] if isinstance(self.data, pd.DataFrame) else self.data[rows]
        read = {key: column[rows] for key, column in self._read.items()}
        return Table(data, self.columns, views, self._kinds, self._encodings, read)

    def order_by_columns(self) -> Table:
        """Return the same rows, arrays in column order, for in-place reads by kernels held as factors."""
        if isinstance(self.data, np.ndarray) and not self.data.flags.f_contiguous:
            return replace(self, data=_copy_columns(self.data, self.data.dtype))
        return self

    @property
    def original(self) -> Any:
        """The rows as given: views, or a DataFrame, array or sparse matrix."""
        if self.is_sparse and self.columns is not None:
            by_column, zero = self.data.tocsc(), pd.SparseDtype(self.data.dtype, 0.0)  # some pandas take gaps for it
            whole = (by_column[:, [j]].toarray().ravel() for j in range(self.n_columns))
            frame = pd.DataFrame({j: pd.arrays.SparseArray(column, dtype=zero) for j, column in enumerate(whole)})
            return frame.set_axis(pd.Index(self.columns), axis=1)
        return self.data if self.views is None else self.views

    @property
    def head(self) -> Any:
        """Number and names of the columns, cheap to compare."""
        if self.is_sparse and self.columns is not None:
            return pd.DataFrame(np.empty((0, self.n_columns)), columns=pd.Index(self.columns))
        return self.data

    @cached_property
    def is_sparse(self) -> bool:
        """Whether the rows are in compressed form."""
        return issparse(self.data)

    @cached_property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names as text; ``x0, x1, ...`` for an array."""
        if self.columns is None:
            return tuple(f"x{j}" for j in range(self.n_columns))
        return tuple(str(column) for column in self.columns)

    @cached_property
    def places(self) -> dict[Any, int] | None:
        """Where every column is, by the name; None for an array."""
        return None if self.columns is None else {column: j for j, column in enumerate(self.columns)}

    def positions(self, selection: object) -> tuple[int, ...]:
        """Return the integer positions of a column selection, see :func:`select_columns`."""
        return tuple(range(self.n_columns)) if selection is None else select_columns(selection, self.data, self.places)

    @cached_property
    def view_positions(self) -> dict[str, tuple[int, ...]]:
        """The columns of every view; empty for other tables."""
        if self.views is None or self.places is None:
            return {}
        return {name: tuple(self.places[j] for j in columns) for name, columns in self.views.columns.items()}

    def completed(self, columns: Sequence[str] | None) -> Table:
        """Return the table completed by the views of the model; ``columns`` are all columns."""
        if self.views is None or columns is None or self.columns == tuple(columns):
            return self
        return Table.wrap(self.views.completed(columns))

    # --- what the columns hold ---------------------------------------------------------------------------------------

    @property
    def holds_numbers(self) -> bool:
        """Return whether the rows are a numeric array."""
        return not isinstance(self.data, pd.DataFrame)

    def kind(self, column: int) -> str:
        """Return the kind of a column, see `manykernels.kernels.tables.kinds`."""
        if not isinstance(self.data, pd.DataFrame):
            return "number"
        if column not in self._kinds:
            kind = kind_of_dtype(self._dtypes[column])
            self._kinds[column] = kind_of(self._column(column)) if kind is None else kind
        return self._kinds[column]

    def know_kind(self, column: int, kind: str) -> None:
        """Set the kind of a column, for a sample of inspected rows."""
        self._kinds[column] = kind

    @cached_property
    def _dtypes(self) -> list[Any]:
        return list(self.data.dtypes) if isinstance(self.data, pd.DataFrame) else []

    def encoding(self, column: int) -> Encoding:
        """Return the encoding of a column as numbers, if readable by a kernel."""
        if not isinstance(self.data, pd.DataFrame):
            return NUMBERS
        if column not in self._encodings:
            kind = self.kind(column)
            plain = READ_AS.get(kind) == "number"
            self._encodings[column] = Encoding(kind) if plain else Encoding.fit(self._column(column), kind)
        return self._encodings[column]

    def codes(
        self, positions: Iterable[int], encodings: Iterable[Encoding] | None = None, *, order: Order = "C"
    ) -> Array:
        """Return columns as (n, k) float64, NaN where a value is missing; by their encodings or by given ones.

        All columns of an array of float64 are the array itself: nobody may write into what is returned. So it is in
        column order, "F", of arrays in that order; single precision then stays unchanged.
        """
        positions = [int(j) for j in positions]
        if isinstance(self.data, pd.DataFrame):
            chosen = [self.encoding(j) for j in positions] if encodings is None else list(encodings)
            keys = list(zip(positions, chosen, strict=True))
            self._read_new(keys)
            return np.array([self._read[key] for key in keys]).reshape(len(keys), len(self)).T
        others = [(k, own) for k, own in enumerate(encodings or ()) if own is not NUMBERS and own != NUMBERS]
        values = self._numbers(positions, order)
        if others:
            values = values.copy()
        for k, own in others:
            values[:, k] = own.encode(pd.Series(values[:, k], name=self.names[positions[k]]))
        return values

    def _numbers(self, positions: list[int], order: Order) -> Array:
        """Return columns of an array, or of rows in compressed form."""
        if self.is_sparse:
            return np.asarray(self.compressed(positions).toarray())
        whole = positions == list(range(self.n_columns))
        dtype = self.data.dtype if order == "F" else np.dtype(np.float64)
        turned = order == "F" or (len(self) >= BY_COLUMNS and self.data.dtype != np.float64)
        values = self.data if whole else self.data[:, positions]
        if turned and values.flags.c_contiguous and not values.flags.f_contiguous:
            return _copy_columns(values, dtype)
        return np.asarray(values, dtype=dtype, order="F" if turned else None)

    def describe_unseen(self, column: int, encoding: Encoding) -> str:
        """Return name, count and examples of a column with mostly unseen levels; else ""."""
        codes = self.codes([column], [encoding])[:, 0]
        unseen, n_known = codes == UNSEEN, int((~np.isnan(codes)).sum())
        count = int(unseen.sum())
        # values that warrant a warning (one new level in a single row does not); examples
        least_unseen, shown_levels = 2, 3
        if count < least_unseen or 2 * count <= n_known:
            return ""
        values = self._column(column)[unseen].unique()[:shown_levels]
        known = ", ".join(repr(level) for level in encoding.levels[:shown_levels])
        return (
            f"{self.names[column]!r} ({count} of {n_known}, such as {', '.join(repr(plain(v)) for v in values)}; known "
            f"are {known}{', ...' if len(encoding.levels) > shown_levels else ''})"
        )

    def objects(self, column: int) -> Array:
        """Return a column unchanged, (n,) object, None where nothing is known."""
        if not isinstance(self.data, pd.DataFrame):
            raise InvalidInputError(
                f"Column {self.names[column]!r} is to be read as objects, such as sequences, and arrays hold numbers. "
                'Pass a DataFrame: pd.DataFrame({"dna": sequences}).'
            )
        return read_objects(self._column(column))

    def compressed(self, positions: Sequence[int] | Array) -> csr_array:
        """Return columns as sparse rows, (n, k) in canonical form."""
        if not self.is_sparse:
            return compressed(csr_array(self.codes(positions)))
        if len(positions) == self.n_columns and np.array_equal(positions, np.arange(self.n_columns)):
            return self.data
        return compressed(self.data[:, list(positions)])

    def _read_new(self, keys: list[tuple[int, Encoding]]) -> None:
        """Read the columns not yet requested, by the encodings."""
        new = [key for key in dict.fromkeys(keys) if key not in self._read]
        numbers = [(j, given) for j, given in new if _is_plain(self._dtypes[j], given)]
        # columns of a DataFrame up to which one after the other is less to do than all of them together
        one_by_one = 16
        if len(numbers) > one_by_one:
            block = self.data.iloc[:, [j for j, _ in numbers]].to_numpy(dtype=np.float64)
            self._read.update(zip(numbers, block.T, strict=True))
        for j, given in new:
            if (j, given) not in self._read:
                self._read[j, given] = given.encode(self._column(j))

    def _column(self, position: int) -> pd.Series[Any]:
        """Return a column of a DataFrame by name, ten times faster than by position."""
        name = None if self.columns is None else self.columns[position]
        return self.data[name] if isinstance(name, str) else self.data.iloc[:, position]

    def lacking(self, positions: Sequence[int]) -> Array | None:
        """Return a mask of entries in missing views, (n, k) bool; None without views."""
        if self.views is None:
            return None
        owner = {j: v for v, columns in enumerate(self.view_positions.values()) for j in columns}
        absent = ~self.views.present.to_numpy()
        return absent[:, [owner[int(j)] for j in positions]]

    def numeric(self, positions: Iterable[int]) -> Array:
        """Return the columns as (n, k) finite float64, or reject all invalid entries at once."""
        positions = [int(j) for j in positions]
        problems = [
            found for j in positions for found in self.unreadable(j, frozenset({"number"}), "numbers are needed")
        ]
        readable = [j for j in positions if READ_AS.get(self.kind(j)) == "number"]
        values = self.codes(readable)
        refuse(problems + entry_issues(values, None, [self.names[j] for j in readable], "error"))
        return values

    def numbers_only(self, columns: Iterable[int], asked: str) -> None:
        """Reject all nonnumeric columns at once."""
        if isinstance(self.data, pd.DataFrame):
            refuse([found for j in columns for found in self.unreadable(j, frozenset({"number"}), asked)])

    def unreadable(self, column: int, kinds: frozenset[str], kernel: str) -> list[ColumnIssue]:
        """Return the reason why a kernel for some kinds cannot read the column, if any."""
        kind = self.kind(column)
        if READ_AS.get(kind) in kinds:
            return []
        held = describe(self._column(column))  # arrays hold numbers only
        if kind not in READ_AS:
            return [ColumnIssue(self.names[column], "unusable", held)]
        return [ColumnIssue(self.names[column], "numbers", f"{held}; {kernel}")]


def _copy_columns(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in column order, copied in blocks that fit into a cache."""
    out = np.empty(values.shape, dtype, order="F")
    for start in range(0, len(values), ROWS_AT_ONCE):
        out[start : start + ROWS_AT_ONCE] = values[start : start + ROWS_AT_ONCE]
    return out


def _is_plain(dtype: Any, encoding: Encoding) -> bool:
    """Return whether an encoding reads numbers of NumPy of the type unchanged."""
    kinds = {"number": "biuf", "boolean": "b"}.get(encoding.kind, "")
    return isinstance(dtype, np.dtype) and dtype.kind in kinds and encoding.tails is None


def check_array_readable(encodings: Iterable[Encoding]) -> None:
    """Raise ``InvalidInputError`` for an array, with numeric columns only, that cannot replace the table of fit."""
    if not all(encoding.kind in ("number", "boolean") for encoding in encodings):
        raise InvalidInputError(
            "The kernels read categories, dates or durations of a DataFrame; pass a DataFrame instead of an array."
        )


def locate_columns(
    table: Table, used: Array, n_features: int, feature_names: tuple[str, ...] | None
) -> tuple[int, ...]:
    """Return where columns seen in fit are in a new table: by name if both have names, else by position."""
    if feature_names is None or table.columns is None:
        if table.n_columns != n_features:
            raise InvalidInputError(
                f"X has {table.n_columns} features, but the bank was fitted with {n_features}; pass the same."
            )
        return tuple(int(j) for j in used)
    wanted = [feature_names[j] for j in used]
    place = table.places or {}
    missing = sorted(set(wanted) - set(place))
    if missing:
        raise InvalidInputError(f"X lacks {len(missing)} column(s) that the kernels use: {some(missing)}.")
    return tuple(place[name] for name in wanted)


def _check_array(X: Any) -> Array:
    if type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size:
        return X  # as it would come out of all that follows
    if issparse(X):
        raise InvalidInputTypeError(REFUSAL.format(shape=X.shape))
    check_readable(X, "X")
    if isinstance(X, (np.matrix, np.ma.MaskedArray)):
        X = np.asarray(X)
    if wrong := _no_table(X):
        raise InvalidInputError(wrong)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            # Single precision stays as it is until columns are read, and no array of floats is copied.
            return check_array(X, dtype=[np.float64, np.float32], input_name="X", ensure_all_finite=False)
    except RuntimeWarning as warning:
        raise InvalidInputError(f"X cannot be read as float64: {warning}.") from warning
    except OverflowError as error:
        raise InvalidInputError(f"X holds {BEYOND_FLOATS} ({error}).") from error
    except TypeError as error:
        raise InvalidInputTypeError(_describe_type(X, error)) from error
    except ValueError as error:
        raise InvalidInputError(_describe_shape(X, error)) from error


def _describe_type(X: Any, error: TypeError) -> str:
    """Return the error message for an object with values that are not numbers."""
    if hasattr(X, "sample_ids"):
        return "X is a KernelStack, which holds matrices of kernels: pass kernels='precomputed' or a PrecomputedBank."
    return (
        f"X has values that are not numbers ({error}). Arrays hold numbers only; the columns of a DataFrame may "
        "also be dates, categories or booleans."
    )


def _describe_shape(X: Any, error: ValueError) -> str:
    """Return the error message for an array that is not two-dimensional, or holds text."""
    shape = np.shape(X)
    if len(shape) <= 2:
        return f"{error}{_text_in(X)}"
    advice = "Make one row of numbers a sample, as X.reshape(len(X), -1) does"
    if shape[-1] == shape[-2]:
        advice = "These may be matrices of kernels: then pass kernels='precomputed'"
    return f"X has {len(shape)} dimensions, shape {shape}, and a table of samples has 2. {advice}."


def _no_table(X: Any) -> str:
    """Return the error message for an object without numeric rows, or an empty text."""
    dtype = getattr(X, "dtype", None)
    if X is None or isinstance(X, (str, bytes, Number)):
        shown = X[:40] if isinstance(X, (str, bytes)) else X
        return f"X is {shown!r}, no table of samples. Pass a DataFrame, or an array of numbers with a row a sample."
    if getattr(dtype, "kind", "") == "c":
        return f"Complex data not supported: X holds {dtype}. Pass real and imaginary parts as columns."
    if getattr(dtype, "names", None) or (isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping)):
        return f"X is a {'list of dicts' if dtype is None else 'structured array'}. Pass pandas.DataFrame(X)."
    return ""


def _text_in(X: Any) -> str:
    """Return the position of the first text in an array of numbers, if any."""
    for i, row in enumerate(np.asarray(X, dtype=object)):
        for j, value in enumerate(np.atleast_1d(row)):
            if isinstance(value, str) and not _is_number(value):
                return (
                    f", in row {i} of column {j} of X. Arrays hold numbers only; columns of a DataFrame may also be "
                    "categories, dates or booleans: pass the table from which X was made, or "
                    "pandas.DataFrame(X).infer_objects()."
                )
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
