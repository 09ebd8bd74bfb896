"""Cross-validation along regularization paths: every fold opens its kernels once and walks every path on them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing

from manykernels.estimators.selection.descent import descend, without_bar
from manykernels.estimators.selection.penalties import PenaltyFamily, alpha_grid, checked_alphas
from manykernels.estimators.supervised.classifier import MKLClassifier
from manykernels.estimators.supervised.prediction import KernelExpansion
from manykernels.estimators.supervised.problems import Fit, build_problems
from manykernels.estimators.supervised.regressor import MKLRegressor
from manykernels.estimators.supervised.targets import kernel_factors
from manykernels.estimators.supervised.training import Training, open_training
from manykernels.solvers import Status
from manykernels.threads import blas_threads
from manykernels.validation.parameters import check_random_state

if TYPE_CHECKING:
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class Candidates:
    """The paths to walk: families of penalties, each with its strengths in decreasing order."""

    families: list[PenaltyFamily]
    alphas: list[Array]

    def __len__(self) -> int:
        return sum(len(grid) for grid in self.alphas)


@dataclass(frozen=True)
class Walk:
    """What a model that walks paths needs to know.

    Attributes
    ----------
    families : list of PenaltyFamily
    alphas : list of ndarray, or (n_alphas, ratio)
        Strengths of each family, or how to lay them out from the largest useful one.
    visit : callable or None
        Called with each fitted model and the Fit behind it; None only lays out the strengths.
    """

    families: list[PenaltyFamily]
    alphas: list[Array] | tuple[int, float]
    visit: Callable[[Any, Fit], None] | None = None


class _WalkingMixin:
    """Fits that visit every strength instead of one; ``fit`` of the estimator prepares data and targets as always."""

    _walk: Walk
    _candidates: Candidates

    def _fit_targets(self: Any, X: Any, targets: Array, weight: Array, loss: Loss) -> Any:
        check_random_state(self.random_state)
        kept = np.flatnonzero(weight)
        X, targets, weight = _safe_indexing(X, kept), targets[kept], weight[kept]
        training = open_training(
            self.kernels, X, memory_budget=self.memory_budget, n_jobs=self.n_jobs, n_targets=targets.shape[1]
        )
        problems = build_problems(
            training.stack,
            targets,
            loss,
            self._walk.families[0].at(1.0, 1.0),
            fit_intercept=self.fit_intercept,
            sample_weight=weight,
            kernel_penalties=kernel_factors(self.kernel_penalties, training.bank.names),
        )
        with blas_threads(len(kept), self.n_jobs):
            self._candidates = candidates(self._walk, problems)
            if self._walk.visit is not None:
                self._visit_all(training, problems, kept)
        return self

    def _visit_all(self: Any, training: Training, problems: list[Problem], kept: Array) -> None:
        settings = {"tol": self.tol, "max_iter": self.max_iter, "random_state": self.random_state}
        solver = without_bar(self.solver, self.verbose)
        for family, grid in zip(self._candidates.families, self._candidates.alphas, strict=True):
            regularizers = [family.at(alpha, problems[0].total_weight) for alpha in grid]
            for alpha, fit in zip(grid, descend(problems, regularizers, solver, **settings), strict=True):
                self._walk.visit(self._model(training, fit, kept, float(alpha)), fit)

    def _model(self: Any, training: Training, fit: Fit, kept: Array, alpha: float) -> Any:
        model = copy.copy(self)
        model.alpha = alpha
        weights = np.array([found.kernel_weights for found in fit.solutions])
        rho = np.array([found.dual_coef for found in fit.solutions])
        model._expansion = KernelExpansion.of(training.bank, training.prepared, weights, rho)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of empty and unfinished models: said once for all folds, not here
            model._keep(training.bank, fit, kept)
        return model


class WalkingRegressor(_WalkingMixin, MKLRegressor):
    """Regression along paths."""


class WalkingClassifier(_WalkingMixin, MKLClassifier):
    """Classification along paths."""


def candidates(walk: Walk, problems: list[Problem]) -> Candidates:
    """Return the strengths of each family, laid out for these problems unless they were given."""
    if isinstance(walk.alphas, list):
        return Candidates(walk.families, walk.alphas)
    n_alphas, ratio = walk.alphas
    grids = [alpha_grid(family.alpha_max(problems), n_alphas, ratio) for family in walk.families]
    return Candidates(walk.families, grids)


def given_alphas(alphas: Any, n_families: int) -> list[Array]:
    """Return the same given strengths for every family."""
    return [checked_alphas(alphas)] * n_families


@dataclass(eq=False)
class FoldScores:
    """Scores of one fold, in the order in which models were visited.

    Attributes
    ----------
    scorer : callable
        ``scorer(model, X, y)``.
    X, y
        Held-out samples.
    sample_weight : ndarray or None
    advance : callable
        Told in a line about each model.
    scores, n_active : list
    unfinished : int
        Models that did not reach ``tol``.
    """

    scorer: Callable[..., float]
    X: Any
    y: Any
    sample_weight: Array | None
    advance: Callable[[str], None]
    scores: list[float] = field(default_factory=list)
    n_active: list[float] = field(default_factory=list)
    unfinished: int = 0

    def visit(self, model: Any, fit: Fit) -> None:
        """Score a model."""
        given = {} if self.sample_weight is None else {"sample_weight": self.sample_weight}
        self.scores.append(float(self.scorer(model, self.X, self.y, **given)))
        self.n_active.append(float(np.mean([found.active.size for found in fit.solutions])))
        self.unfinished += any(found.status is not Status.CONVERGED for found in fit.solutions)
        self.advance(f"alpha {model.alpha:.3g}  active {self.n_active[-1]:g}  score {self.scores[-1]:.4g}")
