"""Scores of held-out rows by the minimized loss: the mean, the mean of calibrated curves, or the added likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from manykernels.objective.losses import CoxPartial, survival_target
from manykernels.objective.losses.survival import FIELDS
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.objective.losses import Loss

MARGINS = ("hinge", "squared_hinge")  # losses that are scored by what logistic curves through their scores tell
LOGISTIC_STEPS, LOGISTIC_TOL = 50, 1e-10  # Newton steps at most, and the relative decrease at which they end
SQUARED = 2.0  # squared errors are told as they are; the loss that is minimized is half of them


class ScoredRows(NamedTuple):
    """Times, weights and scores of some rows."""

    target: Array  # (n,) structured, as `survival_array` returns it
    weight: Array  # (n,) float64
    scores: Array  # (n,) float64


def encoded_like(model: BaseMKL, target: Array) -> Array:
    """Return targets in the form of the losses, by column: signs of the classes, numbers, or times."""
    classes = getattr(model, "classes_", None)
    if classes is not None:
        if np.ndim(classes) == 2:  # labels of 0, 1 and NaN
            return 2.0 * target - 1.0
        return np.where(target[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)
    if target.dtype.names is not None:
        return survival_target(*(target[name] for name in FIELDS.names or ()))[:, None]
    return target.reshape(len(target), -1)


def added_likelihood(loss: CoxPartial, training: ScoredRows, held_out: ScoredRows) -> float:
    """Return the growth of the log partial likelihood when held-out rows join the training rows, an added event.

    The risk sets of all rows tell more than those of the held-out rows alone, which are small; NaN without an event.

    Source: P. Verweij, H. van Houwelingen, "Cross-validation in survival analysis", Statistics in Medicine 12 (1993).
    """
    target = np.concatenate([training.target, held_out.target])
    encoded, n = survival_target(*(target[name] for name in FIELDS.names or ())), len(training.target)
    events = float(held_out.weight @ held_out.target["event"])
    if not events > 0:
        return np.nan
    weight, scores = (np.concatenate(pair) for pair in zip(training[1:], held_out[1:], strict=True))
    before = loss.bind(encoded[:n], training.weight).value(training.scores)
    return float(before - loss.bind(encoded, weight).value(scores)) / events


def mean_losses(losses: Sequence[Any], targets: Array, scores: Array, weight: Array | None) -> Array:
    """Return the mean loss of samples by problem."""
    weights = np.ones(len(targets)) if weight is None else weight
    if np.isnan(targets).any():  # missing labels; a label that all rows lack says nothing of any model
        found, known = np.zeros(targets.shape[1]), np.isfinite(targets)
        for k in np.flatnonzero(weights @ known > 0).tolist():
            at = known[:, k]
            found[k] = mean_losses([losses[k]], targets[at, k, None], scores[at, k, None], weights[at])[0]
        return found
    if losses[0].name in MARGINS:
        return np.array([calibrated_loss(y, z, weights) for y, z in zip(targets.T, scores.T, strict=True)])
    if len(losses) < targets.shape[1]:  # one problem for all columns
        each: Any = losses[0]
        return np.atleast_1d(np.average(each.value(targets, scores), weights=weights)) * _unit(each.each)
    columns = zip(losses, targets.T, scores.T, strict=True)
    return np.array([np.average(loss.value(y, z), weights=weights) * _unit(loss) for loss, y, z in columns])


def calibrated_loss(signs: Array, scores: Array, weights: Array) -> float:
    """Return the mean logistic loss of scores without a unit, after rising logistic curves through the very rows.

    Margins are not probabilities, and the hinge loss measures distances beyond 1. The score is half the logistic loss
    of a calibration curve with slope and constant (quality of the ranking), and half the loss of a slope alone (quality
    of the labels at threshold zero). The gain by calibration is subtracted by Akaike's criterion. For few or separable
    rows a normal prior of deviation 1, for standardized scores, determines the slope.

    Source: J. Platt, "Probabilistic outputs for support vector machines", 1999.
    """
    positive, spread = signs > 0, float(scores.std())
    share = (weights @ positive + 1.0) / (weights.sum() + 2.0)
    constant = float(np.average(-np.log(np.where(positive, share, 1.0 - share)), weights=weights)) + 1.0 / len(signs)
    known = weights > 0
    if not spread > 1e-12 * np.abs(scores).max() or len(np.unique(positive[known])) < 2:
        return constant

    def after(columns: Array) -> float:
        slopes = _fit_logistic(columns, positive, weights)
        if slopes[0] <= 0:
            return constant
        losses = np.logaddexp(0.0, np.where(positive, -1.0, 1.0) * (columns @ slopes))
        return float(np.average(losses, weights=weights)) + len(slopes) / len(signs)

    curve = np.column_stack([scores / spread, np.ones(len(scores))])
    return 0.5 * (after(curve) + after(curve[:, :1]))


def _fit_logistic(columns: Array, positive: Array, weights: Array) -> Array:
    """Return the coefficients of a logistic curve through rows, the first with a normal prior of deviation 1.

    Newton steps with a line search: for up to two coefficients a few passes over the rows suffice.
    """
    signed = np.where(positive, 1.0, -1.0)[:, None] * columns
    prior = np.zeros(columns.shape[1])
    prior[0] = 1.0
    found = np.zeros(columns.shape[1])

    def value_at(point: Array) -> float:
        return float(weights @ np.logaddexp(0.0, -signed @ point)) + 0.5 * float(prior @ point**2)

    value = value_at(found)
    for _ in range(LOGISTIC_STEPS):
        misses = expit(-signed @ found)
        slope = prior * found - signed.T @ (weights * misses)
        step = np.linalg.lstsq(
            np.diag(prior) + (signed.T * (weights * misses * (1.0 - misses))) @ signed, -slope, rcond=None
        )[0]
        decrease, share = -float(slope @ step), 1.0
        if decrease <= LOGISTIC_TOL * value:
            break
        while (new := value_at(found + share * step)) > value - 0.1 * share * decrease and share > LOGISTIC_TOL:
            share *= 0.5
        found, value = found + share * step, new
    return found


def _unit(loss: Loss) -> float:
    return SQUARED if loss.name == "squared" else 1.0
