"""Models on factored kernels, additive, with pairs and of all columns, beside boosted trees and others on real tables.

``python benchmarks/large_tables.py [--data DIR] [--rows 3000] [--splits 3] [--sets NAME,...] [--methods NAME,...]
[--resume] [--markdown FILE] [--smoke] [--output DIR]``

Every method gets the same training rows of a set (random splits, stratified for classes), chooses its strength
(boosted trees: the learning rate) by cross-validation on them, and is judged on the same rows that are left, at most
4,000. The bank has a line and four Gaussian widths on single columns of more than two values, a line on the others.
``additive`` is the cross-validated estimator on it. ``all pairs`` has also products of kernels of ranks for all pairs
of columns (``KernelBank.interactions``); a quarter of the training rows decides on the strength and on what sharp pairs
cost. ``all columns`` has kernels of all columns on landmarks instead (``KernelBank.landmarks``), on tables of up to 12
columns also those that are sharper in one of them; a quarter of the rows decides on the strength. pyGAM, which has a
criterion of its own, and interpret's explainable boosting, untouched, take part where they are installed. The standard
error is that of the mean over splits; of one split, that of the test rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import _common as common
import accuracy
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import KernelBank, Linear, MKLClassifierCV, MKLRegressorCV

SETS = {
    **dict.fromkeys(("covtype15k", "adult_a9a", "spambase"), True),
    **dict.fromkeys(("cpu_act", "kin8nh", "winequality_white"), False),
}
MOST_TEST_ROWS = 4000
WIDTHS = (0.1, 0.3, 1.0, 3.0)  # standard deviations
PAIR_RATIO = 0.02  # of the weakest strength to the largest one
JOINT_RATIO = 0.001
MOST_STRETCHED = 12  # columns up to which each has a kernel that is sharper in it
SHARP_PENALTIES = [{"* x *: gaussian(width=0.08)*": factor} for factor in (1.0, 3.0)]
LANDMARKS = 300
MOST_PAIRED = 30  # columns for which explainable boosting is asked for pairs: with 54 it took a minute on 2,000 rows
RIDGES, CONSTANTS = np.logspace(-3, 3, 7), (0.01, 0.1, 1.0, 10.0)
TOL = 1e-2


def bank_of(X: np.ndarray) -> KernelBank:
    """Return a line on every column that varies, and Gaussians where it has more than two values."""
    sizes = [len(np.unique(column)) for column in X.T]
    varied, rich = ([j for j, size in enumerate(sizes) if size > least] for least in (1, 2))
    bank = KernelBank.per_feature(Linear(), columns=varied, standardize=True)
    return bank + KernelBank.per_feature(widths=WIDTHS, columns=rich, standardize=True) if rich else bank


# --- who takes part --------------------------------------------------------------------------------------------------


class Additive:
    """The cross-validated estimator on factors of kernels of single columns."""

    def __init__(self, classes: bool) -> None:
        self.kind = MKLClassifierCV if classes else MKLRegressorCV

    def fit(self, X: np.ndarray, y: np.ndarray) -> Additive:
        """Choose the strength and fit."""
        given: dict[str, Any] = {
            "penalty": "l1",
            "n_alphas": 5,
            "search": {"alpha_min_ratio": 0.01},
            "cv": 3,
            "random_state": 0,
        }
        self.machine = self.kind(bank_of(X), resources={"representation": "factored"}, tol=TOL, **given).fit(X, y)
        self.columns = len({name for own in self.machine.weights_frame()["columns"] for name in own.split(", ")})
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        return self.machine.predict(X)


class AllPairs:
    """The cross-validated estimator on single columns and all pairs of them, which chooses what sharp pairs cost."""

    def __init__(self, classes: bool) -> None:
        self.kind = MKLClassifierCV if classes else MKLRegressorCV

    def fit(self, X: np.ndarray, y: np.ndarray) -> AllPairs:
        """Choose the strength and what pairs cost, and fit."""
        varied = [j for j, column in enumerate(X.T) if len(np.unique(column)) > 1]
        splitter = StratifiedShuffleSplit if self.kind is MKLClassifierCV else ShuffleSplit
        given: dict[str, Any] = {"penalty": "l1", "resources": {"representation": "factored"}, "tol": TOL}
        given["cv"] = splitter(1, test_size=0.25, random_state=0)
        self.machine = self.kind(**given, **self.bank(X, varied)).fit(X, y)
        self.columns = len({name for own in self.machine.weights_frame()["columns"] for name in own.split(", ")})
        return self

    def bank(self, X: np.ndarray, varied: list[int]) -> dict[str, Any]:
        """Return the bank, and how its strengths are searched."""
        bank = bank_of(X) + KernelBank.interactions(columns=varied, standardize=True)
        return {
            "kernels": bank,
            "n_alphas": 4,
            "search": {"alpha_min_ratio": PAIR_RATIO},
            "kernel_penalties": SHARP_PENALTIES,
        }

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        return self.machine.predict(X)


class AllColumns(AllPairs):
    """The cross-validated estimator on single columns and on landmarks of all columns together."""

    def bank(self, X: np.ndarray, varied: list[int]) -> dict[str, Any]:
        """Return the bank, and how its strengths are searched."""
        stretched = None if len(varied) <= MOST_STRETCHED else []
        kernels = KernelBank.landmarks(columns=varied, count=LANDMARKS, stretched=stretched, standardize=True)
        return {"kernels": bank_of(X) + kernels, "n_alphas": 6, "search": {"alpha_min_ratio": JOINT_RATIO}}


class PyGam:
    """PyGAM's splines, and lines on columns of two values; one strength for all by its own criterion."""

    def __init__(self, classes: bool) -> None:
        self.classes = classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> PyGam:
        """Choose the strength and fit."""
        from pygam import LinearGAM, LogisticGAM, l, s
        from pygam.terms import TermList

        sizes = [len(np.unique(column)) for column in X.T]
        terms = TermList(*(s(j) if size > 2 else l(j) for j, size in enumerate(sizes) if size > 1))
        machine = (LogisticGAM if self.classes else LinearGAM)(terms)
        target = y == 1 if self.classes else y
        self.machine = machine.gridsearch(X, target, lam=np.logspace(-1, 3, 5), progress=False)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        found = self.machine.predict(X)
        return np.where(found, 1, -1) if self.classes else found


