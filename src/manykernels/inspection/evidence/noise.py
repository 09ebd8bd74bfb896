"""Whether a selection could as well have been made from noise: what a fitted model says, and refits to noise."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.strength import SIGNIFICANT, random_orders
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.pipelines import unwrapped
from manykernels.validation.arrays import TableLike, check_count
from manykernels.validation.parameters import RandomSource, generator_from

__all__ = ["noise_doubt", "noise_selection"]


def noise_doubt(model: BaseEstimator) -> str | None:
    """Return the reason to doubt that a fitted model selected more than noise, in words, or None for none.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one

    Returns
    -------
    str or None
        None as well for a model without kernels, and for one that does not know what noise reaches.

    See Also
    --------
    noise_selection : How many kernels noise selects, by refits.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import noise_doubt
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> noise_doubt(MKLRegressor().fit(X, np.sin(2 * X[:, 1]))) is None
    True
    """
    model, _ = unwrapped(model)
    check_is_fitted(model)
    chance = getattr(model, "_noise_p_value", 0.0)
    selected = np.atleast_1d((np.atleast_2d(model.kernel_weights_) > 0).any(axis=0))
    if chance <= SIGNIFICANT or not selected.any():
        return None
    return (
        "The kernels are not more strongly related to y than to y in random order (p = "
        f"{chance:.2g}): pure noise would select about as many kernels as this fit, {int(selected.sum())} of "
        f"{len(selected)}."
    )


def noise_selection(
    estimator: BaseEstimator,
    X: TableLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    n_permutations: int = 10,
    random_state: RandomSource = None,
) -> pd.Series:
    """Return how many kernels an estimator selects for y in random order, at the same multiple of noise.

    Where a model keeps n kernels and noise keeps k of them, about k of the n are what noise would have given too.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival, fitted on X and y
        It is not changed.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Its training samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their targets; rows are exchanged as wholes.
    groups : array-like of shape (n_samples,) or None, default=None
        Labels of samples that are alike, such as patients. Targets of a group stay together and change places with
        those of groups of as many samples; those of a group as large as no other change places among themselves.
    n_permutations : int, default=10
        Refits.
    random_state : int, RandomState instance or None, default=None
        Of the orders.

    Returns
    -------
    Series of shape (n_permutations,), int
        Named ``n_selected``; for several classes or targets, kernels that any of them has.

    Raises
    ------
    InvalidInputError
        If the estimator has no strength of its own, as after cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import noise_selection
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> y = X[:, 1]
    >>> counts = noise_selection(MKLRegressor(tol=1e-2).fit(X, y), X, y, n_permutations=3, random_state=0)
    >>> len(counts), bool(counts.min() >= 0)
    (3, True)
    """
    check_is_fitted(estimator)
    check_count(n_permutations, "n_permutations")
    if "alpha" not in estimator.get_params(deep=False) or not hasattr(estimator, "noise_ratio_"):
        raise InvalidInputError(
            f"noise_selection refits at the strength of the model, which an {type(estimator).__name__} has none of: "
            "give MKLClassifier, MKLRegressor or MKLSurvival with the alpha_ that was found."
        )
    ratio = float(np.median(estimator.noise_ratio_))
    model, rng = clone(estimator).set_params(alpha=f"{ratio:.6g}*noise"), generator_from(random_state)
    counts = []
    n_targets = np.shape(y)[0]
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (n_targets,):
        raise InvalidInputError(
            f"groups has the shape {labels.shape}, but there are {n_targets} targets: a label for each."
        )
    for order in random_orders(n_targets, rng, n_permutations, groups=labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that this is noise, and that it may select nothing
            model.fit(X, y.iloc[order] if hasattr(y, "iloc") else np.asarray(y)[order])
        counts.append(int((np.atleast_2d(model.kernel_weights_) > 0).any(axis=0).sum()))
    return pd.Series(counts, name="n_selected")
