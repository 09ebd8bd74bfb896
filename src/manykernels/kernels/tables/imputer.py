"""Single gaps inside views, filled view by view; a view that a sample lacks as a whole stays lacking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.tables.views import Views
from manykernels.validation.arrays import Array, TableLike


class ColumnMeans(BaseEstimator):
    """Fill gaps with the mean of their column, zero in a column of gaps alone; scikit-learn's takes long to import."""

    def fit(self, values: Array) -> ColumnMeans:
        """Learn the means."""
        gaps = np.isnan(values)
        self.means_ = np.where(gaps, 0.0, values).sum(axis=0) / np.maximum((~gaps).sum(axis=0), 1)
        return self

    def transform(self, values: Array) -> Array:
        """Return the values with gaps filled."""
        return np.where(np.isnan(values), self.means_, values)


class ViewImputer(TransformerMixin, BaseEstimator):
    """Fill gaps among the numbers of every view, as learned from the training samples that have the view.

    A step of a pipeline before an estimator. Kernels of a view leave out a sample that lacks any of its columns
    (``missing="mask"``): of 200 columns with one gap in a hundred values nearly all samples are left out. To fill
    such gaps is to invent little; a view that a sample lacks as a whole is left to the kernels, which mask it.

    Parameters
    ----------
    imputer : transformer of scikit-learn or None, default=None
        Fitted anew for every view; must keep the columns. None takes the mean of each column.

    Attributes
    ----------
    imputers_ : dict of str to transformer
        The fitted imputer of each view.
    columns_ : dict of str to list of str
        The columns of numbers of each view, ``view/column``; all others stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from manykernels import ViewImputer, Views
    >>> left = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [4.0, 5.0, 6.0]}, index=["p", "q", "r"])
    >>> views = Views({"left": left, "right": pd.DataFrame({"c": [7.0]}, index=["r"])})
    >>> filled = ViewImputer().fit_transform(views)
    >>> filled["left"]["a"].tolist(), filled.present["right"].tolist()
    ([1.0, 2.0, 3.0], [False, False, True])
    """

    def __init__(self, imputer: Any = None) -> None:
        self.imputer = imputer

    def fit(self, X: Any, y: Any = None) -> ViewImputer:
        """Learn from the samples that have a view.

        Parameters
        ----------
        X : Views or DataFrame with two levels of columns
        y : ignored

        Returns
        -------
        ViewImputer
            This imputer, fitted.

        Raises
        ------
        InvalidInputError
            If ``X`` holds no views, or the imputer changes the columns.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import ViewImputer, Views
        >>> ViewImputer().fit(Views({"left": np.array([[1.0, 2.0], [3.0, np.nan]])})).columns_
        {'left': ['left/0', 'left/1']}
        """
        views = _views(X)
        numbers = set(views.frame.select_dtypes("number").columns)
        own = ColumnMeans() if self.imputer is None else self.imputer
        self.columns_ = {name: [one for one in columns if one in numbers] for name, columns in views.columns.items()}
        self.imputers_ = {name: clone(own) for name in views.names if self.columns_[name] and views.present[name].any()}
        for name, imputer in self.imputers_.items():
            values = views.frame.loc[views.present[name].to_numpy(), self.columns_[name]].to_numpy(
                np.float64, na_value=np.nan
            )
            shape = np.asarray(imputer.fit(values).transform(values)).shape
            if shape != values.shape:
                raise InvalidInputError(
                    f"The imputer must keep the columns, but makes {shape[1]} of the {values.shape[1]} of {name!r}. "
                    "Give it keep_empty_features=True, and no indicators."
                )
        return self

    def transform(self, X: TableLike) -> Views:
        """Return views without gaps in the columns of numbers, but for views that a sample lacks.

        Parameters
        ----------
        X : Views or DataFrame with two levels of columns

        Returns
        -------
        Views

        Raises
        ------
        InvalidInputError
            If ``X`` holds no views, or a view without all of its columns.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import ViewImputer, Views
        >>> imputer = ViewImputer().fit(Views({"left": np.array([[1.0, 2.0], [3.0, 4.0]])}))
        >>> imputer.transform(Views({"left": np.array([[np.nan, 5.0]])}))["left"].to_numpy().tolist()
        [[2.0, 5.0]]
        """
        check_is_fitted(self)
        views = _views(X)
        frame = views.frame.copy()
        for name, imputer in self.imputers_.items():
            rows = views.present[name].to_numpy() if name in views.names else np.zeros(len(views), dtype=bool)
            if not rows.any():
                continue
            columns = self.columns_[name]
            if lost := [column for column in columns if column not in frame]:
                raise InvalidInputError(f"The view {name!r} lacks {len(lost)} column(s) it had in fit: {lost[:5]}.")
            values = frame[columns].to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
            values[rows] = imputer.transform(values[rows])
            frame[columns] = pd.DataFrame(values, frame.index, columns)
        return views.holding(frame)


def _views(X: TableLike) -> Views:
    """Return views, or say what else fills gaps."""
    if isinstance(X, Views):
        return X
    if isinstance(X, pd.DataFrame) and X.columns.nlevels == 2:
        return Views(X)
    raise InvalidInputError(
        f"ViewImputer fills gaps of Views, got {type(X).__name__}; for one table take an imputer of scikit-learn, such "
        "as SimpleImputer()."
    )
