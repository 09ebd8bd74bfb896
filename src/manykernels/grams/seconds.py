"""Predicted seconds of a fit on Gram matrices and on factors, for the choice of representations and rungs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Repeats = Sequence[tuple[int, int]]  # numbers of kernels, and of the distinct points that they are functions of

# Seconds of one core, fitted by `python benchmarks/gram_or_factored.py --problem units`
GRAM_BASE = 0.025  # a fit on matrices
ENTRY = 3.3e-8  # a Gram entry of one kernel: computed, stored, checked, read by the passes and steps of a fit
ANEW = 8  # passes of a fit that computes entries anew in each
CUBE = 2.2e-10  # a cube of the number of samples: the factorizations of a fit on matrices
READ = 1e-6  # a row and column that kernels are held as factors of: the passes of a fit, all widths together
KERNEL = 1.6e-4  # a kernel held as factors
RANK = 1.2e-4  # a column of a factor
FACTORED_BASE = 0.02  # a fit on factors
# A row and pair of landmarks, and a cube of them: fits of the default bank of 6 and 30 columns, 2,000 to 6,000 rows on
# 100, 250 and 500 landmarks, took 0.2 to 0.5, 0.5 to 1.6 and 1.1 to 3.2 s
LANDMARK, LANDMARK_CUBE = 1.2e-9, 6e-9
FEATURE = 1e-7  # a feature of an object, such as a k-mer of a sequence, in one kernel: all passes and products
# The same under shared weights, measured with 3 and 10 classes of 150 to 1,200 samples on 5 to 30 columns
SHARED_SQUARE, SHARED_CUBE = 1e-7, 8e-11  # a square and a cube of the number of samples, a target
SHARED_RANK = 7e-5  # a column of a factor, a target
SHARED_RANK_CUBE = 2e-10  # a cube of the coefficients of factors that move together, a target
MOST_TOGETHER = 1000  # of these coefficients; more are never in a model at once, or take turns
# A pair of a sample and of a sample or coefficient, and a cube of samples, where sums of factors and of a few matrices
# are formed and factorized; and a pair of samples where the loss has a kink, and takes more steps
MIXED, MIXED_CUBE, MIXED_OF_KINKS = 1.7e-7, 1.7e-10, 1e-6
FULL_RANK = 30  # of the factors of a column with many values, about


@dataclass(frozen=True)
class ProblemForm:
    """The properties of a problem that decide how its kernels are stored.

    Attributes
    ----------
    n_targets : int
        Number of outputs.
    shared : bool
        Whether targets are fitted together, with shared kernel weights, and not in turn.
    batched : bool
        Whether matrices are read once for all targets.
    kinked : bool
        Whether the loss has a kink, so that few samples are support vectors of matrices, and all of factors.
    coupled : bool
        Whether the loss couples samples, as Cox's does.
    averages : bool
        Whether averages of all kernels are tried as well, which only matrices give.
    """

    n_targets: int = 1
    shared: bool = False
    batched: bool = False
    kinked: bool = False
    coupled: bool = False
    averages: bool = False

    @property
    def n_together(self) -> int:
        """The number of targets fitted together."""
        return self.n_targets if self.shared else 1

    @property
    def n_reads(self) -> int:
        """How often matrices are read for the targets."""
        return 1 if self.batched else self.n_targets


SINGLE = ProblemForm()


def gram_seconds(n_kernels: int, n_samples: int, form: ProblemForm = SINGLE, repeats: Repeats = ()) -> float:
    """Return the seconds that a fit on stored Gram matrices is predicted to take on one core.

    Infinite for unavailable methods: steps of several targets under shared weights need derivatives. ``repeats`` are
    from :func:`plan_stack`: kernels of repeated points have triangles among distinct points, and products of a single
    column read the column.
    """
    square = float(n_samples) ** 2
    entries = ENTRY * (n_kernels * square - sum(m * (square - v**2) for m, v in repeats)) / 2
    entries += READ * n_samples * sum(m for m, v in repeats if not v)
    n_targets = form.n_reads
    if form.shared and n_targets > 1:
        if form.kinked:
            return np.inf
        return GRAM_BASE + entries + n_targets * square * (SHARED_SQUARE + SHARED_CUBE * n_samples)
    return GRAM_BASE + n_targets * (entries + CUBE * square * n_samples)


def gram_seconds_beyond(
    bar: float, n_kernels: int, n_samples: int, *, repeats: Callable[[], Repeats], **more: Any
) -> float:
    """Return :func:`gram_seconds`, counting repeated points only if decisive for the comparison with a bar.

    Of many rows, whose values take long to count, the factorizations alone are.
    """
    whole, least = (gram_seconds(m, n_samples, **more) for m in (n_kernels, 0))
    return gram_seconds(n_kernels, n_samples, **more, repeats=repeats()) if whole > bar >= least else whole


def factored_seconds(
    n_kernels: int,
    n_samples: int,
    n_columns: int,
    form: ProblemForm = SINGLE,
    landmarks: int = 0,
    n_landmark: int = 0,
    rank: int | None = None,
    features: float = 0.0,
) -> float:
    """Return the predicted seconds of a fit on factors on a single core.

    Kernels with projections on landmarks as factors end in matrices of landmarks, and sums of factors; such kernels
    keep their ``landmarks``, with bases (:func:`bases_seconds`) also for matrices.
    """
    rank = FULL_RANK * n_columns if rank is None else rank
    fit, passes = FACTORED_BASE + KERNEL * n_kernels, READ * n_samples * n_columns + FEATURE * features
    passes += LANDMARK * n_samples * float(landmarks) ** 2
    n, mixed = float(n_samples), 0.0
    if n_landmark:
        mixed = MIXED_OF_KINKS * n**2 if form.kinked else MIXED * n * (n + min(rank, MOST_TOGETHER)) + MIXED_CUBE * n**3
    if form.shared and form.n_targets > 1:
        together = SHARED_RANK_CUBE * float(min(rank, MOST_TOGETHER)) ** 3
        return fit + form.n_targets * (passes + SHARED_RANK * rank + together + mixed)
    return form.n_targets * (fit + passes + RANK * rank + mixed)


def bases_seconds(landmarks: int) -> float:
    """Return the predicted seconds of the bases of kernels of the default bank on a number of landmarks."""
    return LANDMARK_CUBE * float(landmarks) ** 3
