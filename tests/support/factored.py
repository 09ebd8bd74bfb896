"""Fits on factors, of few rows too, and the strength at which their models are empty."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels import KernelBank, solve
from manykernels.grams.factored import FactoredStack, factored_stack
from manykernels.grams.rows.opening import is_chunked, with_target
from manykernels.kernels import Linear
from manykernels.objective.losses import get_loss
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.registry import problem_of

ADDITIVE = KernelBank.per_feature(Linear(), widths=("0.5*median", "median", "2*median"), standardize=True)


def on_factors(X: Any, y: Any, bank: Any = None, *, loss: Any = "logistic", penalty: Any = "l1", **options: Any) -> Any:
    """Solve with kernels held as factors, of a bank on a table or as a stack has them."""
    given: dict[str, Any] = {"loss": loss, "penalty": penalty, "outputs": "shared"} | options
    if isinstance(bank, FactoredStack):
        return solve(bank, y, **given)
    if is_chunked(X):  # kept in chunks, however small they are
        X, y = with_target(X, y)
        return solve(factored_stack(X, bank or ADDITIVE), y, **given)
    return solve(bank or ADDITIVE, y, X=X, representation="factored", **given)


def largest_strength(X: Any, y: Any, bank: Any, loss: Any = "logistic", **options: Any) -> float:
    """Return the smallest strength at which no kernel is active."""
    if is_chunked(X):
        X, y = with_target(X, y)
    stack = bank if isinstance(bank, FactoredStack) else factored_stack(X, bank)
    return problem_of(stack, np.asarray(y), get_loss(loss), get_regularizer("l1", 1.0), **options).strength_max()
