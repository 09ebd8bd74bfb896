"""How the estimators with built-in cross-validation choose the strength of the penalty."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeavePGroupsOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from manykernels.estimators.groups import Search
from manykernels.estimators.selection.choosing import ChoosesMixtures
from manykernels.estimators.selection.cold_start import ColdStartKFold
from manykernels.estimators.selection.descent import without_bar
from manykernels.estimators.selection.folds import Fold, FoldScore, HeldOut, splits_of
from manykernels.estimators.selection.held_out import KeepsHeldOut
from manykernels.estimators.selection.penalties import (
    PenaltyFamily,
    PenaltyGrid,
    alpha_grid,
    checked_alphas,
    tried_factors,
)
from manykernels.estimators.selection.search import Evidence
from manykernels.estimators.selection.shared_folds import (
    FOLD_KERNELS,
    SHARED,
    SharedFolds,
    Split,
    obstacle_to_sharing,
)
from manykernels.estimators.selection.stopping import StopReason, limited
from manykernels.estimators.strength import AUTO, default_fraction, noise_levels, noise_seed
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit, time_left
from manykernels.estimators.supervised.samples import Rows, Samples
from manykernels.estimators.supervised.targets import sample_weights
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError, MemoryBudgetError
from manykernels.grams.training import Training, as_bank
from manykernels.kernels import KernelStack, Pairs
from manykernels.objective.losses import Loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Penalty, parameters_of, with_l1_ratio
from manykernels.solvers.progress import count_to
from manykernels.solvers.run import check_deadline
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array, check_choice, check_positive

if TYPE_CHECKING:
    from manykernels.estimators.selection.penalties import PenaltyFamily
    from manykernels.validation.arrays import Array


# The folds of a grid of strengths: each with kernels of its own, or all of them with those of all rows.


Opener = Callable[[], tuple[Training, list[Problem]]]


class ScoresGrids:
    """The part of the estimators with built-in cross-validation that scores a grid in folds."""

    def _opener(self: Any, samples: Samples, loss: Loss, families: list[PenaltyFamily]) -> Opener:
        """Return what opens the kernels on all rows, once."""
        plain = self._at_given_strength(samples.rows)
        encoded = plain._encoded(samples)
        return cache(lambda: plain._open(encoded, loss, families[0].at(1.0, 1.0)))

    def _shares(
        self: Any, samples: Samples, form: str, loss: Loss, penalties: Any, splits: list[Split], opened: Opener
    ) -> bool:
        """Return whether folds share their sums; refuse in words where they should and cannot."""
        wish = self._search_options.fold_kernels
        plain = self._at_given_strength(samples.rows)
        obstacle = obstacle_to_sharing(wish, plain, samples, form, loss, penalties, splits, lambda: opened()[0])
        if wish == SHARED and obstacle is not None:
            raise IncompatibleError(f"fold_kernels='shared' cannot be had: {obstacle}. Or pass fold_kernels='auto'.")
        return obstacle is None

    def _held_out(
        self: Any,
        rows: Rows,
        target: Array,
        scoring_weight: Array | None,
        splits: list[Split],
        *,
        by_target: bool,
    ) -> list[HeldOut]:
        """Return the rows that each fold holds out, and how they are scored: by the loss unless a scorer is given."""
        scorer = None if self.scoring is None else check_scoring(self, scoring=self.scoring)
        weights = [None if scoring_weight is None else scoring_weight[test] for _, test in splits]
        pairs = zip(splits, weights, strict=True)
        return [HeldOut(rows[test], target[test], own, scorer, by_target) for (_, test), own in pairs]

    def _score_folds(
        self: Any,
        samples: Samples,
        data: tuple[Rows, Array, Array],
        scoring_weight: Array | None,
        splits: list[Split],
        loss: Loss,
        found: PenaltyGrid,
        stopped: StopReason,
        *,
        form: str,
        opened: Opener | None,
    ) -> list[GridScores]:
        """Return the scores of every candidate on every fold; of a search that ends early, what is of use.

        ``samples`` are those of positive weight among all rows, targets and weights, which are ``data``. Kernels of
        folds are held as those of all rows, which is ``form``; those that ``opened`` returns are the kernels of all
        folds, unless their factors are too many.
        """
        rows, target, weight = data
        as_bank(self.kernels, rows).check(rows)
        held_out = self._held_out(rows, target, scoring_weight, splits, by_target=False)
        fold_tol = self._search_options.fold_tol
        tol = self.tol if fold_tol is None else float(fold_tol)
        scores: list[GridScores] = []
        verbose = self._resources.verbose
        with stopped.noted(), count_to(len(splits) * len(found), "models of the folds", verbose) as advance:
            if opened is not None:
                scores = [GridScores(found, advance) for _ in splits]
                if self._score_together(scores, held_out, samples, splits, opened):
                    return complete(scores, len(found))
                scores = []
            for (train, _), held in zip(splits, held_out, strict=True):
                check_deadline()
                own = Samples.of(rows[train], target[train], weight[train])
                model = self._at_given_strength(own.rows).set_params(**self._held_as_whole(form))
                scores.append(GridScores(found, advance))
                fold = Fold.opened(model, own, loss, found.families[0].at(1.0, 1.0), held, tol, kind=AUTO)
                for score in fold.follow(found, without_bar(self.solver, verbose)):
                    check_deadline()  # a model that was not finished for lack of time counts for nothing
                    scores[-1].add(score)
                if held.scorer is None:
                    scores[-1].constant = float(fold.constant().scores[0])
        return complete(scores, len(found))

    def _score_together(
        self: Any,
        scores: list[GridScores],
        held_out: list[HeldOut],
        samples: Samples,
        splits: list[Split],
        opened: Opener,
    ) -> bool:
        """Score every candidate in all folds at once, on kernels of all rows; false if their factors are too many."""
        models = [self._at_given_strength(samples.rows) for _ in splits]
        encoded = [model._encoded(samples) for model in models]
        try:
            with blas_threads(len(samples.kept), self._resources.n_jobs):
                shared = SharedFolds.opened(models[0], encoded[0], opened(), splits, self.tol)
                folds = shared.folds(models, held_out, self.tol, Event())
                for found in shared.follow(folds, scores[0].grids):
                    for own, score in zip(scores, found, strict=True):
                        own.add(score)
                for own, b, fold in zip(scores, shared.constants(), folds, strict=True):
                    own.constant = float(fold.constant(b).scores[0]) if fold.held_out.scorer is None else np.nan
        except (IncompatibleError, MemoryBudgetError):
            if self._search_options.fold_kernels == SHARED:
                raise
            return False
        return True


@dataclass(eq=False)
class GridScores:
    """Scores of one fold down the grids, in the order in which models were fitted."""

    grids: PenaltyGrid
    advance: Callable[[str], None]  # told in a line about each model
    constant: float = np.nan  # what the best constant scores
    scores: list[float] = field(default_factory=list)
    n_active: list[float] = field(default_factory=list)
    unfinished: int = 0  # models that did not reach tol

    def add(self, score: FoldScore) -> None:
        """Keep the score of the next model."""
        alpha = np.concatenate(self.grids.alphas)[len(self.scores)]
        self.scores.append(float(score.scores[0]))
        self.n_active.append(score.n_active)
        self.unfinished += not score.finished
        self.advance(f"alpha {alpha:.3g}  active {self.n_active[-1]:g}  score {self.scores[-1]:.4g}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'s' * (number != 1)}"


def complete(folds: list[GridScores], n_candidates: int) -> list[GridScores]:
    """Return the folds in which every candidate was scored; if there are none, those with most, and gaps at the end."""
    n_scored = max((len(fold.n_active) for fold in folds), default=0)
    best = [fold for fold in folds if n_scored and len(fold.n_active) == n_scored]
    gaps = [np.nan] * (n_candidates - n_scored)
    for fold in best:
        fold.scores, fold.n_active = [*fold.scores[:n_scored], *gaps], [*fold.n_active, *gaps]
    return best


RULES = ("best", "1se")
# Splitters that hold any samples out.
EXCHANGING = (KFold, StratifiedKFold, RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit, StratifiedShuffleSplit)
EXCHANGING_GROUPS = (GroupKFold, GroupShuffleSplit, LeaveOneGroupOut, LeavePGroupsOut, StratifiedGroupKFold)


class CrossValidated(KeepsHeldOut, ScoresGrids, ChoosesMixtures):
    """Choice of the strength; what comes after it is the plain estimator."""

    fitted_extras: ClassVar[tuple[str, ...]] = (
        "alpha_", "alphas_", "best_index_", "best_per_target_", "best_score_", "cv_results_", "kernel_penalties_",
        "l1_ratio_", "mixing_", "n_folds_",
    )  # fmt: skip
    _plain: type[BaseMKL]  # the estimator at a given strength
    _least_ratio: ClassVar[float] = 1e-3  # of the strengths of a grid that is not given

    @property
    def _search_options(self: Any) -> Search:
        """How the search goes, with the end of the grid decided."""
        options: Search = self._group("search")
        return options if options.alpha_min_ratio is not None else replace(options, alpha_min_ratio=self._least_ratio)

    @property
    def alpha(self: Any) -> float:
        """The chosen strength, under the name that the plain estimator knows."""
        return self.alpha_

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the strength, then learn the model on all samples.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
            Training samples.
        y : array-like of shape (n_samples,)
            Labels or targets; a regressor also takes several columns of targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Non-negative factors on the losses, also given to the scorer.
        groups : array-like of shape (n_samples,) or None, default=None
            Given to the splitter. What noise reaches is measured with the targets of groups of equal size in each
            other's place.

        Returns
        -------
        MKLRegressorCV or MKLClassifierCV
            This estimator, fitted.

        Raises
        ------
        InvalidInputError
            If data or parameters cannot be used; the message says which and why.

        Warns
        -----
        ConvergenceWarning
            If a duality gap stays above ``tol``, or the search ended before its end.
        UserWarning
            If the best strength is the first or the last of a given grid, or the score still rises where a search
            had to end.

        Notes
        -----
        Ctrl-C among the folds ends the search: the best of what was scored is learned on all samples, with a warning;
        so does ``time_limit``, four fifths of which are for the search. Before anything was scored the strength is
        that of an estimator without a search. In the last fit Ctrl-C keeps the best model so far. Of a grid, folds
        that are complete count, or as much as is known of the first.
        """
        self.__dict__.pop("kernel_penalties_", None)
        loss = self._checked_loss()
        if self._searches:
            return self._fit_by_search(loss, X, y, sample_weight, groups)
        families = self._families()
        rows, target = self._checked_data(X, y)
        weight = sample_weights(sample_weight, len(target))
        samples = Samples.of(rows, target, weight, groups)
        self._decide_kernels(samples.rows)
        form = self._form_of(samples, loss, families)
        opened = self._opener(samples, loss, families)
        found, ending = self._lay_out(families, opened), StopReason()
        scoring_weight = self._scoring_weight(target, None if sample_weight is None else weight)
        with limited(self._resources.time_limit) as end:
            splits = self._weighed_splits(target, weight, self._groups_of(rows, groups))
            together = self._shares(samples, form, loss, [own.at(1.0, 1.0) for own in families], splits, opened)
            given = (samples, (rows, target, weight), scoring_weight, splits, loss, found, ending)
            folds = self._score_folds(*given, form=form, opened=opened if together else None)
        encoded, levels = self._encoded(samples), None
        if folds and self.alphas is None and self._exchanges(groups):
            strata = self._noise_strata(encoded)
            levels = noise_levels(opened()[1], noise_seed(self.random_state), strata, encoded.groups)
        evidence = Evidence.of(splits, levels, 1)
        self._choose(found, folds, self._default_index(found, len(samples.weight)), evidence)
        if folds and ending.status is None:
            held_out = self._held_out(rows, target, scoring_weight, splits, by_target=False)
            with ending.noted():
                self._record_grid(lambda at: Samples.of(rows[at], target[at], weight[at]), held_out, splits, loss, form)
        chosen = self._family.at(self.alpha_, encoded.total_weight)
        self._warn(self._solve(encoded, loss, chosen, time_limit=time_left(end)))
        if ending.status is None:
            self._warn_at_edge(found)
        evidence = replace(evidence, p_values=np.array([self._noise_p_value if self._exchanges(groups) else np.nan]))
        if self.alphas is not None and self.kernel_weights_.any() and not self._beats_constant(folds, evidence):
            warnings.warn(
                f"No kernel predicts better than a constant in {counted(self.n_folds_, 'fold')}, at any of the given "
                "alphas.",
                UserWarning,
                stacklevel=2,
            )
        n_scored = int(np.isfinite(folds[0].n_active).sum()) if folds else 0
        ending.warn(f"{n_scored} of {len(found)} strengths in {len(folds)} folds" if folds else "")
        return self

    @property
    def _searches(self: Any) -> bool:
        """Whether mixtures are searched, on grids of their own; not where classes or targets share their weights."""
        return (
            self.outputs == "own"
            and self._named_penalty in ("auto", "ridge")
            and self.alphas is None
            and tried_factors(self.kernel_penalties) is None
        )

    @property
    def _named_penalty(self: Any) -> Penalty:
        """The penalty of a grid; with strengths of the user's, "auto" is the one that they are strengths of."""
        given = self.alphas is not None or self.outputs == "shared"
        given = given or tried_factors(self.kernel_penalties) is not None
        if not isinstance(self.penalty, str) or self.penalty != AUTO or not given:
            return self.penalty
        return "l1" if self.l1_ratios is None else "elasticnet"

    def _plain_estimator(self: Any) -> BaseMKL:
        """Return the plain estimator with these parameters; the penalty is named where a search decides it."""
        own = self._plain._get_param_names()
        given = {name: value for name, value in self.get_params(deep=False).items() if name in own}
        given["kernel_penalties"] = self._kernel_penalties
        named = self._named_penalty
        return self._plain(**(given | {"penalty": "l1" if isinstance(named, str) and named == AUTO else named}))

    @property
    def _kernel_penalties(self: Any) -> Any:
        """Factors on the norms of kernels: of those that are tried the chosen ones, and the first before that."""
        tried = tried_factors(self.kernel_penalties)
        return self.kernel_penalties if tried is None else self.__dict__.get("kernel_penalties_", tried[0])

    def _checked_loss(self: Any) -> Loss:
        """Return the loss after a look at all parameters."""
        options = self._search_options
        check_choice(options.rule, RULES, "rule")
        if options.fold_tol is not None:
            check_positive(options.fold_tol, "fold_tol")
        check_choice(options.fold_kernels, FOLD_KERNELS, "fold_kernels")
        return self._plain_estimator()._checked_loss()

    def cv_frame(self: Any) -> pd.DataFrame:
        """Return a row for each candidate, in the order tried.

        Returns
        -------
        DataFrame
            ``alpha``, ``l1_ratio`` where it was tried, ``mean_score``, ``std_score``, ``n_active`` (mean
            over the folds) and a column of scores a fold. After a search also ``kernels`` (which took part),
            ``mixing``, and ``fraction`` of the strength at which next to nothing is left: folds share the fraction,
            ``alpha`` is what it means on all rows (a geometric mean over targets, whose scores are averaged).

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

    def _families(self: Any) -> list[PenaltyFamily]:
        """Return the penalties to try, each with every choice of kernel penalties."""
        tried = tried_factors(self.kernel_penalties)
        families = self._penalties()
        return families if tried is None else [replace(own, factors=factors) for factors in tried for own in families]

    def _penalties(self: Any) -> list[PenaltyFamily]:
        """Return the penalties to try, after a look at what decides the grid, also where it is given."""
        alpha_grid(1.0, self.n_alphas, self._search_options.alpha_min_ratio)
        penalty = self._named_penalty
        shape = parameters_of(penalty)
        own = {name: getattr(self, name) for name in shape if name != "l1_ratio"}
        named = "l1_ratio" in shape
        if self.l1_ratios is None or not (named or with_l1_ratio(penalty, 0.5) != with_l1_ratio(penalty, 1.0)):
            return [PenaltyFamily(penalty, own | ({"l1_ratio": 0.5} if named else {}))]
        return [
            PenaltyFamily(with_l1_ratio(penalty, float(ratio)), own | ({"l1_ratio": float(ratio)} if named else {}))
            for ratio in np.ravel(self.l1_ratios)
        ]

    def _decide_kernels(self: Any, rows: Rows) -> None:
        """Decide by all rows which kernels there are: gaps, kinds and dates must not give a fold another list."""
        self._decided = as_bank(self.kernels, rows).resolve(rows)

    def _at_given_strength(self: Any, rows: Rows) -> BaseMKL:
        """Return the plain estimator with these parameters, which knows the columns of these rows."""
        model = self._plain_estimator()
        model.kernels = self._decided
        model.n_features_in_ = len(rows) if isinstance(rows, KernelStack) else self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    def _form_of(self: Any, samples: Samples, loss: Loss, families: list[PenaltyFamily]) -> str:
        """Return whether kernels on all rows will be held as Gram matrices or as factors."""
        plain = self._at_given_strength(samples.rows)
        return str(plain._held_as(plain._encoded(samples), loss, families[0].at(1.0, 1.0)))

    def _lay_out(self: Any, families: list[PenaltyFamily], opened: Opener) -> PenaltyGrid:
        """Return the strengths of each family."""
        if self.alphas is not None:
            return PenaltyGrid(families, [checked_alphas(self.alphas)] * len(families))
        training, problems = opened()
        with blas_threads(problems[0].n_samples, self._resources.n_jobs):
            least = self._search_options.alpha_min_ratio
            return PenaltyGrid.laid_out(families, problems, tuple(training.bank.names), self.n_alphas, least)

    def _default_index(self: Any, found: PenaltyGrid, n_samples: int) -> int:
        """Return what to learn where nothing was scored: on a grid of its own, the strength nearest to the default."""
        if self.alphas is not None:
            return 0
        fraction = default_fraction(n_samples)
        return int(np.abs(np.log(found.alphas[0] / (fraction * found.alphas[0][0]))).argmin())

    def _held_as_whole(self: Any, form: str) -> dict[str, str]:
        """Return the parameter by which kernels of a fold are held as those of all rows."""
        return {"resources__representation": form}

    def _scoring_weight(self: Any, y: Array, weight: Array | None) -> Array | None:
        """Return the weights of held-out samples in the score."""
        return weight

    def _groups_of(self: Any, rows: Rows, groups: Any) -> Any:
        """Return the groups; to folds with new members, those of pairs."""
        if groups is None and isinstance(rows, Pairs) and isinstance(self.cv, ColdStartKFold):
            return rows.pairs
        return groups

    def _exchanges(self: Any, groups: Any) -> bool:
        """Whether folds take samples, or groups of equal size, for exchangeable: then noise is known."""
        splitters = (numbers.Integral, *EXCHANGING, *(() if groups is None else EXCHANGING_GROUPS))
        return np.ndim(groups) < 2 and (self.cv is None or isinstance(self.cv, splitters))

    def _weighed_splits(self: Any, y: Array, weight: Array, groups: Any) -> list[Split]:
        """Return the splits that can say something: samples of weight zero count as absent, and may be all of a part.

        A fold without weight among its training rows has no model, and one without weight among its held-out rows no
        score.
        """
        splits = list(self._splits(y, groups))
        found = [split for split in splits if all(weight[part].any() for part in split)]
        left_out = len(splits) - len(found)
        if not found:
            raise InvalidInputError(
                f"All {len(splits)} folds lack samples of positive weight among those to learn from or those held out. "
                "Take fewer folds, shuffle them (KFold(5, shuffle=True)), or drop the samples of weight zero first."
            )
        if left_out:
            warnings.warn(
                f"{left_out} of {len(splits)} folds lack samples of positive weight among those to learn from or those "
                "held out, and are left out. Shuffle the folds, or drop the samples of weight zero first.",
                UserWarning,
                stacklevel=3,
            )
        return found

    def _splits(self: Any, y: Array, groups: Any) -> Iterator[tuple[Array, Array]]:
        return iter(splits_of(self.cv, y, groups, classifier=self._task == "classification"))

    def _choose(self: Any, found: PenaltyGrid, folds: list[GridScores], otherwise: int, evidence: Evidence) -> None:
        """Keep the best candidate; without any fold that was scored, the one of the index ``otherwise``."""
        scores = np.array([fold.scores for fold in folds] or [[np.nan] * len(found)])
        means = scores.mean(axis=0)
        if folds and not np.isfinite(means).any():
            raise InvalidInputError("No candidate has a finite mean score over the folds; check scoring and cv.")
        # Of equal scores the first is taken: of one path, the strongest penalty.
        self.best_index_ = int(np.nanargmax(means)) if folds else otherwise
        ends = np.cumsum([len(grid) for grid in found.alphas])
        path = int(np.searchsorted(ends, self.best_index_, side="right"))
        if self.alphas is None and not self._beats_constant(folds, evidence):
            self.best_index_ = int(ends[path] - len(found.alphas[path]))  # the strength under which no kernel is left
        self.best_score_ = float(means[self.best_index_])
        self.alphas_ = found.alphas[0] if len(found.alphas) == 1 else np.array(found.alphas)
        self.n_folds_ = len(folds)
        family = found.families[path]
        self.alpha_ = float(np.concatenate(found.alphas)[self.best_index_])
        self.l1_ratio_ = family.l1_ratio
        self.kernel_penalties_ = self.kernel_penalties if family.factors is None else family.factors
        self.mixing_ = self.best_per_target_ = None  # of searches
        self._family, self._position = family, (path, self.best_index_ - int(ends[path] - len(found.alphas[path])))
        n_active = np.array([fold.n_active for fold in folds] or [[np.nan] * len(found)]).mean(axis=0)
        self.cv_results_ = _results(found, scores, n_active)
        unfinished = sum(fold.unfinished for fold in folds)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {scores.size} models of the folds stopped short of tol="
                f"{self._search_options.fold_tol or self.tol:g}: raise max_iter, loosen tol or fold_tol, or "
                "leave out the smallest strengths.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _beats_constant(self: Any, folds: list[GridScores], evidence: Evidence) -> bool:
        """Whether the best candidate of a grid is ahead of the best constant by evidence; true where nobody knows."""
        constants = np.array([[fold.constant] for fold in folds])
        if not folds or not np.isfinite(constants).all():
            return True
        scores = np.array([[fold.scores[self.best_index_]] for fold in folds])
        return bool(evidence.finding(scores, constants).all())

    def _why_none(self: Any, fit: Fit) -> str:
        """Return why no target has a kernel."""
        if self.alphas is not None or not np.isfinite(self.best_score_):
            return str(super()._why_none(fit))  # type: ignore[misc]  # of the plain estimator, beside this mixin
        return (
            f"no kernel predicts better than a constant in {counted(self.n_folds_, 'fold')}, and the model is that "
            "constant. Are these the kernels and columns that matter, and are there enough samples? Give alphas to see "
            "what they do."
        )

    def _warn_at_edge(self: Any, found: PenaltyGrid) -> None:
        path, position = self._position
        grid = found.alphas[path]
        nothing = position == 0 and self.alphas is None  # which has been said
        if len(grid) > 1 and not nothing and position in (0, len(grid) - 1):
            side, advice = ("largest", "larger") if position == 0 else ("smallest", "smaller")
            warnings.warn(
                f"The best strength, alpha={self.alpha_:.4g}, is the {side} of the grid. The best one may lie beyond "
                f"it: extend the grid to {advice} values.",
                UserWarning,
                stacklevel=3,
            )


def _results(found: PenaltyGrid, scores: Array, n_active: Array) -> pd.DataFrame:
    columns: dict[str, Any] = {"alpha": np.concatenate(found.alphas)}
    sizes = [len(grid) for grid in found.alphas]
    if found.families[0].l1_ratio is not None:
        columns["l1_ratio"] = np.repeat([family.l1_ratio for family in found.families], sizes)
    if found.families[0].factors is not None:
        columns["kernel_penalties"] = np.repeat([str(dict(family.factors)) for family in found.families], sizes)
    columns |= {"mean_score": scores.mean(axis=0), "std_score": scores.std(axis=0), "n_active": n_active}
    return pd.DataFrame(columns | {f"score_{fold}": row for fold, row in enumerate(scores)})
