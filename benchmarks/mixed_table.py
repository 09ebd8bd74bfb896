"""Mixed tables as they are: accuracy of the ranking (AUC) beside gradient boosting and a pipeline of scikit-learn.

``python benchmarks/mixed_table.py [--draws 5] [--data ../shared/data] [--smoke] [--output DIR]``

*generator*: ``make_mixed_table``, 1000 rows to fit and 1000 to judge, 20 % of the entries missing, categories of 2 to
500 levels, an ordered grade, dates; its known log odds give the AUC that no model can exceed. Its effects add up, as in
the models of kernels on single columns. *adult*: the binary columns of LIBSVM's a9a put back together into the
categories they came from (neighboring columns that no row has both of), 1000 rows to fit and 4000 to judge; rows
without any of a category's columns miss it. Left out if the folder has no such file.

All models get the same table. Gradient boosting takes categories and gaps natively; it is given dates as numbers and
columns of more than 255 categories as codes, which is what it can read. The pipeline imputes means and most frequent
categories, encodes one-hot and standardizes for an SVC. Nothing is tuned but the strength where the name says so.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from manykernels import KernelBank, MKLClassifier, MKLClassifierCV
from manykernels.datasets import make_mixed_table

MOST_CATEGORIES = 255  # of gradient boosting


def as_numbers_and_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Return dates as days and text as categories."""
    columns = {}
    for name, column in X.items():
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            columns[name] = (column - pd.Timestamp("2022-01-01")) / pd.Timedelta(days=1)
        else:
            columns[name] = column if pd.api.types.is_numeric_dtype(column.dtype) else column.astype("category")
    return pd.DataFrame(columns)


def with_few_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Return columns of more categories than boosting takes as codes."""
    X = as_numbers_and_categories(X)
    large = [name for name in X.select_dtypes("category") if len(X[name].cat.categories) > MOST_CATEGORIES]
    return X.assign(**{name: X[name].cat.codes.where(X[name].notna()).astype(float) for name in large})


def pipeline() -> Any:
    """Return imputation, one-hot encoding and an SVC."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    categories = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_include="category")),
    )
    return make_pipeline(FunctionTransformer(as_numbers_and_categories), columns, SVC())


def mkl(missing: str, *, tuned: bool = False) -> Any:
    """Return the classifier on the default kernels, at its default strength or at one chosen by cross-validation."""
    if tuned:
        return MKLClassifierCV(KernelBank.auto(missing=missing), cv=3, n_alphas=8)
    return MKLClassifier(KernelBank.auto(missing=missing))


MODELS: dict[str, Any] = {
    "manykernels, masked": lambda: mkl("mask"),
    "manykernels, masked and indicators": lambda: mkl("indicator"),
    "manykernels, the same, strength by cross-validation": lambda: mkl("indicator", tuned=True),
    "gradient boosting": lambda: HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
    "impute, one-hot, SVC": pipeline,
}


def judged(X: pd.DataFrame, y: np.ndarray, n_train: int) -> list[dict[str, Any]]:
    """Return the AUC of every model on the rows after the first ``n_train``, and its CPU seconds."""
    rows = []
    for name, build in MODELS.items():
        table = with_few_categories(X) if name == "gradient boosting" else X
        started = time.process_time()
        model = build().fit(table[:n_train], y[:n_train])
        score = model.decision_function(table[n_train:])
        auc = roc_auc_score(y[n_train:], score)
        rows.append({"model": name, "AUC": auc, "cpu_s": time.process_time() - started})
    return rows


def generated(n_train: int, draw: int, seed: int) -> list[dict[str, Any]]:
    """Return what the models reach on one draw of the generator, and what can be reached."""
    levels = tuple(size for size in (2, 8, 60, 500) if size < n_train)
    data = make_mixed_table(2 * n_train, levels=levels, random_state=np.random.default_rng([seed, draw]))
    best = {"model": "the known log odds", "AUC": roc_auc_score(data.y[n_train:], data.score[n_train:]), "cpu_s": 0.0}
    return [{"data": "generator", "draw": draw, **row} for row in [*judged(data.X, data.y, n_train), best]]


def adult(file: Path, n_train: int, draw: int, seed: int) -> list[dict[str, Any]]:
    """Return what the models reach on one draw of rows of a9a."""
    with np.load(file) as held:
        X, y = categories_of(held["X"]), held["y"]
    rows = np.random.default_rng([seed, draw]).permutation(len(y))[: n_train + 4000]
    table = X.iloc[rows].reset_index(drop=True)
    return [{"data": "adult", "draw": draw, **row} for row in judged(table, y[rows], n_train)]


def categories_of(X: np.ndarray) -> pd.DataFrame:
    """Return the categories behind binary columns: neighbors that no row has both of are levels of one."""
    blocks: list[list[int]] = [[0]]
    for j in range(1, X.shape[1]):
        exclusive = not (X[:, blocks[-1]].any(axis=1) & X[:, j].astype(bool)).any()
        blocks[-1].append(j) if exclusive else blocks.append([j])
    columns = {}
    for block in blocks:
        levels = np.array([f"b{j}" for j in block], dtype=object)
        known = X[:, block].any(axis=1)
        columns[f"c{block[0]}"] = np.where(known, levels[X[:, block].argmax(axis=1)], None)
    return pd.DataFrame(columns)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means and standard deviations over the draws."""
    grouped = rows.groupby(["data", "model"], sort=False)
    table = grouped.agg(AUC=("AUC", "mean"), sd=("AUC", "std"), cpu_s=("cpu_s", "median"), draws=("AUC", "size"))
    return table.reset_index()


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with adult_a9a.npz")
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    draws, n_train = (1, 120) if chosen.smoke else (chosen.draws, 1000)
    rows = [row for draw in range(draws) for row in generated(n_train, draw, chosen.seed)]
    file = chosen.data / "adult_a9a.npz"
    if file.exists() and not chosen.smoke:
        rows += [row for draw in range(draws) for row in adult(file, n_train, draw, chosen.seed)]
    table = pd.DataFrame(rows)
    common.print_table(summary(table), "Mixed tables", {"AUC": ".4f", "sd": ".4f", "cpu_s": ".1f"})
    common.save(table, record, chosen.output, "mixed_table")


if __name__ == "__main__":
    main()
