"""Errors and warnings, each saying what was wrong, with which values, and what to do."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ConvergenceWarning",
    "IncompatibleError",
    "InvalidInputError",
    "MemoryBudgetError",
    "ModelFileError",
    "NotPSDError",
]


class InvalidInputError(ValueError):
    """Data or a parameter cannot be used as given."""


class NotPSDError(InvalidInputError):
    """A Gram matrix is not symmetric positive semidefinite."""


class IncompatibleError(InvalidInputError):
    """A solver cannot solve this problem; the message names one that can."""


class MemoryBudgetError(InvalidInputError, MemoryError):
    """A request would need more memory than the budget allows."""


class ModelFileError(InvalidInputError):
    """A model file is damaged, of an unknown version, or not a model file."""
