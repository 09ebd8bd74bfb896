"""Prediction: kernels between new rows and support samples, never stored, and probabilities from scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from manykernels.grams.lazy import TileEvaluator
from manykernels.grams.pair_stack import pair_scores
from manykernels.kernels import FittedBank, PreparedRows
from manykernels.kernels.pairs.bank import ProductKernels
from manykernels.validation.arrays import Array, check_columns, check_vector


def cross_apply(
    bank: FittedBank, prepared_new: PreparedRows[Any], prepared_support: PreparedRows[Any], d: ArrayLike, rho: ArrayLike
) -> Array:
    """Decision values ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i)`` of new rows, without the intercept.

    Only kernels with ``d_m != 0`` are computed, a few megabytes at a time.

    Parameters
    ----------
    bank : FittedBank
    prepared_new, prepared_support : PreparedRows
        Rows made ready by the bank.
    d : array_like of shape (n_kernels,)
    rho : array_like of shape (n_support,) or (n_support, k)

    Returns
    -------
    ndarray of shape (n_new,) or (n_new, k), float64

    Examples
    --------
    >>> from manykernels.kernels import KernelBank, Linear
    >>> X = [[1.0], [2.0]]
    >>> bank = KernelBank([("linear", Linear(), None)], normalize=None).fit(X)
    >>> cross_apply(bank, bank.prepare([[3.0]]), bank.prepare(X), [2.0], [1.0, -1.0])
    array([-6.])
    """
    weights, columns, vector = _checked(bank, prepared_support, d, rho)
    if isinstance(bank.raw, ProductKernels):
        new, support = bank.narrow(prepared_new).data, bank.narrow(prepared_support).data
        scores = pair_scores(bank.raw, new, support, weights, columns)
        return scores[:, 0] if vector else scores
    active = np.flatnonzero(weights)
    tiles, cols = TileEvaluator(bank, prepared_new, prepared_support), np.arange(prepared_support.n_samples)
    total = np.zeros((prepared_new.n_samples, columns.shape[1]))
    for at, rows, values in tiles.values(active, prepared_new.n_samples, cols):
        total[rows] += _combined(weights[active[at]], values) @ columns
    return total[:, 0] if vector else total


def cross_apply_each(
    bank: FittedBank, prepared_new: PreparedRows[Any], prepared_support: PreparedRows[Any], d: ArrayLike, rho: ArrayLike
) -> Array:
    """Contribution ``d_m sum_i rho_i k_m(x, x_i)`` of each active kernel; summed over kernels it is `cross_apply`.

    Parameters
    ----------
    bank : FittedBank
    prepared_new, prepared_support : PreparedRows
        Rows made ready by the bank.
    d : array_like of shape (n_kernels,)
    rho : array_like of shape (n_support,) or (n_support, k)

    Returns
    -------
    ndarray of shape (m_active, n_new) or (m_active, n_new, k), float64
        In the order of ``numpy.flatnonzero(d)``.

    Examples
    --------
    >>> from manykernels.kernels import KernelBank, Linear
    >>> X = [[1.0], [2.0]]
    >>> bank = KernelBank([("a", Linear(), None), ("b", Linear(), None)], normalize=None).fit(X)
    >>> cross_apply_each(bank, bank.prepare([[3.0]]), bank.prepare(X), [2.0, 1.0], [1.0, -1.0])
    array([[-6.],
           [-3.]])
    """
    weights, columns, vector = _checked(bank, prepared_support, d, rho)
    active = np.flatnonzero(weights)
    if isinstance(bank.raw, ProductKernels):
        new, support = bank.narrow(prepared_new).data, bank.narrow(prepared_support).data
        one = np.eye(bank.n_kernels)
        parts = np.array([pair_scores(bank.raw, new, support, weights[m] * one[m], columns) for m in active])
        parts = parts.reshape(len(active), new.n_samples, columns.shape[1])
        return parts[:, :, 0] if vector else parts
    tiles, cols = TileEvaluator(bank, prepared_new, prepared_support), np.arange(prepared_support.n_samples)
    each = np.empty((len(active), prepared_new.n_samples, columns.shape[1]))
    for at, rows, values in tiles.values(active, prepared_new.n_samples, cols):
        each[at, rows] = values @ columns
    each *= weights[active][:, None, None]
    return each[:, :, 0] if vector else each


def cross_combine(
    bank: FittedBank, prepared_new: PreparedRows[Any], prepared_support: PreparedRows[Any], d: ArrayLike
) -> Array:
    """Weighted sum ``sum_m d_m k_m(x, x_i)`` between new rows and other rows, one kernel matrix.

    Only kernels with ``d_m != 0`` are computed, a few megabytes at a time.

    Parameters
    ----------
    bank : FittedBank
    prepared_new, prepared_support : PreparedRows
        Rows made ready by the bank.
    d : array_like of shape (n_kernels,)

    Returns
    -------
    ndarray of shape (n_new, n_support), float64

    Examples
    --------
    >>> from manykernels.kernels import KernelBank, Linear
    >>> X = [[1.0], [2.0]]
    >>> bank = KernelBank([("linear", Linear(), None)], normalize=None).fit(X)
    >>> cross_combine(bank, bank.prepare([[3.0]]), bank.prepare(X), [2.0])
    array([[ 6., 12.]])
    """
    weights = check_vector(d, bank.n_kernels, "d")
    active = np.flatnonzero(weights)
    tiles, cols = TileEvaluator(bank, prepared_new, prepared_support), np.arange(prepared_support.n_samples)
    total = np.zeros((prepared_new.n_samples, prepared_support.n_samples))
    for at, rows, values in tiles.values(active, prepared_new.n_samples, cols):
        total[rows] += _combined(weights[active[at]], values)
    return total


def _combined(weights: Array, values: Array) -> Array:
    """Return the weighted sum of kernels (m, r, c)."""
    return (weights @ values.reshape(len(values), -1)).reshape(values.shape[1:])


def _checked(bank: FittedBank, support: PreparedRows[Any], d: ArrayLike, rho: ArrayLike) -> tuple[Array, Array, bool]:
    weights = check_vector(d, bank.n_kernels, "d")
    coefficients = check_columns(rho, support.n_samples, "rho")
    vector = coefficients.ndim == 1
    return weights, coefficients[:, None] if vector else coefficients, vector


def class_probabilities(scores: Array, single: bool) -> Array:
    """Return probabilities from the scores of logistic losses, (n, n_classes); rows sum to one."""
    if single:
        return expit(np.hstack([-scores, scores]))
    # Relative to the largest score, so that no row is zero however certain the classifiers are.
    logs = -np.logaddexp(0.0, -scores)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
