"""The ideal kernel of a target: which samples ought to be alike, from labels or numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_choice, check_columns, check_finite

CODINGS = ("auto", "numbers", "signs", "indicator", "balanced")


def target_features(y: ArrayLike, coding: str = "auto") -> Array:
    """Return the features ``Y`` whose inner products ``Y Y'`` are the ideal kernel of a target.

    Parameters
    ----------
    y : array_like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any type, or numbers.
    coding : {"auto", "numbers", "signs", "indicator", "balanced"}, default="auto"
        ``"numbers"``: ``Y = y``, for regression. For labels, one column a class: ``"signs"`` is +1 inside the class and
        -1 outside (with two classes, one column), ``"indicator"`` is 1 and 0, ``"balanced"`` is
        ``1 / sqrt(size of the class)`` and 0, which lets every class count the same. ``"auto"`` is ``"numbers"`` for
        fractional numbers and several outputs, ``"signs"`` else.

    Returns
    -------
    ndarray of shape (n_samples, k), float64

    Raises
    ------
    InvalidInputError
        If the coding is unknown, or does not fit the values of y.

    Notes
    -----
    After centering, ``"signs"`` and ``"indicator"`` give the same kernel up to a factor (with any number of classes),
    and so the same centered alignment.

    Examples
    --------
    >>> from manykernels.alignment import target_features
    >>> target_features(["a", "b", "a"], "indicator")
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """
    check_choice(coding, CODINGS, "coding")
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or values.shape[0] == 0:
        raise InvalidInputError(f"y must have shape (n_samples,) or (n_samples, n_outputs), got {values.shape}.")
    if values.dtype.kind == "f":
        check_finite(values, "y")
    chosen = _automatic(values) if coding == "auto" else coding
    return _numbers(values) if chosen == "numbers" else _classes(values, chosen)


def target_kernel(y: ArrayLike, coding: str = "auto") -> Array:
    """Return the ideal kernel ``K* = Y Y'`` of a target, which kernels are aligned with.

    Parameters
    ----------
    y : array_like of shape (n_samples,) or (n_samples, n_outputs)
        Labels of any type, or numbers.
    coding : {"auto", "numbers", "signs", "indicator", "balanced"}, default="auto"
        How labels become features; see :func:`manykernels.alignment.target_features`. ``"numbers"`` is ``y y'``, and
        ``"signs"`` the same for labels -1 and +1; with more classes, ``"indicator"`` is 1 for two samples of one class
        and 0 for others, ``"signs"`` the sum of ``y y'`` over all classes against the rest, ``"balanced"``
        one over the size of their class for two samples of one class.

    Returns
    -------
    ndarray of shape (n_samples, n_samples), float64
        Symmetric positive semidefinite.

    Raises
    ------
    InvalidInputError
        If the coding is unknown, or does not fit the values of y.

    Examples
    --------
    >>> from manykernels.alignment import target_kernel
    >>> target_kernel(["no", "yes", "yes"])
    array([[ 1., -1., -1.],
           [-1.,  1.,  1.],
           [-1.,  1.,  1.]])
    """
    features = target_features(y, coding)
    return features @ features.T


def _automatic(values: Array) -> str:
    if values.ndim == 2:
        return "numbers"
    fractional = values.dtype.kind == "f" and bool(np.any(values != np.rint(values)))
    return "numbers" if fractional else "signs"


def _numbers(values: Array) -> Array:
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"y must hold numbers for coding='numbers' ({error}). For labels, use 'signs' or 'indicator'."
            ) from error
    columns = check_columns(values, len(values), "y")
    return columns[:, None] if columns.ndim == 1 else columns


def _classes(values: Array, coding: str) -> Array:
    if values.ndim != 1:
        raise InvalidInputError(f"Labels must have shape (n_samples,) for coding={coding!r}, got {values.shape}.")
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise InvalidInputError(f"The labels in y cannot be compared ({error}); give them one type.") from error
    inside = codes[:, None] == np.arange(len(labels))
    if coding == "balanced":
        return inside / np.sqrt(inside.sum(axis=0))
    if coding == "indicator":
        return inside.astype(np.float64)
    return np.where(inside[:, 1:] if len(labels) == 2 else inside, 1.0, -1.0)
