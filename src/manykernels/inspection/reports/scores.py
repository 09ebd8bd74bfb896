"""Held-out scores of a fitted estimator, with intervals by resampling."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from manykernels.estimators import MKLSurvival
from manykernels.estimators.survival import concordance_indices
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.pipelines import last_step
from manykernels.validation.arrays import Array, TableLike

SURVIVAL, LABELS = "survival", "labels"  # the latter are several for each sample
GAP = "relative duality gap"  # what `tol` asks for, unless an estimator says otherwise
PROPER = {"log_loss": -1, "rmse": -1, "concordance": 1, "roc_auc": 1}  # the first known decides; -1: less is better


def task_of(model: BaseEstimator) -> str:
    """Return ``"classification"``, ``"regression"`` or ``"survival"``, of a pipeline that of the last step."""
    estimator = last_step(model)
    if isinstance(estimator, MKLSurvival):
        return SURVIVAL
    return "classification" if is_classifier(estimator) else "regression"


def has_labels(model: BaseEstimator) -> bool:
    """Return True for a model of several labels a sample."""
    return np.ndim(getattr(last_step(model), "classes_", 0)) == 2


def check_one_prediction(estimator: BaseEstimator) -> None:
    """Reject a model of several quantiles, whose predictions have no errors to report."""
    if getattr(estimator, "_levels", None) is not None:
        raise InvalidInputError(
            "Reports are of one prediction a sample, but this model has the quantiles "
            f"tau={estimator._levels.tolist()}. Report a model of one of them; its own score(X, y) is the share of the "
            "quantile losses that is saved."
        )


def score_held_out(estimator: BaseEstimator, X: TableLike, y: ArrayLike) -> dict[str, float | None]:
    """Return the usual scores of a task."""
    check_one_prediction(estimator)
    task = task_of(estimator)
    if task == SURVIVAL:
        return {"concordance": float(estimator.score(X, y))}
    if has_labels(estimator):
        means = estimator.label_frame(X, y).loc["mean"].drop(["n_samples", "share"])
        return {name: None if np.isnan(value) else float(value) for name, value in means.items()}
    if task == "classification":
        return _classification(estimator, X, np.asarray(y).ravel())  # a table of one column, too
    return _regression(estimator, X, y)


def constant_scores(estimator: BaseEstimator, fitted: ArrayLike, y: ArrayLike) -> dict[str, float | None]:
    """Return the same scores of the best constant for the targets of the fit: shares of classes, or their mean.

    Empty for quantiles and for several labels.
    """
    task, rows = task_of(estimator), np.zeros((np.shape(y)[0], 1))
    if task == SURVIVAL:
        return {"concordance": 0.5}
    if estimator.loss == "quantile" or has_labels(estimator):
        return {}
    constant = DummyClassifier() if task == "classification" else DummyRegressor()
    constant.fit(np.zeros((np.shape(fitted)[0], 1)), fitted)
    if task == "regression":
        return _regression(constant, rows, y)
    n_classes = len(constant.classes_)
    constant.decision_function = lambda X: np.zeros(len(X) if n_classes == 2 else (len(X), n_classes))
    return _classification(constant, rows, np.asarray(y))


def no_better(scores: Mapping[str, float | None], constant: Mapping[str, float | None]) -> bool:
    """Whether the score that is proper of the kind is none better than that of the best constant."""
    for name, sign in PROPER.items():
        own, other = scores.get(name), constant.get(name)
        if own is not None and other is not None:
            return sign * own <= sign * other
    return False


def nearly_perfect(scores: Mapping[str, float | None]) -> str:
    """Return the name of a score that real data rarely allow, "" if there is none."""
    bounded, too_good = ("accuracy", "roc_auc", "r2", "concordance"), 0.995  # of 1; columns that follow from the target
    found = [name for name, value in scores.items() if name in bounded and value is not None and value >= too_good]
    return found[0] if found else ""


def _regression(estimator: BaseEstimator, X: TableLike, y: ArrayLike) -> dict[str, float | None]:
    predicted = estimator.predict(X)
    return {
        "r2": float(r2_score(y, predicted)) if len(predicted) > 1 else None,
        "rmse": float(root_mean_squared_error(y, predicted)),
        "mae": float(mean_absolute_error(y, predicted)),
    }


def _classification(estimator: BaseEstimator, X: TableLike, y: Array) -> dict[str, float | None]:
    predicted, scores = estimator.predict(X), estimator.decision_function(X)
    columns = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    truths = [y == label for label in estimator.classes_]
    known = all(0 < truth.sum() < len(y) for truth in truths)
    areas = [roc_auc_score(*pair) for pair in zip(truths, columns.T, strict=True)] if known else []
    recalls = [(predicted[y == label] == label).mean() for label in estimator.classes_ if (y == label).any()]
    found: dict[str, float | None] = {
        "accuracy": float(accuracy_score(y, predicted)),
        "balanced_accuracy": float(np.mean(recalls)) if recalls else None,
        "roc_auc": float(np.mean(areas)) if known else None,
    }
    if hasattr(estimator, "predict_proba") and set(np.unique(y)) <= set(estimator.classes_):
        found["log_loss"] = float(log_loss(y, estimator.predict_proba(X), labels=estimator.classes_))
    return found


# --- with intervals, by drawing rows anew ---------------------------------------------------------------------------


LABEL_ACCURACY, LABEL_AREA = "mean accuracy of the labels", "mean area under the ROC curve"
MOST_ENTRIES = 2e7  # of the table of draws by rows
AUC_DRAWS = 200  # each one sorts the scores
ROUNDING = 1e-12  # of a sum of squares: what is left of one value drawn again and again


@dataclass(frozen=True)
class Score:
    """A score and the ends of the interval."""

    name: str
    value: float
    low: float
    high: float


class Draws:
    """How often every row is drawn, (n_draws, n_rows): the same for every model, so differences have intervals."""

    def __init__(self, n_rows: int, n_draws: int, seed: int) -> None:
        fewest_draws = 200
        n_draws = max(min(n_draws, int(MOST_ENTRIES / n_rows)), min(n_draws, fewest_draws))
        drawn = np.random.default_rng(seed).multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), size=n_draws)
        # The first row is the sample itself.
        self.counts = np.vstack([np.ones(n_rows), drawn]).astype(np.float64)

    def score(self, name: str, values: Array) -> Score:
        """Return the score from the values on the sample and on the draws."""
        value, rest = float(values[0]), values[1:]
        rest = rest[np.isfinite(rest)]
        if not len(rest):
            return Score(name, value, value, value)
        share = 0.95  # of the draws that an interval holds
        low, high = np.quantile(rest, [(1 - share) / 2, (1 + share) / 2])
        return Score(name, value, float(low), float(high))


def accuracies(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the share of correct rows of every draw."""
    return counts @ (truth == predicted) / counts.sum(axis=1)


