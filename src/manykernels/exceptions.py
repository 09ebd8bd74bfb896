"""Errors and warnings; every message has the cause, the values, and a remedy."""

import functools
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ConvergenceWarning", "IncompatibleError", "InvalidInputError", "MemoryBudgetError", "ModelFileError",
    "NotPSDError",
]  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])
CALLED_BY_USERS = ("manykernels", "sklearn", "joblib")  # whose lines no warning should name


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user who called: the innermost of no such package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in CALLED_BY_USERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def optional_module(module: str, what: str, extra: str, error: type[Exception] = ImportError) -> Any:
    """Return a module of an optional dependency, or raise an error with the installation command."""
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ImportError as missing:
        raise error(f"{what} Install it with: python -m pip install 'manykernels[{extra}]'.") from missing


class InvalidInputError(ValueError):
    """Data or a parameter cannot be used as given; every error of the library is one of these, and a ValueError.

    Examples
    --------
    >>> from manykernels import Gaussian, InvalidInputError
    >>> try:
    ...     Gaussian(width=-1.0)
    ... except InvalidInputError as error:
    ...     print("width" in str(error))
    True
    """


class InvalidInputTypeError(InvalidInputError, TypeError):
    """An input of a type that cannot be read as numbers; scikit-learn's estimators promise a `TypeError` for it."""


class NotPSDError(InvalidInputError):
    """A Gram matrix is not symmetric positive semidefinite; the message says by how much.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelStack
    >>> from manykernels.exceptions import NotPSDError
    >>> try:
    ...     KernelStack(np.array([[[1.0, 2.0], [2.0, 1.0]]]))
    ... except NotPSDError as error:
    ...     print("eigenvalue" in str(error))
    True
    """


class IncompatibleError(InvalidInputError):
    """A solver cannot solve the problem; the message lists suitable solvers.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import solve
    >>> from manykernels.exceptions import IncompatibleError
    >>> try:
    ...     solve(np.eye(2)[None], [1.0, 2.0], loss="squared", penalty="l1", alpha=0.05, solver="smooth_dual")
    ... except IncompatibleError as error:
    ...     print("working_set" in str(error))
    True
    """


class MemoryBudgetError(InvalidInputError, MemoryError):
    """A request would need more memory than the budget allows; raised before anything is allocated.

    Examples
    --------
    >>> from manykernels.exceptions import MemoryBudgetError
    >>> from manykernels.grams import plan_stack
    >>> try:
    ...     plan_stack(n_kernels=10, n_samples=1_000_000, memory_budget="1 GB")
    ... except MemoryBudgetError as error:
    ...     print("memory budget of 1.00 GB" in str(error))
    True
    """


def memory_errors_of(task: str) -> Callable[[F], F]:
    """Let a function raise the `MemoryError` of NumPy or Python as a `MemoryBudgetError`."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **options: Any) -> Any:
            try:
                return function(*args, **options)
            except MemoryBudgetError:
                raise
            except MemoryError as error:
                raise MemoryBudgetError(
                    f"{task} needs more memory than this process can get ({error or 'of unknown size'}). Use fewer "
                    "samples, columns or kernels, or raise the limit."
                ) from error

        return cast("F", wrapper)

    return decorated


class ModelFileError(InvalidInputError):
    """A model file is damaged, of an unknown version, or not a model file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from manykernels import load_model
    >>> from manykernels.exceptions import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.mkl"
    ...     _ = path.write_text("not a model")
    ...     try:
    ...         load_model(path)
    ...     except ModelFileError as error:
    ...         print("model.mkl" in str(error))
    True
    """
