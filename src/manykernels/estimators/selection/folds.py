"""Cross-validation along regularization paths: every fold opens its kernels once and follows every path on them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from manykernels.estimators.selection.descent import descend, without_bar
from manykernels.estimators.selection.penalties import PenaltyFamily, alpha_grid
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Rows, Samples
from manykernels.kernels.bank.columns import Table
from manykernels.solvers import Status
from manykernels.threads import blas_threads

if TYPE_CHECKING:
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class Candidates:
    """What is tried: families of penalties, each with its strengths in decreasing order."""

    families: list[PenaltyFamily]
    alphas: list[Array]

    def __len__(self) -> int:
        return sum(len(grid) for grid in self.alphas)

    @classmethod
    def laid_out(
        cls,
        families: list[PenaltyFamily],
        problems: list[Problem],
        names: tuple[str, ...],
        n_alphas: int,
        ratio: float,
    ) -> Candidates:
        """Return grids of strengths from the largest useful one down, for these problems on kernels of these names."""
        largest = [family.alpha_max(family.posed(problems, names)) for family in families]
        return cls(families, [alpha_grid(top, n_alphas, ratio) for top in largest])


def follow_paths(estimator: BaseMKL, samples: Samples, loss: Loss, found: Candidates) -> Iterator[tuple[BaseMKL, Fit]]:
    """Yield the estimator fitted at every strength of every path, with the solutions behind it.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor
        With the parameters of every model.
    samples : Samples
        Encoded by this estimator.
    loss : Loss
    found : Candidates
    """
    training, problems = estimator._open(samples, loss, found.families[0].at(1.0, 1.0))
    settings = {"tol": estimator.tol, "max_iter": estimator.max_iter, "random_state": estimator.random_state}
    solver = without_bar(estimator.solver, estimator.verbose)
    with blas_threads(len(samples.kept), estimator.n_jobs):
        for family, grid in zip(found.families, found.alphas, strict=True):
            regularizers = [family.at(alpha, problems[0].total_weight) for alpha in grid]
            posed = family.posed(problems, tuple(training.bank.names))
            for alpha, fit in zip(grid, descend(posed, regularizers, solver, **settings), strict=True):
                model = copy.copy(estimator).set_params(alpha=float(alpha))
                if family.factors is not None:
                    model.set_params(kernel_penalties=family.factors)
                model._keep_fit(training, fit, samples)
                yield model, fit


@dataclass(eq=False)
class FoldScores:
    """Scores of one fold, in the order in which models were fitted.

    Attributes
    ----------
    scorer : callable
        ``scorer(model, X, y)``.
    rows : Table or KernelStack
        Held-out samples.
    target : ndarray
        Their labels or targets.
    sample_weight : ndarray or None
    advance : callable
        Told in a line about each model.
    scores, n_active : list
    unfinished : int
        Models that did not reach ``tol``.
    """

    scorer: Callable[..., float]
    rows: Rows
    target: Array
    sample_weight: Array | None
    advance: Callable[[str], None]
    scores: list[float] = field(default_factory=list)
    n_active: list[float] = field(default_factory=list)
    unfinished: int = 0

    def add(self, model: BaseMKL, fit: Fit) -> None:
        """Score a model."""
        given = {} if self.sample_weight is None else {"sample_weight": self.sample_weight}
        # A scorer of the user's sees what the user gave, not what it became inside.
        X = self.rows.given if isinstance(self.rows, Table) else self.rows
        score = float(self.scorer(model, X, self.target, **given))
        self.scores.append(score)
        self.n_active.append(float(np.mean([found.active.size for found in fit.solutions])))
        self.unfinished += any(found.status is not Status.CONVERGED for found in fit.solutions)
        self.advance(f"alpha {model.alpha:.3g}  active {self.n_active[-1]:g}  score {self.scores[-1]:.4g}")


def complete(folds: list[FoldScores], n_candidates: int) -> list[FoldScores]:
    """Return the folds in which every candidate was scored; if there are none, those with most, and gaps at the end."""
    n_scored = max((len(fold.n_active) for fold in folds), default=0)
    best = [fold for fold in folds if n_scored and len(fold.n_active) == n_scored]
    gaps = [np.nan] * (n_candidates - n_scored)
    for fold in best:
        fold.scores, fold.n_active = [*fold.scores[:n_scored], *gaps], [*fold.n_active, *gaps]
    return best
