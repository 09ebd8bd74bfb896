"""Simpler models that a report compares with: the best constant, the plain sum of the kernels, one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from manykernels.estimators import KernelAligner, MKLSurvivalCV
from manykernels.inspection.reports.scores import SURVIVAL
from manykernels.kernels import KernelBank, Linear, Pairs, PrecomputedBank, Views
from manykernels.kernels.precomputed.stack import are_kernels
from manykernels.validation.arrays import TableLike

CONSTANT, SUM = "best constant", "plain sum of the same kernels"
ONE_KERNEL = {
    "classification": "support vector machine, one Gaussian kernel (scikit-learn, tuned)",
    "regression": "kernel ridge, one Gaussian kernel (scikit-learn, tuned)",
    SURVIVAL: "Cox regression, linear with a ridge penalty (tuned)",
}
BOOSTING = "gradient boosting (scikit-learn, untouched)"
MOST_LEVELS = 254  # of a category that gradient boosting can read
MOST_ROWS = 3000  # for models with one kernel, which take N^2 numbers and N^3 steps
MOST_ENTRIES = 1e8  # of all Gram matrices, for their plain sum: about a second a fit
STRENGTHS = [0.01, 0.1, 1.0]
INNER_FOLDS = 3


class EqualRisks(BaseEstimator):
    """Everybody has the same risk."""

    def fit(self, X: TableLike, y: ArrayLike) -> EqualRisks:
        """Learn nothing."""
        return self

    def predict(self, X: Any) -> Any:
        """Return zeros."""
        return np.zeros(len(X))


class Categories(TransformerMixin, BaseEstimator):
    """Columns as gradient boosting reads them: text as categories, dates as numbers, and rare levels as missing."""

    def fit(self, X: TableLike, y: ArrayLike | None = None) -> Categories:
        """Learn the levels of each category, the most frequent ones."""
        table = as_frame(X)
        self.levels_ = {
            name: column.value_counts().index[:MOST_LEVELS].to_list()
            for name, column in table.items()
            if not is_numeric_dtype(column.dtype) and not is_datetime64_any_dtype(column.dtype)
        }
        return self

    def transform(self, X: TableLike) -> pd.DataFrame:
        """Return the columns as numbers and categories."""
        table = as_frame(X).copy()
        for name, column in table.items():
            if name in self.levels_:
                table[name] = pd.Categorical(column, categories=self.levels_[name])
            elif is_datetime64_any_dtype(column.dtype):
                table[name] = (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds()
        return table.set_axis([str(name) for name in table.columns], axis=1)


def baselines_for(model: BaseEstimator, task: str, X: Any, n_kernels: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the models to compare with by name, and the reasons why others are left out."""
    constants = {"classification": DummyClassifier, "regression": DummyRegressor, SURVIVAL: EqualRisks}
    chosen: dict[str, Any] = {CONSTANT: constants[task]()}
    left_out: dict[str, str] = {}
    reason = _why_no_sum(model, X, n_kernels)
    if reason:
        left_out[SUM] = reason
    else:
        chosen[SUM] = make_pipeline(KernelAligner(_bank(model.kernels), method="uniform"), _learner(task))
    reason = _why_no_single_kernel(X)
    if not reason:
        chosen[ONE_KERNEL[task]] = _one_kernel(task, X.shape[1])
    elif _boosting_reads(X, task, model):
        # What most people would take for a table with categories and gaps, on the same folds.
        boosting = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
        chosen[BOOSTING] = make_pipeline(Categories(), boosting(categorical_features="from_dtype", random_state=0))
    else:
        left_out[ONE_KERNEL[task]] = reason
    return chosen, left_out


def _boosting_reads(X: TableLike, task: str, model: BaseEstimator) -> bool:
    """Return whether rows are one table of columns, whatever is in them, with one target of classes or numbers."""
    table = isinstance(X, (pd.DataFrame, np.ndarray)) and np.ndim(X) == 2
    return table and (task == "classification" or (task == "regression" and np.ndim(model.intercept_) == 0))


