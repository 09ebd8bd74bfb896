"""How well a model does, honestly: on held-out rows or in refits on folds, with intervals, beside simpler models."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing

from manykernels.estimators import GaussianMKL, KernelAligner, MKLSurvivalCV, NonlinearMKL, concordance_index
from manykernels.estimators.parameters import with_kernels_of
from manykernels.estimators.selection.splits import CrossValidation, splits_of
from manykernels.estimators.supervised.classifier import label_scores
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.inspection.evidence.importance import pooled_drops, score_drops
from manykernels.inspection.pipelines import after_steps_of, fresh, groups_in, last_step, unwrapped
from manykernels.inspection.reports.scores import (
    LABEL_ACCURACY,
    LABEL_AREA,
    LABELS,
    METRICS,
    SURVIVAL,
    Draws,
    Score,
    areas_under_curve,
    has_labels,
    label_areas,
)
from manykernels.kernels import KernelBank, Linear, Pairs, PrecomputedBank, Views
from manykernels.kernels.precomputed.stack import are_kernels
from manykernels.kernels.tables.encoding import level_text
from manykernels.validation.arrays import Array, TableLike

AREA = "area under the ROC curve"
FOLDS, HELD_OUT, TRAINING = "folds", "held out", "training"
IMBALANCED = 0.5  # a class with less than this part of an equal share makes accuracy misleading
CONSTANT, SUM = "best constant", "plain sum of the same kernels"
ONE_KERNEL = {
    "classification": "support vector machine, one Gaussian kernel (scikit-learn, tuned)",
    "regression": "kernel ridge, one Gaussian kernel (scikit-learn, tuned)",
    SURVIVAL: "Cox regression, linear with a ridge penalty (tuned)",
}
BOOSTING = "gradient boosting (scikit-learn, untouched)"
MOST_ENTRIES = 1e8  # of all Gram matrices, for their plain sum: about a second a fit
STRENGTHS = [0.01, 0.1, 1.0]
INNER_FOLDS = 3
RIDGE: dict[str, Any] = {"penalty": "ridge", "alphas": STRENGTHS, "cv": INNER_FOLDS}  # of Cox regressions


@dataclass(frozen=True)
class Rival:
    """A simpler model: the score, and how much the model is better."""

    name: str
    score: Score
    better_by: Score


@dataclass(frozen=True)
class Evaluation:
    """The predictions for rows with known targets, and the scores."""

    way: str  # "folds", "held out" or "training"
    n_folds: int  # zero without folds; with rows other than those of the fit, folds that only rivals were learned on
    # of survival, targets whose strata are also apart by folds, since risks of different models do not compare
    truth: Array
    # of survival, targets whose strata are also apart by folds, since risks of different models do not compare
    predicted: Array
    scores: tuple[Score, ...]  # the first compares the rivals; the area where a search was scored by it
    rivals: tuple[Rival, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # rivals that were not learned, and why
    selected_again: Counter[str] | None = None  # for kernels by name: in how many refits they were selected
    unfinished: int = 0  # refits that stopped above the tolerance
    # name, importance, low, high: what importance_of falls by on rows that were not fitted when a view or column
    # tells nothing. None where there are no such rows, or no views
    importance: pd.DataFrame | None = None
    importance_of: str = ""  # the score that falls
    mixes_rows: bool = False  # whether folds hold out rows that lie between those they learn from
    labels: pd.DataFrame | None = None  # scores of each label, and their means, of several for each sample


@dataclass(frozen=True)
class SplitRows:
    """Rows with their targets, and the folds."""

    X: TableLike
    y: Array
    splits: list[tuple[Array, Array]]
    groups: ArrayLike | None = None  # that folds keep together, inner ones of a search too

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
    """Predict unseen rows with known targets, unless ``cv`` is None, and score the predictions."""
    unseen = test if test is not None else ((X, y) if len(y) != _n_trained(model) else None)
    way = HELD_OUT if unseen is not None else (TRAINING if cv is None else FOLDS)
    rows = SplitRows(X, y, _splits(task, y, cv, groups, seed), groups)
    truth = y if unseen is None else unseen[1]
    shuffled = Shuffled.create(model, task, seed)
    guesses = _refit(model, rows, shuffled) if way == FOLDS else _predict(model, X, unseen, shuffled)
    n_folds = len(rows.splits) if test is None and cv is not None else 0
    if task == SURVIVAL:
        truth = apart_by_folds(truth, rows.splits) if n_folds else truth
        concordance_index(truth, guesses.predicted)  # or a word on why there is none
    draws = Draws(len(truth), n_draws, seed)
    scores, how = _score(model, task, truth, guesses, draws)
    labels = None
    if task == LABELS and guesses.ranks is not None:
        area, labels = _score_labels(model, truth, guesses.ranks, draws)
        scores.append(area)
    # Simpler models that were held to unseen rows do not compare with a score on the training rows.
    compared = baselines and way != TRAINING and task != LABELS
    rivals, left_out = _rivals(model, task, rows, test, *how) if compared else ((), {})
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
        mixes_rows=way == FOLDS and any(np.ptp(test) >= len(test) for _, test in rows.splits),
        labels=labels,
    )


@dataclass
class Shuffled:
    """The drop in score on unseen rows after permuting a view or column."""

    name: str
    scoring: str | None
    random: np.random.Generator
    drops: list[dict[str, Array]] = field(default_factory=list)
    possible: bool = True

    @classmethod
    def create(cls, model: BaseEstimator, task: str, seed: int) -> Shuffled:
        """Return an empty record with the score of the task: log loss where the model has probabilities."""
        random = np.random.default_rng(seed)
        if task == LABELS:
            return cls(LABEL_AREA, "roc_auc", random)
        if task == "classification":
            proper = hasattr(model, "predict_proba")
            return cls("log loss", "neg_log_loss", random) if proper else cls("accuracy", None, random)
        return cls("R2" if task == "regression" else "concordance index", None, random)

    def add(self, model: BaseEstimator, X: TableLike, y: Array) -> None:
        """Permute rows unseen by a fitted model."""
        estimator, rows = unwrapped(model, X)
        several = y.T if has_labels(model) else [y]  # log losses need every class, areas both values of every label
        n_values = None if self.scoring is None else 2 if has_labels(model) else len(model.classes_)
        whole = n_values is None or all(len(np.unique(own)) == n_values for own in several)
        n_shuffles = 10  # of each view and part of the rows
        if not self.possible or not hasattr(estimator, "kernel_names_") or isinstance(rows, Pairs) or len(y) < 2:
            self.possible = False
        elif whole and estimator.kernel_weights_.any():
            self.drops.append(score_drops(estimator, rows, y, "view", n_shuffles, self.scoring, self.random))
        elif whole:
            self.drops.append({})

    def add_parts(self, model: BaseEstimator, X: TableLike, y: Array) -> None:
        """Shuffle within parts of the rows, so drops have a spread."""
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
    """Predictions of rows, and the findings of the refits."""

    predicted: Array
    ranks: Array | None
    selected_again: Counter[str] | None = None
    unfinished: int = 0


def _metrics(task: str, truth: Array) -> list[str]:
    """Return names of scores, the first for comparisons."""
    if task == SURVIVAL:
        return ["concordance index"]
    if task == "regression":
        return ["R2", "root mean squared error", "mean absolute error"]
    if task == LABELS:
        return [LABEL_ACCURACY]
    counts = np.unique(truth, return_counts=True)[1]
    if counts.min() < IMBALANCED * len(truth) / len(counts):
        return ["balanced accuracy", "accuracy"]
    return ["accuracy", "balanced accuracy"]


def _splits(task: str, y: Array, cv: CrossValidation, groups: ArrayLike | None, seed: int) -> list[tuple[Array, Array]]:
    """Return the folds; a number of folds is shuffled, and no larger than the smallest class allows.

    For survival, samples with and without the event are the classes, since every fold needs events.
    """
    splitter, y = 5 if cv is None else cv, y["event"] if task == SURVIVAL else y
    classifies = task not in ("regression", LABELS)
    if isinstance(splitter, (int, np.integer)) and groups is None:
        smallest = int(np.unique(y, return_counts=True)[1].min()) if classifies else 0
        if smallest >= 2:
            splitter = StratifiedKFold(min(int(splitter), smallest), shuffle=True, random_state=seed)
        else:
            splitter = KFold(min(int(splitter), len(y)), shuffle=True, random_state=seed)
    splits = splits_of(splitter, y, groups, classifier=classifies, events=task == SURVIVAL)
    held_out = np.concatenate([test for _, test in splits])
    if len(np.unique(held_out)) != len(held_out) or len(held_out) != len(y):
        raise InvalidInputError(
            f"The folds of a report must hold out every row exactly once, but cv={cv!r} does not. Pass a number or a "
            f"splitter such as KFold or GroupKFold. For rows in order of time, hold out the last ones: "
            "report(model.fit(X[:n], y[:n]), X[:n], y[:n], X_test=X[n:], y_test=y[n:])."
        )
    return splits


def apart_by_folds(target: Array, splits: list[tuple[Array, Array]]) -> Array:
    """Return a survival target with the folds as strata."""
    fold = np.empty(len(target), dtype=np.int64)
    for number, (_, held_out) in enumerate(splits):
        fold[held_out] = number
    apart = target.copy()
    apart["stratum"] = np.unique(np.stack([fold, target["stratum"]]), axis=1, return_inverse=True)[1].ravel()
    return apart


def _n_trained(model: BaseEstimator) -> int:
    """Return the number of training rows."""
    fitted = last_step(model)
    solution = fitted.solution_[0] if isinstance(fitted.solution_, tuple) else fitted.solution_
    return int(getattr(fitted, "_n_samples", len(solution.dual_coef)))


def _score(
    model: BaseEstimator, task: str, truth: Array, guesses: Guesses, draws: Draws
) -> tuple[list[Score], tuple[Any, ...]]:
    """Return the scores of predictions, the deciding one first, and how simpler models are compared by it."""
    names = _metrics(task, truth)
    scores = [draws.score(name, METRICS[name](draws.counts, truth, guesses.predicted)) for name in names]
    measure, own = partial(METRICS[names[0]], draws.counts, truth), guesses.predicted
    by_area = False
    if guesses.ranks is not None and guesses.ranks.ndim == 1 and len(np.unique(truth)) == 2:
        areas = partial(areas_under_curve, draws.counts, truth == model.classes_[1])
        by_area = getattr(last_step(model), "scoring", None) == "roc_auc"
        scores.insert(0 if by_area else 1, draws.score(AREA, areas(guesses.ranks)))
        measure, own = (areas, guesses.ranks) if by_area else (measure, own)
    return scores, (_margins if by_area else _labels, measure, own, draws, scores[0].name)


def _score_labels(model: BaseEstimator, truth: Array, ranks: Array, draws: Draws) -> tuple[Score, pd.DataFrame]:
    """Return the mean area of labels under their curves, and the scores of every label."""
    fitted = last_step(model)
    area = draws.score(LABEL_AREA, label_areas(draws.counts, truth, ranks))
    return area, label_scores(truth, ranks, fitted._target_labels(), proper=hasattr(fitted, "predict_proba"))


def _refit(model: BaseEstimator, rows: SplitRows, shuffled: Shuffled) -> Guesses:
    """Return out-of-fold predictions of every row, and the selections of the refits."""
    predicted, ranks = [], []
    again: Counter[str] = Counter()
    unfinished = 0
    decided = with_kernels_of(model, rows.X)
    for train, held_out in rows.splits:
        again_model = fresh(decided)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again_model.fit(*rows.take(train), **groups_in(again_model, rows.groups, train))
        unfinished += any(issubclass(one.category, ConvergenceWarning) for one in caught)
        shown, _ = unwrapped(again_model)
        weights = np.atleast_2d(shown.kernel_weights_)
        again.update(np.asarray(shown.kernel_names_)[(weights > 0).any(axis=0)].tolist())
        at, known = rows.take(held_out)
        shuffled.add(again_model, at, known)
        predicted.append(again_model.predict(at))
        ranks.append(_ranks(again_model, at))
    order = np.argsort(np.concatenate([held_out for _, held_out in rows.splits]), kind="stable")
    single = [rank for rank in ranks if rank is not None and (rank.ndim == 1 or has_labels(model))]
    all_ranks = np.concatenate(single)[order] if len(single) == len(ranks) else None
    # Widths that are learned differ from refit to refit, and their names with them.
    comparable = not isinstance(last_step(model), (GaussianMKL, NonlinearMKL))
    return Guesses(np.concatenate(predicted)[order], all_ranks, again if comparable else None, unfinished)


def _predict(model: BaseEstimator, X: TableLike, unseen: tuple[Any, Array] | None, shuffled: Shuffled) -> Guesses:
    """Return predictions of unseen rows, or of the training rows."""
    asked = X if unseen is None else unseen[0]
    if unseen is not None:
        shuffled.add_parts(model, *unseen)
    return Guesses(np.asarray(model.predict(asked)), _ranks(model, asked))


def _ranks(model: BaseEstimator, X: TableLike) -> Array | None:
    return np.asarray(model.decision_function(X)) if hasattr(model, "decision_function") else None


def _rivals(
    model: BaseEstimator,
    task: str,
    rows: SplitRows,
    unseen: tuple[Any, Array] | None,
    answer: Callable[[BaseEstimator, Any], Array],
    measure: Callable[[Array], Array],
    own_answers: Array,
    draws: Draws,
    metric: str,
) -> tuple[tuple[Rival, ...], dict[str, str]]:
    """Learn simpler models in the same way, and compare on the same draws."""
    estimator, read = unwrapped(model, rows.X)
    chosen, left_out = baselines_for(estimator, task, read, len(estimator.kernel_names_))
    chosen = {name: after_steps_of(model, rival) for name, rival in chosen.items()}
    own = measure(own_answers)
    found = []
    for name, rival in chosen.items():
        try:
            guessed = _predict_unseen(rival, rows, unseen, answer)
        except (ValueError, TypeError) as error:
            # A comparison that fails must not cost the report.
            left_out[name] = f"it failed: {str(error).splitlines()[0][:120]}"
            continue
        values = measure(guessed)
        found.append(Rival(name, draws.score(metric, values), draws.score("difference", own - values)))
    return tuple(found), left_out


def _labels(model: BaseEstimator, X: Any) -> Array:
    """Return predicted labels, numbers or risks."""
    return np.asarray(model.predict(X))


def _margins(model: BaseEstimator, X: Any) -> Array:
    """Return scores of the second class; a constant has probabilities alone."""
    found = _ranks(model, X)
    return np.asarray(model.predict_proba(X))[:, 1] if found is None else found


def _predict_unseen(
    rival: BaseEstimator,
    rows: SplitRows,
    unseen: tuple[Any, Array] | None,
    answer: Callable[[BaseEstimator, Any], Array],
) -> Array:
    """Return answers for rows outside the training rows of a rival."""
    with warnings.catch_warnings():
        # Of models that are not the subject of the report.
        warnings.simplefilter("ignore")
        if unseen is not None:
            return answer(clone(rival).fit(rows.X, rows.y), unseen[0])
        parts = [answer(clone(rival).fit(*rows.take(train)), rows.take(held_out)[0]) for train, held_out in rows.splits]
    order = np.argsort(np.concatenate([held_out for _, held_out in rows.splits]), kind="stable")
    return np.asarray(np.concatenate([np.asarray(part) for part in parts])[order])


# --- simpler models to compare with: the best constant, the plain sum of the kernels, one kernel --------------------


class EqualRisks(BaseEstimator):
    """Everybody has the same risk."""

    def fit(self, X: TableLike, y: ArrayLike) -> EqualRisks:
        """Learn nothing."""
        return self

    def predict(self, X: Any) -> Any:
        """Return zeros."""
        return np.zeros(len(X))


def _level_texts(column: pd.Series) -> pd.Series:
    """Return the levels of a column as text, in the form used by models."""
    return column.astype(object).map(level_text, na_action="ignore")


class Categories(TransformerMixin, BaseEstimator):
    """Columns in the form of gradient boosting: text as categories, dates as numbers, rare levels as missing."""

    def fit(self, X: TableLike, y: ArrayLike | None = None) -> Categories:
        """Learn the most frequent levels of every category."""
        table = as_frame(X)
        most_levels = 254  # of a category that gradient boosting can read
        self.levels_ = {
            name: _level_texts(column).value_counts().index[:most_levels].to_list()
            for name, column in table.items()
            if not is_numeric_dtype(column.dtype) and not is_datetime64_any_dtype(column.dtype)
        }
        return self

    def transform(self, X: TableLike) -> pd.DataFrame:
        """Return the columns as numbers and categories."""
        table = as_frame(X).copy()
        for name, column in table.items():
            if name in self.levels_:
                table[name] = pd.Categorical(_level_texts(column), categories=self.levels_[name])
            elif is_datetime64_any_dtype(column.dtype):
                table[name] = (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds()
        return table.set_axis([str(name) for name in table.columns], axis=1)


def baselines_for(model: BaseEstimator, task: str, X: Any, n_kernels: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the rival models by name, and the reasons for omitted rivals."""
    constants = {"classification": DummyClassifier, "regression": DummyRegressor, SURVIVAL: EqualRisks}
    chosen: dict[str, Any] = {CONSTANT: constants[task]()}
    left_out: dict[str, str] = {}
    if not hasattr(model, "kernels"):
        left_out[SUM] = "the model finds its kernels while it learns, so that there is no list to sum"
    elif no_columns(X) and not are_kernels(X):
        left_out[SUM] = no_columns(X)
    elif n_kernels * float(len(X)) ** 2 > MOST_ENTRIES:
        left_out[SUM] = f"{n_kernels:,} kernels of {len(X):,} samples would take too long for a comparison"
    else:
        cox = make_pipeline(FunctionTransformer(_single_kernel), MKLSurvivalCV("precomputed", **RIDGE))
        learner = cox if task == SURVIVAL else _machine(task, "precomputed")
        chosen[SUM] = make_pipeline(KernelAligner(_bank(model.kernels), method="uniform"), learner)
    reason = _why_no_single_kernel(X)
    one_target = task == "classification" or (task == "regression" and np.ndim(model.intercept_) == 0)
    if not reason and task == SURVIVAL:
        linear = [("linear", Linear(), list(range(X.shape[1])))]
        bank = KernelBank(linear, standardize=True, normalize="mean_diagonal")
        chosen[ONE_KERNEL[task]] = MKLSurvivalCV(bank, **RIDGE)
    elif not reason:
        widths = [0.1 / X.shape[1], 1.0 / X.shape[1]]
        chosen[ONE_KERNEL[task]] = make_pipeline(StandardScaler(), _machine(task, "rbf", gamma=widths))
    elif one_target and isinstance(X, (pd.DataFrame, np.ndarray)) and np.ndim(X) == 2:
        # What most people would take for a table with categories and gaps, on the same folds.
        boosting = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
        chosen[BOOSTING] = make_pipeline(Categories(), boosting(categorical_features="from_dtype", random_state=0))
    else:
        left_out[ONE_KERNEL[task]] = reason
    return chosen, left_out


