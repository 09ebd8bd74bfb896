"""How a search over mixtures chooses, and what the estimator keeps of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import check_scoring

from manykernels.estimators.selection.mixing.last_fit import learned
from manykernels.estimators.selection.mixing.mixtures import (
    EVERY,
    Mixture,
    Scale,
    averages_of,
    drawn_averages,
    selections_of,
)
from manykernels.estimators.selection.mixing.opened import OpenedFold, empty_models
from manykernels.estimators.selection.mixing.scoring import HeldOut
from manykernels.estimators.selection.mixing.search import Candidate, Folds, chosen, results_of, searched
from manykernels.estimators.selection.mixing.together import FoldsTogether
from manykernels.estimators.selection.penalties import alpha_grid
from manykernels.estimators.selection.shared_folds import SHARED, SharedFolds, Split
from manykernels.estimators.selection.stopping import Ending, limited
from manykernels.estimators.strength import AUTO, strength_fraction
from manykernels.estimators.supervised.problems import time_left
from manykernels.estimators.supervised.samples import Samples
from manykernels.estimators.supervised.targets import sample_weights
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError, MemoryBudgetError
from manykernels.grams.plan import FACTORED, GRAM, memory_bytes
from manykernels.objective.regularizers import BlockL1, ElasticNet, Regularizer
from manykernels.solvers.deadline import check_deadline
from manykernels.solvers.progress import count_to
from manykernels.threads import n_threads
from manykernels.validation.parameters import seed_from

if TYPE_CHECKING:
    from manykernels.estimators.supervised.samples import Rows
    from manykernels.estimators.supervised.training import Training
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array

MIXINGS = (1.0, 0.5, 0.0)  # from selection to averaging
FOLD_TOL = 1e-2  # relative gap of the models of the folds
Opening = Callable[[], tuple[list[OpenedFold], SharedFolds | None]]

MOST_SELECTED = 10  # targets or classes up to which kernels are selected for each; beyond, weights are drawn


class ChoosesMixtures:
    """The part of the estimators with built-in cross-validation that searches mixtures."""

    def _fit_by_search(self: Any, loss: Loss, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Search strength, mixing and kernels together, then learn the choice on all samples."""
        alpha_grid(1.0, self.n_alphas, self.ratio)
        rows, target = self._checked_data(X, y)
        weight = sample_weights(sample_weight, len(target))
        scoring_weight = self._scoring_weight(target, None if sample_weight is None else weight)
        encoded = self._encoded(Samples.of(rows, target, weight))
        plain = self._at_given_strength(rows)
        training, problems = plain._open(encoded, loss, BlockL1(1.0))
        mixtures = self._mixtures(training, len(problems))
        form = FACTORED if training.factored else GRAM
        empty = empty_models(problems)
        scales = {id(mixture): _whole_scales(empty, mixture) for pair in mixtures for mixture in pair}
        with limited(self.time_limit) as end:
            spare = {key: [one.times(1.0 / problems[0].total_weight) for one in own] for key, own in scales.items()}
            splits = list(self._splits(target, self._groups_of(rows, groups)))
            given = (rows, target, weight, scoring_weight, splits, loss)
            penalties = [Scale(own.mixing, 1.0, 1.0).at(1.0) for pair in mixtures for own in pair]
            openings: list[Opening] = [lambda: (self._opened(*given, form), None)]
            if self._shares(encoded, form, loss, penalties, splits, lambda: (training, problems)):
                together: Opening = partial(self._opened_together, *given, encoded, (training, problems))
                openings = [together] if self.fold_kernels == SHARED else [together, *openings]
            found, ending = self._searched(mixtures, spare, openings)
        ending.check(scored=bool(found))
        candidates = found or [_unscored(mixtures, encoded, self.n_folds_, len(problems))]
        self._keep_choice(candidates, scales, problems, scored=bool(found))
        self._learn_choice(candidates, scales, training, problems, encoded, time_left(end))
        ending.warn(f"{len(found)} candidates that were scored in all folds" if found else "")
        return self

    def _searched(
        self: Any,
        mixtures: tuple[list[Mixture], list[Mixture]],
        spare: dict[int, list[Scale]],
        openings: list[Opening],
    ) -> tuple[list[Candidate], Ending]:
        """Return all candidates that were scored in all folds, and why there are no more.

        Of the ways to open folds each is for where the factors of the one before are too many.
        """
        found: list[Candidate] = []
        ending, self.n_folds_ = Ending(), 0
        with ending.noted(), count_to(None, "strengths tried in all folds", self.verbose) as advance:
            for opened in openings:
                try:
                    folds, shared = opened()
                    self.n_folds_ = len(folds)
                    workers = min(n_threads(self.n_jobs), len(folds))
                    given = (folds, workers, lambda m: spare[id(m)], advance, ending)
                    tried = Folds(*given) if shared is None else FoldsTogether(*given, shared=shared)
                    found = searched(tried, *mixtures, self.n_alphas, self.ratio, every=self.l1_ratios is not None)
                    break
                except (IncompatibleError, MemoryBudgetError):
                    if opened is openings[-1]:
                        raise
        return found, ending

    def _mixtures(self: Any, training: Training, n_problems: int) -> tuple[list[Mixture], list[Mixture]]:
        """Return the averages and the selections to try; averages need a matrix among samples, where there is one."""
        own = np.ones(len(training.bank))
        if training.without_matrix:
            if self._named_penalty == "ridge":
                return [Mixture(EVERY, own, 0.0)], []
            return [], selections_of(own, [1.0] if self.l1_ratios is None else self._ratios())
        averages, ratios = averages_of(training.bank, own), self._ratios()
        if self._named_penalty == "ridge" or len(own) == 1:
            return averages[:1], []
        many = n_problems > MOST_SELECTED
        if many:
            averages += drawn_averages(own, 0 if self.random_state is None else seed_from(self.random_state))
        return averages if 0.0 in ratios else averages[:1], [] if many else selections_of(own, ratios)

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
    ) -> list[OpenedFold]:
        """Return the folds, each with its kernels on its own training rows; held-out rows are not looked at."""
        scorer, stop = self._search_scorer(loss), Event()
        folds = []
        for train, test in splits:
            check_deadline()
            held_out = _held_out(rows, target, scoring_weight, test, scorer)
            samples = Samples.of(rows[train], target[train], weight[train])
            plain = self._at_given_strength(samples.rows)
            if not plain._takes_kernels:
                plain.memory_budget = memory_bytes(self.memory_budget) // (len(splits) + 1)
            plain._known_rows, plain._loss, plain.kernels_as = held_out.rows, loss, form
            encoded = plain._encoded(samples)
            training, problems = plain._open(encoded, loss, BlockL1(1.0))
            folds.append(OpenedFold(plain, encoded, training, problems, held_out, self._fold_tol, stop))
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
    ) -> tuple[list[OpenedFold], SharedFolds]:
        """Return the folds on kernels of all rows, and the sums that they share."""
        scorer, stop, folds = self._search_scorer(loss), Event(), []
        plain = self._at_given_strength(rows)
        shared = SharedFolds.opened(plain, samples, whole, splits, self._fold_tol)
        for (_, test), own in zip(splits, shared.samples, strict=True):
            held_out, model = _held_out(rows, target, scoring_weight, test, scorer), self._at_given_strength(rows)
            model._known_rows, model._loss = held_out.rows, loss
            model._single, model._n_targets = self._single, len(whole[1])
            folds.append(OpenedFold(model, own, *whole, held_out, self._fold_tol, stop))
        return folds, shared

    def _search_scorer(self: Any, loss: Loss) -> Any:
        """Return the scorer; the accuracy, and the squared error where that is the default, need none."""
        plainly = self.scoring is None and loss.support == "real"
        return None if plainly else check_scoring(self, scoring=self.scoring)

    @property
    def _fold_tol(self: Any) -> float:
        """Relative gap of the models of the folds: no reason to tell models apart by what no score can see."""
        return max(self.tol, FOLD_TOL) if self.fold_tol is None else float(self.fold_tol)

    def _keep_choice(
        self: Any, found: list[Candidate], scales: dict[int, list[Scale]], problems: list[Problem], *, scored: bool
    ) -> None:
        """Set the attributes that tell what was chosen."""
        scores = np.array([candidate.scores for candidate in found])
        if scored and not np.isfinite(scores.mean(axis=1)).any():
            raise InvalidInputError("No candidate has a finite mean score over the folds; check scoring and cv.")
        best = chosen(found, self.rule)
        means = scores.mean(axis=1)
        shared = [replace(candidate, scores=candidate.scores.mean(axis=1, keepdims=True)) for candidate in found]
        self.best_index_ = int(chosen(shared, self.rule)[0])
        self.best_per_target_ = best if len(best) > 1 else None
        self.best_score_ = float(means[best, np.arange(len(best))].mean())
        total = problems[0].total_weight
        penalties = [[scale.at(c.fraction) for scale in scales[id(c.mixture)]] for c in found]
        strengths = [float(np.exp(np.mean(np.log([each.strength for each in own])))) / total for own in penalties]
        ratios = [float(np.mean([_l1_ratio(each) for each in own])) for own in penalties]
        self.cv_results_ = results_of(found, strengths, ratios)
        self.alphas_ = np.array(sorted(set(strengths), reverse=True))
        self.mu_ = None

    def _learn_choice(
        self: Any,
        found: list[Candidate],
        scales: dict[int, list[Scale]],
        training: Training,
        problems: list[Problem],
        encoded: Samples,
        time_limit: float | None,
    ) -> None:
        """Learn what was chosen on all rows, in the time that is left."""
        best = self.best_per_target_ if self.best_per_target_ is not None else [self.best_index_] * len(problems)
        mine = [found[index] for index in best]
        penalties = [scales[id(c.mixture)][k].at(c.fraction) for k, c in enumerate(mine)]
        settings: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "verbose": self.verbose}
        settings |= {"random_state": self.random_state, "callback": self.callback, "time_limit": time_limit}
        fit = learned(problems, [c.mixture for c in mine], penalties, self.solver, self.n_jobs, **settings)
        alphas = np.array([penalty.strength for penalty in penalties]) / problems[0].total_weight
        ratios, mixings = (
            np.array([_l1_ratio(penalty) for penalty in penalties]),
            np.array([c.mixture.mixing for c in mine]),
        )
        single = self._single or len(set(alphas)) == 1
        self.alpha_ = float(alphas[0]) if single else alphas
        self.l1_ratio_ = float(ratios[0]) if single else ratios
        self.mixing_ = float(mixings[0]) if single else mixings
        self.kernel_penalties_ = self.kernel_penalties
        self._keep_fit(training, fit, encoded)
        self._warn(fit)
        self._warn_of_search(found, mine)

    def _warn_of_search(self: Any, found: list[Candidate], mine: list[Candidate]) -> None:
        if any(candidate.edge for candidate in mine):
            warnings.warn(
                f"The score was still rising at the smallest strength that was tried, alpha={np.min(self.alpha_):.4g}: "
                "the kernels fit the target almost without noise, or the folds are not independent. To go on, give "
                "alphas, or a smaller ratio.",
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


def _held_out(rows: Rows, target: Array, scoring_weight: Array | None, test: Array, scorer: Any) -> HeldOut:
    """Return the rows that a fold holds out."""
    return HeldOut(rows[test], target[test], None if scoring_weight is None else scoring_weight[test], scorer)


def _unscored(
    mixtures: tuple[list[Mixture], list[Mixture]], samples: Samples, n_folds: int, n_problems: int
) -> Candidate:
    """Return what is learned where there was no time to score anything: what a plain estimator takes by default."""
    mixture = (mixtures[1] or mixtures[0])[0]
    fraction = strength_fraction(AUTO, len(samples.weight))
    assert fraction is not None
    return Candidate(mixture, fraction, np.full((max(n_folds, 1), n_problems), np.nan), np.nan, 0, edge=False)


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
