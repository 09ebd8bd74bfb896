"""Importance of views, columns and kernels: by permutation on held-out rows, or by refits without a unit.

Conformal intervals and sets for new rows from the folds of a search.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.selection.held_out import FoldModel
from manykernels.estimators.selection.splits import CrossValidation, splits_of
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import as_bank
from manykernels.inspection.displays.kernel_table import groups_of, kernel_table
from manykernels.inspection.pipelines import groups_in, last_step, unwrapped
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.columns import Table
from manykernels.solvers.solution import count_to
from manykernels.validation.arrays import Array, TableLike, check_count, check_positive
from manykernels.validation.parameters import RandomSource, check_unit, generator_from


def predictive_importance(
    model: BaseEstimator,
    X: TableLike,
    y: ArrayLike,
    *,
    by: str = "view",
    n_repeats: int = 200,
    scoring: str | Callable[..., float] | None = None,
    random_state: RandomSource = None,
) -> pd.DataFrame:
    r"""Return the drop in score after permuting the contribution of a view or a kernel over the rows.

    The model is a sum, ``f = sum_m f_m + b``. For every unit ``g`` the values of ``f_g = sum_{m in g} f_m`` are
    permuted over the rows and the score is taken anew: a thousand repeats cost one prediction. The null hypothesis of
    the p-value is independence of the values of ``f_g`` and the order of the rows:

    .. math:: p_g = \frac{1 + \#\{\text{repeats that score at least as high}\}}{1 + \text{repeats}} .

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor or a search, or a Pipeline around an estimator
        Fitted.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Rows **unseen** by the model; on training rows the drop is too large and the p-value too small.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their labels or numbers.
    by : {"view", "kernel"}, default="view"
        Unit of permutation: kernels on a single view, column or all columns, or single kernels.
    n_repeats : int, default=200
        Permutations of every unit; the smallest possible p-value is ``1 / (1 + n_repeats)``.
    scoring : str, callable or None, default=None
        Scorer of scikit-learn; None is the score of the estimator (accuracy, R2).
    random_state : int, RandomState instance or None, default=None
        Of the permutations.

    Returns
    -------
    DataFrame
        A row a unit with a part in the model, the most important first: ``name``, ``importance`` (mean drop of the
        score), ``std`` (over the repeats), ``p_value``.

    Raises
    ------
    InvalidInputError
        For another ``by``, or fewer than two rows.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    sklearn.inspection.permutation_importance : The same by columns of the table, with a prediction a repeat.

    Notes
    -----
    Correlated columns share their importance.

    References
    ----------
    L. Breiman, "Random forests", Machine Learning 45 (2001); B. Phipson, G. Smyth, "Permutation p-values should never
    be zero", Statistical Applications in Genetics and Molecular Biology 9 (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (100, 3))
    >>> y = np.sin(2 * X[:, 1])
    >>> model = MKLRegressor().fit(X[:60], y[:60])
    >>> predictive_importance(model, X[60:], y[60:], random_state=0)["name"].iloc[0]
    'x1'
    """
    check_is_fitted(model)
    model, X = unwrapped(model, X)
    by = check_unit(by, ("view", "kernel"))
    check_count(n_repeats, "n_repeats")
    random = generator_from(random_state)
    rows = [
        {
            "name": name,
            "importance": drops.mean(),
            "std": drops.std(),
            "p_value": (1 + np.count_nonzero(drops <= 0)) / (1 + n_repeats),
        }
        for name, drops in score_drops(model, X, y, by, n_repeats, scoring, random).items()
    ]
    table = pd.DataFrame(rows, columns=["name", "importance", "std", "p_value"])
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def score_drops(
    model: BaseMKL,
    X: TableLike,
    y: ArrayLike,
    by: str,
    n_repeats: int,
    scoring: str | Callable[..., float] | None,
    random: np.random.Generator,
) -> dict[str, Array]:
    """Return the drop in score in every repeat, for every unit with a part in the model."""
    parts: Array = model.decompose(X)
    if parts.shape[1] < 2:
        raise InvalidInputError(f"Importance needs at least 2 rows to shuffle, got {parts.shape[1]}.")
    score = _score_of(model, y, scoring)
    whole = parts.sum(axis=0) + model.intercept_
    best = score(whole)
    found = {}
    for name, members in _members(model, by).items():
        own = parts[members].sum(axis=0)
        if own.any():
            found[name] = np.array(
                [best - score(whole - own + own[random.permutation(len(own))]) for _ in range(n_repeats)]
            )
    return found


def pooled_drops(found: Sequence[dict[str, Array]], splits: Sequence[tuple[Array, Array]]) -> pd.DataFrame:
    """Return mean and 95 % interval of drops over parts of the rows; absent units have a drop of zero.

    The interval uses the t statistic for models with shared training rows (:func:`compute_corrected_t`).
    """
    names = list(dict.fromkeys(name for drops in found for name in drops))
    means = np.array([[drops[name].mean() if name in drops else 0.0 for drops in found] for name in names])
    means = means.reshape(len(names), len(found))
    middle, reach = (
        means.mean(axis=1),
        stats.t.ppf(0.975, max(len(found) - 1, 1)) * compute_corrected_error(means, splits),
    )
    table = pd.DataFrame({"name": names, "importance": middle, "low": middle - reach, "high": middle + reach})
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def _area_under_curve(positive: Array, scores: Array) -> float:
    """Return the area under the ROC curve of checked rows; ties count half."""
    n_positive, ranks = int(positive.sum()), stats.rankdata(scores)
    above = float(ranks[positive].sum()) - n_positive * (n_positive + 1) / 2
    return above / (n_positive * (len(positive) - n_positive))


def _members(model: BaseMKL, by: str) -> dict[str, list[int]]:
    """Return the positions of the kernels of every unit."""
    members: dict[str, list[int]] = {}
    for position, group in enumerate(groups_of(model, kernel_table(model), by)):
        members.setdefault(group[0], []).append(position)
    return members


def _score_of(model: BaseMKL, y: ArrayLike, scoring: str | Callable[..., float] | None) -> Any:
    """Return a function from scores of the rows to the number of a scorer."""
    scorer, known = check_scoring(model, scoring=scoring), np.asarray(y)
    if (
        scoring == "roc_auc"
        and is_classifier(model)
        and known.ndim == 1
        and len(model.classes_) == len(set(known) & set(model.classes_)) == 2
    ):
        return partial(_area_under_curve, known == model.classes_[1])
    rows = np.zeros((len(known), 1))

    def score(values: Array) -> float:
        double: Any = copy.copy(model)
        # Predictions, probabilities and decisions all come from these.
        double._scores = lambda _: values.reshape(len(values), -1)
        with config_context(assume_finite=True, skip_parameter_validation=True):  # checks take longer than scores
            return float(scorer(double, rows, known))

    return score


# Differences of scores over folds that share training rows: their corrected t statistic.


def compute_corrected_t(differences: Array, splits: list[tuple[Array, Array]]) -> Array:
    """Return ``mean / sqrt((1/k + n_test/n_train) s^2)`` along the last axis; NaN without a spread over the folds.

    Nadeau and Bengio (2003): the usual t statistic finds too much where folds share training rows.
    """
    mean, error = differences.mean(axis=-1), compute_corrected_error(differences, splits)
    # Without any spread over the folds there is nothing to compare the mean with.
    return np.divide(mean, error, out=np.full(mean.shape, np.nan), where=error > 0)


def compute_corrected_error(differences: Array, splits: Sequence[tuple[Array, Array]]) -> Array:
    """Return the standard error in `compute_corrected_t`; NaN of a single fold."""
    if (k := differences.shape[-1]) < 2:
        return np.full(differences.shape[:-1], np.nan)
    ratio = float(np.mean([len(test) / len(train) if len(train) else 0.0 for train, test in splits]))
    return np.asarray(np.sqrt(1 / k + ratio) * differences.std(axis=-1, ddof=1))


def leave_one_out_importance(
    estimator: BaseEstimator,
    X: TableLike,
    y: ArrayLike,
    *,
    cv: CrossValidation = 5,
    scoring: str | Callable[..., float] | None = None,
    groups: ArrayLike | None = None,
    verbose: int = 0,
) -> pd.DataFrame:
    r"""Return the score with minus the score without every view (or column), over folds.

    Unlike permutation, the refitted model may compensate by correlated views; the drop measures the unique
    contribution. The cost is a fit per view and fold.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or their CV variants, or a Pipeline around an estimator
        With a bank (or the default kernels); not changed. A CV estimator chooses the strength anew every time. The
        views or columns are the output of the earlier steps.
    X : DataFrame or array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or numbers.
    cv : int, splitter or iterable, default=5
        Folds.
    scoring : str, callable or None, default=None
        Scorer of scikit-learn; None is the score of the estimator (accuracy, R2).
    groups : array-like of shape (n_samples,) or None, default=None
        Given to the splitter; a number of folds keeps groups whole.
    verbose : int, default=0
        1 shows a bar.

    Returns
    -------
    DataFrame
        A row per view, the most important first: ``name``, ``importance`` (mean over the folds), ``std``, ``p_value``
        (one-sided, hypothesis of no positive importance; NaN if all folds agree to the last digit), ``n_kernels``.

    Raises
    ------
    InvalidInputError
        For precomputed kernels, or a bank that acts on a single view only.

    Notes
    -----
    Folds share training rows, so the usual t-test finds too much. The corrected one is used: :math:`t = \bar\delta /
    \sqrt{(1/k + n_\text{test} / n_\text{train})\, s^2}` with ``k - 1`` degrees of freedom.

    References
    ----------
    C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52 (2003).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> found = leave_one_out_importance(MKLRegressor(), X, np.sin(2 * X[:, 1]), cv=3)
    >>> found["name"].iloc[0], len(found)
    ('x1', 2)
    """
    inner = last_step(estimator)
    bank = as_bank(inner.kernels, X)
    if not isinstance(bank, KernelBank):
        raise InvalidInputError(
            "Views are left out of banks; of precomputed kernels and of pairs, leave out kernels by hand."
        )
    places = _places(bank, X if inner is estimator else clone(estimator[:-1]).fit(X, y).transform(X))
    names = list(dict.fromkeys(place for place, _ in places))
    names = [name for name in names if name != "all"]
    if len(names) < 2:
        raise InvalidInputError(f"All kernels act on {names or ['all columns']}: nothing can be left out.")
    target = np.asarray(y)
    splits = splits_of(cv, target, groups, classifier=is_classifier(estimator))
    scores = np.zeros((len(names) + 1, len(splits)))
    with count_to(scores.size, "fits", verbose) as advance:
        for row, left_out in enumerate([None, *names]):
            model = clone(estimator)
            last_step(model).set_params(kernels=_drop_view(bank, places, left_out))
            for fold, split in enumerate(splits):
                train, test = split
                own = groups_in(model, groups, train)
                fitted = clone(model).fit(_safe_indexing(X, train), target[train], **own)
                scorer = check_scoring(fitted, scoring=scoring)
                scores[row, fold] = float(scorer(fitted, _safe_indexing(X, test), target[test]))
                advance("")
    return _table(names, scores, splits, places)


def _places(bank: KernelBank, X: TableLike) -> list[tuple[str, Any]]:
    """Return, for every kernel of the bank on the columns, the acting columns and the bank entry."""
    table = Table.wrap(X)
    known = _Columns(table)
    entries = bank.expand(table)
    columns = [", ".join(table.names[j] for j in positions) for _, _, positions in entries]
    frame = pd.DataFrame(
        {"name": [name for name, _, _ in entries], "kernel": [str(spec) for _, spec, _ in entries], "columns": columns}
    )
    labels = [group[0] for group in groups_of(known, frame, "view")]
    return [(label, (name, spec, list(at))) for label, (name, spec, at) in zip(labels, entries, strict=True)]


class _Columns:
    """The column names of a table, with the interface of a fitted estimator."""

    def __init__(self, table: Table) -> None:
        self.n_features_in_ = table.n_columns
        self.feature_names_in_ = np.array(table.names, dtype=object)


def _drop_view(bank: KernelBank, places: list[tuple[str, Any]], left_out: str | None) -> KernelBank:
    """Return the bank without the kernels on one view; joint kernels of all columns stay out of every comparison."""
    kept = [entry for place, entry in places if place not in (left_out, "all")]
    # The kernels of missingness are among the entries already.
    return bank.replace(kernels=kept, missing="mask" if bank.missing == "indicator" else bank.missing)


def _table(
    names: list[str], scores: Array, splits: list[tuple[Array, Array]], places: list[tuple[str, Any]]
) -> pd.DataFrame:
    drops = scores[0] - scores[1:]
    k, means = len(splits), drops.mean(axis=1)
    spread = drops.std(axis=1, ddof=1) if k > 1 else np.full(len(names), np.nan)
    p_values = stats.t.sf(compute_corrected_t(drops, splits), max(k - 1, 1))
    counts = [sum(place == name for place, _ in places) for name in names]
    table = pd.DataFrame({"name": names, "importance": means, "std": spread, "p_value": p_values, "n_kernels": counts})
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


MOST_ENTRIES = 5_000_000  # of the table of errors by new rows


def conformal_intervals(model: BaseEstimator, y: ArrayLike, X: TableLike, *, confidence: float = 0.9) -> pd.DataFrame:
    r"""Return intervals with guaranteed coverage for new targets, from out-of-fold errors.

    With the predictions :math:`\hat y_i` of rows out of fold, ``cv_predictions_``, an interval is :math:`\hat y(x) \pm
    r`, where :math:`r` is the :math:`\lceil c\,(n + 1) \rceil`-th smallest :math:`|y_i - \hat y_i|`. With the models of
    the folds, :math:`\hat f_{-k}`, CV+ applies, from the :math:`\lfloor (1 - c)(n + 1) \rfloor`-th smallest :math:`\hat
    f_{-k(i)}(x) - |y_i - \hat y_i|` to the :math:`\lceil c\,(n + 1) \rceil`-th smallest :math:`\hat f_{-k(i)}(x) + |y_i
    - \hat y_i|`.

    Parameters
    ----------
    model : MKLRegressorCV, or a Pipeline around an estimator
        Fitted; with ``search={"keep_folds": True}`` for CV+.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        The targets of the fit, in the same order.
    X : DataFrame, array-like of shape (n_new, n_features), precomputed kernels or Pairs
        New rows.
    confidence : float, default=0.9
        Share of new targets to cover, below 1.

    Returns
    -------
    DataFrame
        ``predicted``, ``low`` and ``high``, a row per row of X; ends are infinite for too few rows. Several targets
        have the three columns per target, below the name (or number); coverage holds per target, not jointly.

    Raises
    ------
    InvalidInputError
        Without out-of-fold predictions, or with a mismatch of y.

    See Also
    --------
    conformal_sets : Classification.

    Notes
    -----
    Needs no fit, and assumes new rows like the held-out rows (folds of groups for new groups, cold starts for new
    members of pairs), and a model of all rows with errors like the models of the folds. CV+ does not assume the latter:
    the coverage is at least ``2 * confidence - 1`` for any distribution, and about ``confidence``, apart from the
    choice among candidates on the same rows. The intervals are wider where the models of the folds differ. For noise
    that depends on the columns, use quantiles (``loss="quantile"``), or MAPIE with any estimator of the library.

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
    known, predicted = _require_predictions(model, y), np.asarray(model.predict(X), dtype=np.float64)
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
    r"""Return sets of classes with guaranteed coverage, from out-of-fold probabilities.

    A class is in the set of a row if the probability is at least :math:`1 - r`, where :math:`r` is the :math:`\lceil
    c\,(n + 1) \rceil`-th smallest :math:`1 - \hat p_i(y_i)` of the rows held out. With the models of the folds
    (``search={"keep_folds": True}``) CV+ applies: a class is in the set if fewer than :math:`c\,(n + 1)` rows had a
    larger probability in their class, by the model without the row.

    Parameters
    ----------
    model : MKLClassifierCV, or a Pipeline around an estimator
        Fitted, with probabilities.
    y : array-like of shape (n_samples,)
        The labels of the fit, in the same order.
    X : DataFrame, array-like of shape (n_new, n_features), precomputed kernels or Pairs
        New rows.
    confidence : float, default=0.9
        Share of new labels to hold, below 1.

    Returns
    -------
    DataFrame
        A bool column for every class, a row per row of X. A set may be empty.

    Raises
    ------
    InvalidInputError
        Without out-of-fold probabilities, or with a mismatch of y.

    See Also
    --------
    conformal_intervals : Intervals for numbers, with the assumptions.

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
    known = _require_predictions(model, y)
    if known.ndim != 2 or not hasattr(model, "predict_proba"):
        raise InvalidInputError(
            "Prediction sets need probabilities, which this model does not have. Use loss='logistic'."
        )
    places = np.searchsorted(model.classes_, np.asarray(y))
    folds = _fold_models(model)
    if folds:
        need = int(np.ceil(_check_confidence(confidence) * (1 + sum(len(fold.rows) for fold in folds))))
        below = np.zeros(1, dtype=np.intp)
        for fold, said in _said_of(folds, model, X, "predict_proba"):
            errors = np.sort(1.0 - fold.shown[np.arange(len(fold.rows)), places[fold.rows]])
            below = below + np.searchsorted(errors, 1.0 - said, side="left")
        return pd.DataFrame(below < need, columns=model.classes_)
    reach = _quantile(1.0 - known[np.arange(len(known)), places], confidence)
    return pd.DataFrame(np.asarray(model.predict_proba(X)) >= 1.0 - reach, columns=model.classes_)


def _require_predictions(model: BaseEstimator, y: ArrayLike) -> Array:
    """Return the held-out predictions of the folds."""
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
    """Return the models of the folds; empty if discarded."""
    return getattr(unwrapped(model)[0], "_fold_models", [])


def _said_of(
    folds: Sequence[FoldModel], model: BaseEstimator, X: TableLike, method: str
) -> Iterator[tuple[FoldModel, Array]]:
    """Yield every fold with the predictions for new rows."""
    while isinstance(model, Pipeline):  # names that its steps give columns were not those of the fit
        X, model = (model[:-1].transform(X) if len(model) > 1 else X), model[-1]
    for fold in folds:
        yield fold, np.asarray(fold.says(model, X, method), dtype=np.float64)


def _ends(told: Sequence[tuple[Array, Array]], confidence: float) -> tuple[Array, Array]:
    """Return both ends of CV+ from the errors of the folds and the predictions for new rows."""
    n_rows, n_new = sum(len(errors) for errors, _ in told), len(told[0][1])
    low, high = np.empty(n_new), np.empty(n_new)
    step = max(1, MOST_ENTRIES // n_rows)
    for start in range(0, n_new, step):
        at = slice(start, start + step)
        low[at] = -_quantiles(np.concatenate([errors[:, None] - said[at] for errors, said in told]), confidence)
        high[at] = _quantiles(np.concatenate([errors[:, None] + said[at] for errors, said in told]), confidence)
    return low, high


def _quantiles(values: Array, confidence: float) -> Array:
    """Return, per column, the ``confidence`` quantile of exchangeable values."""
    place = int(np.ceil(_check_confidence(confidence) * (len(values) + 1)))
    if place > len(values):
        return np.full(values.shape[1], np.inf)
    return np.asarray(np.partition(values, place - 1, axis=0)[place - 1])


def _check_confidence(confidence: float) -> float:
    if not 0 < check_positive(confidence, "confidence") < 1:
        raise InvalidInputError(f"confidence must be below 1, got {confidence!r}.")
    return confidence


def _quantile(errors: Array, confidence: float) -> float:
    """Return the ``confidence`` quantile of the errors, corrected for a new exchangeable error."""
    return float(_quantiles(errors[np.isfinite(errors)][:, None], confidence)[0])
