"""Several tables of the same samples, aligned by index, with possibly missing samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.tables.encoding import select_columns
from manykernels.kernels.tables.foreign import is_foreign, to_data_frame
from manykernels.validation.arrays import Array, TableLike

SEPARATOR = "/"


class Views:
    """Tables of the same samples, by name and aligned by index; samples may lack some.

    A sample lacks a view if absent from the index of the view, or if all values are missing. The row and column are
    zero in the kernels of the view: the model of a sample is the sum over present views. The samples are the rows of
    all views, in the order of first appearance.

    Parameters
    ----------
    views : mapping of str to DataFrame, array or AnnData, a MuData, or a DataFrame with two levels of columns
        Tables are aligned by their indices (``obs_names``). Arrays have no index and must be equally long.

    Raises
    ------
    InvalidInputError
        If an index repeats a label, labels are of several types, or tables without labels are not equally long.

    Examples
    --------
    >>> import pandas as pd
    >>> from manykernels import Views
    >>> left = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["p", "q", "r"])
    >>> right = pd.DataFrame({"b": [4.0, 5.0]}, index=["r", "s"])
    >>> views = Views({"left": left, "right": right})
    >>> len(views), views.names, list(views.index)
    (4, ('left', 'right'), ['p', 'q', 'r', 's'])
    >>> views.summary()["lacking"].tolist()
    [1, 2]
    """

    ndim: ClassVar[int] = 2  # as of any input

    def __init__(self, views: object) -> None:
        tables = {str(name): _data_frame(table, str(name)) for name, table in _blocks(views).items()}
        if not tables or any(SEPARATOR in name for name in tables):
            raise InvalidInputError(
                f"Views need at least one table, and no {SEPARATOR!r} in names; got {list(tables)}."
            )
        index = _common_index(tables)
        columns = {name: tuple(f"{name}{SEPARATOR}{column}" for column in table) for name, table in tables.items()}
        aligned = [table.set_axis(columns[name], axis=1).reindex(index) for name, table in tables.items()]
        lacking = [table.isna().all(axis=1).to_numpy(dtype=bool) for table in aligned]
        self._set(pd.concat(aligned, axis=1), columns, np.array(lacking).T)

    def _set(self, frame: pd.DataFrame, columns: Mapping[str, tuple[str, ...]], lacking: Array) -> Views:
        """Set the views: a wide table, the columns of every view, and the missing views."""
        self._frame, self._columns, self._lacking = frame, columns, lacking
        return self

    @classmethod
    def from_columns(cls, table: pd.DataFrame, columns: Mapping[str, Any]) -> Views:
        """Return views of a single table, each a selection of the columns.

        Parameters
        ----------
        table : DataFrame
        columns : mapping of str to column selection
            Names, positions, slices, masks or callables, as in scikit-learn's ColumnTransformer.

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import Views
        >>> table = pd.DataFrame({"age": [50, 60], "g1": [0.1, 0.2], "g2": [0.3, 0.4]})
        >>> Views.from_columns(table, {"clinical": ["age"], "genes": slice("g1", None)}).names
        ('clinical', 'genes')
        """
        places = {column: j for j, column in enumerate(table.columns)}
        chosen = {name: select_columns(selection, table, places) for name, selection in columns.items()}
        return cls({name: table.iloc[:, list(positions)] for name, positions in chosen.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views."""
        return tuple(self._columns)

    @property
    def index(self) -> pd.Index:
        """Labels of the samples, in the order of the rows."""
        return self._frame.index

    @property
    def frame(self) -> pd.DataFrame:
        """All views side by side, columns named ``view/column``; NaN where a sample lacks a view."""
        return self._frame

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Columns of every view in `frame`."""
        return dict(self._columns)

    @property
    def present(self) -> pd.DataFrame:
        """Whether a sample (row) has a view (column)."""
        return pd.DataFrame(~self._lacking, index=self.index, columns=list(self.names))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and of columns of all views."""
        return self._frame.shape

    def __len__(self) -> int:
        return len(self._frame)

    def __getitem__(self, chosen: object) -> Any:
        """Return a view by the name, or the views of chosen samples (positions, slice or mask)."""
        if isinstance(chosen, str):
            if chosen not in self._columns:
                raise InvalidInputError(f"There is no view {chosen!r}; there are {', '.join(map(repr, self.names))}.")
            names = [column.removeprefix(f"{chosen}{SEPARATOR}") for column in self._columns[chosen]]
            return self._frame[list(self._columns[chosen])].set_axis(names, axis=1)
        rows = chosen[0] if isinstance(chosen, tuple) else chosen  # scikit-learn asks for [rows, ...]
        at = np.atleast_1d(np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)])
        return Views.__new__(Views)._set(self._frame.iloc[at], self._columns, self._lacking[at])

    def holding(self, frame: pd.DataFrame) -> Views:
        """Return views of the same samples and columns with other values; who lacks what stays unchanged.

        Parameters
        ----------
        frame : DataFrame
            Like `frame`.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import Views
        >>> views = Views({"left": np.ones((2, 1))})
        >>> views.holding(views.frame * 3)["left"].to_numpy().tolist()
        [[3.0], [3.0]]
        """
        return Views.__new__(Views)._set(frame, self._columns, self._lacking)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        parts = (f"{name} ({len(columns)} columns)" for name, columns in self._columns.items())
        return f"Views({len(self)} samples: {', '.join(parts)})"

    def summary(self) -> pd.DataFrame:
        """Return who has what: a row per view, with the numbers of columns and of samples with and without it.

        Returns
        -------
        DataFrame
            ``view``, ``columns``, ``samples``, ``lacking``, ``share`` of the samples with the view, and ``only``: the
            number of samples without other views.

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import Views
        >>> right = pd.DataFrame({"b": [4.0]}, index=[2])
        >>> Views({"left": pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "right": right}).summary()["share"].round(2).tolist()
        [1.0, 0.33]
        """
        present = ~self._lacking
        alone = present & (present.sum(axis=1) == 1)[:, None]
        return pd.DataFrame(
            {
                "view": self.names,
                "columns": [len(columns) for columns in self._columns.values()],
                "samples": present.sum(axis=0),
                "lacking": self._lacking.sum(axis=0),
                "share": present.mean(axis=0),
                "only": alone.sum(axis=0),
            }
        )

    def patterns(self) -> pd.DataFrame:
        """Return how many samples have which views together, the most frequent first.

        Returns
        -------
        DataFrame
            A column of booleans for every view, and ``samples``.
        """
        counts = self.present.value_counts().rename("samples").reset_index()
        return counts.sort_values("samples", ascending=False, kind="stable", ignore_index=True)

    def check_overlap(self) -> None:
        """Refuse views without common samples, which cannot be learned together.

        Raises
        ------
        InvalidInputError
            Naming the view, with a few of the labels.
        """
        present = ~self._lacking
        for v, name in enumerate(self.names):
            others: Array = np.asarray(np.delete(present, v, axis=1).any(axis=1))
            if len(self.names) > 1 and not (present[:, v] & others).any():
                own, foreign = list(self.index[present[:, v]][:3]), list(self.index[others][:3])
                raise InvalidInputError(
                    f"The view {name!r} has no sample in common with any other: it has {own} ..., others have "
                    f"{foreign} .... Are the labels written alike?"
                )

    def align(self, target: pd.Series | pd.DataFrame) -> Any:
        """Return a target in the order of the samples.

        Parameters
        ----------
        target : Series or DataFrame
            With the labels of the samples as the index; further labels are left out.

        Returns
        -------
        Series or DataFrame

        Raises
        ------
        InvalidInputError
            If a sample has no target.
        """
        lost = self.index.difference(target.index)
        if len(lost):
            raise InvalidInputError(
                f"{len(lost)} of {len(self)} samples have no target, such as {lost[0]!r}. Take the others: "
                "views[views.index.isin(target.index)]."
            )
        return target.loc[self.index]

    def completed(self, columns: Sequence[str]) -> Views:
        """Return the views completed by absent views from ``columns`` (``view/column``).

        Parameters
        ----------
        columns : sequence of str
            Columns that a model was fitted on.

        Returns
        -------
        Views
            With the views of ``columns`` in that order; views that ``columns`` lacks are left out.

        Raises
        ------
        InvalidInputError
            If a view is here, but not all of the columns.
        """
        known: dict[str, list[str]] = {}
        for column in columns:
            known.setdefault(column.split(SEPARATOR, 1)[0], []).append(column)
        here = {name: set(own) for name, own in self._columns.items()}
        for name, wanted in known.items():
            if name in here and (lost := [column for column in wanted if column not in here[name]]):
                raise InvalidInputError(f"The view {name!r} lacks {len(lost)} column(s) of the model: {lost[:5]}.")
        if not set(known) & set(here):
            raise InvalidInputError(f"The model was fitted on the views {list(known)}, but got {list(here)}.")
        lacking = [
            self._lacking[:, self.names.index(name)] if name in here else np.ones(len(self), dtype=bool)
            for name in known
        ]
        frame = self._frame.reindex(columns=[column for own in known.values() for column in own])
        own = {name: tuple(wanted) for name, wanted in known.items()}
        return Views.__new__(Views)._set(frame, own, np.array(lacking).T)


