"""One fold of a search: its kernels opened on its training rows once, and every mixture tried on them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from manykernels.estimators.selection.averages import AverageModels, Spectrum, can_average, fit_averages
from manykernels.estimators.selection.descent import descend, without_bar
from manykernels.estimators.selection.mixtures import Mixture, Scale
from manykernels.estimators.supervised.factored import expanded
from manykernels.estimators.supervised.problems import Fit
from manykernels.grams import LazyStack, build_stack, cross_combine
from manykernels.grams.expansion import KernelExpansion
from manykernels.grams.plan import stack_nbytes
from manykernels.kernels.bank.columns import Table
from manykernels.solvers import Solution, Status
from manykernels.solvers.run import check_deadline

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixtures import Mixture
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.samples import Rows, Samples
    from manykernels.grams.training import Training
    from manykernels.objective.problem import Problem
    from manykernels.solvers import Solution
    from manykernels.validation.arrays import Array


SINGLE_PRECISION_TOL = 1e-4  # from this gap on the matrices of a fold are held in float32: its rounding is not felt

# Scores of held-out rows: fast for the default scorings, by the user's scorer otherwise.


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
    """Held-out samples of a fold.

    Attributes
    ----------
    rows : Table or KernelStack
    target : (n,) or (n, K) ndarray
        As the user gave them.
    weight : (n,) float64 or None
    scorer : callable or None
        ``scorer(model, X, y)``; None for the accuracy, or the negative mean squared error.
    """

    rows: Rows
    target: Array
    weight: Array | None
    scorer: Callable[..., float] | None

    @property
    def n_scores(self) -> int:
        """Number of scores of a model: one a target of a regression."""
        return self.target.shape[1] if self.target.ndim == 2 else 1

    def score(self, model: BaseMKL, scores: Array, complete: Callable[[], BaseMKL]) -> Array:
        """Return the scores of a model, (n_scores,), from its decision values at these rows.

        Parameters
        ----------
        model : BaseMKL
            Which knows its classes.
        scores : ndarray of shape (n, K)
        complete : callable
            Returns the whole model, for a scorer that predicts anything else.
        """
        if self.scorer is None:
            classes = getattr(model, "classes_", None)
            return self._errors(scores) if classes is None else self._accuracy(scores, classes)
        given = {} if self.weight is None else {"sample_weight": self.weight}
        if self.target.ndim == 2:
            outputs = zip(model._loss.mean(scores).T, self.target.T, strict=True)
            return np.array([self.scorer(_OneOutput(z), np.zeros((len(z), 1)), y, **given) for z, y in outputs])
        # A scorer of the user's sees what the user gave, not what it became inside.
        X = self.rows.given if isinstance(self.rows, Table) else self.rows
        shown = copy.copy(model)
        # Scorers predict these rows again and again; whatever else they ask of the model is computed.
        shown.__dict__["_scores"] = lambda asked: scores if asked is X else complete()._scores(asked)
        return np.array([float(self.scorer(shown, X, self.target, **given))])

    def _accuracy(self, scores: Array, classes: Array) -> Array:
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.array([np.average(classes[codes] == self.target, weights=self.weight)])

    def _errors(self, scores: Array) -> Array:
        target = self.target.reshape(len(self.target), -1)
        return -np.average((scores - target) ** 2, axis=0, weights=self.weight)


# Solutions on some kernels as solutions on all of them.


def spread(fit: Fit, mixture: Mixture, problems: Sequence[Problem]) -> Fit:
    """Return solutions on the kernels of a mixture as models on all kernels: the others have weight zero."""
    if len(mixture.kernels) == len(mixture.weights):
        return fit
    whole = [replace(own, regularizer=posed.regularizer) for own, posed in zip(problems, fit.problems, strict=True)]
    kept, size = mixture.kernels, len(mixture.weights)
    solutions = [replace(found, kernel_weights=_placed(found.kernel_weights, kept, size)) for found in fit.solutions]
    return Fit(whole, solutions, _placed(fit.norms, kept, size))


def with_all_dual_norms(found: Solution, problem: Problem) -> Solution:
    """Return a solution whose certificate tells the dual norm of every kernel, also of those that took no part."""
    norms = problem.dual_norms(problem.feasible_dual(found.dual_coef))
    return replace(found, certificate=replace(found.certificate, dual_norms=norms))


def _placed(values: Array, kept: Array, size: int) -> Array:
    placed = np.zeros((*values.shape[:-1], size))
    placed[..., kept] = values
    return placed


@dataclass(frozen=True, eq=False)
class Trial:
    """What a fold says of one candidate: its scores (T,), its mean number of kernels, whether it was solved."""

    scores: Array
    n_active: float
    finished: bool


def empty_models(problems: Sequence[Problem]) -> list[tuple[Array, float]]:
    """Return dual norms and loss of the best constant of each problem: one pass each, for all mixtures."""
    found = []
    for problem in problems:
        rho, b = problem.zero_model()
        found.append((problem.dual_norms(rho), problem.empirical_loss(np.full(problem.n_samples, b))))
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
class OpenedFold:
    """The kernels of a fold on its training rows, and what is remembered of the mixture at hand.

    Attributes
    ----------
    model : BaseMKL
        With the parameters of every model; knows the classes of its fold.
    samples : Samples
        Encoded by this model.
    training : Training
    problems : list of Problem
        One a target, under any penalty.
    held_out : HeldOut
    tol : float
        Relative gap of its models.
    stop : Event
        Set when nothing more is wanted.
    """

    model: BaseMKL
    samples: Samples
    training: Training
    problems: list[Problem]
    held_out: HeldOut
    tol: float
    stop: Event
    _stored: list[Problem] | None = None
    _spectra: dict[int, Spectrum] = field(default_factory=dict)
    _known: dict[int, dict[float, Any]] = field(default_factory=dict)
    _trials: dict[tuple[int, float], Trial] = field(default_factory=dict)

    @cached_property
    def empty(self) -> list[tuple[Array, float]]:
        """Dual norms and losses of the best constants."""
        return empty_models(self.problems)

    @property
    def reads_entries(self) -> bool:
        """Whether averages are had from matrices among samples."""
        return not self.training.without_matrix and can_average([problem.loss for problem in self.problems])

    @property
    def stored_bytes(self) -> int:
        """What the matrices of this fold take while models are solved, where they are not held already."""
        stack = self.training.stack
        return stack_nbytes("packed", *stack.shape[:2], "float32") if isinstance(stack, LazyStack) else 0

    def stored(self) -> list[Problem]:
        """Return the problems on matrices that are held, until the fold is closed."""
        if self._stored is None:
            single = None if self.tol < SINGLE_PRECISION_TOL else np.float32
            self._stored = on_stored(self.training, self.problems, self.model.memory_budget, dtype=single)
        return self._stored

    def close(self) -> None:
        """Let go of the matrices; the next model evaluates them anew."""
        self._stored = None

    def averages(self, mixture: Mixture) -> bool:
        """Whether models of a mixture come from one eigendecomposition, without matrices that are held."""
        return mixture.mixing == 0 and self.reads_entries

    def forget(self) -> None:
        """Drop what was remembered of mixtures."""
        self._spectra.clear()
        self._known.clear()
        self._trials.clear()

    def tried(self, mixture: Mixture, fraction: float, spare: list[Scale]) -> Trial:
        """Return what a mixture scores at a fraction of its strengths.

        ``spare`` are the scales of all rows, per unit of weight, for folds in which nothing can be gained.
        """
        known = self._trials.get((id(mixture), fraction))
        if known is not None:
            return known
        check_deadline()
        own = scales_of(mixture, self.empty, spare, self.samples.total_weight)
        trial = (self._averaged if self.averages(mixture) else self._solved)(mixture, fraction, own)
        if self.stop.is_set():
            raise KeyboardInterrupt
        check_deadline()  # a model that was not finished for lack of time counts for nothing
        self._trials[id(mixture), fraction] = trial
        return trial

    # --- averages ---------------------------------------------------------------------------------------------------

    def _averaged(self, mixture: Mixture, fraction: float, scales: list[Scale]) -> Trial:
        spectrum, known = self._spectrum(mixture), self._known.setdefault(id(mixture), {})
        losses = [problem.loss for problem in self.problems]
        targets = np.column_stack([problem.y for problem in self.problems])
        strengths = np.array([scale.at(fraction).strength for scale in scales])
        start = known[_nearest(known, fraction)] if known else None
        models: AverageModels = fit_averages(
            spectrum, losses, targets, self.samples.weight, strengths, tol=self.tol, start=start
        )
        known[fraction] = models
        scores = models.scores(spectrum.held_out)

        def complete() -> BaseMKL:
            return self._complete(mixture, spectrum, models, strengths)

        return Trial(self.held_out.score(self.model, scores, complete), len(mixture.kernels), models.finished)

    def _spectrum(self, mixture: Mixture) -> Spectrum:
        if id(mixture) not in self._spectra:
            weights = mixture.weights / self.problems[0].penalties ** 2
            gram = self.training.stack.combine(weights)
            held = self.training.bank.prepare(self.held_out.rows)
            cross = cross_combine(self.training.bank, held, self.training.prepared, weights)
            self._spectra[id(mixture)] = Spectrum.of(gram, cross, centered=self.problems[0].fit_intercept)
        return self._spectra[id(mixture)]

    def _complete(self, mixture: Mixture, spectrum: Spectrum, models: AverageModels, strengths: Array) -> BaseMKL:
        """Return the whole model, for scorers that look at more than the held-out rows."""
        penalties = self.problems[0].penalties
        coefficients, intercepts = spectrum.expanded(models)
        weights = mixture.weights / penalties**2 / strengths[:, None]
        model = copy.copy(self.model)
        model._expansion = KernelExpansion.of(
            self.training.bank, self.training.prepared, weights, (coefficients * strengths).T
        )
        model.intercept_ = intercepts
        return model

    # --- everything else --------------------------------------------------------------------------------------------

    def _solved(self, mixture: Mixture, fraction: float, scales: list[Scale]) -> Trial:
        known: dict[float, list[Solution]] = self._known.setdefault(id(mixture), {})
        posed = [mixture.pose(problem) for problem in self.stored()]
        settings = {"tol": self.tol, "max_iter": self.model.max_iter, "random_state": self.model.random_state}
        solver = without_bar(self.model.solver, self.model.verbose)
        start = known[_nearest(known, fraction)] if known else None
        (fit,) = descend(posed, [[scale.at(fraction) for scale in scales]], solver, start=start, **settings)
        known[fraction] = fit.solutions
        return self.trial(spread(fit, mixture, self.problems))

    def trial(self, fit: Fit) -> Trial:
        """Return what the held-out rows say of solutions on all kernels."""
        expansion, fit = expanded(self.training, fit)
        scores = expansion.scores(self.held_out.rows) + np.array([found.intercept for found in fit.solutions])

        def complete() -> BaseMKL:
            model = copy.copy(self.model)
            model._keep_fit(self.training, fit, self.samples)
            return model

        n_active = float(np.mean([found.active.size for found in fit.solutions]))
        finished = all(found.status is Status.CONVERGED for found in fit.solutions)
        return Trial(self.held_out.score(self.model, scores, complete), n_active, finished)


def _nearest(known: dict[float, Any], fraction: float) -> float:
    """Return the fraction among those known from which to begin."""
    return min(known, key=lambda other: abs(np.log(other / fraction)))
