"""How sure curves and surfaces are: a posterior at the learned weights, or refits to rows that are drawn anew."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.posterior import posterior_of
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.decomposition import for_target
from manykernels.inspection.displays.kernel_table import kernel_table, known_targets, target_position
from manykernels.inspection.pipelines import fresh, unwrapped
from manykernels.validation.arrays import Array, TableLike, check_count
from manykernels.validation.parameters import RandomSource, generator_from

__all__ = ["bootstrap_refits"]

# Of rows, labels of columns and weights of a mean the standard deviations of the functions on these columns less it.
Spread = Callable[[Any, Sequence[str], Array], Array]


def bootstrap_refits(
    estimator: BaseEstimator, X: TableLike, y: ArrayLike, *, n_refits: int = 30, random_state: RandomSource = None
) -> list[Any]:
    r"""Return refits of an estimator to rows that are drawn anew with replacement: a bootstrap of its functions.

    The standard deviation of a function :math:`g` at a value is that over the refits,
    :math:`\big(\tfrac{1}{B - 1} \sum_b (g_b - \bar g)^2\big)^{1/2}`, which displays take as ``bands``. It holds for any
    loss and any penalty, also where there is no posterior: margins, quantiles, hazards, kernels held as factors.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        It is not changed. Of a pipeline the last step is fitted again, on what the fitted steps before it say. A search
        searches again in every refit: give its plain twin with the strength that was found, where that takes too long.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Training samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their targets.
    n_refits : int, default=30
        Fits; at least 2. The error of a standard deviation is about ``1 / sqrt(2 * n_refits)`` of it.
    random_state : int, RandomState instance or None, default=None
        Of the rows that are drawn, from each class as many as it has.

    Returns
    -------
    list of fitted estimators

    Raises
    ------
    InvalidInputError
        If there are fewer than two refits.

    See Also
    --------
    ShapeDisplay, SurfaceDisplay : Draw curves and surfaces with these bands.

    Notes
    -----
    A row counts as often as it is drawn, as a sample weight. Each refit learns widths, standardization and weights of
    its kernels anew, so that bands know of the selection, which a posterior at the learned weights takes for granted.
    They are around what the penalty leaves of the truth: a curve that is shrunk is shrunk in all refits, and its bands
    are too narrow by that.

    References
    ----------
    B. Efron, R. Tibshirani, *An Introduction to the Bootstrap*, 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import ShapeDisplay, bootstrap_refits
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 2))
    >>> y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    >>> model = MKLRegressor(loss="quantile", tol=1e-2).fit(X, y)
    >>> refits = bootstrap_refits(model, X, y, n_refits=5, random_state=0)
    >>> shapes = ShapeDisplay.from_estimator(model, X, bands=refits)
    >>> bool((shapes.frame()["std"] > 0).any())
    True
    """
    check_is_fitted(estimator)
    if check_count(n_refits, "n_refits") < 2:
        raise InvalidInputError("A standard deviation takes at least two refits, got n_refits=1.")
    estimator, X = unwrapped(estimator, X)
    rng, refits = generator_from(random_state), []
    n_rows = np.shape(y)[0]
    parts = [np.arange(n_rows)]
    if is_classifier(estimator):
        labels = np.asarray(y)
        parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(n_refits):
        counts = np.zeros(n_rows)
        for part in parts:
            counts[part] = rng.multinomial(len(part), np.full(len(part), 1.0 / len(part)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a draw may be noise, or select nothing
            refits.append(fresh(estimator).fit(X, y, sample_weight=counts))
    return refits


def spread_of(estimator: BaseEstimator, target: Hashable, bands: object) -> Spread | None:
    """Return what measures how sure functions are, as ``bands`` of a display asks: a posterior, refits, or nothing."""
    if bands is False:
        return None
    if bands is True:
        return _of_posterior(estimator, target)
    if not isinstance(bands, (list, tuple)) or len(bands) < 2:
        raise InvalidInputError(
            f"bands must be True, False or the list of at least two models that bootstrap_refits gives, got {bands!r}."
        )
    refits = [unwrapped(model)[0] for model in bands]

    def spread(rows: TableLike, labels: Sequence[str], mean: Array) -> Array:
        effects = []
        for refit in refits:
            members = np.flatnonzero(kernel_table(refit)["columns"].isin(list(labels)))
            effect = for_target(refit, refit.decompose(rows), target)[0][members].sum(axis=0)
            effects.append(effect - mean @ effect)
        return np.asarray(np.std(effects, axis=0, ddof=1))

    return spread


def _of_posterior(estimator: BaseEstimator, target: Hashable) -> Spread:
    """Return standard deviations by the posterior of a Gaussian process at the learned weights."""
    several, table = known_targets(estimator), kernel_table(estimator)
    posterior = posterior_of(estimator, target_position(estimator, target) if several else 0)

    def spread(rows: TableLike, labels: Sequence[str], mean: Array) -> Array:
        members = np.flatnonzero(table["columns"].isin(list(labels)))
        return np.sqrt(posterior.part_variance(estimator._checked_rows(rows, reset=False), members, mean))

    return spread
