"""Intervals and sets for new rows from the folds that a search ran: how far off predictions of held-out rows were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.selection.held_out import FoldModel
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import Array, TableLike, check_positive

__all__ = ["conformal_intervals", "conformal_sets"]

MOST_ENTRIES = 5_000_000  # of the table of errors by new rows


def conformal_intervals(model: BaseEstimator, y: ArrayLike, X: TableLike, *, confidence: float = 0.9) -> pd.DataFrame:
    r"""Return intervals in which new targets lie, from the errors on the rows that cross-validation held out.

    With the predictions :math:`\hat y_i` of rows by models that had not seen them, ``cv_predictions_``, an interval is
    :math:`\hat y(x) \pm r`, where :math:`r` is the :math:`\lceil c\,(n + 1) \rceil`-th smallest :math:`|y_i - \hat
    y_i|`. With the models of the folds, :math:`\hat f_{-k}`, it is that of CV+, from the
    :math:`\lfloor (1 - c)(n + 1) \rfloor`-th smallest :math:`\hat f_{-k(i)}(x) - |y_i - \hat y_i|` to the
    :math:`\lceil c\,(n + 1) \rceil`-th smallest :math:`\hat f_{-k(i)}(x) + |y_i - \hat y_i|`.

    Parameters
    ----------
    model : MKLRegressorCV, or a Pipeline that ends in one
        Fitted; with ``search={"keep_folds": True}`` for CV+.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        The targets that it was fitted to, in the same order.
    X : DataFrame, array-like of shape (n_new, n_features), precomputed kernels or Pairs
        New rows.
    confidence : float, default=0.9
        Share of new targets to cover, below 1.

    Returns
    -------
    DataFrame
        ``predicted``, ``low`` and ``high``, a row each of X; infinite ends where rows are too few for the confidence.
        Of several targets, these three for each, below its name (its number, if y has no names); each target is
        covered by itself, not all of them together.

    Raises
    ------
    InvalidInputError
        If the model knows no predictions of held-out rows, or they do not match y.

    See Also
    --------
    conformal_sets : The same for classes.

    Notes
    -----
    It costs no fit, and assumes that new rows are like those held out (folds of groups for new groups, cold starts for
    new members of pairs), and that the model of all rows errs like those of the folds, which had fewer. CV+ does not
    assume the latter: of new rows like those held out a share of ``2 * confidence - 1`` is covered at least, whatever
    the distribution, and about ``confidence``, but for the choice among candidates that the same rows made. Where the
    models of the folds differ, its intervals are wider. All others are as wide; where the noise depends on the columns,
    take quantiles (``loss="quantile"``), or what MAPIE has, with any estimator of this library.

    References
    ----------
    R. Barber, E. Candes, A. Ramdas, R. Tibshirani, "Predictive inference with the jackknife+", Annals of Statistics 49
    (2021); V. Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence 74 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressorCV
    >>> from manykernels.inspection import conformal_intervals
    >>> rng = np.random.default_rng(2)
    >>> X = rng.uniform(-2, 2, (400, 2))
    >>> y = np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=400)
    >>> model = MKLRegressorCV(cv=3).fit(X[:80], y[:80])
    >>> frame = conformal_intervals(model, y[:80], X[80:])
    >>> bool(np.mean((frame["low"] <= y[80:]) & (y[80:] <= frame["high"])) > 0.8)
    True
    """
    known, predicted = _held_out(model, y), np.asarray(model.predict(X), dtype=np.float64)
    folds, target = list(_said_of(_fold_models(model), model, X, "predict")), np.asarray(y, dtype=np.float64)
    if target.ndim == 1 and known.ndim == 1:
        told = [(np.abs(target[fold.rows] - fold.shown), said) for fold, said in folds]
        return _interval(predicted, np.abs(target - known), told, confidence)
    if target.shape != known.shape:
        raise InvalidInputError(f"y has the shape {target.shape}, but predictions of held-out rows {known.shape}.")
    names = y.columns if isinstance(y, pd.DataFrame) else range(target.shape[1])
    frames = {}
    for k, name in enumerate(names):
        told = [(np.abs(target[fold.rows, k] - fold.shown[:, k]), said[:, k]) for fold, said in folds]
        frames[name] = _interval(predicted[:, k], np.abs(target[:, k] - known[:, k]), told, confidence)
    return pd.concat(frames, axis=1)


def _interval(predicted: Array, errors: Array, told: Sequence[tuple[Array, Array]], confidence: float) -> pd.DataFrame:
    """Return the intervals of one target: by errors of held-out rows, of CV+ where models of folds tell of new rows."""
    if told:
        low, high = _ends(told, confidence)
    else:
        reach = _quantile(errors, confidence)
        low, high = predicted - reach, predicted + reach
    return pd.DataFrame({"predicted": predicted, "low": low, "high": high})


def conformal_sets(model: BaseEstimator, y: ArrayLike, X: TableLike, *, confidence: float = 0.9) -> pd.DataFrame:
    r"""Return sets of classes that hold new labels, from the probabilities of rows that cross-validation held out.

    A class is in the set of a row if its probability is at least :math:`1 - r`, where :math:`r` is the
    :math:`\lceil c\,(n + 1) \rceil`-th smallest :math:`1 - \hat p_i(y_i)` of the rows that were held out. With the
    models of the folds (``search={"keep_folds": True}``) it is that of CV+: a class is in the set if fewer than
    :math:`c\,(n + 1)` rows were more probable in their own class than it is to the model that had not seen the row.

    Parameters
    ----------
    model : MKLClassifierCV, or a Pipeline that ends in one
        Fitted, with probabilities.
    y : array-like of shape (n_samples,)
        The labels that it was fitted to, in the same order.
    X : DataFrame, array-like of shape (n_new, n_features), precomputed kernels or Pairs
        New rows.
    confidence : float, default=0.9
        Share of new labels to hold, below 1.

    Returns
    -------
    DataFrame
        A bool column for each class, a row each of X. A row may have no class: it is like none of them.

    Raises
    ------
    InvalidInputError
        If the model knows no probabilities of held-out rows, or they do not match y.

    See Also
    --------
    conformal_intervals : The same for numbers, with what is assumed.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifierCV
    >>> from manykernels.inspection import conformal_sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=150) > 0, "yes", "no")
    >>> model = MKLClassifierCV(cv=3).fit(X[:80], y[:80])
    >>> conformal_sets(model, y[:80], X[80:]).columns.tolist()
    ['no', 'yes']
    """
    known = _held_out(model, y)
    if known.ndim != 2 or not hasattr(model, "predict_proba"):
        raise InvalidInputError("Sets are made of probabilities, which this model has none of: take loss='logistic'.")
    places = np.searchsorted(model.classes_, np.asarray(y))
    folds = _fold_models(model)
    if folds:
        need = int(np.ceil(_checked(confidence) * (1 + sum(len(fold.rows) for fold in folds))))
        below = np.zeros(1, dtype=np.intp)
        for fold, said in _said_of(folds, model, X, "predict_proba"):
            errors = np.sort(1.0 - fold.shown[np.arange(len(fold.rows)), places[fold.rows]])
            below = below + np.searchsorted(errors, 1.0 - said, side="left")
        return pd.DataFrame(below < need, columns=model.classes_)
    reach = _quantile(1.0 - known[np.arange(len(known)), places], confidence)
    return pd.DataFrame(np.asarray(model.predict_proba(X)) >= 1.0 - reach, columns=model.classes_)


def _held_out(model: BaseEstimator, y: ArrayLike) -> Array:
    """Return what folds say of the rows that they held out."""
    check_is_fitted(model)
    inner, _ = unwrapped(model)
    known = getattr(inner, "cv_predictions_", None)
    if known is None:
        raise InvalidInputError(
            f"This {type(inner).__name__} has no predictions of rows that were held out: take MKLRegressorCV or "
            "MKLClassifierCV, or MAPIE around this one."
        )
    n_targets = np.shape(y)[0]
    if len(known) != n_targets:
        raise InvalidInputError(f"y has {n_targets} targets, but the model was fitted to {len(known)}: give these.")
    return np.asarray(known)


def _fold_models(model: BaseEstimator) -> list[FoldModel]:
    """Return the folds that predict new rows; none where they were not kept."""
    return unwrapped(model)[0].__dict__.get("_fold_models", [])


def _said_of(
    folds: Sequence[FoldModel], model: BaseEstimator, X: TableLike, method: str
) -> Iterator[tuple[FoldModel, Array]]:
    """Yield each fold and what it says of new rows."""
    while isinstance(model, Pipeline):  # names that its steps give columns were not those of the fit
        X, model = (model[:-1].transform(X) if len(model) > 1 else X), model[-1]
    for fold in folds:
        yield fold, np.asarray(fold.says(model, X, method), dtype=np.float64)


def _ends(told: Sequence[tuple[Array, Array]], confidence: float) -> tuple[Array, Array]:
    """Return both ends of CV+ from the errors of the rows of each fold and what its model says of new rows."""
    n_rows, n_new = sum(len(errors) for errors, _ in told), len(told[0][1])
    low, high = np.empty(n_new), np.empty(n_new)
    step = max(1, MOST_ENTRIES // n_rows)
    for start in range(0, n_new, step):
        at = slice(start, start + step)
        low[at] = -_quantiles(np.concatenate([errors[:, None] - said[at] for errors, said in told]), confidence)
        high[at] = _quantiles(np.concatenate([errors[:, None] + said[at] for errors, said in told]), confidence)
    return low, high


def _quantiles(values: Array, confidence: float) -> Array:
    """Return of each column what a share ``confidence`` of exchangeable values does not pass."""
    place = int(np.ceil(_checked(confidence) * (len(values) + 1)))
    if place > len(values):
        return np.full(values.shape[1], np.inf)
    return np.asarray(np.partition(values, place - 1, axis=0)[place - 1])


def _checked(confidence: float) -> float:
    if not 0 < check_positive(confidence, "confidence") < 1:
        raise InvalidInputError(f"confidence must be below 1, got {confidence!r}.")
    return confidence


def _quantile(errors: Array, confidence: float) -> float:
    """Return the error that a share ``confidence`` of exchangeable ones does not pass, one new one included."""
    return float(_quantiles(errors[np.isfinite(errors)][:, None], confidence)[0])
