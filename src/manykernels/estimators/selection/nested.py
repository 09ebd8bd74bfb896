"""Nested cross-validation in one call: the score of the whole procedure, choice included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing

from manykernels.estimators.parameters import with_kernels_of
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.selection.folds import splits_of
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import is_precomputed
from manykernels.kernels.precomputed.stack import as_kernel_stack
from manykernels.threads import blas_limit, n_threads
from manykernels.validation.arrays import Array

CHOICES = ("alpha_", "l1_ratio_", "mixing_", "best_score_", "dual_gap_")  # told of each outer fold, where there are any


@dataclass(frozen=True, eq=False)
class NestedScores:
    """What nested cross-validation found.

    Attributes
    ----------
    scores : (n_folds,) float64
        Of every outer fold, by models that were chosen and learned without it.
    chosen : DataFrame
        A row an outer fold: ``score``, ``n_train``, ``n_test``, ``n_kernels``, and what was chosen.
    estimators : list
        The fitted estimator of every outer fold.
    predictions : ndarray or None
        The prediction of every sample by the model that had not seen it; None unless every sample is held out once.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressorCV, nested_cross_validation
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(45, 2))
    >>> nested = nested_cross_validation(MKLRegressorCV(cv=3), X, np.sin(2 * X[:, 1]), cv=3)
    >>> nested.scores.shape, bool(nested.mean > 0.5)
    ((3,), True)
    """

    scores: Array
    chosen: pd.DataFrame
    estimators: list[Any]
    predictions: Array | None

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, as if the folds were independent; NaN for a single fold."""
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else float("nan")


def nested_cross_validation(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: Any = None,
    n_jobs: int | None = None,
) -> NestedScores:
    """Score an estimator that chooses its own parameters, on samples that had no part in the choice.

    In every outer fold a clone chooses and learns on the training samples alone: its own cross-validation, the widths
    and normalization of its kernels, its model. It is then scored on the held-out samples. Only which kernels there are
    is decided by all samples, where gaps or kinds of columns decide it: see :meth:`KernelBank.resolve`.

    Parameters
    ----------
    estimator : estimator
        :class:`MKLClassifierCV`, :class:`MKLRegressorCV`, or any other estimator, such as ``GridSearchCV``.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or targets.
    cv : int, splitter or iterable, default=5
        Outer folds: any splitter of scikit-learn, grouped, blocked in time, or repeated.
    groups : array-like of shape (n_samples,) or None, default=None
        Given to the outer splitter; those of the training samples also to the inner one, if the estimator has folds of
        its own. Choose splitters that keep groups together for both.
    scoring : str, callable or None, default=None
        None is the ``score`` method: accuracy, or the coefficient of determination.
    n_jobs : int or None, default=None
        Outer folds in parallel processes, in joblib's convention; each takes one thread for linear algebra then.

    Returns
    -------
    NestedScores
        Scores, what each fold chose, fitted estimators, predictions.

    Raises
    ------
    InvalidInputError
        If the data cannot be used, or the splitter makes no fold.

    References
    ----------
    S. Varma, R. Simon, "Bias in error estimation when using cross-validation for model selection", BMC Bioinformatics 7
    (2006).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GroupKFold
    >>> from manykernels import MKLClassifierCV, nested_cross_validation
    >>> rng = np.random.default_rng(0)
    >>> X, patient = rng.normal(size=(60, 2)), np.repeat(np.arange(12), 5)
    >>> y = X[:, 0] + 0.3 * rng.normal(size=60) > 0
    >>> model = MKLClassifierCV(cv=GroupKFold(3))
    >>> nested = nested_cross_validation(model, X, y, cv=GroupKFold(4), groups=patient)
    >>> bool(nested.mean > 0.7), nested.chosen["n_test"].tolist()
    (True, [15, 15, 15, 15])
    """
    rows = as_kernel_stack(X, square=True) if is_precomputed(getattr(estimator, "kernels", None)) else X
    estimator = with_kernels_of(estimator, rows)
    target = y if hasattr(y, "iloc") else np.asarray(y)
    splits = splits_of(cv, target, groups, classifier=is_classifier(estimator))
    if not splits:
        raise InvalidInputError(f"cv={cv!r} made no fold: nothing can be scored.")
    given = None if groups is None else np.asarray(groups)
    workers = min(n_threads(n_jobs), len(splits))
    jobs = (delayed(_outer)(clone(estimator), rows, target, given, scoring, *split, workers) for split in splits)
    found = list(Parallel(n_jobs=workers)(jobs))
    models, scores, predictions = ([part[k] for part in found] for k in range(3))
    frame = pd.DataFrame([_row(*each) for each in zip(models, scores, splits, strict=True)])
    return NestedScores(np.array(scores), frame, models, _assembled(predictions, splits, len(target)))


def _outer(
    model: BaseEstimator, X: Any, y: Any, groups: Any, scoring: Any, train: Array, test: Array, workers: int
) -> tuple[Any, float, Array]:
    """Fit, score and predict one outer fold."""
    own: dict[str, Any] = {"groups": groups[train]} if groups is not None and isinstance(model, CrossValidated) else {}
    with blas_limit(1 if workers > 1 else n_threads(-1)):
        model.fit(_taken(X, train), _taken(y, train), **own)
        score = float(check_scoring(model, scoring=scoring)(model, _taken(X, test), _taken(y, test)))
        return model, score, np.asarray(model.predict(_taken(X, test)))


def _taken(values: Any, rows: Array) -> Any:
    """Return chosen samples of a table, an array, a list or precomputed kernels."""
    return values[rows] if hasattr(values, "sample_ids") else _safe_indexing(values, rows)


def _row(model: BaseEstimator, score: float, split: tuple[Array, Array]) -> dict[str, Any]:
    row: dict[str, Any] = {"score": score, "n_train": len(split[0]), "n_test": len(split[1])}
    weights = getattr(model, "kernel_weights_", None)
    if weights is not None:
        row["n_kernels"] = int(np.count_nonzero(np.atleast_2d(weights).any(axis=0)))
    told = {name.rstrip("_"): getattr(model, name) for name in CHOICES if hasattr(model, name)}
    results = getattr(model, "cv_results_", None)
    if isinstance(results, pd.DataFrame) and "kernels" in results:
        told["kernels"] = results["kernels"][model.best_index_]
    return row | told


def _assembled(predictions: list[Array], splits: list[tuple[Array, Array]], n_samples: int) -> Array | None:
    """Return the predictions in the order of the samples, if each is held out exactly once."""
    tests = np.concatenate([test for _, test in splits])
    if len(tests) != n_samples or len(np.unique(tests)) != n_samples:
        return None
    together = np.concatenate(predictions)
    return together[np.argsort(tests, kind="stable")]
