"""Parameters in no unit: what ``alpha``, ``epsilon`` and ``delta`` stand for when they are left to the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import Loss
from manykernels.objective.problem import Problem
from manykernels.validation.arrays import Array, check_positive

__all__ = [
    "AUTO",
    "IN_UNIT_SPREAD",
    "alpha_from_strength",
    "at_fraction",
    "check_alpha",
    "in_unit_of",
    "number_or_auto",
    "strength_fraction",
    "strength_from_alpha",
]

AUTO = "auto"
SHARE = 0.5  # chosen by benchmarks/defaults.py, see `strength_fraction`
IN_UNIT_SPREAD = {"epsilon": 0.1, "delta": 1.35}  # sizes of errors for a target of standard deviation 1
RELATIVE = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*\*\s*max\s*")


def check_alpha(alpha: Any) -> None:
    """Raise ``InvalidInputError`` unless ``alpha`` is a positive number, "auto", or text such as "0.1*max"."""
    if isinstance(alpha, str):
        strength_fraction(alpha, 1)
    else:
        check_positive(alpha, "alpha")


def strength_fraction(alpha: Any, n_samples: int) -> float | None:
    """Return the fraction that ``alpha`` asks for of the strength that leaves nothing to gain, or None for a number.

    "auto" is ``0.5 / sqrt(n)``. What noise adds to ``sum_i rho_i f(x_i)`` grows with the root of the number of samples,
    and the strength that leaves nothing to gain with the number itself.
    """
    if not isinstance(alpha, str):
        return None
    if alpha == AUTO:
        return SHARE / float(np.sqrt(n_samples))
    found = RELATIVE.fullmatch(alpha)
    try:
        return check_positive(float(found[1] if found else "none"), "alpha")
    except ValueError as error:
        raise InvalidInputError(
            f"alpha must be a positive number, 'auto', or a positive multiple of the strength at which the model is "
            f"empty, such as '0.1*max', got {alpha!r}."
        ) from error


def number_or_auto(check: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return the check of a parameter that is either what ``check`` accepts or "auto"."""
    return lambda value: None if isinstance(value, str) and value == AUTO else check(value)


def at_fraction(problem: Problem, fraction: float, own_weight: Array | None) -> Problem:
    """Return the problem with its penalty at a fraction of the strength that leaves nothing to gain.

    Weights of classes that all but remove a class leave little to gain, and it is not worth fitting what is left of it
    any closer for that: the strength relative to the mean loss is at least that without the weights of classes.

    Parameters
    ----------
    problem : Problem
    fraction : float
    own_weight : ndarray of shape (N,) or None
        The weights of the samples without those of their classes, where there are such.

    Returns
    -------
    Problem
    """
    found = problem.at_fraction(fraction)
    if own_weight is None:
        return found
    plain = replace(problem, sample_weight=own_weight).at_fraction(fraction)
    strength = plain.regularizer.strength * problem.total_weight / plain.total_weight
    return (
        found
        if strength <= found.regularizer.strength
        else found.with_penalty(replace(plain.regularizer, strength=strength))
    )


def in_unit_of(loss: Loss, given: Mapping[str, Any], target: Array, weight: Array) -> Loss:
    """Return the loss with the sizes of errors that ``given`` leaves open in standard deviations of the target."""
    left_open = [name for name in IN_UNIT_SPREAD if hasattr(loss, name) and given.get(name) == AUTO]
    if not left_open:
        return loss
    unit = _spread(target, weight)
    return replace(loss, **{name: IN_UNIT_SPREAD[name] * unit for name in left_open})


def _spread(target: Array, weight: Array) -> float:
    """Return the weighted standard deviation of a target, or the root mean square of several; 1 if all are constant."""
    top = float(np.abs(target).max())
    if not top > 0:
        return 1.0
    scaled = target / top  # squares of very large or small targets would leave the range of float64
    deviations = scaled - np.average(scaled, axis=0, weights=weight)
    return top * float(np.sqrt(np.mean(np.average(np.square(deviations), axis=0, weights=weight)))) or 1.0


def strength_from_alpha(alpha: float, total_weight: float) -> float:
    """Return the strength for which the objective is ``total_weight`` times (mean loss + alpha times unit penalty)."""
    return check_positive(alpha, "alpha") * check_positive(total_weight, "total_weight")


def alpha_from_strength(strength: float, total_weight: float) -> float:
    """Return the ``alpha`` of the estimators for a strength; the inverse of `strength_from_alpha`."""
    return check_positive(strength, "strength") / check_positive(total_weight, "total_weight")
