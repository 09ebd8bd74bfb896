"""Sparse matrices and DataFrames of sparse columns as rows in compressed form, checked."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse

from manykernels.exceptions import InvalidInputError, InvalidInputTypeError
from manykernels.kernels.tables.issues import ColumnIssue
from manykernels.validation.arrays import Array


class Named(Protocol):
    """A table with names of its columns, which are made anew each time they are asked for."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""


def is_sparse_frame(X: pd.DataFrame) -> bool:
    """Tell whether every column of a DataFrame is sparse, with numbers that are zero where nothing is stored."""
    kinds = set(X.dtypes)
    return bool(kinds) and all(
        isinstance(kind, pd.SparseDtype) and kind.subtype.kind in "biuf" and kind.fill_value == 0 for kind in kinds
    )


def compressed(X: Any) -> csr_array:
    """Return a sparse matrix, a DataFrame of sparse columns or an array as rows, float64 in canonical form.

    What was passed in is not modified, and not copied if it has that form.
    """
    if isinstance(X, pd.DataFrame):
        frame: Any = X
        X = frame.sparse.to_coo()
    if issparse(X) and X.dtype.kind not in "biuf":
        raise InvalidInputTypeError(f"X is a sparse matrix of dtype {X.dtype}; kernels need real numbers.")
    rows = csr_array(X).astype(np.float64, copy=False)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise InvalidInputError(f"X must have at least one row and one column, got shape {rows.shape}.")
    return rows


def stored_issues(rows: csr_array, table: Named, used: Any) -> list[ColumnIssue]:
    """Return a problem for each column with stored entries that are NaN or infinite: none can be masked here."""
    if np.isfinite(rows.data).all():
        return []
    found, every = [], table.names
    for sort, wrong in (("stored", np.isnan(rows.data)), ("infinite", np.isinf(rows.data))):
        counts: Array = np.bincount(rows.indices[wrong], minlength=rows.shape[1])
        found += [ColumnIssue(every[used[j]], sort, f"{counts[j]} of {rows.shape[0]}") for j in np.flatnonzero(counts)]
    return found


REFUSAL = (
    "X is a sparse matrix of shape {shape}, but kernels read dense columns here. MKLClassifier, MKLRegressor and their "
    "CV variants take sparse X in linear, polynomial and Gaussian kernels of many columns; elsewhere reduce the "
    "columns (scikit-learn's TruncatedSVD in a pipeline), or pass X.toarray() if that fits into memory."
)
