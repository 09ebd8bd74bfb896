"""``manykernels demo``: the SimpleMKL protocol on a real data set, beside tuned rivals of one kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import ArrayLike
from rich.table import Table
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels.cli.console import (
    Outcome,
    column_table,
    errors,
    fact_table,
    printable,
    solution_facts,
    verbosity,
    weights_table,
)
from manykernels.datasets import load_bundled
from manykernels.estimators import MKLClassifier
from manykernels.inspection import ConvergenceDisplay, MKLReport, plot_overview, predictive_importance, save_model
from manykernels.inspection.files import save_figure, write_file
from manykernels.kernels import KernelBank

OUTPUT = Path("demo_output")
STRENGTH = 0.5  # C on the sum of losses, as in the experiments of the SpicyMKL paper
SEED = 0
TOL = 1e-6
SVC_GRID = {"svc__C": np.logspace(-1, 4, 6), "svc__gamma": np.logspace(-4, 0, 9)}
LOGISTIC_GRID = {"logisticregression__C": np.logspace(-3, 3, 13)}


@dataclass(frozen=True)
class Judged:
    """A fitted model on rows it has not seen."""

    name: str
    accuracy: float
    roc_auc: float
    seconds: float
    detail: str


def run_demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables, model and picture.")] = OUTPUT,
    *,
    outcome: Outcome,
    data: tuple[pd.DataFrame, pd.Series] | None = None,
) -> None:
    """Fit 837 kernels to a bundled data set and compare with a tuned single-kernel SVC."""
    output.mkdir(parents=True, exist_ok=True)
    X, y = load_bundled("breast_cancer") if data is None else data
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SEED)
    model, seconds = fit_many_kernels(X_train, y_train)
    report = MKLReport.from_estimator(model, X_test, y_test)
    detail = f"{report.n_active} of {report.n_kernels} kernels, C = {STRENGTH:g} fixed"
    rows = [Judged("manykernels", *_scores(model, X_test, y_test), seconds, detail)]
    rows += rivals(X_train, y_train, X_test, y_test)
    importance = predictive_importance(model, X_test, y_test, scoring="roc_auc", random_state=SEED)
    files = write_files(output, model, report, importance)
    outcome.settle(report.status)
    outcome.result = {
        **report.to_dict(),
        "n_train": len(X_train),
        "comparison": [vars(row) for row in rows],
        "importance": importance.to_dict("records"),
        "files": {name: str(path) for name, path in files.items()},
    }
    outcome.show(*describe(report, rows, importance, files, X.shape))


def fit_many_kernels(X: pd.DataFrame, y: ArrayLike) -> tuple[MKLClassifier, float]:
    """Return the fitted classifier of the SimpleMKL protocol and the seconds that fitting took.

    A first fit on a few rows lets numba compile its loops, once per installation, so that seconds are those of fitting.
    """
    settings: dict[str, Any] = {"loss": "hinge", "penalty": "l1", "tol": TOL}
    bank = KernelBank.simplemkl(normalize="trace")  # as in the paper, whose C it is
    with errors().status("compiling loops (first run only)"):
        few, _, labels, _ = train_test_split(X, y, train_size=40, stratify=y, random_state=SEED)
        MKLClassifier(bank, alpha=STRENGTH / len(few), **{**settings, "tol": 0.5}).fit(few, labels)
    started = time.perf_counter()
    model = MKLClassifier(bank, alpha=STRENGTH / len(X), resources={"verbose": verbosity()}, **settings).fit(X, y)
    return model, time.perf_counter() - started


def rivals(X: pd.DataFrame, y: ArrayLike, X_test: pd.DataFrame, y_test: ArrayLike) -> list[Judged]:
    """Return one-kernel machines on standardized columns: untouched, tuned, and a tuned linear one."""
    svc = make_pipeline(StandardScaler(), SVC())
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    rows = [_judged("SVC, untouched", svc, (X, y, X_test, y_test), lambda _: "one Gaussian kernel")]
    for name, model, grid in (("SVC", svc, SVC_GRID), ("logistic regression", logistic, LOGISTIC_GRID)):
        search = GridSearchCV(model, grid, cv=StratifiedKFold(5, shuffle=True, random_state=SEED))
        rows.append(_judged(f"{name}, tuned", search, (X, y, X_test, y_test), _choice))
    return rows


def _judged(name: str, model: BaseEstimator, data: tuple[Any, ...], described: Callable[[Any], str]) -> Judged:
    """Fit a rival, and judge it."""
    X, y, X_test, y_test = data
    with errors().status(f"fitting: {name}"):
        started = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - started
    return Judged(name, *_scores(model, X_test, y_test), seconds, described(model))


def _choice(search: BaseEstimator) -> str:
    """Say what a grid search chose."""
    best = [f"{name.split('__')[1]} = {value:.3g}" for name, value in search.best_params_.items()]
    return f"{' and '.join(best)} of {len(search.cv_results_['params'])} tried"


def write_files(output: Path, model: MKLClassifier, report: MKLReport, importance: pd.DataFrame) -> dict[str, Path]:
    """Write model, report, tables and picture; return their paths by name."""
    names = {
        "picture": "demo.png",
        "narrow picture": "demo_narrow.png",
        "model": "model.mkl",
        "importance": "importance.csv",
        "weights": "weights.csv",
        "history": "history.csv",
    }
    files = {name: output / file for name, file in {**names, "report": "report.json"}.items()}
    save_model(model, files["model"])
    write_file(files["importance"], importance.to_csv(index=False), "table of importance")
    write_file(files["weights"], report.weights.to_csv(index=False), "table of weights")
    write_file(files["history"], ConvergenceDisplay.from_estimator(model).frame().to_csv(index=False), "history")
    write_file(files["report"], report.to_json(indent=2) + "\n", "report")
    accuracy = report.scores["accuracy"]
    title = (
        f"{report.n_kernels} kernels on {report.n_features} columns, {report.n_samples} rows: {report.n_active} "
        f"selected, held-out accuracy {accuracy:.3f}"
    )
    for name, narrow in (("picture", False), ("narrow picture", True)):
        drawn = plot_overview(model, title=None if narrow else title, top=12 if narrow else 20, narrow=narrow)
        save_figure(drawn, files[name], dpi=100, pil_kwargs={"optimize": True})
    return files


def describe(
    report: MKLReport, rows: list[Judged], importance: pd.DataFrame, files: dict[str, Path], shape: tuple[int, ...]
) -> list[Any]:
    """Return facts, comparison, columns, kernels and files as they are printed."""
    facts = {
        "data": f"{shape[0]} rows, {shape[1]} columns; {report.n_samples} rows to fit, {report.n_test} held out",
        "kernels": f"{report.n_kernels}: 24 Gaussian and 3 polynomial, on each column and on all columns",
        "problem": f"hinge loss, block 1-norm, C = {STRENGTH:g} on the sum (alpha {report.alpha:.3g})",
        **solution_facts(report),
    }
    return [
        fact_table(facts, "Multiple kernel learning"),
        "",
        comparison_table(rows, report.n_test),
        "",
        importance_table(importance, report.n_test),
        "",
        weights_table(report.weights),
        "",
        fact_table(files, "Written"),
    ]


def importance_table(importance: pd.DataFrame, n_test: int) -> Table:
    """Return what predictions lose without each column, the most important first."""
    title = f"ROC AUC that the {n_test} rows held out lose when what a column says is shuffled between them"
    table = column_table(title, ("column", "ROC AUC lost", "p-value"), texts=["column"])
    for row in importance.to_dict("records"):
        name = "all columns" if row["name"] == "all" else row["name"]
        table.add_row(printable(name), f"{row['importance']:.4f}", f"{row['p_value']:.3f}")
    return table


def comparison_table(rows: list[Judged], n_test: int) -> Table:
    """Return all models side by side."""
    title = f"On the {n_test} rows held out (one row more or less: {1 / n_test:.3f} of accuracy)"
    table = column_table(title, ("model", "accuracy", "ROC AUC", "seconds", ""), texts=("model", ""))
    for row in rows:
        table.add_row(row.name, f"{row.accuracy:.4f}", f"{row.roc_auc:.4f}", f"{row.seconds:.2f}", row.detail)
    return table


def _scores(model: BaseEstimator, X: pd.DataFrame, y: ArrayLike) -> tuple[float, float]:
    positive = np.asarray(y) == model.classes_[1]
    return float(accuracy_score(y, model.predict(X))), float(roc_auc_score(positive, model.decision_function(X)))
