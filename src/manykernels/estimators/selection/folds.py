"""A fold: its kernels learned on its training rows once, and whatever is searched tried on them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv

from manykernels.estimators.selection.averages import AverageModels, Spectrum, can_average, fit_averages
from manykernels.estimators.selection.descent import descend, without_bar
from manykernels.estimators.selection.mixtures import Mixture, Scale
from manykernels.estimators.supervised.factored import FactoredExpansion, expanded
from manykernels.estimators.supervised.problems import Fit
from manykernels.exceptions import InvalidInputError
from manykernels.grams import LazyStack, build_stack, cross_combine
from manykernels.grams.plan import stack_nbytes
from manykernels.grams.prediction import KernelExpansion
from manykernels.kernels.bank.columns import Table
from manykernels.objective.losses import survival_target
from manykernels.objective.losses.survival import FIELDS
from manykernels.solvers import Solution, Status
from manykernels.solvers.run import check_deadline
from manykernels.threads import blas_threads

if TYPE_CHECKING:
    from manykernels.estimators.selection.penalties import PenaltyGrid
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.samples import Rows, Samples
    from manykernels.grams.training import Training
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array

SINGLE_PRECISION_TOL = 1e-4  # from this gap on the matrices of a fold are held in float32: its rounding is not felt
LAZY = "lazy"  # matrices that are evaluated whenever they are read, and held only while solvers read them
MARGINS = ("hinge", "squared_hinge")  # losses that are scored by what a logistic curve through their scores tells
SQUARED = 2.0  # squared errors are told as they are; the loss that is minimized is half of them


def splits_of(cv: Any, y: Any, groups: Any = None, *, classifier: bool) -> list[tuple[Array, Array]]:
    """Return the rows to learn from and those held out of every fold; more folds than rows are refused in words."""
    try:
        return list(check_cv(cv, y, classifier=classifier).split(np.zeros(len(y)), y, groups))
    except InvalidInputError:
        raise
    except ValueError as error:
        most = int(np.unique(y, return_counts=True)[1].max()) if classifier and np.ndim(y) == 1 else len(y)
        share = f", of which the largest class has {most}" if most < len(y) else ""
        raise InvalidInputError(
            f"cv={cv!r} makes no folds of these {len(y)} samples{share}: {str(error).rstrip('.')}. "
            f"Take fewer folds, at most {max(most, 2)}, or more samples."
        ) from None


@dataclass(frozen=True, eq=False)
class FoldScore:
    """What a fold says of one candidate: its scores (T,), its mean number of kernels, whether it was solved."""

    scores: Array
    n_active: float
    finished: bool


# Scores of held-out rows: by the loss that is minimized, or by the user's scorer.


class _OneOutput(RegressorMixin, BaseEstimator):
    """The prediction of one of several targets, as scorers want it."""

    def __init__(self, predicted: Any = None) -> None:
        self.predicted = predicted
        self.fitted_ = True

    def predict(self, X: Any) -> Array:
        """Return the prediction."""
        return np.asarray(self.predicted)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out samples of a fold."""

    rows: Rows
    target: Array  # (n,) or (n, K) ndarray: as the user gave them
    weight: Array | None  # (n,) float64 or None
    scorer: Callable[..., float] | None  # scorer(model, X, y); None for the loss
    by_target: bool = True  # whether each target of a regression is scored for itself

    def score(self, model: BaseMKL, losses: Sequence[Any], scores: Array, complete: Callable[[], BaseMKL]) -> Array:
        """Return the scores of a model, (T,), from its decision values at these rows."""
        if self.scorer is None:
            found = -mean_losses(losses, encoded_like(model, self.target), scores, self.weight)
            single = hasattr(model, "classes_") or not self.by_target
            return np.array([found.sum() if hasattr(model, "classes_") else found.mean()]) if single else found
        given = {} if self.weight is None else {"sample_weight": self.weight}
        if self.target.ndim == 2 and self.by_target:
            outputs = zip(losses, scores.T, self.target.T, strict=True)
            each = ((_OneOutput(loss.mean(z)), np.zeros((len(z), 1)), y) for loss, z, y in outputs)
            return np.array([self.scorer(*one, **given) for one in each])
        # A scorer of the user's sees what the user gave, not what it became inside. Scorers predict these rows again
        # and again; whatever else they ask of the model is computed.
        X = self.rows.given if isinstance(self.rows, Table) else self.rows
        shown = complete()._with_scores(X, scores)
        return np.array([float(self.scorer(shown, X, self.target, **given))])


