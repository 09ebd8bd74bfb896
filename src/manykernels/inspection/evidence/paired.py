"""Differences of scores over folds that share training rows: their corrected t statistic."""

from __future__ import annotations

import numpy as np

from manykernels.validation.arrays import Array


def corrected_t(differences: Array, splits: list[tuple[Array, Array]]) -> Array:
    """Return ``mean / sqrt((1/k + n_test/n_train) s^2)`` along the last axis; NaN without a spread over the folds.

    Nadeau and Bengio (2003): the usual t statistic finds too much where folds share training rows.
    """
    k = len(splits)
    if k < 2:
        return np.full(differences.shape[:-1], np.nan)
    ratio = float(np.mean([len(test) / len(train) for train, test in splits]))
    spread = differences.std(axis=-1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic: Array = differences.mean(axis=-1) / np.sqrt((1 / k + ratio) * spread**2)
    # Without any spread over the folds there is nothing to compare the mean with.
    return np.where(spread > 0, statistic, np.nan)
