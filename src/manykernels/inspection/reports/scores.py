"""How well a fitted estimator does on data it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.reports.tasks import SURVIVAL, task_of

Array = NDArray[Any]

PROPER = {
    "log_loss": -1,
    "rmse": -1,
    "concordance": 1,
    "roc_auc": 1,
}  # the first that is known decides; -1: less is better


def check_one_prediction(estimator: Any) -> None:
    """Refuse a model of several quantiles, whose predictions have no errors to report."""
    if getattr(estimator, "_levels", None) is not None:
        raise InvalidInputError(
            "Reports are of one prediction a sample, but this model has the quantiles "
            f"tau={estimator._levels.tolist()}. Report a model of one of them; its own score(X, y) is the share of the "
            "quantile losses that is saved."
        )


def held_out_scores(estimator: Any, X: Any, y: Any) -> dict[str, float | None]:
    """Return the usual scores of a task."""
    check_one_prediction(estimator)
    task = task_of(estimator)
    if task == SURVIVAL:
        return {"concordance": float(estimator.score(X, y))}
    return _classification(estimator, X, np.asarray(y)) if task == "classification" else _regression(estimator, X, y)


def constant_scores(estimator: Any, fitted: Any, y: Any) -> dict[str, float | None]:
    """Return the same scores of the best constant for the targets of the fit: shares of classes, or their mean.

    Nothing for quantiles, whose constants are not the mean.
    """
    task, rows = task_of(estimator), np.zeros((len(y), 1))
    if task == SURVIVAL:
        return {"concordance": 0.5}
    if estimator.loss == "quantile":
        return {}
    constant = DummyClassifier() if task == "classification" else DummyRegressor()
    constant.fit(np.zeros((len(fitted), 1)), fitted)
    if task == "regression":
        return _regression(constant, rows, y)
    n_classes = len(constant.classes_)
    constant.decision_function = lambda X: np.zeros(len(X) if n_classes == 2 else (len(X), n_classes))
    return _classification(constant, rows, np.asarray(y))


def no_better(scores: Mapping[str, float | None], constant: Mapping[str, float | None]) -> bool:
    """Whether the score that is proper of its kind is none better than that of the best constant."""
    for name, sign in PROPER.items():
        own, other = scores.get(name), constant.get(name)
        if own is not None and other is not None:
            return sign * own <= sign * other
    return False


def _regression(estimator: Any, X: Any, y: Any) -> dict[str, float | None]:
    predicted = estimator.predict(X)
    return {
        "r2": float(r2_score(y, predicted)) if len(predicted) > 1 else None,
        "rmse": float(root_mean_squared_error(y, predicted)),
        "mae": float(mean_absolute_error(y, predicted)),
    }


def _classification(estimator: Any, X: Any, y: Array) -> dict[str, float | None]:
    predicted, scores = estimator.predict(X), estimator.decision_function(X)
    columns = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    recalls = [(predicted[y == label] == label).mean() for label in estimator.classes_ if (y == label).any()]
    found: dict[str, float | None] = {
        "accuracy": float(accuracy_score(y, predicted)),
        "balanced_accuracy": float(np.mean(recalls)) if recalls else None,
        "roc_auc": _roc_auc(y, columns, estimator.classes_),
    }
    if hasattr(estimator, "predict_proba") and set(np.unique(y)) <= set(estimator.classes_):
        found["log_loss"] = float(log_loss(y, estimator.predict_proba(X), labels=estimator.classes_))
    return found


def _roc_auc(y: Array, columns: Array, classes: Array) -> float | None:
    truths = [y == label for label in classes]
    if not all(0 < truth.sum() < len(y) for truth in truths):
        return None
    areas = [roc_auc_score(truth, column) for truth, column in zip(truths, columns.T, strict=True)]
    return float(np.mean(areas))
