"""From what the user gave (a bank or precomputed kernels, and rows) to a fitted bank and its Gram stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack, build_stack
from manykernels.grams.plan import memory_bytes
from manykernels.kernels import FittedKernels, KernelBank, PrecomputedBank, PreparedRows
from manykernels.validation.parameters import check_n_jobs

PRECOMPUTED = "precomputed"


@dataclass(frozen=True, eq=False)
class Training:
    """A bank fitted on training rows, the rows as it needs them, and their Gram matrices."""

    bank: FittedKernels[Any]
    prepared: PreparedRows
    stack: GramStack


def is_precomputed(kernels: Any) -> bool:
    """Tell whether the parameter ``kernels`` says that X holds kernels, not features."""
    return isinstance(kernels, PrecomputedBank) or (isinstance(kernels, str) and kernels == PRECOMPUTED)


def as_bank(kernels: Any) -> KernelBank | PrecomputedBank:
    """Return the bank that the parameter ``kernels`` of an estimator stands for."""
    if kernels is None:
        return KernelBank.default()
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
    bank, prepared = as_bank(kernels).fit_prepare(X)
    stack = build_stack(bank, prepared, memory_budget=memory_budget, n_jobs=n_jobs, n_targets=n_targets)
    return Training(bank, prepared, stack)