def _blocks(views: object) -> Mapping[Any, Any]:
    """Return the tables by name, from any container."""
    if isinstance(views, Views):
        return {name: views[name] for name in views.names}
    if isinstance(views, pd.DataFrame) and views.columns.nlevels == 2:
        return {name: views[name] for name in views.columns.get_level_values(0).unique()}
    if hasattr(views, "mod") and isinstance(views.mod, Mapping):
        return views.mod
    if isinstance(views, Mapping):
        return views
    raise InvalidInputError(
        "Views are a mapping of names to tables, a MuData, or a DataFrame with two levels of columns; got "
        f"{type(views).__name__}. Views.from_columns(table, ...) makes views of the columns of one table."
    )


def _data_frame(table: Any, name: str) -> pd.DataFrame:
    """Return a table as a DataFrame with distinct columns and index."""
    if is_foreign(table):
        table = to_data_frame(table)
    elif sparse.issparse(table):
        table = pd.DataFrame(table.toarray())
    elif isinstance(table, pd.Series):
        table = table.to_frame(name if table.name is None else table.name)
    elif not isinstance(table, pd.DataFrame):
        array = np.asarray(table)
        if array.ndim != 2:
            raise InvalidInputError(f"The view {name!r} must be a table, got an array of shape {array.shape}.")
        table = pd.DataFrame(array)
    if not table.shape[1]:
        raise InvalidInputError(f"The view {name!r} has no columns.")
    for what, labels in (("sample", table.index), ("column", table.columns)):
        if not labels.is_unique:
            twice = list(labels[labels.duplicated()].unique()[:3])
            raise InvalidInputError(f"The view {name!r} has more than one {what} {twice}; each must be there once.")
    return table


