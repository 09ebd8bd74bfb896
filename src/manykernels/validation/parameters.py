"""Checks of parameters that are neither data nor plain numbers: switches, names, seeds, threads, objects."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import check_count, check_positive

RandomSource = int | np.random.RandomState | np.random.Generator | None
Kind = TypeVar("Kind")


def check_flag(value: object, name: str) -> bool:
    """Return ``value`` as a bool if it is one, else raise ``InvalidInputError``."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_limits(limits: Any) -> None:
    """Raise ``InvalidInputError`` unless ``tol, max_iter, time_limit, callback, verbose`` of a run are usable."""
    check_positive(limits.tol, "tol")
    check_count(limits.max_iter, "max_iter")
    if limits.time_limit is not None:
        check_positive(limits.time_limit, "time_limit")
    if limits.callback is not None and not callable(limits.callback):
        raise InvalidInputError(f"callback must be None or take an IterationRecord, got {limits.callback!r}.")
    if not isinstance(limits.verbose, bool):
        check_count(limits.verbose, "verbose", least=0)


def check_instance(value: object, kind: type[Kind], name: str, example: str) -> Kind:
    """Return ``value`` if it is of this class, else name the class and show one way to make one."""
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name} must be a {kind.__name__} such as {example}, got {value!r}.")
    return value


def check_column_names(names: Sequence[object], n_columns: int) -> list[str]:
    """Return one name a column; ``x0``, ``x1``, ... for None."""
    if names is None:
        return [f"x{j}" for j in range(n_columns)]
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != n_columns:
        raise InvalidInputError(f"names must hold one name for each of the {n_columns} columns, got {names!r}.")
    return [str(name) for name in names]


def check_random_state(value: Any) -> Any:
    """Return what random numbers are drawn with: None, a non-negative integer, a RandomState or a Generator."""
    sources = (np.random.RandomState, np.random.Generator)
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool) and 0 <= int(value) < 2**32
    if value is not None and not whole and not isinstance(value, sources):
        raise InvalidInputError(
            f"random_state must be None, an integer from 0 to 2**32 - 1, a RandomState or a Generator, got {value!r}."
        )
    return value


def generator_from(random_state: RandomSource) -> np.random.Generator:
    """Return a generator seeded as ``random_state`` says; None draws a seed from the system."""
    checked = check_random_state(random_state)
    return np.random.default_rng(None if checked is None else seed_from(checked))


def seed_from(random_state: int | np.random.RandomState | np.random.Generator) -> int:
    """Return a seed: the integer that is given, or one drawn from the generator."""
    source = check_random_state(random_state)
    if isinstance(source, numbers.Integral):
        return int(source)
    draw = source.integers if isinstance(source, np.random.Generator) else source.randint
    return int(draw(2**31 - 1))


def check_n_jobs(value: object) -> int | None:
    """Return the number of threads: None, or an integer other than 0 (negative ones count from all, -1 is all)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) == 0:
        raise InvalidInputError(f"n_jobs must be None or an integer other than 0 (-1 takes all cores), got {value!r}.")
    return int(value)
