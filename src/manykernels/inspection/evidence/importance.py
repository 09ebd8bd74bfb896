"""What a fitted model loses when a view, a column or a kernel tells it nothing: permutation on held-out rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.kernel_table import groups_of, kernel_table
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import Array, TableLike, check_count
from manykernels.validation.parameters import RandomSource, generator_from

__all__ = ["predictive_importance"]

BY = ("view", "kernel")


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
    r"""Return how much the score falls when what a view or a kernel says is shuffled between the rows.

    The model is a sum, ``f = sum_m f_m + b``. For each unit ``g`` the values of ``f_g = sum_{m in g} f_m`` are permuted
    over the rows and the score is taken anew: a thousand repeats cost one prediction. The null hypothesis of the
    p-value is that the values of ``f_g`` have nothing to do with the order of the rows:

    .. math:: p_g = \frac{1 + \#\{\text{repeats that score at least as high}\}}{1 + \text{repeats}} .

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor or a search, or a Pipeline that ends in one
        Fitted.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Rows that the model **has not seen**; on training rows the drop is too large and the p-value too small.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their labels or numbers.
    by : {"view", "kernel"}, default="view"
        What is shuffled together: kernels that act on one view, column or all columns, or single kernels.
    n_repeats : int, default=200
        Permutations of each unit; the smallest possible p-value is ``1 / (1 + n_repeats)``.
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
    Columns that tell the same share their importance between them, as in any such measure.

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
    if by not in BY:
        raise InvalidInputError(f"by must be one of {', '.join(BY)}, got {by!r}.")
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
    random: Any,
) -> dict[str, Array]:
    """Return what the score falls by in each repeat, for each unit with a part in the model."""
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
    """Return mean and 95 % interval of drops over parts of the rows; what has no part in a model has a drop of zero.

    The interval is that of the t statistic for models that share training rows (:func:`corrected_t`).
    """
    names = list(dict.fromkeys(name for drops in found for name in drops))
    means = np.array([[drops[name].mean() if name in drops else 0.0 for drops in found] for name in names])
    means = means.reshape(len(names), len(found))
    k = len(found)
    ratio = float(np.mean([len(test) / len(train) if len(train) else 0.0 for train, test in splits]))
    spread = means.std(axis=1, ddof=1) if k > 1 else np.full(len(names), np.nan)
    reach = stats.t.ppf(0.975, max(k - 1, 1)) * np.sqrt(1 / k + ratio) * spread
    middle = means.mean(axis=1)
    table = pd.DataFrame({"name": names, "importance": middle, "low": middle - reach, "high": middle + reach})
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def _members(model: BaseMKL, by: str) -> dict[str, list[int]]:
    """Return the positions of the kernels of each unit."""
    members: dict[str, list[int]] = {}
    for position, group in enumerate(groups_of(model, kernel_table(model), by)):
        members.setdefault(group[0], []).append(position)
    return members


def _score_of(model: BaseMKL, y: Any, scoring: Any) -> Any:
    """Return a function from scores of the rows to the number that a scorer gives the model for them."""
    scorer, known, rows = check_scoring(model, scoring=scoring), np.asarray(y), np.zeros((len(y), 1))

    def score(values: Array) -> float:
        double: Any = copy.copy(model)
        # Predictions, probabilities and decisions all come from these.
        double._scores = lambda _: values.reshape(len(values), -1)
        return float(scorer(double, rows, known))

    return score