def _is_counted(index: pd.Index) -> bool:
    """Tell whether an index only counts the rows of a table."""
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def _common_index(tables: Mapping[str, pd.DataFrame]) -> pd.Index:
    """Return all labels in the order of first appearance, after a plausibility check."""
    unlabeled = {name: len(table) for name, table in tables.items() if _is_counted(table.index)}
    if len(set(unlabeled.values())) > 1:
        raise InvalidInputError(
            f"Views without labels must be equally long, got {unlabeled} rows. Use the labels of the samples as the "
            f"index of each table."
        )
    index = next(iter(tables.values())).index
    for table in list(tables.values())[1:]:
        index = index.append(table.index.difference(index, sort=False))
    kinds = {name: "text" if table.index.inferred_type == "string" else "not text" for name, table in tables.items()}
    if len(set(kinds.values())) > 1:
        raise InvalidInputError(f"The labels of samples must be of one type in all views, but are {kinds}.")
    return index


# Single gaps inside views, filled view by view; a view that a sample lacks as a whole stays lacking.


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


class ViewImputer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Fill gaps among the numbers of every view, as learned from the training samples with the view.

    A step of a pipeline before an estimator. Kernels of a view mask a sample with any missing column
    (``missing="mask"``): with 200 columns and 1% missing values nearly all samples are masked. Imputing such gaps
    invents little; wholly missing views stay masked by the kernels.

    Parameters
    ----------
    imputer : transformer of scikit-learn or None, default=None
        Fitted anew for every view; must keep the columns. None takes the mean of every column.

    Attributes
    ----------
    imputers_ : dict of str to transformer
        The fitted imputer of every view.
    columns_ : dict of str to list of str
        The columns of numbers of every view, ``view/column``; all others stay unchanged.
    feature_names_in_ : ndarray of str
        All columns of the views of fit, ``view/column``.

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

    def fit(self, X: TableLike, y: object = None) -> ViewImputer:
        """Learn from the samples with a view.

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
        self.feature_names_in_ = np.asarray([str(name) for name in views.frame.columns], dtype=object)
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

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Return the names of the columns of all views, which imputation does not change.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
            ``view/column`` for every column.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import ViewImputer, Views
        >>> ViewImputer().fit(Views({"left": np.array([[1.0, 2.0], [3.0, np.nan]])})).get_feature_names_out().tolist()
        ['left/0', 'left/1']
        """
        check_is_fitted(self)
        return self.feature_names_in_.copy()

    def transform(self, X: TableLike) -> Views:
        """Return views without gaps in the columns of numbers, but for views that a sample lacks.

        Parameters
        ----------
        X : Views or DataFrame with two levels of columns

        Raises
        ------
        InvalidInputError
            If ``X`` holds no views, or a view without all of the columns.

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
    """Return views, or raise an error with an alternative."""
    if isinstance(X, Views):
        return X
    if isinstance(X, pd.DataFrame) and X.columns.nlevels == 2:
        return Views(X)
    raise InvalidInputError(
        f"ViewImputer fills gaps of Views, got {type(X).__name__}; for one table take an imputer of scikit-learn, such "
        "as SimpleImputer()."
    )
