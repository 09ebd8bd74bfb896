"""The last fit of a search: the best strength or mixture, learned on all rows, and the warnings."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np

from manykernels.estimators.parameters import Search
from manykernels.estimators.selection.folds import OpenedKernels, store_problems
from manykernels.estimators.selection.grids import PenaltyGrid
from manykernels.estimators.selection.held_out import KeepsHeldOut
from manykernels.estimators.selection.search import MixtureSearch, Rung, has_closed_form, solve_mixtures
from manykernels.estimators.selection.strengths import (
    Evidence,
    choose_candidates,
    first_best,
    format_count,
    results_of,
    select_family,
)
from manykernels.estimators.selection.targets import TargetSearch
from manykernels.estimators.strength import AUTO, NoiseLevel, default_fraction, relative_strength
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples
from manykernels.exceptions import warn
from manykernels.objective.losses import Loss
from manykernels.solvers import Solution
from manykernels.solvers.fold import Candidate
from manykernels.validation.arrays import Array

FOLD_TOL = 1e-2  # relative gap of the models of the folds of a search: no score can see more


class LearnsChoice(KeepsHeldOut):
    """The part of the CV estimators that refits the best candidate."""

    _plain_estimator: Callable[[], BaseMKL]

    @property
    def _search_options(self) -> Search:
        """Options of the search."""
        return cast("Search", self._group("search"))

    @property
    def _fold_tol(self) -> float:
        """Relative gap of the models of the folds, loose relative to the resolution of scores."""
        coarse = self._searches or self._walks
        asked, own = self._search_options.fold_tol, max(self.tol, FOLD_TOL) if coarse else self.tol
        return own if asked is None else float(asked)

    def _choose_strength(
        self, grid: PenaltyGrid, found: list[Candidate], folds: Rung, samples: Samples, evidence: Evidence
    ) -> list[Candidate]:
        """Choose the best strength of a grid, or a default without scores; return all candidates."""
        candidates = found or grid.unscored()
        if found:
            self._check_scores(found)
            self.best_index_ = self._best_of_grid(found, keeps=self.alphas is None and bool(evidence.related.all()))
        else:  # on a grid of its own, the strength nearest to the default
            nearest = np.abs(np.log(grid.alphas[0] / (default_fraction(len(samples.weight)) * grid.alphas[0][0])))
            self.best_index_ = 0 if self.alphas is not None else int(nearest.argmin())
        family = candidates[self.best_index_].family
        if self.alphas is None and not self._against_constant(evidence.useful, candidates, folds).all():
            self.best_index_ = select_family(candidates, family)[0]  # the strength under which no kernel is left
        best = candidates[self.best_index_]
        self.best_score_ = float(best.scores.mean())
        self.alphas_ = grid.alphas[0] if len(grid.alphas) == 1 else np.array(grid.alphas)
        self.alpha_, self.l1_ratio_ = best.strength, family.l1_ratio
        self.kernel_penalties_ = self.kernel_penalties if family.factors is None else family.factors
        self.mixing_: float | Array | None = None  # of searches, like the next
        self.best_per_target_: Array | None = None
        self.cv_results_ = results_of(candidates, [c.family.describe_strength(c.strength) for c in candidates])
        advice = "raise max_iter, loosen tol or fold_tol, or leave out the smallest strengths"
        self._warn_of_unfinished(candidates, f"of tol={self._fold_tol:g}: {advice}")
        return candidates

    @staticmethod
    def _best_of_grid(found: list[Candidate], *, keeps: bool) -> int:
        """Return the position of the best strength, or if it ``keeps`` kernels of the best one below an empty model."""
        firsts = {select_family(found, candidate.family)[0] for candidate in found} if keeps else set()
        kept = [at for at, own in enumerate(found) if keeps and own.n_active > 0 and at not in firsts]
        return kept[first_best([found[at] for at in kept])] if kept else first_best(found)

    def _choose_mixtures(
        self,
        tried: MixtureSearch | TargetSearch,
        found: list[Candidate],
        whole: OpenedKernels,
        evidence: Callable[[int], Evidence],
    ) -> list[Candidate]:
        """Keep the best candidate, of every target and of all together; return all candidates."""
        candidates = found or [tried.unscored(len(whole.samples.weight), len(whole.problems))]
        if found:
            self._check_scores(found)
        rule, scores = self._search_options.rule, np.array([candidate.scores for candidate in candidates])
        best, means = choose_candidates(candidates, rule, evidence(scores.shape[2])), scores.mean(axis=1)
        shared = [replace(candidate, scores=candidate.scores.mean(axis=1, keepdims=True)) for candidate in candidates]
        self.best_index_ = int(choose_candidates(shared, rule, evidence(1))[0])
        self.best_per_target_ = best if len(best) > 1 else None
        self.best_score_ = float(means[best, np.arange(len(best))].mean())
        self.cv_results_ = results_of(candidates, [c.family.describe_strength(c.strength, whole) for c in candidates])
        self.alphas_ = np.array(sorted(set(self.cv_results_["alpha"]), reverse=True))
        return candidates

    def _learn_choice(
        self,
        found: list[Candidate],
        whole: OpenedKernels,
        begin: Callable[[Any, float], list[Solution] | None],
        samples: Samples,
        time_limit: float | None,
        levels: Sequence[NoiseLevel],
    ) -> None:
        """Learn the chosen mixtures on all rows within the time limit, from the start ``begin``."""
        total = whole.samples.total_weight
        best = self.best_per_target_ if self.best_per_target_ is not None else [self.best_index_] * len(whole.problems)
        mine = [found[index] for index in best]
        averages = {family: whole.averages(family) for family in dict.fromkeys(own.family for own in mine)}
        on_sums = [averages[own.family] for own in mine]
        # One model is of one list of kernels: beside targets that have a selection, averages are on landmarks too.
        landmarks = whole.projects and not all(on_sums)
        whole = whole.selecting if landmarks or not any(on_sums) else whole
        scales = [own.family.scale_of(k, whole) for k, own in enumerate(mine)]
        penalties = [scale.create_penalty(own.strength) for scale, own in zip(scales, mine, strict=True)]
        settings = self._resources.limits() | {"tol": self.tol, "random_state": self.random_state}
        mixtures = [own.family.select_target(k) for k, own in enumerate(mine)]
        problems = whole.problems
        begin = cache(begin)  # of all targets at once
        models = [None if self.solver != AUTO or landmarks else begin(own.family, own.strength) for own in mine]
        starts = [None if own is None else own[k] for k, own in enumerate(models)]
        pairs, stack = zip(mixtures, starts, strict=True), whole.training.stack
        # From a start, larger ones are read too rarely to be held.
        small = not stack.evaluates or 8 * stack.n_entries <= whole.room
        if not all((start and not small) or has_closed_form(problems, own, self.solver) for own, start in pairs):
            problems = store_problems(whole.training, problems, self._resources.memory_budget)
        settings["time_limit"] = time_limit
        fit = solve_mixtures(problems, mixtures, penalties, starts, self.solver, self._resources.n_jobs, **settings)
        alphas = np.array([penalty.strength for penalty in penalties]) / total
        ratios = np.array([scale.l1_ratio for scale in scales])
        mixings = np.array([mixture.mixing for mixture in mixtures])
        single = self._single or len(set(alphas)) == 1
        self.alpha_ = float(alphas[0]) if single else alphas
        self.l1_ratio_ = float(ratios[0]) if single else ratios
        self.mixing_ = float(mixings[0]) if single else mixings
        self.kernel_penalties_ = self.kernel_penalties
        self._keep_fit(whole.training, fit, samples)
        self._keep_noise(fit, levels)
        self._warn(fit)
        if any(candidate.edge for candidate in mine):
            warn(
                f"The score was still rising at the smallest strength of the grid, alpha={np.min(self.alpha_):.4g}: "
                "the kernels fit the target almost without noise, or the folds are not independent. To extend the "
                "grid, pass alphas, or a smaller alpha_min_ratio.",
            )
        self._warn_of_unfinished(found, f"of a relative gap of {self._fold_tol:g}: raise max_iter, or loosen fold_tol")

    def _learn_default(self, candidate: Candidate, samples: Samples, loss: Loss, time_limit: float | None) -> None:
        """Fit a plain estimator in the fastest way, without scores."""
        mixing, plain = candidate.family.mixing, self._plain_estimator()
        plain.set_params(penalty=candidate.family.penalty, l1_ratio=mixing)
        penalty, asked = plain._check_penalty(samples.total_weight), relative_strength(AUTO)
        fit = self._solve(samples, loss, penalty, asked, time_limit=time_limit)
        self._keep_strengths(fit)
        self.l1_ratio_ = getattr(self, "l1_ratio_", mixing)
        self.mixing_, self.kernel_penalties_ = mixing, self.kernel_penalties
        self.alphas_ = np.exp(np.mean(np.log(self.alpha_), keepdims=True))
        self.cv_results_ = self.cv_results_.assign(
            alpha=self.alphas_, l1_ratio=np.mean(self.l1_ratio_), fraction=np.nan
        )
        self._warn(fit)

    def _why_none(self, fit: Fit) -> str:
        """Return why no target has a kernel."""
        if self.alphas is not None or not np.isfinite(self.best_score_):
            return super()._why_none(fit)  # of the plain estimator
        return (
            f"no kernel predicts better than a constant in {format_count(self.n_folds_, 'fold')}, and the model "
            "is that constant. Are these the kernels and columns that matter, and are there enough samples? Give "
            "alphas to see what they do."
        )

    def _warn_of_grid(self, candidates: list[Candidate], folds: Rung, evidence: Evidence, *, exchanges: bool) -> None:
        """Warn of a choice at an end of the grid, and of given strengths with empty models."""
        own = select_family(candidates, candidates[self.best_index_].family)
        first, last = self.best_index_ == own[0], self.best_index_ == own[-1]
        nothing = first and self.alphas is None  # which has been said
        if folds.ending.status is None and len(own) > 1 and not nothing and (first or last):
            side, advice = ("largest", "larger") if first else ("smallest", "smaller")
            warn(
                f"The best strength, alpha={self.alpha_:.4g}, is the {side} of the grid. The best one may lie beyond "
                f"it: extend the grid to {advice} values.",
            )
        if not self.kernel_weights_.any():
            return
        if self.alphas is not None:
            evidence = replace(evidence, p_values=np.array([self._noise_p_value if exchanges else np.nan]))
        if self.alphas is None and self._against_constant(evidence.behind, candidates, folds).any():
            warn(
                f"The kernels are related to y (p = {evidence.p_values.min():.2g} by targets in random order), but do "
                f"not predict held-out rows better than a constant in {format_count(self.n_folds_, 'fold')}. They are "
                "kept to rank samples; which kernels these are is no finding.",
            )
        elif self._against_constant(evidence.useful, candidates, folds).all():
            self._warn_of_doubt(self._against_constant(evidence.doubtful, candidates, folds), evidence)
        else:
            warn(
                f"No kernel predicts better than a constant in {format_count(self.n_folds_, 'fold')}, at any of the "
                "given alphas.",
            )
