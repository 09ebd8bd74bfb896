"""Out-of-fold results of the chosen model: predictions, and importances of columns.

The folds are still open when the choice is made, at the cost of a further model per fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.estimators.selection.folds import HeldOut, OpenedKernels
from manykernels.estimators.selection.scores import encoded_like
from manykernels.estimators.selection.strengths import Evidence, explain_doubt, find_doubtful
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.explanation import FOLDS
from manykernels.estimators.supervised.importance import LeftOut, units_of
from manykernels.exceptions import ConvergenceWarning, InvalidInputError, warn
from manykernels.kernels import Pairs
from manykernels.objective.losses.coupled import STRATUM
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import drop_attributes

if TYPE_CHECKING:
    from manykernels.estimators.selection.folds import Split
    from manykernels.estimators.selection.search import Rung
    from manykernels.estimators.selection.targets import HeldOutTargets
    from manykernels.estimators.supervised.problems import Fit
    from manykernels.estimators.supervised.samples import Samples
    from manykernels.solvers.fold import Candidate, Fold


@dataclass(frozen=True, eq=False)
class Recording(HeldOut):
    """Held-out samples with recorded predictions in place of scores."""

    said: list[tuple[Array, Any]] = field(default_factory=list)  # scores (n, K), and the model

    def score(
        self,
        model: BaseMKL,
        losses: Sequence[Any],
        scores: Array,
        complete: Callable[[], BaseMKL],
        trained: Callable[[], Any] | None = None,
    ) -> Array:
        """Record scores and model, without the caches of the functions."""
        self.said.append((scores, complete()))
        self.said[-1][1]._expansion.let_go()
        return np.zeros(scores.shape[1])


@contextmanager
def recording(folds: Sequence[Fold[OpenedKernels, HeldOut]]) -> Iterator[list[Recording]]:
    """Record held-out predictions of the models in folds."""
    before = [fold.held_out for fold in folds]
    own = [Recording(held.rows, held.target, held.weight, None, held.by_target) for held in before]
    try:
        for fold, held in zip(folds, own, strict=True):
            fold.held_out = held
        yield own
    finally:
        for fold, scored in zip(folds, before, strict=True):
            fold.held_out = scored


@dataclass(frozen=True, eq=False)
class FoldModel:
    """Predictor of new rows in a fold: functions of the model, or of the models per target."""

    rows: Array  # (n,) int: positions of the rows that it held out, among all
    shown: Array  # (n, ...): what it says of them, as users see it: predictions, probabilities, decisions
    expansions: tuple[Any, ...]
    intercepts: tuple[Array, ...]  # (K,) each
    own: Array  # (K,) int: which of the expansions each target takes

    def says(self, model: Any, X: Any, method: str = "predict") -> Array:
        """Return the result of a method of the final model on rows, by the functions of the fold."""
        each = [
            model._predicting(expansion, intercepts, model._loss)._scores(X)
            for expansion, intercepts in zip(self.expansions, self.intercepts, strict=True)
        ]
        known = model._attach_scores(X, np.column_stack([each[at][:, k] for k, at in enumerate(self.own)]))
        return np.asarray(getattr(known, method)(X))


Parts = tuple["FoldModel", "Array", LeftOut]  # a fold's model, its active kernels, and what each adds to held-out rows


def said_of(held: Recording, rows: Array, columns: Sequence[Sequence[int]]) -> Parts:
    """Return the model of a fold composed of recorded models per target, and the parts of the scores."""
    models = [model for _, model in held.said]
    expansions = tuple(model._expansion for model in models)
    kernels = np.unique(np.concatenate([expansion.active for expansion in expansions])).astype(np.intp)
    scores = np.zeros_like(held.said[0][0])
    own, parts = np.zeros(scores.shape[1], dtype=np.intp), np.zeros((len(kernels), *scores.shape))
    for at, (mine, expansion) in enumerate(zip(columns, expansions, strict=True)):
        mine = list(mine) if len(columns) > 1 else list(range(len(own)))
        own[mine], scores[:, mine] = at, held.said[at][0][:, mine]
        if expansion.active.size:
            added = expansion.active_contributions(held.rows)
            parts[np.searchsorted(kernels, expansion.active)[:, None], :, mine] = added[:, :, mine].transpose(0, 2, 1)
            expansion.let_go()
    weight = np.ones(len(rows)) if held.weight is None else held.weight
    intercepts = tuple(np.atleast_1d(model.intercept_) for model in models)
    fold = FoldModel(rows, np.asarray(_convert_scores(models[0], scores)), expansions, intercepts, own)
    target = encoded_like(models[0], held.target)
    target = np.nan_to_num(target) if target.dtype.kind == "f" else target  # missing labels: constant losses
    return fold, kernels, LeftOut(scores, parts, (), target, weight)


def _convert_scores(model: BaseEstimator, scores: Array) -> Any:
    """Return the user-facing form of scores: probabilities, decisions, or predictions."""
    rows: Any = object()
    known = model._attach_scores(rows, scores)
    for name in ("predict_proba", "decision_function") if hasattr(model, "classes_") else ():
        if hasattr(known, name):
            return getattr(known, name)(rows)
    return known.predict(rows)


class KeepsHeldOut(BaseMKL):
    """The part of the CV estimators that keeps held-out predictions of the choice."""

    def _record(self, folds: Rung, found: list[Candidate], splits: list[Split]) -> None:
        """Record the held-out predictions of the chosen candidate, or of the candidate of every target."""
        best = [self.best_index_] if self.best_per_target_ is None else self.best_per_target_
        chosen = list(dict.fromkeys(int(index) for index in best))
        with recording(folds.folds) as held:
            for index in chosen:
                list(folds.try_strengths(found[index].family, [found[index].strength]))
        folds.forget()
        if any(len(own.said) != len(chosen) for own in held):
            return
        of = [[k for k, index in enumerate(best) if index == one] for one in chosen]
        self._held_out_models = [said_of(own, test, of) for own, (_, test) in zip(held, splits, strict=True)]

    def _keep_importance(self, fit: Fit, samples: Samples, losses: Sequence[Any], kernels: Any) -> None:
        """Keep the importances of the folds, on request."""
        told: list[Parts] = getattr(self, "_held_out_models", [])
        targets: HeldOutTargets | None = getattr(self, "_held_out_targets", None)
        drop_attributes(self, ("_held_out_models", "_held_out_targets", "cv_predictions_", "_fold_models"))
        if targets is not None:
            super()._keep_importance(fit, samples, losses, None)
            self.cv_predictions_ = targets.predictions
            self._lost_by, self._importance_method = targets.lost(self._expansion.active, self._unit_names), FOLDS
            return
        if not told or any(len(fold.own) != self._expansion.n_targets for fold, *_ in told):
            super()._keep_importance(fit, samples, losses, kernels)  # of the plain estimator
            return
        super()._keep_importance(fit, samples, losses, None)
        models = [fold for fold, *_ in told]
        self.cv_predictions_ = _average_rows(models, samples.n_given)
        if self._search_options.keep_folds:
            self._fold_models = models
        if self._expansion.active.size and not isinstance(samples.rows, Pairs):
            self._lost_by, self._importance_method = self._lost_in_folds(told, losses), FOLDS

    def _against_constant(
        self, judged: Callable[[Array, Array], Array], candidates: list[Candidate], folds: Rung
    ) -> Array:
        """Return the verdict on the best candidate against the constant, (1,); (0,) if unknown."""
        if (constants := folds.constants) is None or not len(constants) or not np.isfinite(constants).all():
            return np.zeros(0, dtype=bool)
        return judged(candidates[self.best_index_].scores, constants)

    @staticmethod
    def _check_scores(found: list[Candidate]) -> None:
        if not any(np.isfinite(candidate.scores.mean(axis=0)).any() for candidate in found):
            lacking = int((~np.isfinite(found[0].scores)).any(axis=1).sum())
            raise InvalidInputError(
                "No candidate has a finite mean score: it is not defined in "
                f"{lacking} of {len(found[0].scores)} folds, for example an area under the curve with rows of one "
                f"class. Use stratified folds (StratifiedKFold), or another scoring."
            )

    def _warn_of_unfinished(self, found: list[Candidate], short: str) -> None:
        unfinished = sum(candidate.unfinished for candidate in found)
        if unfinished:
            total = sum(len(candidate.scores) for candidate in found)
            told = f"{unfinished} of {total} models of the folds stopped short {short}."
            warn(told, ConvergenceWarning)

    def _warn_of_search(self, candidates: list[Candidate], evidence: Callable[[int], Evidence]) -> None:
        """Warn of an uncertain choice of a search."""
        taken = np.atleast_1d(self.best_index_ if self.best_per_target_ is None else self.best_per_target_)
        self._warn_of_doubt(find_doubtful(candidates, taken, own := evidence(len(taken))), own)

    def _warn_of_doubt(self, doubts: Array, evidence: Evidence) -> None:
        """Warn of an uncertain choice of kernels over the constant."""
        kept = np.any(np.atleast_2d(self.kernel_weights_), axis=1, keepdims=True)
        doubts = doubts & (kept[:, 0] if len(doubts) == len(kept) else kept.any())
        if doubts.any():
            warn(explain_doubt(doubts, evidence, self._target_labels(), self.n_folds_))

    @property
    def _unit_names(self) -> list[str]:
        """Names of the column sets of active kernels."""
        active, columns = self._expansion.active, self._kernel_frame["columns"].to_numpy()
        return [columns[active[members[0]]] for members in units_of(self._expansion.bank, len(active))]

    def _lost_in_folds(self, told: Sequence[Parts], losses: Sequence[Any]) -> dict[str, Array]:
        """Return the held-out losses without units, by the columns and by the kernels of the final model."""
        active, names = self._expansion.active, self._unit_names
        columns = self._kernel_frame["columns"].to_numpy()
        by_kernel = [[int(m)] for m in active]
        by_columns = [np.flatnonzero(columns == name).tolist() for name in names]
        kernels = np.unique(np.concatenate([own for _, own, _ in told])).astype(np.intp)
        place = {int(m): at for at, m in enumerate(kernels)}
        each = [held for *_, held in told]
        left = LeftOut(
            np.concatenate([held.scores for held in each]),
            np.concatenate([_extend_parts(own, held.parts, kernels) for _, own, held in told], axis=1),
            tuple(losses),
            np.concatenate([_apart(held.y, fold, losses) for fold, held in enumerate(each)]),
            np.concatenate([held.weight for held in each]),
        )
        lost = {
            name: left.drops([[place[m] for m in members if m in place] for members in wanted])
            for name, wanted in (("columns", by_columns), ("kernel", by_kernel))
        }
        return {**lost, "rows": np.array([float(len(left.weight))])}


def _extend_parts(own: Array, parts: Array, kernels: Array) -> Array:
    """Return the parts of a fold extended to more kernels."""
    placed = np.zeros((len(kernels), *parts.shape[1:]))
    placed[np.searchsorted(kernels, own)] = parts
    return placed


def _apart(target: Array, fold: int, losses: Sequence[Any]) -> Array:
    """Return targets; times of different folds belong to different risk sets, as their scores do not compare."""
    if not losses[0].couples_samples:
        return target
    return np.sign(target) * (np.abs(target) + STRATUM * len(target) * fold)


def _average_rows(models: Sequence[FoldModel], n_rows: int) -> Array:
    """Return held-out predictions of every row, averaged over folds, NaN for rows never held out."""
    total, count = np.zeros((n_rows, *models[0].shown.shape[1:])), np.zeros(n_rows)
    for own in models:
        np.add.at(total, own.rows, own.shown)
        np.add.at(count, own.rows, 1.0)
    with np.errstate(invalid="ignore"):
        return total / count.reshape(-1, *[1] * (total.ndim - 1))
