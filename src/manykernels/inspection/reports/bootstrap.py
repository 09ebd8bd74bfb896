"""Scores with intervals: what they would have been on other samples of the same kind, by drawing rows anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from manykernels.estimators.survival.scores import concordance_indices

Array = NDArray[Any]

SHARE = 0.95  # of the draws that an interval holds
MOST_ENTRIES = 2e7  # of the table of draws by rows
FEWEST_DRAWS = 200
AUC_DRAWS = 200  # each one sorts the scores
MOST_PAIRS = 1e9  # of samples, over all draws


@dataclass(frozen=True)
class Score:
    """A score and the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


class Draws:
    """How often each row is drawn, (n_draws, n_rows): the same for every model, so that differences have intervals."""

    def __init__(self, n_rows: int, n_draws: int, seed: int) -> None:
        n_draws = max(min(n_draws, int(MOST_ENTRIES / n_rows)), min(n_draws, FEWEST_DRAWS))
        drawn = np.random.default_rng(seed).multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), size=n_draws)
        # The first row is the sample itself.
        self.counts = np.vstack([np.ones(n_rows), drawn]).astype(np.float64)

    def score(self, name: str, values: Array) -> Score:
        """Return the score from its values on the sample and on the draws."""
        value, rest = float(values[0]), values[1:]
        rest = rest[np.isfinite(rest)]
        if not len(rest):
            return Score(name, value, value, value)
        low, high = np.quantile(rest, [(1 - SHARE) / 2, (1 + SHARE) / 2])
        return Score(name, value, float(low), float(high))


def accuracies(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the share of correct rows of each draw."""
    return counts @ (truth == predicted) / counts.sum(axis=1)


def balanced_accuracies(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the mean over the classes of the share of correct rows, of classes that were drawn."""
    correct = truth == predicted
    members = np.array([truth == label for label in np.unique(truth)], dtype=np.float64).T
    sizes = counts @ members
    recalls = np.divide(counts @ (members * correct[:, None]), sizes, out=np.full(sizes.shape, np.nan), where=sizes > 0)
    return np.nanmean(recalls, axis=1)


def r2_scores(counts: Array, truth: Array, predicted: Array) -> Array:
    """Return the coefficient of determination, the mean over outputs."""
    y, errors, total = _columns(truth), _columns(truth) - _columns(predicted), counts.sum(axis=1)[:, None]
    centered = y - y.mean(axis=0)
    spread = counts @ centered**2 - (counts @ centered) ** 2 / total
    with np.errstate(divide="ignore", invalid="ignore"):
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
    """Return the area under the ROC curve of each of the first draws."""
    found = []
    for weight in counts[: AUC_DRAWS + 1]:
        both = 0 < weight @ positive < weight.sum()
        found.append(roc_auc_score(positive, scores, sample_weight=weight) if both else np.nan)
    return np.array(found)


def concordances(counts: Array, truth: Array, risk: Array) -> Array:
    """Return the concordance index of risks with events and times, of fewer draws the more pairs there are."""
    n_draws = max(int(MOST_PAIRS / len(truth) ** 2), AUC_DRAWS)
    return concordance_indices(truth, risk, counts[: n_draws + 1])


METRICS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "accuracy": accuracies,
    "balanced accuracy": balanced_accuracies,
    "R2": r2_scores,
    "root mean squared error": root_mean_squared_errors,
    "mean absolute error": mean_absolute_errors,
    "concordance index": concordances,
}


def _columns(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)