def encoded_like(model: BaseMKL, target: Array) -> Array:
    """Return targets as the losses of a model take them, by column: signs of its classes, numbers, or times."""
    classes = getattr(model, "classes_", None)
    if classes is not None:
        return np.where(target[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)
    if target.dtype.names is not None:
        return survival_target(*(target[name] for name in FIELDS.names or ()))[:, None]
    return target.reshape(len(target), -1)


def mean_losses(losses: Sequence[Any], targets: Array, scores: Array, weight: Array | None) -> Array:
    """Return the mean loss by problem: of samples, or of a partial likelihood the loss an event."""
    weights = np.ones(len(targets)) if weight is None else weight
    if losses[0].couples_samples:
        events = float(weights @ (targets[:, 0] > 0))
        value = losses[0].bind(targets[:, 0], weights).value(scores[:, 0]) if events else np.nan
        return np.array([value / events if events else np.nan])
    if losses[0].name in MARGINS:
        return np.array([calibrated_loss(y, z, weights) for y, z in zip(targets.T, scores.T, strict=True)])
    if len(losses) < targets.shape[1]:  # one problem for all columns
        each: Any = losses[0]
        return np.atleast_1d(np.average(each.value(targets, scores), weights=weights)) * _unit(each.each)
    columns = zip(losses, targets.T, scores.T, strict=True)
    return np.array([np.average(loss.value(y, z), weights=weights) * _unit(loss) for loss, y, z in columns])


def calibrated_loss(signs: Array, scores: Array, weights: Array) -> float:
    """Return the mean logistic loss of scores without a unit, after a rising logistic curve through these very rows.

    Margins decide between labels and tell no probability: their own loss would ask how far they are beyond 1. The curve
    has a slope and a constant; what they gain by being fitted here is taken off again as Akaike's criterion does. Few
    rows, or rows that one score tells apart, leave the slope to a normal prior of deviation 1 for scores in units of
    their spread.

    Source: J. Platt, "Probabilistic outputs for support vector machines", 1999.
    """
    positive, spread = signs > 0, float(scores.std())
    share = (weights @ positive + 1.0) / (weights.sum() + 2.0)
    constant = float(np.average(-np.log(np.where(positive, share, 1.0 - share)), weights=weights)) + 1.0 / len(signs)
    known = weights > 0
    if not spread > 1e-12 * np.abs(scores).max() or len(np.unique(positive[known])) < 2:
        return constant
    curve = LogisticRegression().fit(scores[:, None] / spread, positive, weights)
    if curve.coef_[0, 0] <= 0:
        return constant
    likelihood = curve.predict_log_proba(scores[:, None] / spread)[np.arange(len(signs)), positive.astype(np.intp)]
    return float(np.average(-likelihood, weights=weights)) + 2.0 / len(signs)


def _unit(loss: Loss) -> float:
    return SQUARED if loss.name == "squared" else 1.0


# Solutions on some kernels as solutions on all of them.


def embedded(fit: Fit, mixture: Mixture, problems: Sequence[Problem]) -> Fit:
    """Return solutions on the kernels of a mixture as models on all kernels: the others have weight zero."""
    if len(mixture.kernels) == len(mixture.weights):
        return fit
    whole = [replace(own, regularizer=posed.regularizer) for own, posed in zip(problems, fit.problems, strict=True)]
    kept, size = mixture.kernels, len(mixture.weights)
    solutions = [
        replace(
            found,
            kernel_weights=_placed(found.kernel_weights, kept, size),
            kernel_norms=None if found.kernel_norms is None else _placed(found.kernel_norms, kept, size),
        )
        for found in fit.solutions
    ]
    return Fit(whole, solutions, _placed(fit.norms, kept, size))


def with_all_dual_norms(found: Solution, problem: Problem) -> Solution:
    """Return a solution whose certificate tells the dual norm of every kernel, also of those that took no part."""
    norms = problem.dual_norms(problem.feasible_dual(found.dual_coef))
    return replace(found, certificate=replace(found.certificate, dual_norms=norms))


def _placed(values: Array, kept: Array, size: int) -> Array:
    placed = np.zeros((*values.shape[:-1], size))
    placed[..., kept] = values
    return placed


# What is known of a fold before anything is tried: its best constants, and what a fraction of the strength means.


def empty_models(problems: Sequence[Problem]) -> list[tuple[Array, float]]:
    """Return dual norms and loss of the best constant of each problem: one pass each, for all mixtures."""
    found = []
    for problem in problems:
        rho, b = problem.zero_model()
        # What the best constant leaves of a constant target is rounding.
        norms = np.zeros(problem.n_kernels) if problem.constant_target else problem.dual_norms(rho)
        found.append((norms, problem.empirical_loss(np.full(problem.n_samples, b))))
    return found


def scales_of(mixture: Mixture, empty: Sequence[tuple[Array, float]], spare: list[Scale], share: float) -> list[Scale]:
    """Return the scales of a fold with this weight of samples, where nothing can be gained those of all rows."""
    own = [mixture.scale(*each) for each in empty]
    if len(spare) != len(own):  # a fold may lack a class
        return own
    return [other.times(share) if scale.empty else scale for scale, other in zip(own, spare, strict=True)]


def on_stored(
    training: Training, problems: list[Problem], memory_budget: int | str | None, *, dtype: Any = None
) -> list[Problem]:
    """Return problems for solvers that read kernels often: on matrices that are held, where they fit the memory."""
    stack = training.stack
    if not isinstance(stack, LazyStack):
        return problems
    settings = {"memory_budget": memory_budget, "n_jobs": stack.n_threads, "n_targets": len(problems), "dtype": dtype}
    held = build_stack(training.bank, training.prepared, **settings)
    return [replace(problem, stack=held) for problem in problems]


@dataclass(eq=False)
class Fold:
    """The kernels of a fold on its training rows, and what is remembered of the mixture at hand."""

    model: BaseMKL  # with the parameters of every model; knows the classes of its fold
    samples: Samples  # encoded by this model
    training: Training
    problems: list[Problem]  # one a target, under any penalty
    held_out: HeldOut
    tol: float  # relative gap of its models
    stop: Event = field(default_factory=Event)  # set when nothing more is wanted
    _stored: list[Problem] | None = None
    _spectra: dict[int, Spectrum] = field(default_factory=dict)
    _known: dict[int, dict[float, Any]] = field(default_factory=dict)
    _scores: dict[tuple[int, float], FoldScore] = field(default_factory=dict)

    @classmethod
    def opened(
        cls,
        model: BaseMKL,
        samples: Samples,
        loss: Any,
        penalty: Regularizer,
        held_out: HeldOut,
        tol: float,
        *,
        kind: str,
        stop: Event | None = None,
    ) -> Fold:
        """Return the fold of a model on training samples, its kernels learned there, matrices held as ``kind`` says."""
        encoded = model._encoded(samples)
        training, problems = model._open(encoded, loss, penalty, kind=kind)
        return cls(model, encoded, training, problems, held_out, tol, stop or Event())

    @cached_property
    def empty(self) -> list[tuple[Array, float]]:
        """Dual norms and losses of the best constants."""
        return empty_models(self.problems)

    @property
    def losses(self) -> list[Any]:
        """The loss of each problem."""
        return [problem.loss for problem in self.problems]

    # --- memory -----------------------------------------------------------------------------------------------------

    @property
    def stored_bytes(self) -> int:
        """What the matrices of this fold take while models are solved, where they are not held already."""
        stack = self.training.stack
        return stack_nbytes("packed", *stack.shape[:2], "float32") if isinstance(stack, LazyStack) else 0

    def stored(self) -> list[Problem]:
        """Return the problems on matrices that are held, until the fold is closed."""
        if self._stored is None:
            single = None if self.tol < SINGLE_PRECISION_TOL else np.float32
            self._stored = on_stored(self.training, self.problems, self.model._resources.memory_budget, dtype=single)
        return self._stored

    def close(self) -> None:
        """Let go of the matrices; the next model evaluates them anew."""
        self._stored = None

    def forget(self) -> None:
        """Drop what was remembered of mixtures."""
        self._spectra.clear()
        self._known.clear()
        self._scores.clear()

    # --- what can be tried ------------------------------------------------------------------------------------------

    def constant(self, intercepts: Array | None = None) -> FoldScore:
        """Return what the best constants score: the empty model, which everything else must be ahead of."""
        if intercepts is None:
            intercepts = np.concatenate([np.atleast_1d(problem.zero_model()[1]) for problem in self.problems])

        def complete() -> BaseMKL:
            bank, shape = self.training.bank, (len(intercepts), len(self.training.bank))
            if self.training.factored:
                none = np.zeros(0, dtype=np.intp)
                kept: Any = bank.take([0])
                nothing: Any = FactoredExpansion(kept, none, len(bank), np.zeros((shape[0], 0)), ())
            else:
                zeros = np.zeros((shape[0], self.training.stack.n_samples))
                nothing = KernelExpansion.of(bank, self.training.prepared, np.zeros(shape), zeros)
            return self.model._predicting(nothing, intercepts, self.losses[0])

        scores = np.tile(intercepts, (len(self.held_out.rows), 1))
        return FoldScore(self.held_out.score(self.model, self.losses, scores, complete), 0.0, True)

    def tried(self, mixture: Mixture, fraction: float, spare: list[Scale]) -> FoldScore:
        """Return what a mixture scores at a fraction of its strengths.

        ``spare`` are the scales of all rows, per unit of weight, for folds in which nothing can be gained.
        """
        known = self._scores.get((id(mixture), fraction))
        if known is not None:
            return known
        check_deadline()
        own = scales_of(mixture, self.empty, spare, self.samples.total_weight)
        score = (self._averaged if self.averages(mixture) else self._solved)(mixture, fraction, own)
        if self.stop.is_set():
            raise KeyboardInterrupt
        check_deadline()  # a model that was not finished for lack of time counts for nothing
        self._scores[id(mixture), fraction] = score
        return score

    def averages(self, mixture: Mixture) -> bool:
        """Whether models of a mixture come from one eigendecomposition, without matrices that are held."""
        return mixture.mixing == 0 and not self.training.without_matrix and can_average(self.losses)

    def _settings(self) -> dict[str, Any]:
        """Return what decides when a solver of the models of this fold is done."""
        max_iter, random_state = self.model._resources.max_iter, self.model.random_state
        return {"tol": self.tol, "max_iter": max_iter, "random_state": random_state}

    def follow(self, grids: PenaltyGrid, solver: Any) -> Iterator[FoldScore]:
        """Yield what every strength of every penalty scores, each solved from the one before."""
        settings = {
            "tol": self.tol,
            "max_iter": self.model._resources.max_iter,
            "random_state": self.model.random_state,
        }
        with blas_threads(len(self.samples.kept), self.model._resources.n_jobs):
            for family, grid in zip(grids.families, grids.alphas, strict=True):
                regularizers = [family.at(alpha, self.problems[0].total_weight) for alpha in grid]
                posed = family.posed(self.problems, tuple(self.training.bank.names))
                chosen = {} if family.factors is None else {"kernel_penalties": family.factors}
                for alpha, fit in zip(grid, descend(posed, regularizers, solver, **settings), strict=True):
                    yield self.score(fit, alpha=float(alpha), **chosen)

    def score(self, fit: Fit, **parameters: Any) -> FoldScore:
        """Return what the held-out rows say of solutions on all kernels; ``parameters`` are those of their model."""
        expansion, fit = expanded(self.training, fit)
        scores = expansion.scores(self.held_out.rows) + np.array([found.intercept for found in fit.solutions])

        def complete() -> BaseMKL:
            model = copy.copy(self.model).set_params(**parameters)
            model._keep_fit(self.training, fit, self.samples)
            return model

        n_active = float(np.mean([found.active.size for found in fit.solutions]))
        finished = all(found.status is Status.CONVERGED for found in fit.solutions)
        return FoldScore(self.held_out.score(self.model, self.losses, scores, complete), n_active, finished)

    # --- averages ---------------------------------------------------------------------------------------------------

    def _averaged(self, mixture: Mixture, fraction: float, scales: list[Scale]) -> FoldScore:
        spectrum, known = self._spectrum(mixture), self._known.setdefault(id(mixture), {})
        targets = np.column_stack([problem.y for problem in self.problems])
        strengths = np.array([scale.at(fraction).strength for scale in scales])
        start = known[_nearest(known, fraction)] if known else None
        models: AverageModels = fit_averages(
            spectrum, self.losses, targets, self.samples.weight, strengths, tol=self.tol, start=start
        )
        known[fraction] = models

        def complete() -> BaseMKL:
            coefficients, intercepts = spectrum.expanded(models)
            weights = mixture.weights / self.problems[0].penalties ** 2 / strengths[:, None]
            rho = (coefficients * strengths).T
            expansion = KernelExpansion.of(self.training.bank, self.training.prepared, weights, rho)
            return self.model._predicting(expansion, intercepts, self.losses[0])

        scores = models.scores(spectrum.held_out)
        score = self.held_out.score(self.model, self.losses, scores, complete)
        return FoldScore(score, len(mixture.kernels), models.finished)

    def _spectrum(self, mixture: Mixture) -> Spectrum:
        if id(mixture) not in self._spectra:
            weights = mixture.weights / self.problems[0].penalties ** 2
            gram = self.training.stack.combine(weights)
            held = self.training.bank.prepare(self.held_out.rows)
            cross = cross_combine(self.training.bank, held, self.training.prepared, weights)
            self._spectra[id(mixture)] = Spectrum.of(gram, cross, centered=self.problems[0].fit_intercept)
        return self._spectra[id(mixture)]

    # --- everything else --------------------------------------------------------------------------------------------

    def _solved(self, mixture: Mixture, fraction: float, scales: list[Scale]) -> FoldScore:
        known: dict[float, list[Solution]] = self._known.setdefault(id(mixture), {})
        posed = [mixture.pose(problem) for problem in self.stored()]
        settings = {
            "tol": self.tol,
            "max_iter": self.model._resources.max_iter,
            "random_state": self.model.random_state,
        }
        solver = without_bar(self.model.solver, self.model._resources.verbose)
        start = known[_nearest(known, fraction)] if known else None
        (fit,) = descend(posed, [[scale.at(fraction) for scale in scales]], solver, start=start, **settings)
        known[fraction] = fit.solutions
        return self.score(embedded(fit, mixture, self.problems))


def _nearest(known: dict[float, Any], fraction: float) -> float:
    """Return the fraction among those known from which to begin."""
    return min(known, key=lambda other: abs(np.log(other / fraction)))
