"""Kernels, losses, penalties and solvers of your own, by name: in estimators, model files and the command.

The functions are class decorators that register a class under the name, beside the built-in classes. A model file
stores names and parameters, no code: import the registering module before loading. The command has ``manykernels --use
FILE fit ...``.
"""

import sys
from collections.abc import MutableMapping
from dataclasses import is_dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import COUPLED_LOSSES, LOSSES, Loss
from manykernels.objective.regularizers import REGULARIZERS, Regularizer
from manykernels.solvers.base import Solver
from manykernels.solvers.registry import ALIASES, SOLVERS

Class = TypeVar("Class", bound=type[Any])


def register_loss(own: Class) -> Class:
    """Enter a loss under the name; used as a class decorator.

    Parameters
    ----------
    own : type
        A frozen dataclass that inherits ``RegressionLoss`` or ``ClassificationLoss``.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    InvalidInputError
        For another kind of class, or a name in use.

    Examples
    --------
    >>> from manykernels.objective import Squared
    >>> register_loss(Squared) is Squared
    True
    """
    return _entered(own, Loss, "loss", LOSSES, COUPLED_LOSSES)


def register_penalty(own: Class) -> Class:
    """Enter a penalty under the name; used as a class decorator.

    Parameters
    ----------
    own : type
        A frozen dataclass that inherits ``Regularizer``, with the strength as the first field.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    InvalidInputError
        For another kind of class, or a name in use.

    Examples
    --------
    >>> from manykernels.objective import BlockL1
    >>> register_penalty(BlockL1) is BlockL1
    True
    """
    return _entered(own, Regularizer, "penalty", REGULARIZERS)


def register_solver(own: Class) -> Class:
    """Enter a solver under the name; used as a class decorator.

    ``solver="auto"`` prefers the solvers of the library and takes it only where none can solve a problem.

    Parameters
    ----------
    own : type
        A frozen dataclass that inherits ``Solver``.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    InvalidInputError
        For another kind of class, or a name in use.

    Examples
    --------
    >>> from manykernels.solvers import WorkingSet
    >>> register_solver(WorkingSet) is WorkingSet
    True
    """
    return _entered(own, Solver, "solver", SOLVERS, ALIASES)


def use_module(place: str) -> None:
    """Import the module that registers classes: a file that ends in ``.py``, or the name of a module.

    Parameters
    ----------
    place : str

    Raises
    ------
    InvalidInputError
        If there is no such file or module.
    """
    if not place.endswith(".py"):
        try:
            import_module(place)
        except ModuleNotFoundError as error:
            raise InvalidInputError(f"There is no module {place!r} to use ({error}).") from error
        return
    path = Path(place)
    if not path.is_file():
        raise InvalidInputError(f"There is no file {place!r} to use.")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)  # where dataclasses look up names of annotations
    spec.loader.exec_module(module)


def _entered(
    own: Class, base: type[Any], word: str, registry: MutableMapping[str, Any], *others: dict[str, Any]
) -> Class:
    """Enter a class in a registry."""
    if not (isinstance(own, type) and issubclass(own, base) and is_dataclass(own)):
        raise InvalidInputError(f"A {word} is a frozen dataclass that inherits {base.__name__}, got {own!r}.")
    name = getattr(own, "name", None)
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{own.__name__} needs a class variable 'name' of type str, got {name!r}.")
    for taken in (registry.get(name), *(other.get(name) for other in others)):
        if taken is not None and getattr(taken, "__qualname__", taken) != own.__qualname__:
            raise InvalidInputError(
                f"The {word} {name!r} is already {getattr(taken, '__qualname__', taken)}; choose another name."
            )
    registry[name] = own
    return own
