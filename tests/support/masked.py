"""A hundred small problems of views that some samples lack: as tables for the library, as plain masked matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
from sklearn.utils import _safe_indexing

from manykernels import Gaussian, KernelBank, Linear, Views
from manykernels.grams.training import open_training
from manykernels.kernels.bank.columns import Table
from manykernels.objective import get_loss, get_regularizer
from manykernels.solvers import Solution, solve
from manykernels.testing.problems import REGULARIZERS, SmallProblem, random_problem, strength_of_zero_model

COUNT = 100
LOSSES = ("logistic", "squared", "huber", "hinge")
WIDTH = 1.5
BANK = KernelBank.per_view([Linear(), Gaussian(WIDTH)], normalize=None, standardize=False)


@dataclass(frozen=True, eq=False)
class MaskedCase:
    """Views with samples that lack some, and the problem ``diag(a) K diag(a)`` that they pose, in plain NumPy."""

    views: Views
    small: SmallProblem

    def stack(self) -> np.ndarray:
        """Return the Gram matrices as the library has them."""
        training = open_training(BANK, Table.wrap(self.views), memory_budget=None, n_jobs=None)
        return np.asarray(training.stack.block(), dtype=np.float64)

    def solution(self, tol: float = 1e-8) -> Solution:
        """Solve the library's problem by its default solver."""
        small = self.small
        return solve(
            self.stack(),
            small.y,
            loss=get_loss(small.loss_name, **small.loss_params),
            penalty=get_regularizer(small.regularizer_name, small.strength, **small.regularizer_params),
            strength=small.strength,
            fit_intercept=small.fit_intercept,
            sample_weight=small.sample_weight,
            kernel_penalties=small.kernel_penalties,
            tol=tol,
        )


def draw(seed: int) -> MaskedCase:
    """Draw a problem: two or three views, a third of which each sample lacks, every sample with one at least."""
    rng = np.random.default_rng([seed, 20252])
    loss, regularizer = LOSSES[seed // len(REGULARIZERS) % len(LOSSES)], REGULARIZERS[seed % len(REGULARIZERS)]
    small = random_problem(seed, loss=loss, regularizer=regularizer, fit_intercept=bool(seed % 2))
    n, n_views = len(small.y), 2 + seed % 2
    has = rng.random((n_views, n)) > 1 / 3
    has[rng.integers(n_views, size=n), np.arange(n)] = True
    tables, kernels = {}, []
    for number, present in enumerate(has):
        values = rng.normal(size=(n, 3)) + small.y[:, None] / np.abs(small.y).max()
        names = [f"v{number}_{j}" for j in range(3)]
        tables[f"view{number}"] = pd.DataFrame(values, columns=names).loc[present]
        squares = ((values[:, None] - values) ** 2).sum(axis=2)
        mask = np.outer(present, present)
        kernels += [mask * (values @ values.T), mask * np.exp(-squares / (2 * WIDTH**2))]
    posed = replace(
        small,
        kernels=np.array(kernels),
        kernel_penalties=None,
        sample_weight=rng.uniform(0.2, 3.0, n) if seed % 3 == 0 else None,
        strength=1.0,
        description=f"masked {n_views} views, {small.description}",
    )
    largest = strength_of_zero_model(posed)
    reference = float(n) if largest is None else largest
    posed = replace(posed, strength=float(10 ** rng.uniform(-2.0, -0.3)) * reference)
    views = Views(tables)
    return MaskedCase(_safe_indexing(views, views.index.get_indexer(range(n))), posed)


@cache
def masked_cases() -> tuple[MaskedCase, ...]:
    """Return the hundred problems."""
    return tuple(draw(seed) for seed in range(COUNT))
