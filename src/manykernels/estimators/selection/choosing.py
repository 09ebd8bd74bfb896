"""How a search over mixtures chooses, and what the estimator keeps of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.estimators.selection.averages import Spectrum, can_average, fit_averages
from manykernels.estimators.selection.folds import (
    LAZY,
    Fold,
    FoldScore,
    embedded,
    empty_models,
    on_stored,
    scales_of,
    with_all_dual_norms,
)
from manykernels.estimators.selection.mixtures import (
    EVERY,
    Mixture,
    Scale,
    averages_of,
    drawn_averages,
    nothing_of,
    selections_of,
)
from manykernels.estimators.selection.penalties import alpha_grid
from manykernels.estimators.selection.search import Candidate, Evidence, Folds, chosen, results_of, searched
from manykernels.estimators.selection.shared_folds import SHARED, SharedFolds, Split
from manykernels.estimators.selection.stopping import StopReason, limited
from manykernels.estimators.strength import AUTO, NoiseLevel, default_fraction, noise_levels, noise_seed
from manykernels.estimators.supervised.problems import Fit, end_of, solve_problems, time_left
from manykernels.estimators.supervised.samples import Samples
from manykernels.estimators.supervised.targets import sample_weights
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError, MemoryBudgetError
from manykernels.grams.plan import FACTORED, GRAM
from manykernels.objective.regularizers import BlockL1, ElasticNet, Regularizer
from manykernels.solvers import Solution, Status
from manykernels.solvers.progress import count_to
from manykernels.solvers.run import CertifiedModel, Run, check_deadline
from manykernels.solvers.solution import Limits
from manykernels.threads import blas_threads, n_threads
from manykernels.validation.parameters import seed_from

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixtures import Mixture, Scale
    from manykernels.estimators.selection.shared_folds import SharedFolds
    from manykernels.estimators.supervised.samples import Rows
    from manykernels.grams.training import Training
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.solvers import Solver
    from manykernels.validation.arrays import Array


# The folds of a search on kernels of all rows: a strength is tried in all of them at once.


@dataclass(eq=False)
class FoldsTogether(Folds):
    """Folds that share sums over rows and passes over kernels."""

    shared: SharedFolds = field(kw_only=True)

    def constants(self) -> list[FoldScore]:
        """Return what the best constants of the folds score."""
        return [fold.constant(b) for fold, b in zip(self.folds, self.shared.constants(), strict=True)]

    @cached_property
    def _empty(self) -> list[list[tuple[Array, float]]]:
        """Dual norms and losses of the best constants, by fold and target."""
        return self.shared.empty_models()

    def tried(
        self, mixture: Mixture, fractions: Sequence[float], among: slice = slice(None)
    ) -> Iterator[list[FoldScore]]:
        """Yield what the folds say of a mixture at each fraction of its strengths."""
        shared, spare = self.shared, self.spare(mixture)
        for fraction in fractions:
            with blas_threads(shared.problems[0].n_samples, self.workers):
                scales = [
                    scales_of(mixture, empty, spare, samples.total_weight)
                    for empty, samples in zip(self._empty, shared.samples, strict=True)
                ]
                fits = shared.fits([[scale.at(fraction) for scale in own] for own in scales])
                trials = [fold.score(fit) for fold, fit in zip(self.folds, fits, strict=True)]
            yield trials[among]


# The chosen candidates learned on all rows, to the tolerance that was asked for, each with its certificate.


SHARE = 1e-4  # of the tolerance, for the Newton steps of averages


def learned(
    problems: list[Problem],
    mixtures: Sequence[Mixture],
    regularizers: Sequence[Regularizer],
    solver: str | Solver,
    n_jobs: int | None,
    **settings: Any,
) -> Fit:
    """Solve each problem on the kernels of its mixture under its penalty; a time limit holds for all together."""
    until = end_of(settings.get("time_limit"))
    solutions: list[Solution | None] = [None] * len(problems)
    whole: list[Problem] = list(problems)
    norms = np.zeros((len(problems), problems[0].n_kernels))
    for mixture in dict.fromkeys(mixtures):
        at = [k for k, own in enumerate(mixtures) if own is mixture]
        mine = [replace(mixture.pose(problems[k]), regularizer=regularizers[k]) for k in at]
        left = settings | {"time_limit": time_left(until)}
        fit = embedded(_solved(mine, mixture, solver, n_jobs, left), mixture, [problems[k] for k in at])
        for k, problem, found, norm in zip(at, fit.problems, fit.solutions, fit.norms, strict=True):
            whole[k], norms[k] = problem, norm
            solutions[k] = found if len(mixture.kernels) == len(norm) else with_all_dual_norms(found, problem)
    return Fit(whole, [found for found in solutions if found is not None], norms)


def _solved(
    problems: list[Problem], mixture: Mixture, solver: str | Solver, n_jobs: int | None, settings: dict[str, Any]
) -> Fit:
    """Return averages from one eigendecomposition if that is accurate enough, else what the solver finds."""
    if _averages(problems, mixture, solver):
        fit = _averaged(problems, settings)
        if all(found.status is Status.CONVERGED for found in fit.solutions):
            return fit
    return solve_problems(problems, solver, n_jobs, **settings)


def _averages(problems: list[Problem], mixture: Mixture, solver: str | Solver) -> bool:
    """Whether models of a mixture come from one eigendecomposition."""
    matrices, plain = not problems[0].stack.has_factors, solver == AUTO
    return matrices and plain and mixture.mixing == 0 and can_average([problem.loss for problem in problems])


def _averaged(problems: list[Problem], settings: dict[str, Any]) -> Fit:
    first = problems[0]
    gram = first.stack.combine(1.0 / first.penalties**2)
    spectrum = Spectrum.of(gram, np.empty((0, first.n_samples)), centered=first.fit_intercept)
    targets = np.column_stack([problem.y for problem in problems])
    strengths = np.array([problem.regularizer.strength for problem in problems])
    losses = [problem.loss for problem in problems]
    models = fit_averages(spectrum, losses, targets, first.weight, strengths, tol=SHARE * settings["tol"])
    scores = models.scores(spectrum.features)
    solutions = [_certified(*each, settings) for each in zip(problems, scores.T, strict=True)]
    norms = [
        problem.model_parts(found.dual_coef, found.kernel_weights)[1] / problem.penalties
        for problem, found in zip(problems, solutions, strict=True)
    ]
    return Fit(problems, solutions, np.array(norms))


def _certified(problem: Problem, scores: Array, settings: dict[str, Any]) -> Solution:
    """Return the model of given scores at the weights ``d_m = 1 / (C w_m^2)``, with its certificate."""
    weights = 1.0 / (problem.regularizer.strength * problem.penalties**2)
    rho = problem.feasible_dual(problem.weight * problem.loss.dual_from_scores(problem.y, scores))
    f = problem.stack.apply(weights, rho)
    b = problem.loss.best_intercept(problem.y, f, problem.weight) if problem.fit_intercept else 0.0
    own: dict[str, Any] = {name: settings.get(name) for name in ("time_limit", "callback")}
    limits = Limits(tol=settings["tol"], verbose=settings.get("verbose", 0), name="eigenvectors", **own)
    certificate = problem.certificate(rho, weights, b)
    model = CertifiedModel(rho, weights, b, certificate, problem.stack.counters.passes, 1)
    run: Run[CertifiedModel] = Run(limits, "The average of the kernels")
    return run.follow(iter([model])).solution()


MIXINGS = (1.0, 0.5, 0.0)  # from selection to averaging
FOLD_TOL = 1e-2  # relative gap of the models of the folds
Mixtures = tuple[list[Mixture], list[Mixture], list[Mixture]]  # averages, selections, the empty model
Opening = Callable[[], tuple[list[Fold], SharedFolds | None]]

MOST_SELECTED = 10  # targets or classes up to which kernels are selected for each; beyond, weights are drawn


class ChoosesMixtures:
    """The part of the estimators with built-in cross-validation that searches mixtures."""

    def _fit_by_search(self: Any, loss: Loss, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Search strength, mixing and kernels together, then learn the choice on all samples."""
        alpha_grid(1.0, self.n_alphas, self._search_options.alpha_min_ratio)
        rows, target = self._checked_data(X, y)
        weight = sample_weights(sample_weight, len(target))
        scoring_weight = self._scoring_weight(target, None if sample_weight is None else weight)
        samples = Samples.of(rows, target, weight, groups)
        self._decide_kernels(samples.rows)
        encoded = self._encoded(samples)
        plain = self._at_given_strength(rows)
        training, problems = plain._open(encoded, loss, BlockL1(1.0), kind=LAZY)
        mixtures = self._mixtures(training, len(problems))
        form = FACTORED if training.factored else GRAM
        empty = empty_models(problems)
        first, second, third = (_of_use(own, empty) for own in mixtures)
        mixtures = first, second, third
        scales = {id(mixture): _whole_scales(empty, mixture) for pair in mixtures for mixture in pair}
        with limited(self._resources.time_limit) as end:
            spare = {key: [one.times(1.0 / problems[0].total_weight) for one in own] for key, own in scales.items()}
            splits = self._weighed_splits(target, weight, self._groups_of(rows, groups))
            given = (rows, target, weight, scoring_weight, splits, loss)
            penalties = [Scale(own.mixing, 1.0, 1.0).at(1.0) for pair in mixtures for own in pair]
            openings: list[Opening] = [lambda: (self._opened(*given, form), None)]
            if self._shares(encoded, form, loss, penalties, splits, lambda: (training, problems)):
                together: Opening = partial(self._opened_together, *given, encoded, (training, problems))
                openings = [together] if self._search_options.fold_kernels == SHARED else [together, *openings]
            found, ending = self._searched(mixtures, spare, openings)
            tried = self.__dict__.pop("_tried", None)
        levels = noise_levels(problems, noise_seed(self.random_state), self._noise_strata(encoded), encoded.groups)
        candidates = found or [_unscored(mixtures, encoded, self.n_folds_, len(problems))]
        evidence = partial(Evidence.of, splits, levels if self._exchanges(groups) else None)
        self._keep_choice(candidates, scales, problems, evidence, scored=bool(found))
        if found and ending.status is None:
            with ending.noted():
                self._record_search(tried, found, splits, len(problems))
        self._learn_choice(candidates, scales, training, problems, encoded, time_left(end), levels)
        ending.warn(f"{len(found)} candidates that were scored in all folds" if found else "")
        return self

    def _searched(
        self: Any,
        mixtures: Mixtures,
        spare: dict[int, list[Scale]],
        openings: list[Opening],
    ) -> tuple[list[Candidate], StopReason]:
        """Return all candidates that were scored in all folds, and why there are no more.

        Of the ways to open folds each is for where the factors of the one before are too many.
        """
        found: list[Candidate] = []
        ending, self.n_folds_ = StopReason(), 0
        with ending.noted(), count_to(None, "strengths tried in all folds", self._resources.verbose) as advance:
            for opened in openings:
                try:
                    folds, shared = opened()
                    self.n_folds_ = len(folds)
                    workers = min(n_threads(self._resources.n_jobs), len(folds))
                    given = (folds, workers, lambda m: spare[id(m)], advance, ending)
                    tried = Folds(*given) if shared is None else FoldsTogether(*given, shared=shared)
                    self._tried = tried
                    averages, selections, (nothing,) = mixtures
                    least, followed = self._search_options.alpha_min_ratio, self.l1_ratios is not None
                    found = searched(tried, averages, selections, self.n_alphas, least, every=followed)
                    if found and (ending.status is None or self.scoring is None):  # a scorer takes time
                        found = [tried.nothing(nothing), *found]
                    break
                except (IncompatibleError, MemoryBudgetError):
                    if opened is openings[-1]:
                        raise
        return found, ending

    def _mixtures(self: Any, training: Training, n_problems: int) -> Mixtures:
        """Return averages and selections to try, and the empty model; averages need a matrix among samples."""
        own = np.ones(len(training.bank))
        nothing = [nothing_of(own)]
        if training.without_matrix:
            if self._named_penalty == "ridge":
                return [Mixture(EVERY, own, 0.0)], [], nothing
            return [], selections_of(own, [1.0] if self.l1_ratios is None else self._ratios()), nothing
        averages, ratios = averages_of(training.bank, own), self._ratios()
        if self._named_penalty == "ridge" or len(own) == 1:
            return averages[:1], [], nothing
        many = n_problems > MOST_SELECTED
        if many:
            averages += drawn_averages(own, 0 if self.random_state is None else seed_from(self.random_state))
        return averages if 0.0 in ratios else averages[:1], [] if many else selections_of(own, ratios), nothing

    def _ratios(self: Any) -> list[float]:
        given = MIXINGS if self.l1_ratios is None else np.ravel(self.l1_ratios)
        return [ElasticNet(1.0, l1_ratio=float(ratio)).l1_ratio for ratio in given]

    def _opened(
        self: Any,
        rows: Rows,
        target: Array,
        weight: Array,
        scoring_weight: Array | None,
        splits: list[Split],
        loss: Loss,
        form: str,
    ) -> list[Fold]:
        """Return the folds, each with its kernels on its own training rows; held-out rows are not looked at."""
        stop, folds = Event(), []
        held_out = self._held_out(rows, target, scoring_weight, splits, by_target=True)
        for (train, _), held in zip(splits, held_out, strict=True):
            check_deadline()
            samples = Samples.of(rows[train], target[train], weight[train])
            model = self._at_given_strength(samples.rows).set_params(**self._held_as_whole(form))
            opened = Fold.opened(model, samples, loss, BlockL1(1.0), held, self._fold_tol, kind=LAZY, stop=stop)
            folds.append(opened)
        return folds

    def _opened_together(
        self: Any,
        rows: Rows,
        target: Array,
        weight: Array,
        scoring_weight: Array | None,
        splits: list[Split],
        loss: Loss,
        samples: Samples,
        whole: tuple[Training, list[Problem]],
    ) -> tuple[list[Fold], SharedFolds]:
        """Return the folds on kernels of all rows, and the sums that they share."""
        models = [self._at_given_strength(rows) for _ in splits]
        for model in models:
            model._encoded(Samples.of(rows, target, weight))
        shared = SharedFolds.opened(models[0], samples, whole, splits, self._fold_tol)
        held_out = self._held_out(rows, target, scoring_weight, splits, by_target=True)
        return shared.folds(models, held_out, self._fold_tol, Event()), shared

    @property
    def _fold_tol(self: Any) -> float:
        """Relative gap of the models of the folds: no reason to tell models apart by what no score can see."""
        asked = self._search_options.fold_tol
        return max(self.tol, FOLD_TOL) if asked is None else float(asked)

    def _keep_choice(
        self: Any,
        found: list[Candidate],
        scales: dict[int, list[Scale]],
        problems: list[Problem],
        evidence: Callable[[int], Evidence],
        *,
        scored: bool,
    ) -> None:
        """Set the attributes that tell what was chosen."""
        scores = np.array([candidate.scores for candidate in found])
        if scored and not np.isfinite(scores.mean(axis=1)).any():
            raise InvalidInputError("No candidate has a finite mean score over the folds; check scoring and cv.")
        best = chosen(found, self._search_options.rule, evidence(scores.shape[2]))
        means = scores.mean(axis=1)
        shared = [replace(candidate, scores=candidate.scores.mean(axis=1, keepdims=True)) for candidate in found]
        self.best_index_ = int(chosen(shared, self._search_options.rule, evidence(1))[0])
        self.best_per_target_ = best if len(best) > 1 else None
        self.best_score_ = float(means[best, np.arange(len(best))].mean())
        total = problems[0].total_weight
        penalties = [[scale.at(c.fraction) for scale in scales[id(c.mixture)]] for c in found]
        strengths = [float(np.exp(np.mean(np.log([each.strength for each in own])))) / total for own in penalties]
        ratios = [float(np.mean([_l1_ratio(each) for each in own])) for own in penalties]
        self.cv_results_ = results_of(found, strengths, ratios)
        self.alphas_ = np.array(sorted(set(strengths), reverse=True))

    def _learn_choice(
        self: Any,
        found: list[Candidate],
        scales: dict[int, list[Scale]],
        training: Training,
        problems: list[Problem],
        encoded: Samples,
        time_limit: float | None,
        levels: Sequence[NoiseLevel],
    ) -> None:
        """Learn what was chosen on all rows, in the time that is left."""
        best = self.best_per_target_ if self.best_per_target_ is not None else [self.best_index_] * len(problems)
        mine = [found[index] for index in best]
        penalties = [scales[id(c.mixture)][k].at(c.fraction) for k, c in enumerate(mine)]
        settings: dict[str, Any] = {"tol": self.tol, "random_state": self.random_state, **self._resources.limits()}
        settings["time_limit"] = time_limit
        mixtures = [c.mixture for c in mine]
        if not all(_averages(problems, mixture, self.solver) for mixture in mixtures):
            problems = on_stored(training, problems, self._resources.memory_budget)
        fit = learned(problems, mixtures, penalties, self.solver, self._resources.n_jobs, **settings)
        alphas = np.array([penalty.strength for penalty in penalties]) / problems[0].total_weight
        ratios = np.array([_l1_ratio(penalty) for penalty in penalties])
        mixings = np.array([c.mixture.mixing for c in mine])
        single = self._single or len(set(alphas)) == 1
        self.alpha_ = float(alphas[0]) if single else alphas
        self.l1_ratio_ = float(ratios[0]) if single else ratios
        self.mixing_ = float(mixings[0]) if single else mixings
        self.kernel_penalties_ = self.kernel_penalties
        self._keep_fit(training, fit, encoded)
        self._keep_noise(fit, levels)
        self._warn(fit)
        self._warn_of_search(found, mine)

    def _warn_of_search(self: Any, found: list[Candidate], mine: list[Candidate]) -> None:
        if any(candidate.edge for candidate in mine):
            warnings.warn(
                f"The score was still rising at the smallest strength that was tried, alpha={np.min(self.alpha_):.4g}: "
                "the kernels fit the target almost without noise, or the folds are not independent. To go on, give "
                "alphas, or a smaller alpha_min_ratio.",
                UserWarning,
                stacklevel=4,
            )
        unfinished = sum(candidate.unfinished for candidate in found)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(found) * self.n_folds_} models of the folds stopped short of a relative gap of "
                f"{self._fold_tol:g}: raise max_iter, or loosen fold_tol.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _unscored(mixtures: Mixtures, samples: Samples, n_folds: int, n_problems: int) -> Candidate:
    """Return what is learned where there was no time to score anything: what a plain estimator takes by default."""
    mixture = (mixtures[1] or mixtures[0])[0]
    fraction = default_fraction(len(samples.weight))
    return Candidate(mixture, fraction, np.full((max(n_folds, 1), n_problems), np.nan), np.nan, 0, edge=False)


def _of_use(mixtures: list[Mixture], empty: list[tuple[Array, float]]) -> list[Mixture]:
    """Return the mixtures by which some target gains, or all if none does: kernels of a kind may all be constant."""
    return [own for own in mixtures if not all(own.scale(*model).empty for model in empty)] or mixtures


def _whole_scales(empty: list[tuple[Array, float]], mixture: Mixture) -> list[Scale]:
    """Return the scales of all rows; those of a target that nothing can explain are of no account."""
    found = [mixture.scale(*model) for model in empty]
    if all(scale.empty for scale in found):
        raise InvalidInputError(
            "The best constant model fits the target perfectly, or every kernel is zero: there is nothing that a "
            "search could choose by. Check y and the kernels."
        )
    return [Scale(mixture.mixing, 1.0, 1.0) if scale.empty else scale for scale in found]


def _l1_ratio(regularizer: Regularizer) -> float:
    """Return the share of the norms in a penalty."""
    return float(getattr(regularizer, "l1_ratio", 1.0 if isinstance(regularizer, BlockL1) else 0.0))
