"""Scores of held-out rows: fast for the default scorings, by the user's scorer otherwise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from manykernels.kernels.bank.columns import Table

if TYPE_CHECKING:
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.samples import Rows
    from manykernels.validation.arrays import Array


class _OneOutput(RegressorMixin, BaseEstimator):
    """The prediction of one of several targets, as scorers want it."""

    def __init__(self, predicted: Any = None) -> None:
        self.predicted = predicted
        self.fitted_ = True

    def predict(self, X: Any) -> Array:
        """Return the prediction."""
        return np.asarray(self.predicted)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out samples of a fold.

    Attributes
    ----------
    rows : Table or KernelStack
    target : (n,) or (n, K) ndarray
        As the user gave them.
    weight : (n,) float64 or None
    scorer : callable or None
        ``scorer(model, X, y)``; None for the accuracy, or the negative mean squared error.
    """

    rows: Rows
    target: Array
    weight: Array | None
    scorer: Callable[..., float] | None

    @property
    def n_scores(self) -> int:
        """Number of scores of a model: one a target of a regression."""
        return self.target.shape[1] if self.target.ndim == 2 else 1

    def score(self, model: BaseMKL, scores: Array, complete: Callable[[], BaseMKL]) -> Array:
        """Return the scores of a model, (n_scores,), from its decision values at these rows.

        Parameters
        ----------
        model : BaseMKL
            Which knows its classes.
        scores : ndarray of shape (n, K)
        complete : callable
            Returns the whole model, for a scorer that predicts anything else.
        """
        if self.scorer is None:
            classes = getattr(model, "classes_", None)
            return self._errors(scores) if classes is None else self._accuracy(scores, classes)
        given = {} if self.weight is None else {"sample_weight": self.weight}
        if self.target.ndim == 2:
            outputs = zip(model._loss.mean(scores).T, self.target.T, strict=True)
            return np.array([self.scorer(_OneOutput(z), np.zeros((len(z), 1)), y, **given) for z, y in outputs])
        # A scorer of the user's sees what the user gave, not what it became inside.
        X = self.rows.given if isinstance(self.rows, Table) else self.rows
        shown = copy.copy(model)
        # Scorers predict these rows again and again; whatever else they ask of the model is computed.
        shown.__dict__["_scores"] = lambda asked: scores if asked is X else complete()._scores(asked)
        return np.array([float(self.scorer(shown, X, self.target, **given))])

    def _accuracy(self, scores: Array, classes: Array) -> Array:
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.array([np.average(classes[codes] == self.target, weights=self.weight)])

    def _errors(self, scores: Array) -> Array:
        target = self.target.reshape(len(self.target), -1)
        return -np.average((scores - target) ** 2, axis=0, weights=self.weight)
