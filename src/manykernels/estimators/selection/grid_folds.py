"""The folds of a grid of strengths: each with kernels of its own, or all of them with those of all rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from sklearn.metrics import check_scoring

from manykernels.estimators.selection.folds import Candidates, FoldScores, complete, follow_paths
from manykernels.estimators.selection.shared_folds import (
    OWN,
    SHARED,
    SharedFolds,
    Split,
    obstacle_to_sharing,
    score_together,
)
from manykernels.estimators.supervised.samples import Rows, Samples
from manykernels.estimators.supervised.training import Training, as_bank
from manykernels.exceptions import IncompatibleError, MemoryBudgetError
from manykernels.objective.problem import Problem
from manykernels.solvers.deadline import check_deadline
from manykernels.solvers.progress import count_to
from manykernels.threads import blas_threads

if TYPE_CHECKING:
    from manykernels.estimators.selection.penalties import PenaltyFamily
    from manykernels.estimators.selection.stopping import Ending
    from manykernels.objective.losses import Loss
    from manykernels.validation.arrays import Array

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
        wish = getattr(self, "fold_kernels", OWN)
        plain = self._at_given_strength(samples.rows)
        obstacle = obstacle_to_sharing(wish, plain, samples, form, loss, penalties, splits, lambda: opened()[0])
        if wish == SHARED and obstacle is not None:
            raise IncompatibleError(f"fold_kernels='shared' cannot be had: {obstacle}. Or pass fold_kernels='auto'.")
        return obstacle is None

    def _score_folds(
        self: Any,
        samples: Samples,
        data: tuple[Rows, Array, Array],
        scoring_weight: Array | None,
        splits: list[Split],
        loss: Loss,
        found: Candidates,
        ending: Ending,
        *,
        form: str,
        opened: Opener | None,
    ) -> list[FoldScores]:
        """Return the scores of every candidate on every fold; of a search that ends early, what is of use.

        ``samples`` are those of positive weight among all rows, targets and weights, which are ``data``. Kernels of
        folds are held as those of all rows, which is ``form``; those that ``opened`` returns are the kernels of all
        folds, unless their factors are too many.
        """
        rows, target, weight = data
        scorer = check_scoring(self, scoring=self._scoring_of(loss))
        as_bank(self.kernels, rows).check(rows)

        def held_out(split: Split, advance: Any) -> FoldScores:
            weighed = None if scoring_weight is None else scoring_weight[split[1]]
            return FoldScores(scorer, rows[split[1]], target[split[1]], weighed, advance)

        folds: list[FoldScores] = []
        with ending.noted(), count_to(len(splits) * len(found), "models of the folds", self.verbose) as advance:
            if opened is not None:
                folds = [held_out(split, advance) for split in splits]
                if self._score_together(folds, samples, splits, found, opened):
                    return complete(folds, len(found))
                folds = []
            for train, test in splits:
                check_deadline()
                fold = held_out((train, test), advance)
                own = Samples.of(rows[train], target[train], weight[train])
                plain = self._at_given_strength(own.rows)
                plain._known_rows, plain.kernels_as = fold.rows, form
                folds.append(fold)
                for fitted in follow_paths(plain, plain._encoded(own), loss, found):
                    check_deadline()  # a model that was not finished for lack of time counts for nothing
                    fold.add(*fitted)
        return complete(folds, len(found))

    def _score_together(
        self: Any, folds: list[FoldScores], samples: Samples, splits: list[Split], found: Candidates, opened: Opener
    ) -> bool:
        """Score every candidate in all folds at once, on kernels of all rows; false if their factors are too many."""
        models = [self._at_given_strength(samples.rows) for _ in splits]
        for model, fold in zip(models, folds, strict=True):
            encoded = model._encoded(samples)
            model._known_rows, model._n_targets = fold.rows, encoded.y.shape[1]
        try:
            with blas_threads(len(samples.kept), self.n_jobs):
                shared = SharedFolds.opened(models[0], encoded, opened(), splits, self.tol)
                score_together(shared, models, folds, found)
        except (IncompatibleError, MemoryBudgetError):
            if self.fold_kernels == SHARED:
                raise
            return False
        return True
