"""How well a model does, honestly: on held-out rows or in refits on folds, with intervals, beside simpler models."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing

from manykernels.estimators import GaussianMKL, NonlinearMKL, concordance_index
from manykernels.estimators.groups import with_kernels_of
from manykernels.estimators.selection.splits import CrossValidation, splits_of
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.inspection.evidence.importance import pooled_drops, score_drops
from manykernels.inspection.pipelines import after_steps_of, fresh, last_step, unwrapped
from manykernels.inspection.reports.baselines import baselines_for
from manykernels.inspection.reports.scores import METRICS, SURVIVAL, Draws, Score, areas_under_curve
from manykernels.kernels import Pairs
from manykernels.validation.arrays import TableLike

Array = NDArray[Any]

N_SHUFFLES = 10  # of each view and part of the rows
AREA = "area under the ROC curve"
FOLDS, HELD_OUT, TRAINING = "folds", "held out", "training"
IMBALANCED = 0.5  # a class with less than this part of an equal share makes accuracy misleading


@dataclass(frozen=True)
class Rival:
    """A simpler model: its score, and how much the model is better."""

    name: str
    score: Score
    better_by: Score


@dataclass(frozen=True)
class Evaluation:
    """What was predicted for rows with known targets, and how good that was."""

    way: str  # "folds", "held out" or "training"
    n_folds: int  # zero without folds; with rows other than those of the fit, folds that only rivals were learned on
    # of survival, targets whose strata are also apart by folds, since risks of different models do not compare
    truth: Array
    # of survival, targets whose strata are also apart by folds, since risks of different models do not compare
    predicted: Array
    scores: tuple[Score, ...]  # the first is the one that rivals are compared by
    rivals: tuple[Rival, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # rivals that were not learned, and why
    selected_again: Counter[str] | None = None  # for kernels by name: in how many refits they were selected
    unfinished: int = 0  # refits that stopped above the tolerance
    # name, importance, low, high: what importance_of falls by on rows that were not fitted when a view or column
    # tells nothing. None where there are no such rows, or no views
    importance: pd.DataFrame | None = None
    importance_of: str = ""  # the score that falls


@dataclass(frozen=True)
class SplitRows:
    """Rows with their targets, and the folds into which they are split."""

    X: TableLike
    y: Array
    splits: list[tuple[Array, Array]]

    def take(self, rows: Array) -> tuple[Any, Array]:
        """Return some rows and their targets."""
        return _safe_indexing(self.X, rows), self.y[rows]


def evaluate(
    model: BaseEstimator,
    task: str,
    X: TableLike,
    y: Array,
    *,
    test: tuple[Any, Array] | None,
    cv: CrossValidation,
    groups: ArrayLike | None,
    baselines: bool,
    n_draws: int,
    seed: int,
) -> Evaluation:
    """Predict rows with known targets without having seen them, unless ``cv`` is None, and score the predictions."""
    unseen = test if test is not None else ((X, y) if len(y) != _n_trained(model) else None)
    way = HELD_OUT if unseen is not None else (TRAINING if cv is None else FOLDS)
    rows, truth = SplitRows(X, y, _splits(task, y, cv, groups, seed)), y if unseen is None else unseen[1]
    shuffled = Shuffled.of(model, task, seed)
    if way == FOLDS:
        guesses = _refit(model, rows, shuffled)
    else:
        guesses = _predict(model, X if unseen is None else unseen[0])
        if unseen is not None:
            shuffled.add_parts(model, *unseen)
    n_folds = len(rows.splits) if test is None and cv is not None else 0
    if task == SURVIVAL:
        truth = apart_by_folds(truth, rows.splits) if n_folds else truth
        concordance_index(truth, guesses.predicted)  # or a word on why there is none
    draws, names = Draws(len(truth), n_draws, seed), _metrics(task, truth)
    scores = [draws.score(name, METRICS[name](draws.counts, truth, guesses.predicted)) for name in names]
    if guesses.ranks is not None and guesses.ranks.ndim == 1 and len(np.unique(truth)) == 2:
        areas = areas_under_curve(draws.counts, truth == model.classes_[1], guesses.ranks)
        scores.insert(1, draws.score(AREA, areas))
    rivals: tuple[Rival, ...] = ()
    left_out: dict[str, str] = {}
    # Simpler models that were held to unseen rows do not compare with a score on the training rows.
    if baselines and way != TRAINING:
        rivals, left_out = _rivals(model, task, rows, test, truth, guesses.predicted, draws, names[0])
    return Evaluation(
        way=way,
        n_folds=n_folds,
        truth=truth,
        predicted=guesses.predicted,
        scores=tuple(scores),
        rivals=rivals,
        left_out=left_out,
        selected_again=guesses.selected_again,
        unfinished=guesses.unfinished,
        importance=shuffled.table(rows.splits if way == FOLDS else None),
        importance_of=shuffled.name,
    )


@dataclass
class Shuffled:
    """What the score of unseen rows falls by when what a view or column says is shuffled."""

    name: str
    scoring: str | None
    random: np.random.Generator
    drops: list[dict[str, Array]] = field(default_factory=list)
    possible: bool = True

    @classmethod
    def of(cls, model: BaseEstimator, task: str, seed: int) -> Shuffled:
        """Return nothing yet, of the score that fits a task: that of probabilities where the model has them."""
        random = np.random.default_rng(seed)
        if task == "classification":
            proper = hasattr(model, "predict_proba")
            return cls("log loss", "neg_log_loss", random) if proper else cls("accuracy", None, random)
        return cls("R2" if task == "regression" else "concordance index", None, random)

    def add(self, model: BaseEstimator, X: TableLike, y: Array) -> None:
        """Shuffle rows that a fitted model has not seen."""
        estimator, rows = unwrapped(model, X)
        whole = self.scoring is None or len(np.unique(y)) == len(model.classes_)  # log losses need every class
        if not self.possible or not hasattr(estimator, "kernel_names_") or isinstance(rows, Pairs) or len(y) < 2:
            self.possible = False
        elif whole and estimator.kernel_weights_.any():
            self.drops.append(score_drops(estimator, rows, y, "view", N_SHUFFLES, self.scoring, self.random))
        elif whole:
            self.drops.append({})

    def add_parts(self, model: BaseEstimator, X: TableLike, y: Array) -> None:
        """Shuffle within parts of the rows, so that drops have a spread."""
        order = self.random.permutation(len(y))
        for part in np.array_split(order, max(1, min(5, len(y) // 20))):
            self.add(model, _safe_indexing(X, part), y[part])

    def table(self, splits: list[tuple[Array, Array]] | None) -> pd.DataFrame | None:
        """Return the drops, the largest first."""
        if not self.possible or not self.drops:
            return None
        apart = [(np.empty(0), np.empty(0))] * len(self.drops)  # one model: its parts share no training rows
        return pooled_drops(self.drops, apart if splits is None else splits)


@dataclass(frozen=True)
class Guesses:
    """Predictions of rows, and what was seen on the way."""

    predicted: Array
    ranks: Array | None
    selected_again: Counter[str] | None = None
    unfinished: int = 0


def _predict(model: BaseEstimator, X: TableLike) -> Guesses:
    return Guesses(np.asarray(model.predict(X)), _ranks(model, X))


def _n_trained(model: BaseEstimator) -> int:
    fitted = last_step(model)
    found = fitted.solution_
    return int(getattr(fitted, "_n_samples", len((found[0] if isinstance(found, tuple) else found).dual_coef)))


def _metrics(task: str, truth: Array) -> list[str]:
    """Return names of scores, the first for comparisons."""
    if task == SURVIVAL:
        return ["concordance index"]
    if task == "regression":
        return ["R2", "root mean squared error", "mean absolute error"]
    counts = np.unique(truth, return_counts=True)[1]
    if counts.min() < IMBALANCED * len(truth) / len(counts):
        return ["balanced accuracy", "accuracy"]
    return ["accuracy", "balanced accuracy"]


def _splits(task: str, y: Array, cv: CrossValidation, groups: ArrayLike | None, seed: int) -> list[tuple[Array, Array]]:
    """Return the folds; a number of folds is shuffled, and no larger than the smallest class allows.

    Of survival, those with the event and those without are the classes: a fold without events teaches nothing.
    """
    splitter, y = 5 if cv is None else cv, y["event"] if task == SURVIVAL else y
    classifies = task != "regression"
    if isinstance(splitter, (int, np.integer)) and groups is None:
        smallest = int(np.unique(y, return_counts=True)[1].min()) if classifies else 0
        if smallest >= 2:
            splitter = StratifiedKFold(min(int(splitter), smallest), shuffle=True, random_state=seed)
        else:
            splitter = KFold(min(int(splitter), len(y)), shuffle=True, random_state=seed)
    splits = splits_of(splitter, y, groups, classifier=classifies)
    held_out = np.concatenate([test for _, test in splits])
    if len(np.unique(held_out)) != len(held_out) or len(held_out) != len(y):
        raise InvalidInputError("cv must hold out every row exactly once; give a number or a KFold-like splitter.")
    return splits


def apart_by_folds(target: Array, splits: list[tuple[Array, Array]]) -> Array:
    """Return a target of survival in which samples of different folds are of different strata."""
    fold = np.empty(len(target), dtype=np.int64)
    for number, (_, held_out) in enumerate(splits):
        fold[held_out] = number
    apart = target.copy()
    apart["stratum"] = np.unique(np.stack([fold, target["stratum"]]), axis=1, return_inverse=True)[1].ravel()
    return apart


def _refit(model: BaseEstimator, rows: SplitRows, shuffled: Shuffled) -> Guesses:
    """Return predictions of every row by a model that did not see it, and what the refits selected."""
    predicted, ranks = [], []
    again: Counter[str] = Counter()
    unfinished = 0
    decided = with_kernels_of(model, rows.X)
    for train, held_out in rows.splits:
        again_model = fresh(decided)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again_model.fit(*rows.take(train))
        unfinished += any(issubclass(one.category, ConvergenceWarning) for one in caught)
        shown, _ = unwrapped(again_model)
        weights = np.atleast_2d(shown.kernel_weights_)
        again.update(np.asarray(shown.kernel_names_)[(weights > 0).any(axis=0)].tolist())
        at, known = rows.take(held_out)
        shuffled.add(again_model, at, known)
        predicted.append(again_model.predict(at))
        ranks.append(_ranks(again_model, at))
    order = np.argsort(np.concatenate([held_out for _, held_out in rows.splits]), kind="stable")
    single = [rank for rank in ranks if rank is not None and rank.ndim == 1]
    all_ranks = np.concatenate(single)[order] if len(single) == len(ranks) else None
    # Widths that are learned differ from refit to refit, and their names with them.
    comparable = not isinstance(last_step(model), (GaussianMKL, NonlinearMKL))
    return Guesses(np.concatenate(predicted)[order], all_ranks, again if comparable else None, unfinished)


def _ranks(model: BaseEstimator, X: TableLike) -> Array | None:
    return np.asarray(model.decision_function(X)) if hasattr(model, "decision_function") else None


def _rivals(
    model: BaseEstimator,
    task: str,
    rows: SplitRows,
    unseen: tuple[Any, Array] | None,
    truth: Array,
    predicted: Array,
    draws: Draws,
    metric: str,
) -> tuple[tuple[Rival, ...], dict[str, str]]:
    """Learn simpler models in the same way, and compare on the same draws."""
    estimator, read = unwrapped(model, rows.X)
    chosen, left_out = baselines_for(estimator, task, read, len(estimator.kernel_names_))
    chosen = {name: after_steps_of(model, rival) for name, rival in chosen.items()}
    own = METRICS[metric](draws.counts, truth, predicted)
    found = []
    for name, rival in chosen.items():
        try:
            guessed = _predict_unseen(rival, rows, unseen)
        except (ValueError, TypeError) as error:
            # A comparison that fails must not cost the report.
            left_out[name] = f"it failed: {str(error).splitlines()[0][:120]}"
            continue
        values = METRICS[metric](draws.counts, truth, guessed)
        found.append(Rival(name, draws.score(metric, values), draws.score("difference", own - values)))
    return tuple(found), left_out


def _predict_unseen(rival: BaseEstimator, rows: SplitRows, unseen: tuple[Any, Array] | None) -> Array:
    """Return predictions of rows that the model did not see."""
    with warnings.catch_warnings():
        # Of models that are not the subject of the report.
        warnings.simplefilter("ignore")
        if unseen is not None:
            return np.asarray(clone(rival).fit(rows.X, rows.y).predict(unseen[0]))
        parts = [clone(rival).fit(*rows.take(train)).predict(rows.take(held_out)[0]) for train, held_out in rows.splits]
    return _in_order(parts, (held_out for _, held_out in rows.splits))


def _in_order(parts: list[Any], places: Iterable[Array]) -> Array:
    order = np.argsort(np.concatenate(list(places)), kind="stable")
    return np.asarray(np.concatenate([np.asarray(part) for part in parts])[order])