def balanced_accuracies(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the mean over the classes of the share of correct rows, of classes drawn."""
    correct = truth == predicted
    members = np.array([truth == label for label in np.unique(truth)], dtype=np.float64).T
    sizes = counts @ members
    recalls = np.divide(counts @ (members * correct[:, None]), sizes, out=np.full(sizes.shape, np.nan), where=sizes > 0)
    return np.nanmean(recalls, axis=1)


def r2_scores(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the coefficient of determination, the mean over outputs; NaN where one of them has a single value only."""
    y, errors, total = _columns(truth), _columns(truth) - _columns(predicted), counts.sum(axis=1)[:, None]
    centered = y - y.mean(axis=0)
    squares = counts @ centered**2
    spread = squares - (counts @ centered) ** 2 / total
    spread[spread <= ROUNDING * squares] = np.nan
    return np.asarray((1.0 - (counts @ errors**2) / spread).mean(axis=1))


def root_mean_squared_errors(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the root of the mean squared error, the mean over outputs."""
    squares = (_columns(truth) - _columns(predicted)) ** 2
    return np.asarray(np.sqrt(counts @ squares / counts.sum(axis=1)[:, None]).mean(axis=1))


def mean_absolute_errors(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the mean absolute error, the mean over outputs."""
    sizes = np.abs(_columns(truth) - _columns(predicted))
    return np.asarray((counts @ sizes / counts.sum(axis=1)[:, None]).mean(axis=1))


def areas_under_curve(counts: Array, positive: Array, scores: Array) -> Array:
    """Return the area under the ROC curve of every of the first draws: pairs in order, and half of those that tie."""
    order = np.argsort(scores, kind="stable")
    drawn, starts = counts[: AUC_DRAWS + 1, order], np.flatnonzero(np.diff(scores[order], prepend=np.nan) != 0)
    rising, others = (np.add.reduceat(drawn * side[order], starts, axis=1) for side in (positive, ~positive))
    below = np.cumsum(others, axis=1) - 0.5 * others
    with np.errstate(invalid="ignore"):
        return np.asarray((rising * below).sum(axis=1) / (rising.sum(axis=1) * others.sum(axis=1)))


def label_accuracies(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the mean over labels of the share of correct rows of every draw; missing labels (NaN) do not count."""
    known = np.isfinite(truth).astype(np.float64)
    right, drawn = counts @ (known * (truth == predicted)), counts @ known
    return np.asarray(np.nanmean(np.divide(right, drawn, out=np.full(drawn.shape, np.nan), where=drawn > 0), axis=1))


def label_areas(counts: Array, truth: Array, scores: Array) -> Array:
    """Return the mean area under the ROC curve of the labels with both values, of every of the first draws."""
    areas = []
    for y, z in zip(truth.T, scores.T, strict=True):
        known = np.isfinite(y)
        if len(np.unique(y[known])) == 2:
            areas.append(areas_under_curve(counts[:, known], y[known] == 1.0, z[known]))
    return np.asarray(np.nanmean(areas, axis=0)) if areas else np.full(1, np.nan)


def concordances(counts: Array, truth: Array, risk: Array) -> Array:
    """Return the concordance index of risks with events and times, of fewer draws the more pairs there are."""
    most_pairs = 1e9  # of samples, over all draws
    n_draws = max(int(most_pairs / len(truth) ** 2), AUC_DRAWS)
    return concordance_indices(truth, risk, counts[: n_draws + 1])


METRICS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "accuracy": accuracies,
    "balanced accuracy": balanced_accuracies,
    LABEL_ACCURACY: label_accuracies,
    "R2": r2_scores,
    "root mean squared error": root_mean_squared_errors,
    "mean absolute error": mean_absolute_errors,
    "concordance index": concordances,
}


def _columns(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)
