"""From what the user gave (a bank or precomputed kernels, and rows) to a fitted bank and its Gram stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams import DenseStack, GramStack, build_stack, plan_stack
from manykernels.grams.plan import memory_bytes
from manykernels.kernels import FittedBank, KernelBank, KernelStack, PrecomputedBank
from manykernels.threads import n_threads
from manykernels.validation.parameters import check_n_jobs

PRECOMPUTED = "precomputed"


@dataclass(frozen=True, eq=False)
class Training:
    """A bank fitted on training rows, the rows as it needs them, and their Gram matrices.

    Attributes
    ----------
    bank : FittedBank or FittedPrecomputedBank
    prepared : Prepared or PreparedKernels
    stack : GramStack
    """

    bank: Any
    prepared: Any
    stack: GramStack


def is_precomputed(kernels: Any) -> bool:
    """Tell whether the parameter ``kernels`` says that X holds kernels, not features."""
    return isinstance(kernels, PrecomputedBank) or (isinstance(kernels, str) and kernels == PRECOMPUTED)


def as_bank(kernels: Any) -> KernelBank | PrecomputedBank:
    """Return the bank that the parameter ``kernels`` of an estimator stands for.

    The default bank has unit mean diagonals, not unit traces: only then does one ``alpha`` mean the same for 100 and
    for 100 000 samples (with unit traces, kernel values shrink as 1/N and a fixed ``alpha`` ends by selecting nothing).
    """
    if kernels is None:
        return KernelBank.default(normalize="mean_diagonal")
    if isinstance(kernels, str) and kernels == PRECOMPUTED:
        return PrecomputedBank(normalize=None)
    if isinstance(kernels, (KernelBank, PrecomputedBank)):
        return kernels
    raise InvalidInputError(
        f"kernels must be None (the default bank), a KernelBank or 'precomputed', got {kernels!r}. A list of "
        "(name, kernel, columns) becomes a bank with KernelBank(list)."
    )


def open_training(
    kernels: Any, X: Any, *, memory_budget: int | str | None, n_jobs: int | None, n_targets: int
) -> Training:
    """Fit the bank on training rows and build the Gram stack that fits the memory budget."""
    memory_bytes(memory_budget)
    check_n_jobs(n_jobs)
    chosen: Any = as_bank(kernels)
    bank, prepared = chosen.fit_prepare(X)
    if isinstance(bank, FittedBank):
        stack = build_stack(bank, prepared, memory_budget=memory_budget, n_jobs=n_jobs, n_targets=n_targets)
        return Training(bank, prepared, stack)
    if memory_budget is not None:
        plan_stack(bank.n_kernels, prepared.n_samples, memory_budget=memory_budget, n_targets=n_targets, kind="dense")
    plain = bank.normalize is None and not bank.center
    array = X.square() if plain else bank.block(prepared, prepared)
    return Training(bank, prepared, DenseStack(array, names=bank.names, n_threads=n_threads(n_jobs)))


def as_kernel_stack(X: Any, *, square: bool) -> KernelStack:
    """Return precomputed kernels as a stack: (M, N, N) to fit, (M, n_new, n_train) to predict."""
    if isinstance(X, KernelStack):
        return X
    if isinstance(X, (list, tuple)) and len({np.shape(kernel) for kernel in X}) > 1:
        shapes = sorted({np.shape(kernel) for kernel in X})
        raise InvalidInputError(f"Precomputed kernels must have equal shapes, got {shapes}.")
    return KernelStack(X) if square else KernelStack.rectangular(X)
