"""Estimators at the end of a pipeline: displays use the last step, with the feature names of the earlier steps."""

import copy
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.selection.routing import fit_groups, is_routing_enabled
from manykernels.validation.arrays import Array, TableLike

NUMBERED = re.compile(r"x(\d+)\Z")  # what a column of an array is called


def last_step(model: BaseEstimator) -> Any:
    """Return the estimator at the end of a pipeline; another model unchanged."""
    return last_step(model[-1]) if isinstance(model, Pipeline) else model


def unwrapped(model: BaseEstimator, X: TableLike | None = None) -> tuple[Any, Any]:
    """Return the estimator at the end of a fitted pipeline, and the rows in the input form; another model unchanged.

    If the earlier steps return arrays and have ``get_feature_names_out``, the estimator is a copy with the names, and
    the rows are a DataFrame.
    """
    if not isinstance(model, Pipeline):
        return model, X
    check_is_fitted(model)
    if len(model) == 1:
        return unwrapped(model[-1], X)
    before, inner = model[:-1], model[-1]
    rows = None if X is None else before.transform(X)
    names = _names(before, last_step(inner))
    if names is None:
        return unwrapped(inner, rows)
    if rows is not None and not isinstance(inner, Pipeline):
        make = _sparse_frame if issparse(rows) else pd.DataFrame
        rows = make(rows, columns=names, index=getattr(X, "index", None))
    if isinstance(inner, Pipeline):
        return unwrapped(inner, rows)
    found = copy.copy(inner)
    frame = inner._kernel_frame
    found.feature_names_in_ = np.array(names, dtype=object)
    found.kernel_names_ = [_named_kernel(name, names) for name in inner.kernel_names_]
    columns = [_listed(text, names) for text in frame["columns"]]
    found._kernel_frame = frame.assign(name=found.kernel_names_, columns=columns)
    return found, rows


def _sparse_frame(rows: Any, *, columns: Sequence[str], index: Any) -> pd.DataFrame:
    """Return sparse rows as a DataFrame of sparse columns with zeros for missing entries.

    ``DataFrame.sparse.from_spmatrix`` of pandas 3.0 makes missing entries NaN.
    """
    by_column = rows.tocsc()
    dense = (by_column[:, [j]].toarray().ravel() for j in range(by_column.shape[1]))
    found = pd.DataFrame(
        {j: pd.arrays.SparseArray(column, fill_value=0) for j, column in enumerate(dense)}, index=index
    )
    found.columns = pd.Index(columns)
    return found


def groups_in(model: BaseEstimator, groups: ArrayLike | None, rows: Array) -> dict[str, Array]:
    """Return the groups of rows in the form of ``fit`` of a search, or of a pipeline around a search."""
    if groups is None or not isinstance(last_step(model), CrossValidated):
        return {}
    own = fit_groups(model, np.asarray(groups)[rows])
    named = isinstance(model, Pipeline) and not is_routing_enabled()
    return {f"{model.steps[-1][0]}__groups" if named else name: labels for name, labels in own.items()}


def fresh(model: BaseEstimator) -> Any:
    """Return an unfitted clone without output."""
    again = clone(model)
    last_step(again).set_params(resources__verbose=0)
    return again


def after_steps_of(model: BaseEstimator, rival: BaseEstimator) -> Any:
    """Return a rival behind clones of the preprocessing steps of a pipeline; otherwise unchanged."""
    if not isinstance(model, Pipeline):
        return rival
    rest = after_steps_of(model[-1], rival)
    return make_pipeline(clone(model[:-1]), rest) if len(model) > 1 else rest


def _names(before: Pipeline, estimator: BaseEstimator) -> list[str] | None:
    """Return the feature names of an array input, if the earlier steps know the names."""
    if hasattr(estimator, "feature_names_in_") or not hasattr(estimator, "_kernel_frame"):
        return None
    try:
        names = [str(name) for name in before.get_feature_names_out()]
    except (AttributeError, ValueError):
        return None  # a step that does not say
    read = bool((estimator._kernel_frame["columns"] != "").any())  # precomputed kernels have no columns
    return names if read and len(names) == estimator.n_features_in_ and len(set(names)) == len(names) else None


def _named_kernel(kernel: str, names: list[str]) -> str:
    """Return the name of a kernel, ``"columns: kernel"`` or another."""
    place, separator, kind = kernel.rpartition(": ")
    return f"{_listed(place, names)}{separator}{kind}" if separator else kernel


def _listed(columns: str, names: list[str]) -> str:
    """Return a list of columns with their names; other text unchanged."""
    found = [NUMBERED.match(column) for column in columns.split(", ")]
    if any(one is None or int(one[1]) >= len(names) for one in found):
        return columns
    return ", ".join(names[int(one[1])] for one in found if one is not None)
