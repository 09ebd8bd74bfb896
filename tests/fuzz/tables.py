"""Tables of mixed columns with a few gaps each and levels that occur once, and everything that opens folds on them.

``python -m tests.fuzz --tables 500 --seed 0`` uses each table in three ways, which take turns, and prints what raised.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from manykernels import (
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvivalCV,
    compare,
    leave_one_out_importance,
    nested_cross_validation,
    predictive_importance,
    regularization_path,
    report,
    stability_selection,
    survival_array,
)

SIZES = (30, 45, 80, 160, 400, 3000)
SHARES = (0.3, 0.25, 0.2, 0.15, 0.08, 0.02)


@dataclass(frozen=True)
class TableCase:
    """A table, its targets and the bank to be used on it."""

    X: pd.DataFrame
    classes: np.ndarray
    numbers: np.ndarray
    survival: np.ndarray
    missing: str
    seed: int

    @property
    def bank(self) -> KernelBank:
        """The bank by types of columns."""
        return KernelBank.auto(missing=self.missing)

    @property
    def factors(self) -> np.ndarray:
        """A penalty for each kernel of the whole table: a fold with another list could not read them."""
        return np.linspace(1.0, 2.0, len(self.bank.expand(self.X)))


def draw_table(seed: int) -> TableCase:
    """Return a table in which each column has up to five gaps, and every category one level that occurs once."""
    rng = np.random.default_rng([seed, 23])
    n = int(rng.choice(SIZES, p=SHARES))
    kinds = rng.choice(["number", "category", "date", "boolean", "ordered", "constant"], size=int(rng.integers(2, 7)))
    X = pd.DataFrame({f"{kind}{j}": _column(str(kind), n, rng) for j, kind in enumerate(kinds)})
    X["number"] = _column("number", n, rng)
    score = np.nan_to_num(X["number"].to_numpy(dtype=float)) + rng.normal(size=n)
    event = rng.random(n) < 0.7
    target = survival_array(event, np.exp(rng.normal(size=n) - 0.3 * score) + 0.01)
    labels = (score > np.median(score)).astype(int)
    if rng.random() < 0.2:
        labels += (score > np.quantile(score, 0.8)).astype(int)
    return TableCase(X, labels, score, target, str(rng.choice(["mask", "indicator"])), seed)


def _column(kind: str, n: int, rng: np.random.Generator) -> pd.Series:
    column: Any
    if kind == "number":
        column = pd.Series(rng.normal(size=n) * 10.0 ** rng.integers(-2, 3))
    elif kind == "constant":
        column = pd.Series(np.where(np.arange(n) == rng.integers(n), 1.0, 0.0))
    elif kind == "date":
        days = rng.uniform(0, rng.choice([3.0, 30.0, 900.0]), n)
        days = days if rng.random() < 0.5 else np.floor(days)
        column = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D"))
        if rng.random() < 0.5:  # one row decides how far the dates reach
            column.iloc[int(rng.integers(n))] += pd.Timedelta(days=4000, hours=5)
    elif kind == "boolean":
        column = pd.Series(rng.random(n) < 0.5).astype("boolean")
    else:
        codes = rng.integers(0, int(rng.integers(2, 5)), n)
        codes[int(rng.integers(n))] = 9  # a level that occurs once
        column = pd.Series([f"level {code}" for code in codes]).astype(
            pd.CategoricalDtype([f"level {code}" for code in range(10)], ordered=kind == "ordered")
        )
    gaps = rng.choice(n, size=int(rng.integers(0, 6)), replace=False)
    return column.mask(np.isin(np.arange(n), gaps))


def _path(case: TableCase) -> Any:
    return regularization_path(case.X, case.numbers, kernels=case.bank, n_alphas=3, alpha_min_ratio=0.1, cv=3)


def _grid(case: TableCase) -> Any:
    return MKLClassifierCV(case.bank, penalty="elasticnet", n_alphas=3, search={"alpha_min_ratio": 0.1}, cv=3).fit(
        case.X, case.classes
    )


def _penalties(case: TableCase) -> Any:
    """One factor a kernel, by name: a fold without one of them could not read it."""
    tried = [
        dict(zip(case.bank.fit(case.X).names, factors, strict=True)) for factors in (case.factors, case.factors[::-1])
    ]
    model = MKLRegressorCV(
        case.bank, penalty="l1", n_alphas=3, search={"alpha_min_ratio": 0.1}, cv=3, kernel_penalties=tried
    )
    return model.fit(case.X, case.numbers)


def _nested(case: TableCase) -> Any:
    model = MKLRegressorCV(case.bank, cv=2, n_alphas=3, kernel_penalties=case.factors)
    return nested_cross_validation(model, case.X, case.numbers, cv=2)


def _survival(case: TableCase) -> Any:
    return MKLSurvivalCV(case.bank, penalty="l1", n_alphas=3, search={"alpha_min_ratio": 0.1}, cv=3).fit(
        case.X, case.survival
    )


def _stability(case: TableCase) -> Any:
    return stability_selection(MKLRegressor(case.bank), case.X, case.numbers, n_pairs=2, expected_false=3.0)


def _importance(case: TableCase) -> Any:
    model = MKLRegressor(case.bank).fit(case.X, case.numbers)
    return predictive_importance(model, case.X, case.numbers, n_repeats=1)


def _left_out(case: TableCase) -> Any:
    return leave_one_out_importance(MKLClassifier(case.bank), case.X, case.classes, cv=3)


def _report(case: TableCase) -> Any:
    model = MKLClassifier(case.bank, kernel_penalties=case.factors).fit(case.X, case.classes)
    with tempfile.TemporaryDirectory() as folder:
        return report(model, case.X, case.classes, Path(folder) / "report.html", cv=3)


def _compare(case: TableCase) -> Any:
    return compare(MKLClassifier(case.bank, kernel_penalties=case.factors), case.X, case.classes, cv=3)


def _weighted(case: TableCase) -> Any:
    """Weights of zero on rows that alone have gaps."""
    weight = np.where(case.X.isna().any(axis=1), 0.0, 1.0)
    rows = np.flatnonzero(weight)
    if len(rows) < 20 or len(np.unique(case.classes[rows])) < len(np.unique(case.classes)):
        return None
    model = MKLRegressorCV(case.bank, cv=3, n_alphas=3)
    return model.fit(case.X, case.numbers, sample_weight=weight + (np.arange(len(weight)) % 2))


def _factored(case: TableCase) -> Any:
    return MKLClassifierCV(case.bank, cv=3, n_alphas=3, resources={"representation": "factored"}).fit(
        case.X, case.classes
    )


USES: dict[str, tuple[Callable[[TableCase], Any], int]] = {
    "classifier": (lambda case: MKLClassifierCV(case.bank, cv=3).fit(case.X, case.classes), 3000),
    "regressor": (lambda case: MKLRegressorCV(case.bank, cv=3).fit(case.X, case.numbers), 3000),
    "grid": (_grid, 400),
    "penalties": (_penalties, 400),
    "factored": (_factored, 3000),
    "survival": (_survival, 400),
    "path": (_path, 400),
    "nested": (_nested, 160),
    "stability": (_stability, 400),
    "importance": (_importance, 400),
    "left out": (_left_out, 45),
    "report": (_report, 160),
    "compare": (_compare, 80),
    "weights of zero": (_weighted, 400),
}  # with the most rows of a table on which each is tried


EACH = 3  # uses of a table


def uses_of(case: TableCase) -> list[str]:
    """Return in which ways a table is used: the ways take turns, those that are meant for tables of its size."""
    able = [name for name, (_, most_rows) in USES.items() if len(case.X) <= most_rows]
    return [able[(EACH * case.seed + turn) % len(able)] for turn in range(min(EACH, len(able)))]


def failures_of(seed: int) -> tuple[list[str], dict[str, str]]:
    """Return how the table of a seed was used, and which uses raised, in what words."""
    case, found = draw_table(seed), {}
    for name in uses_of(case):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                USES[name][0](case)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return uses_of(case), found