def _why_no_single_kernel(X: Any) -> str:
    if no_columns(X):
        return no_columns(X)
    if isinstance(X, Views):
        return "the data are several tables, not one"
    if isinstance(X, pd.DataFrame):
        numeric = X.select_dtypes("number").shape[1] == X.shape[1]
    else:
        numeric = np.asarray(X).dtype.kind in "fiub"
    if not numeric:
        return "some columns are not numbers"
    if bool(np.asarray(pd.isna(X)).any()):
        return "some values are missing"
    most_rows = 3000  # for models with one kernel, which take N^2 numbers and N^3 steps
    return "" if len(X) <= most_rows else f"{len(X):,} samples would take too long for a comparison"


def no_columns(X: TableLike) -> str:
    """Return the reason why columns are not separately available, or an empty text."""
    if are_kernels(X):
        return "the data are kernels, not columns"
    if isinstance(X, Pairs):
        return "the data are pairs, not columns"
    return "the data are sparse, and would have to be filled" if issparse(X) else ""


def as_frame(X: TableLike) -> pd.DataFrame:
    """Return the columns of a table, an array or views as a DataFrame."""
    if isinstance(X, Views):
        return X.frame
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))


def _bank(kernels: Any) -> Any:
    """Return the bank with kernels of equal size, for a plain sum."""
    if kernels is None:
        return KernelBank.auto(normalize="mean_diagonal")
    if isinstance(kernels, KernelBank):
        return kernels.replace(normalize="mean_diagonal")
    return PrecomputedBank(normalize="mean_diagonal")


def _machine(task: str, kernel: str, **grid: list[float]) -> Any:
    """Return scikit-learn's learner with a single kernel, tuned."""
    if task == "classification":
        return GridSearchCV(SVC(kernel=kernel), {"C": [1.0, 10.0, 100.0], **grid}, cv=INNER_FOLDS)
    ridge = GridSearchCV(KernelRidge(kernel=kernel), {"alpha": STRENGTHS, **grid}, cv=INNER_FOLDS)
    return TransformedTargetRegressor(ridge, transformer=StandardScaler())


def _single_kernel(gram: Any) -> Any:
    """Return a Gram matrix as the only matrix of a stack."""
    return gram[None]
