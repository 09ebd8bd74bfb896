"""Tables of other libraries as pandas tables: polars (without pyarrow), Arrow, Dask, AnnData."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from manykernels.exceptions import InvalidInputError


def is_distributed(X: object) -> bool:
    """Return whether X is a Dask data frame, converted to pandas for names and types."""
    return hasattr(X, "compute") and hasattr(X, "columns")


def is_annotated(X: object) -> bool:
    """Return whether X is an AnnData: a matrix with labels of rows and columns."""
    return hasattr(X, "obs_names") and hasattr(X, "var_names")


def is_foreign(X: object) -> bool:
    """Return whether X is a table of another library."""
    return not isinstance(X, pd.DataFrame) and (
        hasattr(X, "to_pandas") or hasattr(X, "get_columns") or is_distributed(X) or is_annotated(X)
    )


def to_data_frame(X: Any) -> pd.DataFrame:
    """Return a table of another library as a DataFrame; AnnData by the X, obs_names and var_names."""
    if is_annotated(X):
        values = X.X.toarray() if issparse(X.X) else np.asarray(X.X)
        return pd.DataFrame(values, index=pd.Index(X.obs_names), columns=pd.Index(X.var_names))
    if type(X).__module__.partition(".")[0] == "polars":
        columns = X.get_columns() if hasattr(X, "get_columns") else [X]
        return pd.DataFrame({column.name: _polars_column(column) for column in columns})
    try:
        frame = X.compute() if is_distributed(X) else X.to_pandas()
    except ImportError as error:
        library = type(X).__module__.partition(".")[0]
        raise InvalidInputError(f"The {library} table cannot be converted to pandas: {error}.") from error
    return frame if isinstance(frame, pd.DataFrame) else frame.to_frame()


def _polars_column(column: Any) -> Any:
    """Return the values of a polars column with the pandas type of the same meaning."""
    kind = str(column.dtype).partition("(")[0]
    if kind == "Categorical":
        return pd.Categorical(column.to_list())
    if kind == "Enum":  # the order of the levels is that of the type
        return pd.Categorical(column.to_list(), categories=column.dtype.categories.to_list(), ordered=True)
    if kind == "Boolean" and column.null_count():
        return pd.array(column.to_list(), dtype="boolean")
    values = column.to_numpy()
    zone = getattr(column.dtype, "time_zone", None)
    return values if zone is None else pd.DatetimeIndex(values).tz_localize("UTC").tz_convert(zone)
