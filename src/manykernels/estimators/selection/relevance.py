"""Relevance of columns for kernels of several columns, learned in every fold from its training rows.

A Gaussian of all columns treats them alike, so columns that do not matter add noise to its distances. A kernel ridge
regression with such a kernel has the mean squared derivatives ``g_j`` along the columns; in the next round column ``j``
is multiplied by ``sqrt(g_j)``. The widths of the kernels of a search come from the last round, so penalty, certificate
and decomposition are those of given kernels.

Source: A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for feature learning in neural networks and
backpropagation-free machine learning models", Science 383 (2024): recursive feature machines, of which these are the
diagonal form.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from manykernels.estimators.supervised.samples import Samples
from manykernels.kernels import Joint, KernelBank, Linear
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.grids import Relevant, RelevantCodes
from manykernels.kernels.specs.categorical import indicators_of
from manykernels.kernels.specs.distances import median_distance, row_norms, squared_distances
from manykernels.objective.losses import Loss
from manykernels.validation.arrays import Array

ROUNDS = 2  # of more, puma8nh and friedman1 gain .05 and .005 in R2, and others lose as much
MOST_ROWS = 1_500  # of a regression, drawn with a fixed seed; 600 to 2,000 tried: fewer miss columns, more take seconds
MOST_TARGETS = 10
STRENGTHS = np.logspace(-3.5, 1.5, 11)  # on the eigenvalues of a kernel with unit diagonal
ROUNDED = 1e-12  # of the largest number of a target: deviations of a constant one
LEAST = 1e-3  # of the largest factor of a column: kernels divide by widths


def with_relevance(bank: Any, samples: Samples, loss: Loss) -> Any:
    """Return a bank whose kernels by relevance have widths learned from samples; other banks as they are."""
    if not isinstance(bank, KernelBank) or not any(isinstance(entry, Relevant) for entry in bank.kernels):
        return bank
    entries = list(bank.kernels)
    for at, entry in enumerate(entries):
        if isinstance(entry, Relevant) and learns_relevance(samples, loss):
            entries[at] = replace(entry, widths=_widths(bank, entry, samples))
    return bank.replace(kernels=entries)


def learns_relevance(samples: Samples, loss: Loss) -> bool:
    """Return True if the targets are numbers or few classes, whose losses are sums over samples."""
    return not loss.couples_samples and samples.y.dtype.kind == "f" and 0 < samples.y[0].size <= MOST_TARGETS


def _widths(bank: KernelBank, entry: Relevant, samples: Samples) -> tuple[float, ...]:
    """Return a width for every column, so that distances of divided columns have median one."""
    rows, y = Table.wrap(samples.rows), np.asarray(samples.y, dtype=np.float64).reshape(len(samples.y), -1)
    raw, values = bank.replace(kernels=[Joint((Linear(),), entry.columns)]).fit_columns(rows)
    points = values[:, np.searchsorted(raw.used, rows.positions(entry.columns))]
    if len(points) > MOST_ROWS:
        kept = np.sort(np.random.default_rng(0).choice(len(points), MOST_ROWS, replace=False))
        points, y = points[kept], y[kept]
    scale, size = y.std(axis=0), np.abs(y).max(axis=0)
    varies = scale > ROUNDED * size
    targets = (y[:, varies] - y[:, varies].mean(axis=0)) / scale[varies]
    factors, rounds, points = np.ones(points.shape[1]), ROUNDS, np.asarray(points, dtype=np.float64)
    owners = np.arange(points.shape[1])
    if isinstance(entry, RelevantCodes):  # the squared distance of different indicators of a column is two
        (points, owners), rounds = indicators_of(points), 1
        points *= np.sqrt(0.5)
    if varies.any():
        factors = column_factors(points, targets, owners, rounds)
    return tuple((median_distance(points * factors[owners]) / factors).tolist())


def column_factors(points: Array, targets: Array, owners: Array, rounds: int = ROUNDS) -> Array:
    """Return a factor for every column, at most one, by its relevance for centered targets.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    targets : ndarray of shape (n, K)
    owners : ndarray of shape (d,), int
        The column of every coordinate of the points: its own, or the one whose levels they indicate.
    rounds : int
        Number of regressions, each with the factors of the one before.

    Returns
    -------
    ndarray of shape (owners.max() + 1,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> factors = column_factors(X, np.sin(X[:, :1]), np.arange(3))
    >>> int(factors.argmax()), bool(factors[1:].max() < 0.5)
    (0, True)
    """
    factors = np.ones(int(owners.max()) + 1)
    for _ in range(rounds):
        scaled = points * factors[owners]
        width = median_distance(scaled)
        norms = row_norms(scaled)
        kernel = np.exp(squared_distances(scaled, scaled, norms, norms) / (-2.0 * width**2))
        slopes = _mean_squared_slopes(kernel, scaled, _ridge(kernel, targets))
        relevance = np.bincount(owners, slopes) * np.square(factors / width**2)
        if not (np.isfinite(relevance).all() and relevance.any()):
            break
        factors = np.maximum(np.sqrt(relevance / relevance.max()), LEAST)
    return factors


def _ridge(kernel: Array, targets: Array) -> Array:
    """Return the coefficients of a kernel ridge regression, its strength by leave-one-out errors, (n, K)."""
    values, vectors = eigh(kernel, check_finite=False)
    values, projected = np.maximum(values, 0.0), vectors.T @ targets
    errors = []
    for strength in STRENGTHS:
        kept = values / (values + strength)
        left = 1.0 - np.square(vectors) @ kept
        errors.append(np.mean(np.square((targets - vectors @ (kept[:, None] * projected)) / left[:, None])))
    strength = STRENGTHS[int(np.argmin(errors))]
    return np.asarray(vectors @ (projected / (values + strength)[:, None]))


def _mean_squared_slopes(kernel: Array, points: Array, coefficients: Array) -> Array:
    """Return the mean squared derivatives along the columns, summed over functions, but for the width, (d,)."""
    total = np.zeros(points.shape[1])
    for own in coefficients.T:
        part = kernel * own
        total += np.square(part.sum(axis=1)[:, None] * points - part @ points).mean(axis=0)
    return total
