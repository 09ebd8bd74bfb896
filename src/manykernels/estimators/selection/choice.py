"""The choice of strength, kernels and mixing by the estimators with built-in cross-validation."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from threading import Event
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import check_scoring
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter
from sklearn.utils.validation import _check_method_params

from manykernels.estimators.permutations import noise_levels, noise_seed
from manykernels.estimators.selection.averages import AverageModels
from manykernels.estimators.selection.cold_start import ColdStartKFold
from manykernels.estimators.selection.folds import (
    Folds,
    HeldOut,
    OpenedKernels,
    find_start,
    fit_starts,
    select_short_folds,
)
from manykernels.estimators.selection.grids import PenaltyGrid
from manykernels.estimators.selection.learning import LearnsChoice
from manykernels.estimators.selection.memory import PATIENCE_OF_AVERAGES, keeps_exact, patience_of, plan_of_search
from manykernels.estimators.selection.mixtures import (
    EVERY,
    Mixture,
    PenaltyFamily,
    alpha_grid,
    candidate_penalties,
    check_alphas,
    mixtures_of,
    nothing_of,
    penalty_families,
    plain_kernels,
)
from manykernels.estimators.selection.relevance import with_relevance
from manykernels.estimators.selection.routing import routed_metadata, router_of, weighs_scores
from manykernels.estimators.selection.search import MixtureSearch, Rung
from manykernels.estimators.selection.splits import Split, splits_of, weighed_splits
from manykernels.estimators.selection.strengths import COARSE, Evidence, exchanges, limit_search
from manykernels.estimators.selection.targets import HeldOutTargets, search_targets, searches_in_batch
from manykernels.estimators.strength import AUTO, NoiseLevel
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import time_left
from manykernels.estimators.supervised.samples import Rows, Samples, part_of, sample_weights
from manykernels.exceptions import MemoryBudgetError, memory_errors_of
from manykernels.grams.plan import FACTORED, GRAM, MemoryPlan
from manykernels.grams.training import LAZY, as_bank, projected_bank
from manykernels.kernels import KernelBank, Pairs
from manykernels.objective.losses import Loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1, Penalty, Regularizer, parameters_of
from manykernels.solvers.fold import Candidate, Fold
from manykernels.solvers.run import check_deadline
from manykernels.solvers.solution import count_to
from manykernels.threads import blas_threads, n_threads
from manykernels.validation.arrays import Array, TableLike, check_choice, check_positive
from manykernels.validation.parameters import drop_attributes, seed_from

RULES = ("best", "1se")


class CrossValidated(LearnsChoice):
    """Choice of the strength, followed by a fit of the plain estimator."""

    fitted_extras: ClassVar[tuple[str, ...]] = (
        "alpha_", "alphas_", "best_index_", "best_per_target_", "best_score_", "cv_results_", "kernel_penalties_",
        "l1_ratio_", "mixing_", "n_folds_",
    )  # fmt: skip
    _plain: type[BaseMKL]  # the estimator at a given strength
    _least_ratio: ClassVar[float] = 1e-3  # of the strengths of a grid that is not given
    __metadata_request__fit: ClassVar = {"groups": UNUSED}  # the splitter requests them

    @property
    def _alpha_min_ratio(self) -> float:
        """Smallest strength of a grid over the largest."""
        given = self._search_options.alpha_min_ratio
        return self._least_ratio if given is None else given

    @property
    def alpha(self) -> float:
        """The chosen strength, under the name of the plain estimator."""
        return self.alpha_

    @memory_errors_of("The search")
    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Choose the strength, then learn the model on all samples.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
            Training samples.
        y : array-like of shape (n_samples,)
            Labels or targets; a regressor also takes several columns of targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Non-negative factors on the losses, also given to the scorer; with metadata routing, if it requests them.
        groups : array-like of shape (n_samples,) or None, default=None
            Given to the splitter; a number of folds keeps groups whole. What noise reaches is measured with the
            targets of groups of equal size in each other's place.
        **params : dict
            Other metadata requested by the splitter or the scorer, with
            ``sklearn.set_config(enable_metadata_routing=True)``.

        Returns
        -------
        MKLRegressorCV or MKLClassifierCV
            The estimator, fitted.

        Raises
        ------
        InvalidInputError
            If data or parameters cannot be used; the message says which and why.

        Warns
        -----
        ConvergenceWarning
            If a duality gap stays above ``tol``, or the search ended before the end.
        UserWarning
            If the best strength is the first or the last of a given grid, or the score still rises where a search
            had to end.

        Notes
        -----
        Ctrl-C among the folds ends the search, with a fit of the best scored candidate on all samples and a warning; so
        does ``time_limit``, with at most four fifths for the search. Without a scored nonempty model, the fit uses the
        plain estimator. In the last fit Ctrl-C keeps the best model so far. On a grid, complete folds count, or else
        the partial first fold.
        """
        drop_attributes(self, ["kernel_penalties_"])
        loss, searches = self._check_loss(), self._searches
        families = [] if searches else self._families()
        penalty = BlockL1(1.0) if searches else families[0].create_penalty(1.0, 1.0)
        alpha_grid(1.0, self.n_alphas, self._alpha_min_ratio)  # a look at what decides it, also where it is given
        rows, target = self._check_data(X, y)
        weight = sample_weights(sample_weight, len(target))
        scoring_weight = self._scoring_weight(target, None if sample_weight is None else weight)
        cv, groups, scored = routed_metadata(self, target, sample_weight=sample_weight, groups=groups, **params)
        given = Samples.create(rows, target, weight, groups)
        samples = self._encoded(given)
        kind = LAZY if searches else AUTO
        form, selecting = self._forms_of_run(samples, loss, groups)[1]
        opened = partial(self._open_kernels, loss=loss, penalty=penalty, kind=kind, selecting=selecting)
        exchangeable = exchanges(self.cv, groups)
        whole = cache(partial(opened, given, tol=self.tol))
        batch = searches and searches_in_batch(self, whole())
        tried = self._grid(families, whole) if not searches else None if batch else self._mixtures(whole())
        with limit_search(self._resources.time_limit, whole().seconds(len(samples.weight)) if searches else 0.0) as end:
            split = partial(self._splits, cv)
            splits = weighed_splits(given.dealt(cv, split, target, self._groups_of(rows, groups)), weight)
            scored_target = target[:, :1] if batch else target
            held_out = self._define_held_out(rows, scored_target, scoring_weight, splits, scored, by_target=searches)
            own_kernels = partial(self._fold_kernels, (rows, target, weight), opened, form)
            as_bank(self.kernels, rows).check(rows)
            if tried is None:
                many = (given, samples, loss, penalty, whole(), splits, held_out, end)
                self._fit_targets(*many, exchangeable=exchangeable)
                return self
            own_folds = partial(self._own_folds, weight, opened=own_kernels)
            fewer = select_short_folds(splits, target, weight) if tried.races else []
            folds, found = self._rung(tried, own_folds(splits, held_out), own_folds(fewer, held_out[: len(fewer)]))
        asked = found and (searches or (self.alphas is None and exchangeable))
        levels = self._levels_of_noise(whole().projected, samples) if asked else []
        evidence = partial(Evidence.create, splits, (exchangeable and levels) or None, ranks=self._task == "survival")
        if isinstance(tried, MixtureSearch):
            candidates = self._choose_mixtures(tried, found, whole(), evidence)
        else:
            candidates = self._choose_strength(tried, found, folds, samples, evidence(1))
        self._close(folds, found, splits, begins=searches and form != FACTORED)
        if searches and not found:
            self._learn_default(candidates[0], samples, loss, time_left(end))
        elif searches:
            begin = partial(fit_starts, whole(), np.flatnonzero(weight), folds.folds)
            self._learn_choice(candidates, whole(), begin, samples, time_left(end), levels)
            self._warn_of_search(candidates, evidence)
        else:
            chosen_penalty = candidates[self.best_index_].family.create_penalty(self.alpha_, samples.total_weight)
            self._warn(self._solve(samples, loss, chosen_penalty, time_limit=time_left(end)))
            self._warn_of_grid(candidates, folds, evidence(1), exchanges=exchangeable)
        folds.ending.warn(tried.describe_count(found, folds))
        return self

    def _fit_targets(
        self,
        given: Samples,
        samples: Samples,
        loss: Loss,
        penalty: Regularizer,
        whole: OpenedKernels,
        splits: list[Split],
        held_out: list[HeldOut],
        end: float,
        *,
        exchangeable: bool,
    ) -> None:
        """Choose strength and mixing of every of many targets, and learn all on all rows."""

        def open_fold(train: Array) -> tuple[Any, Problem, Array]:
            """Return kernels of the training rows of a fold, the problem of the first target, and these rows."""
            rows, y, weight = part_of(given.rows, train, "C"), given.y[train, :1], given.weight[train]
            model = self._create_plain(rows).set_params(resources__representation=GRAM)
            own = model._encoded(Samples.create(rows, y, weight))
            training, (problem,) = model._open(own, loss, penalty, kind=LAZY)
            return training, problem, train[own.kept]

        with blas_threads(len(samples.weight), self._resources.n_jobs):
            search = search_targets(self, whole, open_fold, splits, held_out)
        found = search.found
        self.n_folds_ = len(search.folds) if found else 0
        levels = self._levels_of_noise(whole, samples) if found else []
        evidence = partial(Evidence.create, splits, (exchangeable and levels) or None, shrinks=True)
        candidates = self._choose_mixtures(search, found, whole, evidence)
        if not found:
            self._learn_default(candidates[0], samples, loss, time_left(end))
        else:
            taken = [candidates[index] for index in cast("Array", self.best_per_target_)]
            if search.ending.status is None:
                numbers = {family: number for number, family in enumerate(search.mixtures)}
                families = np.array([numbers.get(own.family, -1) for own in taken])
                fractions = np.array([own.strength for own in taken])
                tests, columns = (
                    [test for _, test in splits],
                    whole.training.bank.frame(scales=False)["columns"].tolist(),
                )
                with search.ending.record():
                    self._held_out_targets = HeldOutTargets.fit(
                        search, families, fractions, tests, samples.n_given, columns
                    )
            search.folds.clear()
            self._learn_choice(candidates, whole, lambda *_: None, samples, time_left(end), levels)
            self._warn_of_search(candidates, evidence)
        told = f"{len(found)} candidates that were scored in all folds" if found else ""
        search.ending.warn(told)

    def _levels_of_noise(self, whole: OpenedKernels, samples: Samples) -> list[NoiseLevel]:
        """Return the noise levels of permuted targets; kernels learned from y have those of their plain forms."""
        order, plain = plain_kernels(whole.names)
        problems = [Mixture(EVERY, plain, 0.0).pose(problem) for problem in whole.problems]
        levels = noise_levels(problems, noise_seed(self.random_state), self._noise_strata(samples), samples.groups)
        return levels if plain.all() else [level.take(order) for level in levels]

    def _close(self, folds: Rung, found: list[Candidate], splits: list[Split], *, begins: bool) -> None:
        """Record what held-out rows say, and let the folds go: the last fit has the memory for itself.

        Starting models from the folds (``begins``) are kept: averages of all folds, other models of the first fold.
        """
        if found and folds.ending.status is None:
            with folds.ending.record():
                self._record(folds, found, splits)
        for number, each in enumerate(folds.folds):
            each.close(kept=begins and (number == 0 or bool(each.retained_models(AverageModels))))

    def _open_kernels(
        self,
        given: Samples,
        *,
        loss: Loss,
        penalty: Regularizer,
        kind: str,
        tol: float,
        selecting: str,
        rounded: bool = False,
        form: str | None = None,
    ) -> OpenedKernels:
        """Return kernels of samples, with storage ``kind`` for matrices and ``selecting`` for selection."""
        check_deadline()
        projected = self._projected is not None and form == FACTORED
        model = self._create_plain(given.rows, projected=projected)
        model = model if form is None else model.set_params(resources__representation=form)
        samples = model._encoded(given)
        model.kernels = with_relevance(model.kernels, samples, loss)
        training, problems = model._open(samples, loss, penalty, kind=kind, tol=tol if rounded else 0.0)
        own: dict[str, Any] = {"loss": loss, "penalty": penalty, "kind": kind, "tol": tol, "form": FACTORED}
        apart = selecting == FACTORED and not training.avoids_matrices
        on_factors = partial(self._open_kernels, given, selecting=selecting, **own) if apart else None
        return OpenedKernels(model, samples, training, problems, tol, on_factors, apart and self._projected is not None)

    def _fold_kernels(
        self, given: tuple[Rows, Array, Array], opened: Callable[..., OpenedKernels], form: str, train: Array
    ) -> OpenedKernels:
        """Return kernels learned from the training rows of a fold, without held-out rows."""
        rows, target, weight = given
        own = Samples.create(part_of(rows, train, "F" if form == FACTORED else "C"), target[train], weight[train])
        return opened(own, tol=self._fold_tol, rounded=self.scoring is None, form=form)

    def _own_folds(
        self,
        weight: Array,
        splits: list[Split],
        held_out: list[HeldOut],
        opened: Callable[[Array], OpenedKernels],
    ) -> Folds:
        """Return folds with kernels learned from their training rows, without held-out rows."""
        stop = Event()
        return [
            Fold(partial(opened, train), held, stop, train[weight[train] > 0], find_start)
            for (train, _), held in zip(splits, held_out, strict=True)
        ]

    def _define_held_out(
        self,
        rows: Rows,
        target: Array,
        scoring_weight: Array | None,
        splits: list[Split],
        metadata: dict[str, Any],
        *,
        by_target: bool,
    ) -> list[HeldOut]:
        """Return the rows held out by every fold, with the scorer: by default the loss.

        ``metadata`` are for the scorer; class weights multiply the sample weights.
        """
        weights = [None if scoring_weight is None else scoring_weight[test] for _, test in splits]
        scorers: list[Callable[..., float] | None] = [None] * len(splits)
        if self.scoring is not None:
            given = metadata.get("sample_weight")
            own = self._scoring_weight(target, None if given is None else sample_weights(given, len(target)))
            if own is not None and weighs_scores(self):
                metadata = metadata | {"sample_weight": own}
            scorer = check_scoring(self, scoring=self.scoring)
            scorers = [partial(scorer, **_check_method_params(target, metadata, test)) for _, test in splits]
        parts = zip(splits, weights, scorers, strict=True)
        return [HeldOut(rows[test], target[test], own, scorer, by_target) for (_, test), own, scorer in parts]

    def _rung(self, tried: PenaltyGrid | MixtureSearch, own: Folds, fewer: Folds) -> tuple[Rung, list[Candidate]]:
        """Return the folds with their scores; ``fewer`` are folds of fewer rows, or none."""
        verbose, n_jobs = self._resources.verbose, self._resources.n_jobs
        folds, found = Rung([], 1, lambda line: None), []
        with folds.ending.record(), count_to(tried.n_told(len(own)), tried.counts, verbose) as advance:
            folds = Rung(own, min(n_threads(n_jobs), len(own)), advance, folds.ending)
            if fewer:
                folds.below = replace(folds, folds=fewer, finest=COARSE)
                for fold, below in zip(own, fewer, strict=False):
                    fold.begin = partial(find_start, fewer=below)
            found = tried.score(folds)
        self.n_folds_ = len(folds.folds) if found else 0
        return folds, found

    def _mixtures(self, whole: OpenedKernels) -> MixtureSearch:
        """Return averages and selections to try, and the empty model."""
        ridge, every = self._named_penalty == "ridge", self.l1_ratios is not None
        seed = 0 if self.random_state is None else seed_from(self.random_state)
        bank = self._decided
        spare = bank.spare_kernels(whole.samples.rows) if isinstance(bank, KernelBank) else []
        averages, selections = mixtures_of(whole, self.l1_ratios, spare, ridge=ridge, seed=seed)
        nothing = nothing_of(np.ones(len(whole.names))).scaled(whole)
        if whole.training.factored:  # folds have features of their own, until what was chosen is learned on all rows
            cast("Any", whole.training.stack).table.let_go()
        grid = self.n_alphas, self._alpha_min_ratio
        enough = whole.enough if self.scoring is None else np.inf
        rungs: dict[str, Any] = {"room": whole.room, "late": whole.training.factored, "many": whole.projects}
        return MixtureSearch(averages, selections, nothing, *grid, every=every, enough=enough, **rungs)

    @property
    def _walks(self) -> bool:
        """Whether a grid is tried down to where the score has fallen: not where strengths are given."""
        return False

    @property
    def _searches(self) -> bool:
        """Whether mixtures are searched, on separate grids; not where classes or targets share their weights."""
        open_grid = self.alphas is None and candidate_penalties(self.kernel_penalties) is None
        return open_grid and self.outputs == "own" and self._named_penalty in ("auto", "ridge")

    @property
    def _named_penalty(self) -> Penalty:
        """The penalty of a grid; "auto" with given strengths uses the unit of the strengths."""
        given = self.alphas is not None or self.outputs == "shared"
        given = given or candidate_penalties(self.kernel_penalties) is not None
        if not isinstance(self.penalty, str) or self.penalty != AUTO or not given:
            return self.penalty
        return "l1" if self.l1_ratios is None else "elasticnet"

    def _plain_estimator(self) -> BaseMKL:
        """Return the plain estimator with the parameters, and the penalty chosen by a search."""
        own = self._plain._get_param_names()
        given = {name: value for name, value in self.get_params(deep=False).items() if name in own}
        given["kernel_penalties"] = self._kernel_penalties
        named = self._named_penalty
        return self._plain(**(given | {"penalty": "l1" if isinstance(named, str) and named == AUTO else named}))

    @property
    def _kernel_penalties(self) -> Any:
        """Factors on the norms of kernels: the chosen ones, or the first before a choice."""
        tried = candidate_penalties(self.kernel_penalties)
        return self.kernel_penalties if tried is None else getattr(self, "kernel_penalties_", tried[0])

    def _check_loss(self) -> Loss:
        """Return the loss after a look at all parameters."""
        options = self._search_options
        check_choice(options.rule, RULES, "rule")
        if options.fold_tol is not None:
            check_positive(options.fold_tol, "fold_tol")
        return self._plain_estimator()._check_loss()

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how ``fit`` routes metadata to the splitter and to the scorer.

        Returns
        -------
        MetadataRouter
            Requests of the estimator, of the splitter, and of the scorer if one is given.

        Examples
        --------
        >>> from sklearn.model_selection import GroupKFold
        >>> from manykernels import MKLRegressorCV
        >>> MKLRegressorCV(cv=GroupKFold(3)).get_metadata_routing().consumes("fit", ["groups"])
        {'groups'}
        """
        return router_of(self)

    def cv_frame(self) -> pd.DataFrame:
        """Return a row for every candidate, in the order tried.

        Returns
        -------
        DataFrame
            ``alpha``, ``l1_ratio`` if tried, ``mean_score``, ``std_score``, ``n_active`` (mean over the folds) and a
            score column per fold. After a search also ``kernels`` (the participants), ``mixing``, and ``fraction`` of
            the strength of a nearly empty model: folds share the fraction, ``alpha`` is the value on all rows (a
            geometric mean over targets, with averaged scores).

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLRegressorCV
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, size=(60, 3))
        >>> y = np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=60)
        >>> model = MKLRegressorCV(penalty="l1", n_alphas=10, cv=3).fit(X, y)
        >>> model.cv_frame().columns[:4].tolist()
        ['alpha', 'mean_score', 'std_score', 'n_active']
        """
        return self.cv_results_.copy()

    def _families(self) -> list[PenaltyFamily]:
        """Return the candidate penalties, with every choice of kernel penalties."""
        tried, penalty = candidate_penalties(self.kernel_penalties), self._named_penalty
        own = {name: getattr(self, name) for name in parameters_of(penalty) if name != "l1_ratio"}
        families = penalty_families(penalty, own, self.l1_ratios)
        return families if tried is None else [replace(own, factors=factors) for factors in tried for own in families]

    def _patience(self, rows: Rows) -> float | None:
        """Predicted seconds of a fit below which the default bank stays on matrices."""
        return np.inf if keeps_exact(self, self._check_loss(), rows) else patience_of(self, self._check_loss())

    def _decide_kernels(self, rows: Rows, n_targets: int = 1) -> None:
        """Decide by all rows which kernels there are: gaps, kinds and dates must not give a fold another list.

        Slow selecting fits use kernels on landmarks, unlike averages.
        """
        loss = self._check_loss()
        self._decided, self._projected = as_bank(self.kernels, rows, self._patience(rows)).resolve(rows), None
        if isinstance(self._decided, KernelBank) and patience_of(self, loss) is not None:
            self._projected = projected_bank(self._decided, self.kernels, rows, PATIENCE_OF_AVERAGES)
        if self._projected is not None and not keeps_exact(self, loss, rows, n_targets):
            self._decided, self._projected = self._projected, None

    def _create_plain(self, rows: Rows, *, projected: bool = False) -> BaseMKL:
        """Return the plain estimator with the parameters, and the known columns."""
        model = self._plain_estimator()
        model.kernels = self._projected if projected else self._decided
        model._of_fold = True
        model.n_features_in_ = len(rows) if self._takes_kernels else self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    def _grid(self, families: list[PenaltyFamily], whole: Callable[[], OpenedKernels]) -> PenaltyGrid:
        """Return the strengths of every family."""
        if self.alphas is not None:
            return PenaltyGrid(families, [check_alphas(self.alphas)] * len(families))
        with blas_threads(len(whole().samples.kept), self._resources.n_jobs):
            grid = PenaltyGrid.create(families, whole(), self.n_alphas, self._alpha_min_ratio)
        return replace(grid, walks=self._walks)

    def _plan_of_run(self, samples: Samples, loss: Loss, groups: Any = None) -> MemoryPlan | None:
        return self._forms_of_run(samples, loss, groups)[0]

    def _forms_of_run(self, samples: Samples, loss: Loss, groups: Any) -> tuple[MemoryPlan | None, tuple[str, str]]:
        """Return the plan of the search, and how kernels are held for averages and for what selects.

        Where exact kernels do not fit the memory, or projected ones are no factors, all are on landmarks.
        """
        self._decide_kernels(samples.rows, samples.y.shape[1])
        own = partial(self._create_plain, samples.rows)
        given = partial(plan_of_search, samples=samples, loss=loss, groups=groups)
        if self._projected is not None:
            with suppress(MemoryBudgetError):
                plan, forms = given(self, own(), projected=own(projected=True))
                if forms == (GRAM, FACTORED):
                    return plan, forms
            self._decided, self._projected = self._projected, None
        return given(self, own())

    def _scoring_weight(self, y: Array, weight: Array | None) -> Array | None:
        """Return the weights of held-out samples in the score."""
        return weight

    def _groups_of(self, rows: Rows, groups: ArrayLike | None) -> ArrayLike | None:
        """Return the groups; for cold-start folds, the groups of pairs."""
        if groups is None and isinstance(rows, Pairs) and isinstance(self.cv, ColdStartKFold):
            return rows.pairs
        return groups

    def _splits(self, cv: Any, y: Array, groups: ArrayLike | None) -> Iterator[tuple[Array, Array]]:
        return iter(splits_of(cv, y, groups, classifier=self._task == "classification" and y.ndim == 1))
