"""What scores of held-out rows are worth by the loss that is minimized: its mean, or that of curves through margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from manykernels.objective.losses import survival_target
from manykernels.objective.losses.survival import FIELDS
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.objective.losses import Loss

MARGINS = ("hinge", "squared_hinge")  # losses that are scored by what logistic curves through their scores tell
SQUARED = 2.0  # squared errors are told as they are; the loss that is minimized is half of them


def encoded_like(model: BaseMKL, target: Array) -> Array:
    """Return targets as the losses of a model take them, by column: signs of its classes, numbers, or times."""
    classes = getattr(model, "classes_", None)
    if classes is not None:
        return np.where(target[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)
    if target.dtype.names is not None:
        return survival_target(*(target[name] for name in FIELDS.names or ()))[:, None]
    return target.reshape(len(target), -1)


def mean_losses(losses: Sequence[Any], targets: Array, scores: Array, weight: Array | None) -> Array:
    """Return the mean loss by problem: of samples, or of a partial likelihood the loss an event."""
    weights = np.ones(len(targets)) if weight is None else weight
    if losses[0].couples_samples:
        events = float(weights @ (targets[:, 0] > 0))
        value = losses[0].bind(targets[:, 0], weights).value(scores[:, 0]) if events else np.nan
        return np.array([value / events if events else np.nan])
    if losses[0].name in MARGINS:
        return np.array([calibrated_loss(y, z, weights) for y, z in zip(targets.T, scores.T, strict=True)])
    if len(losses) < targets.shape[1]:  # one problem for all columns
        each: Any = losses[0]
        return np.atleast_1d(np.average(each.value(targets, scores), weights=weights)) * _unit(each.each)
    columns = zip(losses, targets.T, scores.T, strict=True)
    return np.array([np.average(loss.value(y, z), weights=weights) * _unit(loss) for loss, y, z in columns])


def calibrated_loss(signs: Array, scores: Array, weights: Array) -> float:
    """Return the mean logistic loss of scores without a unit, after rising logistic curves through these very rows.

    Margins decide between labels and tell no probability: their own loss would ask how far they are beyond 1. Half of
    it is that of a curve with a slope and a constant, which asks how well scores order the rows, and half that of a
    slope alone, which is even where labels change, at zero: scores that order well and give all rows one label are no
    good classifier, and so are labels whose scores order nothing. What the numbers gain by being fitted here is taken
    off again as Akaike's criterion does. Few rows, or rows that one score tells apart, leave the slope to a normal
    prior of deviation 1 for scores in units of their spread.

    Source: J. Platt, "Probabilistic outputs for support vector machines", 1999.
    """
    positive, spread = signs > 0, float(scores.std())
    share = (weights @ positive + 1.0) / (weights.sum() + 2.0)
    constant = float(np.average(-np.log(np.where(positive, share, 1.0 - share)), weights=weights)) + 1.0 / len(signs)
    known = weights > 0
    if not spread > 1e-12 * np.abs(scores).max() or len(np.unique(positive[known])) < 2:
        return constant

    def after(curve: LogisticRegression, n_fitted: int) -> float:
        curve.fit(scores[:, None] / spread, positive, weights)
        if curve.coef_[0, 0] <= 0:
            return constant
        likelihood = curve.predict_log_proba(scores[:, None] / spread)[np.arange(len(signs)), positive.astype(np.intp)]
        return float(np.average(-likelihood, weights=weights)) + n_fitted / len(signs)

    return 0.5 * (after(LogisticRegression(), 2) + after(LogisticRegression(fit_intercept=False), 1))


def _unit(loss: Loss) -> float:
    return SQUARED if loss.name == "squared" else 1.0
