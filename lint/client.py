"""A program that uses the library as its users do; ``make lint`` checks its types as strictly as mypy can.

Nothing here runs. That it passes proves that the types of the public interface reach a program of its user's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manykernels import (
    Gaussian,
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    Solution,
    load_model,
    regularization_path,
    report,
    save_model,
    solve,
    stability_selection,
)
from manykernels.solvers import IterationRecord, Status


def views(table: pd.DataFrame, labels: pd.Series[str]) -> pd.DataFrame:
    """Fit views of a table, and tell what was selected."""
    bank = KernelBank.from_views({"first": ["a", "b"], "second": ["c"]}, [Gaussian(1.0), Linear()])
    model = MKLClassifier(bank, penalty="elasticnet", l1_ratio=0.5).fit(table, labels)
    gap: float = model.dual_gap_
    weights: pd.DataFrame = model.weights_frame(active_only=True)
    return weights[weights["norm_share"] > gap]


def tuned(table: pd.DataFrame, labels: pd.Series[str], path: Path) -> Path:
    """Choose the strength, save the model and write a report."""
    model = MKLClassifierCV(cv=5).fit(table, labels)
    save_model(model, path)
    return report(load_model(path), table, labels, path.with_suffix(".html"))


def certified(kernels: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Solve one problem, and return its gap if it converged."""

    def watch(record: IterationRecord) -> bool:
        return record.relative_gap < 1e-3

    solution: Solution = solve(kernels, y, loss="squared", penalty="l1", alpha=0.01, callback=watch)
    if solution.status is not Status.CONVERGED:
        raise InvalidInputError(solution.message)
    return solution.certificate.relative_gap


def down_the_path(X: NDArray[np.float64], y: NDArray[np.float64]) -> list[str]:
    """Return the names of what is stable, and of what enters first."""
    stable: list[str] = stability_selection(MKLRegressor(), X, y).selected
    entering = regularization_path(X, y, n_alphas=10).entry_alphas
    return [*stable, str(int(np.nanargmax(entering)))]
