"""Kernels that rounding to float32 left indefinite, held again in double precision and definite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manykernels.grams.dense import DenseStack
from manykernels.threads import blas_threads
from manykernels.validation.gram import nearest_definite

if TYPE_CHECKING:
    from manykernels.grams.base import GramStack

MOST_BYTES = 2**28  # of a copy: it comes on top of what was planned for
MOST_FLOPS = 1e10  # of eigenvalues, about ten seconds
NEGATIVE = 1e-13  # relative to the largest eigenvalue, beyond what double precision leaves of a zero


def definite_copy(stack: GramStack) -> DenseStack | None:
    """Return the nearest definite kernels in float64; None if no kernel needs it, or it would cost too much.

    Rounding a kernel of low rank to float32 leaves eigenvalues of about -1e-8 of the largest one. Such a kernel is
    valid, but under a weak penalty its weight is large enough for them to matter, and the dual then has no maximum.
    """
    size, n_samples = stack.n_kernels * stack.n_samples**2, stack.n_samples
    if stack.dtype != np.float32 or 8 * size > MOST_BYTES or 10 * size * n_samples > MOST_FLOPS:
        return None
    grams = stack.block()
    with blas_threads(n_samples, stack.n_threads):
        eigenvalues = np.linalg.eigvalsh(grams)
        indefinite = np.flatnonzero(eigenvalues[:, 0] < -NEGATIVE * np.abs(eigenvalues[:, -1]))
        if not indefinite.size:
            return None
        for kernel in indefinite:
            grams[kernel] = nearest_definite(grams[kernel])
    return DenseStack(grams, names=stack.names, n_threads=stack.n_threads)
