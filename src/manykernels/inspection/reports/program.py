"""Fitted estimators as Python programs that make the same unfitted ones."""

from __future__ import annotations

import inspect
import math
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit

MOST_NUMBERS = 200  # of an array that is written into a program
MOST_LETTERS = 100  # of a line


class NotAProgramError(ValueError):
    """An object that cannot be written as an expression; the message names it."""


def program_of(value: object) -> tuple[list[str], str]:
    """Return lines that import names, and an expression of these names that makes an object anew."""
    names: dict[str, set[str]] = {}
    expression = _expression(value, names)
    lines = [f"from {module} import {', '.join(sorted(used))}" for module, used in sorted(names.items()) if used]
    return (["import numpy as np"] if "np." in expression else []) + lines, expression


def _expression(value: object, names: dict[str, set[str]]) -> str:
    """Return an expression, and note the names that it needs by the modules that they come from."""
    if isinstance(value, np.generic):
        return _expression(value.item(), names)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _array(value, names)
    if isinstance(value, slice):
        return f"slice({', '.join(_expression(end, names) for end in (value.start, value.stop, value.step))})"
    if type(value) in (list, tuple, dict):
        return _collection(value, names)
    if callable(value) and hasattr(value, "__name__"):  # a function or a class
        return _name(value, names)
    return _call(value, names)


def _array(value: np.ndarray, names: dict[str, set[str]]) -> str:
    if value.size > MOST_NUMBERS:
        raise NotAProgramError(f"an array of {value.size:,} numbers")
    kind = "object" if value.dtype == object else f'"{value.dtype.str}"'
    return f"np.array({_expression(value.tolist(), names)}, dtype={kind})"


def _collection(value: Any, names: dict[str, set[str]]) -> str:
    if isinstance(value, dict):
        return _joined(
            "{", [f"{_expression(key, names)}: {_expression(one, names)}" for key, one in value.items()], "}"
        )
    parts = [_expression(one, names) for one in value]
    if isinstance(value, list):
        return _joined("[", parts, "]")
    return f"({parts[0]},)" if len(parts) == 1 else _joined("(", parts, ")")


def _call(value: object, names: dict[str, set[str]]) -> str:
    """Return the call of a constructor with what differs from its defaults."""
    arguments, signature = _arguments(value), inspect.signature(type(value)).parameters
    given = {
        name: one
        for name, one in arguments.items()
        if not _same(one, signature[name].default if name in signature else inspect.Parameter.empty)
    }
    parts = [f"{name}={_expression(one, names)}" for name, one in given.items()]
    return _joined(f"{_name(type(value), names)}(", parts, ")")


def _arguments(value: object) -> dict[str, Any]:
    """Return what the constructor of an object was given."""
    if isinstance(value, BaseEstimator):
        return dict(value.get_params(deep=False))
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    if isinstance(value, (BaseCrossValidator, BaseShuffleSplit)):
        return {name: getattr(value, name) for name in inspect.signature(type(value)).parameters}
    raise NotAProgramError(f"an object of the type {type(value).__name__}")


def _same(value: object, default: Any) -> bool:
    """Tell whether an argument is the default of its parameter."""
    if type(value) is not type(default):
        return False
    try:
        return bool(value == default)
    except ValueError:  # arrays
        return False


def _name(thing: Any, names: dict[str, set[str]]) -> str:
    """Return the name of a function or class, and note the outermost public module that has it."""
    name, module = thing.__name__, str(thing.__module__)
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        at = ".".join(parts[:length])
        if at != "__main__" and getattr(sys.modules.get(at), name, None) is thing:
            names.setdefault(at, set()).add(name)
            return str(name)
    raise NotAProgramError(f"{name} of {module}, which cannot be imported")


def _joined(start: str, parts: list[str], end: str) -> str:
    """Return parts in one line, or in one each."""
    line = start + ", ".join(parts) + end
    if len(line) <= MOST_LETTERS and "\n" not in line:
        return line
    return "\n    ".join([start, *(part.replace("\n", "\n    ") + "," for part in parts)]) + f"\n{end}"