def explainable(classes: bool, interactions: int) -> Any:
    """Return interpret's explainable boosting with as many pairs of columns."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if classes else ExplainableBoostingRegressor
    return kind(interactions=interactions, n_jobs=1, random_state=0)


def linear(classes: bool) -> Any:
    """Return logistic or ridge regression on standardized columns."""
    if not classes:
        return make_pipeline(StandardScaler(), RidgeCV(RIDGES))
    machine = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return GridSearchCV(machine, {"logisticregression__C": CONSTANTS}, cv=3)


def landmarks(classes: bool, n_columns: int, n_rows: int) -> Any:
    """Return a Gaussian kernel on landmarks, and logistic or ridge regression on its features."""
    features = Nystroem(n_components=min(LANDMARKS, n_rows // 2), random_state=0)
    last = LogisticRegression(max_iter=500) if classes else RidgeCV(RIDGES)
    grid: dict[str, Any] = {"nystroem__gamma": [width / n_columns for width in (0.1, 0.3, 1.0)]}
    if classes:
        grid["logisticregression__C"] = (1.0, 10.0, 100.0)
    return GridSearchCV(make_pipeline(StandardScaler(), features, last), grid, cv=3)


def boosting(classes: bool) -> Any:
    """Return boosted trees with their learning rate by cross-validation."""
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return GridSearchCV(kind(random_state=0), {"learning_rate": (0.03, 0.1, 0.3)}, cv=3)


def rivals(classes: bool, n_columns: int, n_rows: int) -> dict[str, Callable[[], Any]]:
    """Return names and makers of fresh models."""
    found: dict[str, Callable[[], Any]] = {
        "additive": lambda: Additive(classes),
        "all pairs": lambda: AllPairs(classes),
        "all columns": lambda: AllColumns(classes),
        "boosting": lambda: boosting(classes),
        "linear": lambda: linear(classes),
        "Nystroem": lambda: landmarks(classes, n_columns, n_rows),
    }
    if find_spec("pygam"):
        found["pyGAM"] = lambda: PyGam(classes)
    if find_spec("interpret"):
        found["EBM"] = lambda: explainable(classes, 0)
        if n_columns <= MOST_PAIRED:
            found["EBM, 10 pairs"] = lambda: explainable(classes, 10)
    return found


# --- measuring -------------------------------------------------------------------------------------------------------


def losses(predicted: np.ndarray, y: np.ndarray, classes: bool) -> np.ndarray:
    """Return the loss of every row: wrong or not, or the squared error."""
    return (predicted != y).astype(float) if classes else (predicted - y) ** 2


def scored(predicted: np.ndarray, y: np.ndarray, classes: bool) -> tuple[float, float]:
    """Return accuracy or R2, and its standard error over the test rows (R2 is a ratio: by its linearization)."""
    lost = losses(predicted, y, classes)
    scale = np.ones(len(y)) if classes else (y - y.mean()) ** 2
    ratio = lost.mean() / scale.mean()
    return 1.0 - ratio, float(np.std(lost - ratio * scale) / scale.mean() / np.sqrt(len(y)))


def measured(
    data: accuracy.Data, rows: int, seeds: range, methods: Sequence[str] | None, known: set[tuple[str, int, str]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each rival and split: score, its error, CPU seconds of choosing and fitting, columns."""
    for seed in seeds:
        X_train, X_test, y_train, y_test = data.split(rows, seed, MOST_TEST_ROWS)
        for name, make in rivals(data.classes, data.X.shape[1], len(y_train)).items():
            if (methods is not None and name not in methods) or (data.name, seed, name) in known:
                continue
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the scores tell
                model = make().fit(X_train, y_train)
            row = {"set": data.name, "rows": len(y_train), "of": data.X.shape[1], "seed": seed, "method": name}
            row["cpu_s"] = time.process_time() - started
            row["score"], row["error"] = scored(model.predict(X_test), y_test, data.classes)
            yield row | {"columns": getattr(model, "columns", np.nan)}


