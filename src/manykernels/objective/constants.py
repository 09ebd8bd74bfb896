"""Conversions between constants, strengths and normalizations of kernel weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import check_positive

__all__ = [
    "alpha_from_strength",
    "alpha_from_svm_constant",
    "block_constant",
    "normalized_weights",
    "paper_weights",
    "squared_constant",
    "strength_from_alpha",
    "tikhonov_exponent",
]

Array = NDArray[Any]


def squared_constant(constant: float, norms: Array) -> float:
    """Return the ``Ct`` for which the squared form has the solution of the block 1-norm with ``C``.

    ``Ct = C / sum ||f_m||`` at the solution; (6) of the paper multiplies instead, a misprint.
    """
    return check_positive(constant, "constant") / check_positive(float(np.sum(norms)), "The sum of block norms")


def block_constant(constant: float, norms: Array) -> float:
    """Return the ``C`` for which the block 1-norm has the solution of the squared form with ``Ct``."""
    return check_positive(constant, "constant") * check_positive(float(np.sum(norms)), "The sum of block norms")


def strength_from_alpha(alpha: float, total_weight: float) -> float:
    """Return the strength for which the objective is ``total_weight`` times (mean loss + alpha times unit penalty)."""
    return check_positive(alpha, "alpha") * check_positive(total_weight, "total_weight")


def alpha_from_strength(strength: float, total_weight: float) -> float:
    """Return the ``alpha`` of the estimators for a strength; the inverse of `strength_from_alpha`."""
    return check_positive(strength, "strength") / check_positive(total_weight, "total_weight")


def alpha_from_svm_constant(constant: float, total_weight: float) -> float:
    """Return the ``alpha`` that gives a weight-set penalty the constant ``C`` of a support vector machine."""
    return 1.0 / (check_positive(constant, "constant") * check_positive(total_weight, "total_weight"))


def paper_weights(regularizer: Regularizer, d: Array) -> Array:
    """Return kernel weights in the papers' normalization: strength times ``d``.

    For a weight set this is ``theta``. For a norm regularizer it is Table 3 of the SpicyMKL paper: ``||f||`` for the
    block 1-norm, ``||f|| / (1 - lam + lam ||f||)`` for the elastic net, ``||f||^(2-q)`` for the q-norm.
    """
    return regularizer.strength * np.asarray(d, dtype=np.float64)


def normalized_weights(d: Array) -> Array:
    """Return kernel weights divided by their sum; zeros stay zeros."""
    weights = np.asarray(d, dtype=np.float64)
    total = float(np.sum(weights))
    return weights / total if total > 0 else weights.copy()


def tikhonov_exponent(q: float) -> float:
    """Return ``p = q / (2 - q)``: the exponent on weights that equals the block q-norm (Table 3, corrected)."""
    if not 1 <= q <= 2:
        raise InvalidInputError(f"q must be between 1 and 2, got {q!r}.")
    return q / (2.0 - q) if q < 2 else float("inf")
