"""What the chosen model says of the rows that each fold held out: predictions, and what they lose without a column.

The folds are still open when the choice is made, so that it costs one more model a fold, of the chosen strength alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.estimators.selection.folds import Fold, HeldOut, encoded_like
from manykernels.estimators.supervised.explanation import FOLDS
from manykernels.estimators.supervised.importance import units_of
from manykernels.estimators.supervised.leave_out import LeftOut
from manykernels.kernels import Pairs
from manykernels.objective.losses.cox import STRATUM
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.selection.rules import Candidate
    from manykernels.estimators.selection.search import Rung
    from manykernels.estimators.selection.splits import Split
    from manykernels.estimators.supervised.base import BaseMKL
    from manykernels.estimators.supervised.problems import Fit
    from manykernels.estimators.supervised.samples import Samples


@dataclass(frozen=True, eq=False)
class Recording(HeldOut):
    """Held-out samples that note what is said of them instead of scoring it."""

    said: list[tuple[Array, Any]] = field(default_factory=list)  # scores (n, K), and the model

    def score(self, model: BaseMKL, losses: Sequence[Any], scores: Array, complete: Callable[[], BaseMKL]) -> Array:
        """Note scores and model."""
        self.said.append((scores, complete()))
        return np.zeros(scores.shape[1])


@contextmanager
def recording(folds: Sequence[Fold]) -> Iterator[list[Recording]]:
    """Let folds note what their models say of held-out rows."""
    before = [fold.held_out for fold in folds]
    own = [Recording(**{part.name: getattr(held, part.name) for part in fields(HeldOut)}) for held in before]
    try:
        for fold, held in zip(folds, own, strict=True):
            fold.held_out = held
        yield own
    finally:
        for fold, scored in zip(folds, before, strict=True):
            fold.held_out = scored


@dataclass(frozen=True, eq=False)
class FoldModel:
    """What a model of one fold says of the rows that it has not seen."""

    rows: Array  # (n,) int: positions among all rows
    target: Array  # (n, K): as losses take it
    weight: Array  # (n,)
    scores: Array  # (n, K)
    kernels: Array  # (m,) int: active ones
    parts: Array  # (m, n, K)
    models: tuple[Any, ...]  # those that the scores are of


@dataclass(frozen=True, eq=False)
class KeptFold:
    """A fold that predicts new rows: functions of its model, or of the models that its targets have of their own."""

    rows: Array  # (n,) int: positions of the rows that it held out, among all
    shown: Array  # (n, ...): what it says of them, as users see it: predictions, probabilities, decisions
    expansions: tuple[Any, ...]
    intercepts: tuple[Array, ...]  # (K,) each
    own: Array  # (K,) int: which of the expansions each target takes

    @classmethod
    def of(cls, said: FoldModel, shown: Array, model: Any) -> KeptFold:
        """Keep what predicts of the models of a fold."""
        several = model.best_per_target_ if len(said.models) > 1 else np.zeros(said.scores.shape[1], dtype=np.intp)
        own = np.array([list(dict.fromkeys(several)).index(one) for one in several], dtype=np.intp)
        expansions = tuple(each._expansion for each in said.models)
        return cls(said.rows, shown, expansions, tuple(np.atleast_1d(each.intercept_) for each in said.models), own)

    def says(self, model: Any, X: Any, method: str = "predict") -> Array:
        """Return what a method of the final model says of rows by the functions of this fold."""
        each = [
            model._predicting(expansion, intercepts, model._loss)._scores(X)
            for expansion, intercepts in zip(self.expansions, self.intercepts, strict=True)
        ]
        known = model._with_scores(X, np.column_stack([each[at][:, k] for k, at in enumerate(self.own)]))
        return np.asarray(getattr(known, method)(X))


def said_by(held: Recording, rows: Array, *, columns: Sequence[int] | None = None, at: int = -1) -> FoldModel:
    """Return what was noted of a fold, or of some of its targets only: the others keep places of zeros."""
    scores, model = held.said[at]
    weight = np.ones(len(rows)) if held.weight is None else held.weight
    expansion = model._expansion
    parts = np.zeros((0, *scores.shape))
    if expansion.active.size:
        parts = expansion.active_contributions(held.rows)
    if columns is not None:
        mine = np.isin(np.arange(scores.shape[1]), columns)
        scores, parts = scores * mine, parts * mine
    target = encoded_like(model, held.target)
    return FoldModel(rows, target, weight, scores, expansion.active, parts, (model,))


def _shown(model: BaseEstimator, scores: Array) -> Any:
    """Return what a user sees of scores: probabilities of classes, decisions, or predictions."""
    rows: Any = object()
    known = model._with_scores(rows, scores)
    for name in ("predict_proba", "decision_function") if hasattr(model, "classes_") else ():
        if hasattr(known, name):
            return getattr(known, name)(rows)
    return known.predict(rows)


def joined(models: Sequence[FoldModel]) -> FoldModel:
    """Return what models of the same fold say of different targets, as one."""
    first = models[0]
    if len(models) == 1:
        return first
    kernels = np.unique(np.concatenate([own.kernels for own in models]))
    parts = np.zeros((len(kernels), *first.scores.shape))
    for own in models:
        parts[np.searchsorted(kernels, own.kernels)] += own.parts
    scores = np.sum([own.scores for own in models], axis=0)
    return replace(first, scores=scores, kernels=kernels, parts=parts, models=tuple(own.models[0] for own in models))


class KeepsHeldOut:
    """The part of the estimators with built-in cross-validation that keeps what folds say of the choice."""

    def _record(self: Any, folds: Rung, found: list[Candidate], splits: list[Split]) -> None:
        """Note what the folds say of the candidate, or those of each target, that was chosen."""
        best = [self.best_index_] if self.best_per_target_ is None else self.best_per_target_
        chosen = list(dict.fromkeys(int(index) for index in best))
        with recording(folds.folds) as held:
            for index in chosen:
                list(folds.tried(found[index].family, [found[index].strength]))
        folds.forget()
        if any(len(own.said) != len(chosen) for own in held):
            return
        of = [[k for k, index in enumerate(best) if index == one] for one in chosen]
        several = len(chosen) > 1
        self._held_out_models = [
            joined([said_by(own, test, columns=of[at] if several else None, at=at) for at in range(len(chosen))])
            for own, (_, test) in zip(held, splits, strict=True)
        ]

    def _keep_importance(self: Any, fit: Fit, samples: Samples, losses: Sequence[Any], kernels: Any) -> None:
        """Keep what the folds tell, where they were asked."""
        models: list[FoldModel] | None = self.__dict__.pop("_held_out_models", None)
        for name in ("cv_predictions_", "_fold_models"):
            self.__dict__.pop(name, None)
        usable = models and all(own.scores.shape[1] == self._expansion.n_targets for own in models)
        if models is None or not usable:
            super()._keep_importance(fit, samples, losses, kernels)  # type: ignore[misc]  # of the plain estimator
            return
        super()._keep_importance(fit, samples, losses, None)  # type: ignore[misc]  # likewise
        shown = [np.asarray(_shown(own.models[0], own.scores)) for own in models]
        self.cv_predictions_ = _by_row(models, shown, samples.n_given)
        if self._search_options.keep_folds:
            self._fold_models = [KeptFold.of(own, said, self) for own, said in zip(models, shown, strict=True)]
        if self._expansion.active.size and not isinstance(samples.rows, Pairs):
            self._lost_by, self._importance_method = self._lost_in_folds(models, losses), FOLDS

    def _lost_in_folds(self: Any, models: Sequence[FoldModel], losses: Sequence[Any]) -> dict[str, Array]:
        """Return what predictions of held-out rows lose, by the columns and by the kernels of the final model."""
        active = self._expansion.active
        columns = self._kernel_frame["columns"].to_numpy()
        units = units_of(self._expansion.bank, len(active))
        names = [columns[active[members[0]]] for members in units]
        by_kernel = [[int(m)] for m in active]
        by_columns = [np.flatnonzero(columns == name).tolist() for name in names]
        kernels = np.unique(np.concatenate([own.kernels for own in models])).astype(np.intp)
        place = {int(m): at for at, m in enumerate(kernels)}
        parts = np.concatenate([_placed(own, kernels) for own in models], axis=1)
        left = LeftOut(
            np.concatenate([own.scores for own in models]),
            parts,
            tuple(losses),
            np.concatenate([_apart(own.target, fold, losses) for fold, own in enumerate(models)]),
            np.concatenate([own.weight for own in models]),
        )
        return {
            name: left.drops([[place[m] for m in members if m in place] for members in wanted])
            for name, wanted in (("columns", by_columns), ("kernel", by_kernel))
        }


def _placed(own: FoldModel, kernels: Array) -> Array:
    """Return the parts of a fold as those of more kernels."""
    parts = np.zeros((len(kernels), *own.scores.shape))
    parts[np.searchsorted(kernels, own.kernels)] = own.parts
    return parts


def _apart(target: Array, fold: int, losses: Sequence[Any]) -> Array:
    """Return targets; times of different folds belong to different risk sets, as their scores do not compare."""
    if not losses[0].couples_samples:
        return target
    return np.sign(target) * (np.abs(target) + STRATUM * len(target) * fold)


def _by_row(models: Sequence[FoldModel], shown: Sequence[Array], n_rows: int) -> Array:
    """Return what the folds say of each row, the mean of several, NaN for rows that none held out."""
    total, count = np.zeros((n_rows, *shown[0].shape[1:])), np.zeros(n_rows)
    for own, said in zip(models, shown, strict=True):
        np.add.at(total, own.rows, said)
        np.add.at(count, own.rows, 1.0)
    with np.errstate(invalid="ignore"):
        return total / count.reshape(-1, *[1] * (total.ndim - 1))
