"""``manykernels warm``: compile the loops ahead, in an image or before several processes start."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from joblib import Parallel, delayed

from manykernels.cli.console import Outcome, errors
from manykernels.compiled import compilations
from manykernels.estimators import (
    HierarchicalMKL,
    KernelAligner,
    MKLClassifier,
    MKLRegressor,
    MKLSurvival,
    PolynomialMKL,
)
from manykernels.exceptions import IncompatibleError
from manykernels.grams.build import build_stack
from manykernels.kernels import Binned, Gaussian, KernelBank, Kmers, Laplacian, Linear
from manykernels.objective import survival_array
from manykernels.solvers import SOLVERS, solve

N_ROWS, N_COLUMNS = 60, 3
ONLINE = ("obscure", "ufo_mkl")  # most of whose loops nobody else has
PENALTIES = ("l1", "elasticnet", "lq", "simplex")


def run_warm(
    outcome: Outcome,
    workers: Annotated[int, typer.Option(min=1, help="Processes that compile side by side.")] = 1,
) -> None:
    """Compile all loops ahead, once an installation: in an image, or before many processes start."""
    started, counts = time.perf_counter(), {}
    with errors().status("compiling loops"):
        for name, count, seconds in Parallel(workers, return_as="generator")(map(delayed(_warmed), fits())):
            counts[name] = count
            if count:
                outcome.show(f"{name}: {count} loops compiled in {seconds:.1f} s")
    total, passed = sum(counts.values()), time.perf_counter() - started
    outcome.result = {"compiled": counts, "seconds": passed}
    outcome.show(f"{total} loops compiled in {passed:.1f} s." if total else "All loops had been compiled before.")


def _warmed(name: str) -> tuple[str, int, float]:
    """Fit what has this name; return the name, the number of loops that it compiled, and seconds."""
    before = time.perf_counter()
    with warnings.catch_warnings(), compilations() as compiled:
        warnings.simplefilter("ignore")  # these models are nobody's
        fits()[name]()
    return name, len(compiled), time.perf_counter() - before


def fits() -> dict[str, Callable[[], Any]]:
    """Return small fits that together call the loops of the estimators, by what they are for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=N_ROWS)
    labels, times = y > 0.0, survival_array(y > 0.0, np.exp(y))
    several = np.column_stack([y, X[:, 1]])
    columns = KernelBank.per_feature([Gaussian(1.0), Gaussian(3.0), Laplacian(1.0), Linear()])
    pairs = KernelBank.per_feature(widths=["median"]) + KernelBank.interactions(bins=8)
    wide = KernelBank.simplemkl()

    def on_matrices() -> None:
        for loss in ("logistic", "hinge"):
            MKLClassifier(wide, loss=loss, resources={"representation": "gram"}, tol=1e-2).fit(X, labels).predict(X)
        for loss in ("squared", "quantile"):
            MKLRegressor(wide, loss=loss, resources={"representation": "gram"}, tol=1e-2).fit(X, y).predict(X)
        MKLRegressor(wide, outputs="shared", resources={"representation": "gram"}, tol=1e-2).fit(X, several).predict(X)
        for dtype in (np.float32, np.float64):
            build_stack(wide.fit(X), X, kind="lazy", dtype=dtype).quad(y)

    def on_factors() -> None:
        for penalty in ("l1", "elasticnet", "group_elasticnet"):
            MKLRegressor(columns, penalty=penalty, resources={"representation": "factored"}, tol=1e-2).fit(
                X, y
            ).predict(X)
        MKLClassifier(columns, resources={"representation": "factored"}, tol=1e-2).fit(X, labels).predict(X)
        MKLRegressor(columns, outputs="shared", resources={"representation": "factored"}, tol=1e-2).fit(X, several)
        MKLRegressor(pairs, resources={"representation": "factored"}, tol=1e-2).fit(X, y).predict(X)
        triples = KernelBank.interactions(Binned(Gaussian(0.3), 2), order=3)
        MKLRegressor(triples, resources={"representation": "factored"}, tol=1e-2).fit(np.hstack([X, X[::-1]]), y)

    def of_sequences() -> None:
        words = pd.DataFrame({"bases": ["".join(row) for row in rng.choice(list("ACGT"), size=(N_ROWS, 9))]})
        for spec, held in product((Kmers(2), Kmers(2, positional=True, shift=1)), ("gram", "factored")):
            bank = KernelBank([("words", spec, "bases")])
            MKLRegressor(bank, resources={"representation": held}, tol=1e-2).fit(words, y).predict(words)

    def of_survival() -> None:
        for held in ("gram", "factored"):
            MKLSurvival(columns, resources={"representation": held}, tol=1e-2).fit(X, times).score(X, times)

    def solvers(names: list[str]) -> None:
        kernels = np.stack([np.exp(-((X[:, [j]] - X[:, j]) ** 2)) for j in range(N_COLUMNS)])
        for solver, loss, penalty in product(names, ("hinge", "logistic", "squared"), PENALTIES):
            with suppress(IncompatibleError):
                target = y if loss == "squared" else np.sign(y)
                limits: dict[str, Any] = {"strength": 1.0, "tol": 0.1, "max_iter": 3}
                solve(kernels, target, loss=loss, regularizer=penalty, solver=solver, **limits)

    return {
        "methods of papers that learn online": lambda: solvers(list(ONLINE)),
        "other methods of papers": lambda: solvers([name for name in SOLVERS if name not in ONLINE]),
        "kernels as matrices": on_matrices,
        "kernels as factors": on_factors,
        "survival": of_survival,
        "products of columns": lambda: (PolynomialMKL(2).fit(X, y), HierarchicalMKL(degree=2).fit(X, y)),
        "sequences": of_sequences,
        "alignment": lambda: KernelAligner(wide).fit(X, labels),
    }