def overview(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row a set: ``score ± standard error (splits, if fewer), CPU seconds`` of a method; columns selected."""
    lines = []
    for name, part in frame.groupby("set", sort=False):
        line: dict[str, Any] = {"set": name, "rows": int(part["rows"].iloc[0])}
        line |= dict.fromkeys(frame["method"].unique(), "-")
        for method, own in part.groupby("method", sort=False):
            error = own["score"].sem() if len(own) > 1 else own["error"].iloc[0]
            fewer = "" if own["seed"].nunique() == part["seed"].nunique() else f" ({own['seed'].nunique()})"
            line[str(method)] = f"{own['score'].mean():.3f} ± {error:.3f}{fewer}, {own['cpu_s'].mean():.0f} s"
        selected = part.groupby("method", sort=False)["columns"].mean().dropna()
        line["columns"] = f"{', '.join(f'{count:.0f}' for count in selected)} of {part['of'].iloc[0]}"
        lines.append(line)
    return pd.DataFrame(lines)


def stand_in(classes: bool, seed: int) -> accuracy.Data:
    """Return drawn rows, so that a smoke run needs no files."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(300, 4)), rng.integers(0, 2, (300, 2))])
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 4] + 0.3 * rng.normal(size=300)
    y = np.where(score > 0, 1, -1) if classes else score
    return accuracy.Data("drawn classes" if classes else "drawn numbers", X, y, classes, None)


def loaded(name: str, folder: Path) -> accuracy.Data | None:
    """Return a set; of the types of forest the second one against the others."""
    data = accuracy.load(name, folder, classes=SETS[name])
    if data is None or name != "covtype15k":
        return data
    return replace(data, y=np.where(data.y == 2, 1, -1))


def kept(path: Path) -> list[dict[str, Any]]:
    """Return what an earlier run saved."""
    return pd.read_csv(path).to_dict("records") if path.exists() else []  # type: ignore[return-value]


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Additive models and models with pairs on factored kernels, beside others on real tables.")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, default=3000, help="most training rows")
    parser.add_argument("--splits", type=int, default=3, help="random splits a set")
    parser.add_argument("--resume", action="store_true", help="leave out what the output folder already has")
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets, separated by commas")
    parser.add_argument("--methods", help="names of methods, separated by commas; all by default")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    options: argparse.Namespace = parser.parse_args()
    names = options.sets.split(",")
    if unknown := [name for name in names if name not in SETS]:
        parser.error(f"--sets knows no {', '.join(unknown)}; it knows {', '.join(SETS)}")
    record = common.environment()
    common.print_environment(record)
    if absent := [name for name in ("pygam", "interpret") if not find_spec(name)]:
        common.CONSOLE.print(f"not installed, so not measured: {', '.join(absent)}")
    if options.smoke:
        held = [stand_in(classes, options.seed) for classes in (True, False)]
    else:
        held = [data for name in names if (data := loaded(name, options.data)) is not None]
    name = "large_tables_smoke" if options.smoke else "large_tables"
    rows = kept(options.output / f"{name}.csv") if options.resume else []
    known = {(row["set"], row["seed"], row["method"]) for row in rows}
    methods = None if options.methods is None else options.methods.split(",")
    for data in held:
        for row in measured(data, options.rows, range(options.seed, options.seed + options.splits), methods, known):
            rows.append(row)
            common.save(pd.DataFrame(rows), record, options.output, name)
    if not rows:
        common.CONSOLE.print(f"nothing measured: no set in {options.data}")
        return 1
    table = overview(pd.DataFrame(rows))
    common.print_table(table, "Accuracy or R2 ± standard error, CPU seconds; columns: additive, all pairs, all columns")
    if options.markdown is not None:
        options.markdown.write_text(accuracy.markdown(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
