"""Folds: kernels learned on the training rows of a split, and what the rows held out say.

A fold scores all candidates on the held-out rows, otherwise unused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from manykernels.estimators.selection.averages import (
    KEPT_ROWS,
    AverageKernel,
    AverageModels,
    can_average,
    center_kernel,
    fit_averages,
)
from manykernels.estimators.selection.on_features import (
    features_of,
    fit_of,
    n_features,
    read_as,
    reads_features,
    scores_of,
    stands_as_features,
    start_on_features,
)
from manykernels.estimators.selection.scores import ScoredRows, added_likelihood, encoded_like, mean_losses
from manykernels.estimators.selection.splits import Split
from manykernels.estimators.strength import default_fraction
from manykernels.estimators.supervised.problems import Fit, SolverChoice, descend, expand_solutions, silence_solver
from manykernels.exceptions import InvalidInputError
from manykernels.grams import build_stack, cross_combine, cross_scores
from manykernels.grams.dense import DensePart
from manykernels.grams.expansion import Expansion
from manykernels.grams.plan import SINGLE_PRECISION_TOL, pieces_nbytes, plan_as_given
from manykernels.grams.seconds import ProblemForm, factored_seconds, gram_seconds
from manykernels.kernels import KernelStack
from manykernels.kernels.bank.columns import Table
from manykernels.solvers import Solution, Status
from manykernels.solvers.fold import Candidate, Family, Fold, nearest
from manykernels.solvers.gram.many_targets import CHUNK, keep_empty_norms, many_targets
from manykernels.solvers.gram.start import starts_warm
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.samples import Rows, Samples
    from manykernels.grams.factored import ColumnTable
    from manykernels.grams.training import Training
    from manykernels.kernels.bank.contract import PreparedRows
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem


FIRST_FOLDS = 3  # folds in which what is in doubt is tried first, at least; half of many
# Rows of a fold from which on what is in doubt is tried first with half of them ("successive halving"), and with so
# many at most. On tables of 400 to 1,000 rows (digits, breast cancer, two made ones) shares of 0.41 to 0.5 choose
# models that score alike; smaller ones reject what all rows would choose.
FEWER_FROM, MOST_FEWER = 300, 3_000
MOST_LABELS = 100  # distinct targets that may be classes, none of which may be missing


def n_first_folds(n_folds: int) -> int:
    """Return the number of folds of the first trial: more for small folds, with noisier scores."""
    return min(n_folds, max(FIRST_FOLDS, n_folds // 2))


def select_short_folds(splits: Sequence[Split], target: Array, weight: Array) -> list[Split]:
    """Return the first folds with half of the rows to learn from or less, spread over the targets; none of short folds.

    All candidates are tried there; what cannot win with half of the rows is not tried with more.
    """
    fewer = []
    for train, test in splits[: n_first_folds(len(splits))]:
        known = train[weight[train] > 0]
        n_kept = min(len(known) // 2, MOST_FEWER)
        if len(known) < FEWER_FROM or target.dtype.names is not None:
            return []
        first = target[known] if target.ndim == 1 else target[known, 0]
        ordered = known[np.argsort(first, kind="stable")]
        kept = np.sort(ordered[np.arange(n_kept) * len(known) // n_kept])
        if len(np.unique(first)) <= MOST_LABELS and len(np.unique(target[kept])) < len(np.unique(first)):
            return []
        fewer.append((kept, test))
    return fewer


# Scores of held-out rows: by the loss that is minimized, or by the user's scorer.


class _OneOutput(RegressorMixin, BaseEstimator):
    """The prediction of a single target among several, for scorers."""

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
    scorer: Callable[..., float] | None  # scorer(model, X, y), its metadata bound; None for the loss
    by_target: bool = True  # whether each target of a regression is scored for itself

    def score(
        self,
        model: BaseMKL,
        losses: Sequence[Any],
        scores: Array,
        complete: Callable[[], BaseMKL],
        trained: Callable[[], ScoredRows] | None = None,
    ) -> Array:
        """Return the scores of a model, (T,), from the decision values at the rows, for times at training rows too."""
        if self.scorer is None and losses[0].couples_samples and trained is not None:
            weight = np.ones(len(self.target)) if self.weight is None else self.weight
            held_out = ScoredRows(self.target, weight, scores[:, 0])
            return np.array([added_likelihood(losses[0], trained(), held_out)])
        if self.scorer is None:
            if np.ndim(getattr(model, "classes_", 0)) == 2 and len(losses) == 1:  # the sum of the losses of labels
                losses = [losses[0].each] * scores.shape[1]
            found = -mean_losses(losses, encoded_like(model, self.target), scores, self.weight)
            several = np.ndim(getattr(model, "classes_", 0)) == 1
            single = several or not self.by_target
            return np.array([found.sum() if several else found.mean()]) if single else found
        if self.target.ndim == 2 and self.by_target and not hasattr(model, "classes_"):
            outputs = zip(losses, scores.T, self.target.T, strict=True)
            each = ((_OneOutput(loss.mean(z)), np.zeros((len(z), 1)), y) for loss, z, y in outputs)
            return np.array([self.scorer(*one) for one in each])
        # A scorer of the user's sees what the user gave, not what it became inside. Scorers predict these rows again
        # and again; whatever else they ask of the model is computed.
        X = self.rows.original if isinstance(self.rows, Table) else self.rows
        shown = complete()._attach_scores(X, scores)
        try:
            return np.array([float(self.scorer(shown, X, self.target))])
        except ValueError as error:
            raise InvalidInputError(
                f"scoring failed on the {len(self.target)} rows that a fold holds out: {str(error).rstrip('.')}. If a "
                f"class is missing, use stratified folds (StratifiedKFold) or another scoring."
            ) from error


# What is known of a fold before anything is tried: its best constants, and what a fraction of the strength means.


def empty_models(problems: Sequence[Problem]) -> list[tuple[Array, float]]:
    """Return dual norms and loss of the best constant of every problem, for all mixtures: a single pass each.

    A single pass for all where kernels are evaluated whenever they are read.
    """
    found = []
    for problem, norms in zip(problems, _empty_norms(problems), strict=True):
        own = problem.zero_rounding(problem.penalized(norms))
        found.append((own, problem.empirical_loss(problem.constant_scores(problem.best_constant))))
        if len(problems) > CHUNK:
            problem.forget_empty()
    return found


def _empty_norms(problems: Sequence[Problem]) -> list[Array]:
    stack = problems[0].stack
    if many_targets(problems):
        return keep_empty_norms(problems)
    rhos = [problem.empty_coefficients for problem in problems]
    if len(problems) == 1 or not stack.evaluates or stack.has_factors:
        return [problem.dual_norms(rho) for problem, rho in zip(problems, rhos, strict=True)]
    units = [np.abs(rho).max() or 1.0 for rho in rhos]
    squares = stack.quad_each(np.column_stack([rho / unit for rho, unit in zip(rhos, units, strict=True)]))
    roots = np.sqrt(np.maximum(squares.T, 0.0))
    return [unit * own / problem.penalties for unit, own, problem in zip(units, roots, problems, strict=True)]


def store_problems(
    training: Training, problems: list[Problem], memory_budget: int | str | None, *, dtype: Any = None
) -> list[Problem]:
    """Return problems for solvers with many kernel reads: on stored matrices, if they fit into memory."""
    stack = training.stack
    if not stack.evaluates:
        return problems
    # Problems are solved one after the other, so that no product has many columns: triangles, however many there are.
    settings: dict[str, Any] = {"memory_budget": memory_budget, "n_jobs": stack.n_threads, "dtype": dtype}
    settings["coupled"] = problems[0].loss.couples_samples
    bank, rows = training.bank, training.prepared
    held = stack.copied() if isinstance(stack, DensePart) else build_stack(bank, rows, **settings)
    return [problem.replace_twin(held) for problem in problems]


@dataclass(eq=False)
class OpenedKernels:
    """Kernels learned on some rows, with the learning problem."""

    model: BaseMKL  # with the parameters of every model; knows the classes of its rows
    samples: Samples  # encoded by this model
    training: Training
    problems: list[Problem]  # one a target, on all kernels, under any penalty
    tol: float  # relative gap of its models
    on_factors: Callable[[], OpenedKernels] | None = None  # the same kernels as factors, where what selects has these
    projects: bool = False  # whether these factors are of projections of some kernels on landmarks
    _selecting: OpenedKernels | None = None
    _stored: list[Problem] | None = None
    _held_out: tuple[HeldOut, PreparedRows[Any]] | None = None
    _rows_read: tuple[Rows, ColumnTable] | None = None
    _summed: tuple[Family, ref[AverageKernel]] | None = None  # the last sum of kernels, as long as a model knows it
    _choices: dict[int, tuple[Family, SolverChoice]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all kernels."""
        return tuple(self.training.bank.names)

    @property
    def selecting(self) -> OpenedKernels:
        """The same kernels for selection: as factors, if predicted faster."""
        if self.on_factors is not None and self._selecting is None:
            self._selecting = self.on_factors()
            if not self.projects:
                self._selecting.empty = self.empty
        return self._selecting or self

    @property
    def projected(self) -> OpenedKernels:
        """The same kernels on landmarks if selection uses landmarks, for faster passes; else unchanged."""
        return self.selecting if self.projects else self

    @cached_property
    def empty(self) -> list[tuple[Array, float]]:
        """Dual norms and losses of the best constants; factors use the kernels before projection."""
        if not self.projects:
            return empty_models(self.problems)
        pairs = zip(self.names, self.selecting.names, strict=True)
        own = np.flatnonzero([name != projected for name, projected in pairs])
        posed = [
            replace(problem, stack=problem.stack.view(own), kernel_penalties=problem.penalties[own])
            for problem in self.problems
        ]
        found = []
        for (norms, loss), (exact, _) in zip(self.selecting.empty, empty_models(posed), strict=True):
            norms = norms.copy()
            norms[own] = exact
            found.append((norms, loss))
        return found

    @cached_property
    def intercepts(self) -> Array:
        """The best constants."""
        return np.concatenate([np.atleast_1d(problem.zero_model()[1]) for problem in self.problems])

    @property
    def enough(self) -> float:
        """Mean score by the loss of labels from which on nothing is left to gain; infinite for numbers.

        Perfect labels on n rows support no loss below 1/n, since the next may be wrong. For separable classes scores
        would grow without bound.
        """
        return -1.0 / len(self.samples.weight) if self.problems[0].loss.task == "classification" else np.inf

    def seconds(self, n_samples: int) -> float:
        """Return the predicted seconds of a fit of all kernels on a number of rows."""
        n_kernels, form = len(self.names), ProblemForm(len(self.problems))
        if self.training.factored:
            n_columns = getattr(self.samples.rows, "n_columns", 2)  # a pair has two members
            return factored_seconds(n_kernels, n_samples, n_columns, form, self.training.landmarks)
        return gram_seconds(n_kernels, n_samples, form)

    # --- memory -----------------------------------------------------------------------------------------------------

    @cached_property
    def _single(self) -> bool:
        """Whether matrices in single precision are enough."""
        return self.tol >= SINGLE_PRECISION_TOL and not any(problem.unpenalized.size for problem in self.problems)

    @cached_property
    def matrix_bytes(self) -> int:
        """Memory of the matrices during solution, unless already stored, or of functions in pieces."""
        stack: Any = self.selecting.training.stack
        if stack.has_factors:
            return pieces_nbytes(stack.n_samples, stack.table.n_columns)
        return 0 if not stack.evaluates else 4 * stack.n_rounded_entries if self._single else 8 * stack.n_entries

    def retained_bytes(self, family: Any, held_out: HeldOut) -> int:
        """Return the memory kept from strength to strength of a family: the matrices, or their sum."""
        n, size = self.training.stack.n_samples, self._average_dtype(held_out).itemsize
        if not self.averages(family):
            return self.matrix_bytes
        if self.training.factored:
            rank = n_features(self.training.stack, family.kernels)
            return size * (rank * (n + len(held_out.rows)) + rank * (rank + 1) // 2)
        return size * n * (n + len(held_out.rows) + (n if n >= KEPT_ROWS else 0))

    @property
    def room(self) -> int:
        """Bytes of matrices held by all folds, for a search within twice the memory of a fit.

        The fold at the turn has working arrays as well.
        """
        first, stack = self.problems[0], self.training.stack
        anew = stack.evaluates or stack.has_factors  # else nothing is held but what there is
        plan = self.model._planned(self.samples, first.loss, first.regularizer) if anew else None
        if isinstance(self.samples.rows, KernelStack):
            plan = plan_as_given(
                stack.n_kernels, stack.n_samples, len(self.problems), self.model._resources.memory_budget
            )
        return 0 if plan is None else plan.at_fraction(default_fraction(len(self.samples.weight))).room_for_folds

    def store(self) -> list[Problem]:
        """Return the problems on stored matrices, kept until release."""
        if self._stored is None:
            budget, dtype = self.model._resources.memory_budget, np.float32 if self._single else None
            self._stored = store_problems(self.training, self.problems, budget, dtype=dtype)
        return self._stored

    def let_go(self) -> None:
        """Release the matrices, or functions in pieces, until the next model."""
        self._stored = None
        self.training.let_go()
        if self._selecting is not None:
            self._selecting.let_go()

    # --- what can be tried ------------------------------------------------------------------------------------------

    def constant(self, held_out: HeldOut) -> Array:
        """Return the scores of the best constants, (T,): the empty model as the baseline."""

        def complete() -> BaseMKL:
            bank, shape = self.training.bank, (len(self.intercepts), len(self.training.bank))
            if self.training.factored:
                none = np.zeros(0, dtype=np.intp)
                kept = bank.take([0])
                nothing = Expansion(kept, none, len(bank), np.zeros((shape[0], 0)))
            else:
                zeros = np.zeros((shape[0], self.training.stack.n_samples))
                nothing = Expansion.create(bank, self.training.prepared, np.zeros(shape), zeros)
            return self.model._predicting(nothing, self.intercepts, self.problems[0].loss)

        scores = np.tile(self.intercepts, (len(held_out.rows), 1))
        return held_out.score(self.model, self._losses, scores, complete, partial(self._trained, None))

    def _trained(self, fit: Fit | None, expansion: Callable[[], tuple[Any, Fit]] | None = None) -> ScoredRows:
        """Return the training rows of times with the scores of a fit, or without one with scores of zero."""
        scores = np.zeros(len(self.samples.weight))
        if fit is not None and expansion is not None and self.training.stack.has_factors:
            scores = expansion()[0].scores(self.samples.rows)[:, 0]
        elif fit is not None:
            found = fit.solutions[0]
            scores = fit.problems[0].model_parts(found.dual_coef, found.kernel_weights)[0]
        return ScoredRows(self.model._target_of_fit, self.samples.weight, scores)

    def try_strength(
        self, family: Family, strength: float, held_out: HeldOut, start: Any, solved: Any
    ) -> tuple[Any, Candidate]:
        """Return the models of a strength, a model per target, with held-out scores."""
        if self.averages(family):
            return self._fit_averages(family, strength, held_out, start, solved)
        return self.selecting._solve(family, strength, held_out, start, solved)

    def outlasting(self, model: Any) -> Any:
        """Return a model without the matrix of the kernel."""
        return model.drop_kernel() if isinstance(model, AverageModels) else model

    def averages(self, family: Any) -> bool:
        """Return whether models come from a sum of kernels, without separate matrices."""
        if not family.averages or not can_average(self._losses):
            return False
        return not self.training.avoids_matrices or stands_as_features(self.training, family.kernels)

    def score(self, family: Family, strength: float, held_out: HeldOut, fit: Fit) -> Candidate:
        """Return held-out scores of solutions on all kernels."""
        whole = cache(partial(expand_solutions, self.training, fit))
        if reads_features(self.training, fit.problems[0]):
            functions = scores_of(self.training, self._read(held_out), fit.solutions)
        elif self.training.stack.has_factors:
            kept, fit = whole()
            functions = kept.scores(held_out.rows)
        else:
            weights = np.array([found.kernel_weights for found in fit.solutions])
            rho = np.vstack([found.dual_coef.T for found in fit.solutions])
            held = self._prepared(held_out)
            functions = cross_scores(self.training.bank, held, self.training.prepared, weights, rho)
        intercepts = np.concatenate([np.atleast_1d(found.intercept) for found in fit.solutions])
        scores = functions + intercepts

        def complete() -> BaseMKL:
            if held_out.scorer is None:  # nobody asks for more than predictions
                expansion = whole()[0]
                return self.model._predicting(expansion, intercepts, fit.problems[0].loss.each)
            model = copy.copy(self.model).set_params(**family.settings(strength))
            model._keep_fit(self.training, fit, self.samples)
            return model

        n_active = float(np.mean([found.active.size for found in fit.solutions]))
        unfinished = any(found.status is not Status.CONVERGED for found in fit.solutions)
        score = held_out.score(self.model, self._losses, scores, complete, partial(self._trained, fit, whole))
        return Candidate(family, strength, score[None], n_active, int(unfinished))

    def _prepared(self, held_out: HeldOut) -> PreparedRows[Any]:
        """Return held-out rows prepared for the kernels, once for all models."""
        if self._held_out is None or self._held_out[0] is not held_out:
            self._held_out = held_out, self.training.bank.prepare(held_out.rows)
        return self._held_out[1]

    def _choice(self, family: Family) -> SolverChoice:
        """Return the choice of solvers for the kernels of a family, shared by the strengths."""
        if id(family) not in self._choices:
            model, resources = self.model, self.model._resources
            settings = {"tol": self.tol, "max_iter": resources.max_iter, "random_state": model.random_state}
            choice = SolverChoice(silence_solver(model.solver, resources.verbose), **settings)
            self._choices[id(family)] = family, choice  # as long as it is known by that number
        return self._choices[id(family)][1]

    @property
    def _losses(self) -> list[Loss]:
        return [problem.loss for problem in self.problems]

    def _fit_averages(
        self, family: Any, fraction: float, held_out: HeldOut, start: AverageModels | None, solved: AverageModels | None
    ) -> tuple[AverageModels, Candidate]:
        """Return averages of a sum of kernels, shared by the models of all strengths."""
        model, samples, training, problems = self.model, self.samples, self.training, self.problems
        targets, losses = np.column_stack([problem.y for problem in problems]), self._losses
        if (models := solved) is None:
            kernel = self._average_kernel(family, held_out)
            strengths = family.strengths(fraction, self) if kernel.largest is None else fraction * kernel.largest
            models = fit_averages(kernel, losses, targets, samples.weight, strengths, tol=self.tol, start=start)
            models = replace(models, weights=family.weights / problems[0].penalties ** 2)

        def complete() -> BaseMKL:
            if training.factored:
                kept, fit = expand_solutions(training, fit_of(problems, models))
                return model._predicting(kept, np.array([own.intercept for own in fit.solutions]), losses[0])
            rho, weights, intercepts = models.kernel_models
            expansion = Expansion.create(training.bank, training.prepared, weights, rho)
            return model._predicting(expansion, intercepts, losses[0])

        score = held_out.score(model, losses, models.new_scores, complete)
        return models, Candidate(family, fraction, score[None], len(family.kernels), int(not models.finished))

    def _average_kernel(self, mixture: Any, held_out: HeldOut) -> AverageKernel:
        """Return the sum of the kernels of a mixture, reused from the models if available."""
        known = self._summed[1]() if self._summed is not None and self._summed[0] is mixture else None
        kernel = self._sum_of(mixture, held_out) if known is None else known
        self._summed = mixture, ref(kernel)
        return kernel

    def _sum_of(self, mixture: Any, held_out: HeldOut) -> AverageKernel:
        weights = mixture.weights / self.problems[0].penalties ** 2
        if self.training.factored:
            own: dict[str, Any] = {"centered": self.problems[0].fit_intercept, "dtype": self._average_dtype(held_out)}
            return features_of(self.training.stack, mixture.kernels, weights, self._read(held_out), **own)
        gram = self.training.stack.combine(weights)
        cross = cross_combine(self.training.bank, self._prepared(held_out), self.training.prepared, weights)
        settings: dict[str, Any] = {"centered": self.problems[0].fit_intercept, "dtype": self._average_dtype(held_out)}
        settings["problems"] = () if "empty" in self.__dict__ else self.problems
        return center_kernel(gram, cross, **settings)

    def _read(self, held_out: HeldOut) -> ColumnTable:
        """Return held-out rows for kernels on factors, prepared once for all models."""
        if self._rows_read is None or self._rows_read[0] is not held_out.rows:
            self._rows_read = held_out.rows, read_as(self.training, held_out.rows)
        return self._rows_read[1]

    def _average_dtype(self, held_out: HeldOut) -> np.dtype[Any]:
        """Return the dtype of sums of kernels; a custom scorer needs double precision."""
        return np.dtype(np.float32 if self.tol >= SINGLE_PRECISION_TOL and held_out.scorer is None else np.float64)

    def _solve(
        self,
        family: Family,
        strength: float,
        held_out: HeldOut,
        start: list[Solution] | None,
        solved: list[Solution] | None,
    ) -> tuple[list[Solution], Candidate]:
        penalties = family.penalties(strength, self)
        if solved is None:
            problems = family.pose_problems(self.store(), self.names)
            (fit,) = descend(problems, [penalties], self._choice(family), start=start)
        else:
            pairs = zip(family.pose_problems(self.problems, self.names), penalties, strict=True)
            posed = [problem.with_penalty(penalty) for problem, penalty in pairs]
            fit = Fit(posed, solved, np.array([found.kernel_norms for found in solved]))
        embedded = family.embed(fit, self.problems)
        return fit.solutions, self.score(family, strength, held_out, embedded)


OpenFold = Fold[OpenedKernels, HeldOut]
Folds = list[OpenFold]


def fit_starts(opened: OpenedKernels, rows: Array, folds: Folds, family: Any, strength: float) -> list[Solution] | None:
    """Return models of folds of some of the rows to start from.

    Averages combine all folds, other models have the functions of the first fold. None without models, or if Newton's
    method should start afresh.
    """
    if opened.training.factored:
        return start_on_features(opened, family, strength) if opened.averages(family) else None
    order, of_rows = (
        np.argsort(rows),
        [(fold.rows, fold.models_of_family(family)) for fold in folds if fold.rows is not None],
    )
    known = [
        (order[np.searchsorted(rows, some, sorter=order)], kept[nearest(kept, strength)])
        for some, kept in of_rows
        if kept
    ]
    if not known:
        return None
    if opened.averages(family):
        return AverageModels.mean_of(known, len(opened.problems), len(rows))
    if opened.selecting.training.factored:
        return None
    (places, found), penalties = known[0], family.penalties(strength, opened)
    pairs = zip(opened.problems, penalties, strict=True)
    if len(found) != len(penalties) or not all(starts_warm(problem.with_penalty(own)) for problem, own in pairs):
        return None
    return [each.scatter(places, len(rows)) for each in found]


def find_start(fold: OpenFold, family: Any, strength: float, fewer: OpenFold | None = None) -> list[Solution] | None:
    """Return where the first model of a family in a fold begins: the model of a fold of fewer of the rows."""
    opened = fold.kernels
    if fewer is None or fold.rows is None or opened.averages(family):
        return None
    return fit_starts(opened, fold.rows, [fewer], family, strength)