def _why_no_sum(model: BaseEstimator, X: Any, n_kernels: int) -> str:
    if not hasattr(model, "kernels"):
        return "the model finds its kernels while it learns, so that there is no list to sum"
    if no_columns(X) and not are_kernels(X):
        return no_columns(X)
    if n_kernels * float(len(X)) ** 2 > MOST_ENTRIES:
        return f"{n_kernels:,} kernels of {len(X):,} samples would take too long for a comparison"
    return ""


def _why_no_single_kernel(X: Any) -> str:
    if no_columns(X):
        return no_columns(X)
    if isinstance(X, Views):
        return "the data are several tables, not one"
    numeric = X.select_dtypes("number").shape[1] == X.shape[1] if isinstance(X, pd.DataFrame) else _is_numeric(X)
    if not numeric:
        return "some columns are not numbers"
    if bool(np.asarray(pd.isna(X)).any()):
        return "some values are missing"
    return "" if len(X) <= MOST_ROWS else f"{len(X):,} samples would take too long for a comparison"


def no_columns(X: TableLike) -> str:
    """Return why the columns of the data cannot be looked at one by one; an empty text if they can."""
    if are_kernels(X):
        return "the data are kernels, not columns"
    if isinstance(X, Pairs):
        return "the data are pairs, not columns"
    return "the data are sparse, and would have to be filled" if issparse(X) else ""


def as_frame(X: TableLike) -> pd.DataFrame:
    """Return the columns of a table, an array or views as a DataFrame."""
    if isinstance(X, Views):
        return X.frame
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))


def _is_numeric(X: TableLike) -> bool:
    return np.asarray(X).dtype.kind in "fiub"


def _bank(kernels: Any) -> Any:
    """Return the bank with kernels of one size, as a plain sum needs them."""
    if kernels is None:
        return KernelBank.auto(normalize="mean_diagonal")
    if isinstance(kernels, KernelBank):
        return kernels.replace(normalize="mean_diagonal")
    return PrecomputedBank(normalize="mean_diagonal")


def _learner(task: str) -> Any:
    if task == SURVIVAL:
        cox = MKLSurvivalCV("precomputed", penalty="ridge", alphas=STRENGTHS, cv=INNER_FOLDS)
        return make_pipeline(FunctionTransformer(_as_one_kernel), cox)
    if task == "classification":
        return GridSearchCV(SVC(kernel="precomputed"), {"C": [1.0, 10.0, 100.0]}, cv=INNER_FOLDS)
    ridge = GridSearchCV(KernelRidge(kernel="precomputed"), {"alpha": STRENGTHS}, cv=INNER_FOLDS)
    return TransformedTargetRegressor(ridge, transformer=StandardScaler())


def _as_one_kernel(gram: Any) -> Any:
    """Return a Gram matrix as the only one of a stack."""
    return gram[None]


def _one_kernel(task: str, n_columns: int) -> Any:
    if task == SURVIVAL:
        linear = KernelBank([("linear", Linear(), list(range(n_columns)))], standardize=True, normalize="mean_diagonal")
        return MKLSurvivalCV(linear, penalty="ridge", alphas=STRENGTHS, cv=INNER_FOLDS)
    return make_pipeline(StandardScaler(), _gaussian(task == "classification", n_columns))


def _gaussian(classifies: bool, n_columns: int) -> Any:
    widths = [0.1 / n_columns, 1.0 / n_columns]
    if classifies:
        return GridSearchCV(SVC(), {"C": [1.0, 10.0, 100.0], "gamma": widths}, cv=INNER_FOLDS)
    ridge = GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": STRENGTHS, "gamma": widths}, cv=INNER_FOLDS)
    return TransformedTargetRegressor(ridge, transformer=StandardScaler())
