"""Warnings of a report: signs, in the data and in the fit, of overstated results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from manykernels.estimators.selection.choice import CrossValidated
from manykernels.inspection.displays.kernel_table import groups_of, kernel_table
from manykernels.inspection.evidence.selection import noise_doubt
from manykernels.inspection.pipelines import last_step
from manykernels.inspection.reports.evaluation import (
    AREA,
    CONSTANT,
    HELD_OUT,
    IMBALANCED,
    TRAINING,
    Evaluation,
    as_frame,
    no_columns,
)
from manykernels.inspection.reports.fitted_rows import equal_beyond_chance, fingerprints
from manykernels.inspection.reports.order import date_order, is_sorted_by_target, mixes_times, splits_into_blocks
from manykernels.inspection.reports.report import MKLReport, percent
from manykernels.inspection.reports.scores import SURVIVAL, nearly_perfect
from manykernels.inspection.reports.widths import ends_of_width_grids
from manykernels.kernels import Views
from manykernels.kernels.tables.kinds import READ_AS, kind_of
from manykernels.validation.arrays import TableLike
from manykernels.validation.parameters import listed

BOUNDED_NAMES = {"accuracy": "accuracy", AREA: "roc_auc", "R2": "r2", "concordance index": "concordance"}
MANY_COPIES = 0.1  # share of the rows
FAR = 6.0  # standard deviations of the residuals


@dataclass(frozen=True)
class Case:
    """The input of all signs."""

    model: BaseEstimator
    facts: MKLReport
    evaluation: Evaluation
    X: TableLike  # as it was given
    read: Any  # as the estimator gets it: behind the steps before the last one of a pipeline
    y: np.ndarray
    task: str
    test: tuple[Any, np.ndarray] | None = None  # rows to score the model on


@dataclass(frozen=True)
class Caveat:
    """A warning of the report."""

    title: str
    text: str
    serious: bool = False  # whether numbers of the report should not be quoted before this is settled


def caveats_of(case: Case) -> list[Caveat]:
    """Return the applicable warnings, the serious ones first."""
    found = [caveat for sign in SIGNS for caveat in sign(case)]
    return sorted(found, key=lambda caveat: not caveat.serious)


def _trained_on(case: Case) -> Iterator[Caveat]:
    if case.evaluation.way == TRAINING:
        yield Caveat(
            "Evaluated on the training rows",
            "The scores are those of training rows; scores on new rows will be worse, often by much. Leave out "
            "cv=None, or give X_test and y_test.",
            serious=True,
        )


def _seen(case: Case) -> Iterator[Caveat]:
    if case.test is None or isinstance(case.X, Views) or no_columns(case.X):
        return
    X_test, y_test = case.test
    seen = equal_beyond_chance(fingerprints(case.X, case.y), fingerprints(X_test, y_test))
    if seen is not None:
        yield Caveat(
            "Fitted rows among the scored rows",
            f"{int(seen.sum()):,} of the {len(seen):,} rows that are scored are also, with the same target, among "
            "the training rows, so the scores are too good. Leave them out of X_test.",
            serious=bool(seen.mean() > MANY_COPIES),
        )


def _nearly_perfect(case: Case) -> Iterator[Caveat]:
    known = {BOUNDED_NAMES[score.name]: score.value for score in case.evaluation.scores if score.name in BOUNDED_NAMES}
    if case.evaluation.way != TRAINING and (name := nearly_perfect(known)):
        yield Caveat(
            "Nearly perfect scores",
            f"A {name.replace('_', ' ')} of {known[name]:.4f} on rows that were not fitted is rare in real data. Check "
            "that no column follows from the target, was recorded after it, or numbers rows that are sorted by it.",
        )


def _stopped_early(case: Case) -> Iterator[Caveat]:
    facts = case.facts
    if facts.status != "converged":
        yield Caveat(
            "The solver did not finish",
            f"It stopped at a relative gap of {percent(facts.relative_gap)}, above tol, {percent(facts.tol)} "
            f"({facts.status}). Raise max_iter, loosen tol, or try another solver.",
            serious=True,
        )
    if case.evaluation.unfinished:
        yield Caveat(
            "Refits did not finish",
            f"{case.evaluation.unfinished} of {case.evaluation.n_folds} refits on folds stopped above tol; their "
            "scores are those of unfinished models.",
        )


def _few(case: Case) -> Iterator[Caveat]:
    facts = case.facts
    few_rows, few_in_class, few_events = 200, 20, 50
    if facts.n_samples < few_rows:
        more = f" and {facts.n_kernels:,} kernels to choose from" if facts.n_kernels > facts.n_samples else ""
        yield Caveat(
            "Few samples",
            f"There are {facts.n_samples} samples{more}. Another sample of this size may select other kernels, and its "
            "scores may differ by more than the intervals.",
        )
    if case.task == SURVIVAL and (events := int(case.y["event"].sum())) < few_events:
        yield Caveat(
            "Few events",
            f"There are {events} events among {len(case.y):,} samples. Hazards are estimated from the events, however "
            "many samples are censored.",
        )
    if case.task == "classification":
        labels, counts = np.unique(case.y, return_counts=True)
        rare = counts.argmin()
        if counts[rare] < few_in_class:
            yield Caveat(
                "A class with few samples", f"{_show(labels[rare])} has {counts[rare]} of {len(case.y):,} samples."
            )


def _imbalance(case: Case) -> Iterator[Caveat]:
    if case.task != "classification":
        return
    labels, counts = np.unique(case.evaluation.truth, return_counts=True)
    if counts.min() < IMBALANCED * counts.sum() / len(counts):
        largest = counts.max() / counts.sum()
        yield Caveat(
            "Classes of unequal size",
            f"{_show(labels[counts.argmin()])} is {percent(counts.min() / counts.sum())} of the rows, and a model "
            f"that always predicts {_show(labels[counts.argmax()])} has an accuracy of {percent(largest)}. Read the "
            "balanced accuracy and the confusion matrix; class_weight='balanced' gives the classes equal weight.",
        )


def _edge(case: Case) -> Iterator[Caveat]:
    alphas, alpha = getattr(case.model, "alphas_", None), getattr(case.model, "alpha_", None)
    # Classes with strengths of their own have no common edge, and the constant, at the strongest, is told of by itself.
    if alphas is None or alpha is None or np.ndim(alpha) or not case.facts.n_active:
        return
    grid = next((row for row in np.atleast_2d(alphas) if np.isclose(row, alpha, rtol=1e-12).any()), None)
    ends = None if grid is None or len(grid) < 2 else np.isclose([grid.max(), grid.min()], alpha, rtol=1e-12)
    if ends is not None and ends.any():
        side, other = ("largest", "larger") if ends[0] else ("smallest", "smaller")
        yield Caveat(
            "The strength is at the edge of its grid",
            f"alpha = {alpha:.3g} is the {side} that was tried; a {other} one may be better. Extend the grid (alphas, "
            "n_alphas, alpha_min_ratio).",
        )


def _duplicates(case: Case) -> Iterator[Caveat]:
    if no_columns(case.X):
        return
    table = as_frame(case.X)
    copies = table.duplicated(keep=False).to_numpy()
    n_copies = int(table.duplicated().sum())
    if not n_copies or case.y.ndim > 1:
        return
    keys = pd.util.hash_pandas_object(table[copies], index=False).to_numpy()
    told = case.y["time"] if case.task == SURVIVAL else case.y
    differing = int((pd.Series(told[copies]).groupby(keys).nunique() > 1).sum())
    clash = f" {differing} of the repeated rows have different targets." if differing else ""
    yield Caveat(
        "Rows that occur more than once",
        f"{n_copies:,} of {len(table):,} rows repeat another one. Copies in training and in held-out rows make scores "
        f"too good: remove them, or keep them together with groups.{clash}",
        serious=n_copies > MANY_COPIES * len(table) and case.evaluation.way != HELD_OUT,
    )


def _widths(case: Case) -> Iterator[Caveat]:
    """Yield a caveat for grids of widths with the best width at an end."""
    if isinstance(case.read, Views) or no_columns(case.read) or not hasattr(last_step(case.model), "kernels"):
        return
    for name, side, share in ends_of_width_grids(last_step(case.model), case.read):
        more = "narrower" if side == "narrowest" else "wider"
        yield Caveat(
            f"The {side} kernel of a grid is the best",
            f"{name!r} has {percent(share)} of the norm of all widths of its kind: {more} ones may predict better. "
            f"Offer them, for example widths=[...] of KernelBank.joint or per_feature with further {more} ones.",
        )


def _order(case: Case) -> Iterator[Caveat]:
    """Yield a caveat for ordered rows that folds of the report or of the search ignore."""
    searches, cv = isinstance(last_step(case.model), CrossValidated), getattr(last_step(case.model), "cv", None)
    name = "" if no_columns(case.X) else date_order(as_frame(case.X))
    report_mixes, search_mixes = case.evaluation.mixes_rows, searches and mixes_times(cv)
    if name and (report_mixes or search_mixes):
        whose = " and ".join(["folds of this report"] * report_mixes + ["folds of the search"] * search_mixes)
        ways = ["hold out the last rows (X_test, y_test)"] * report_mixes
        ways += ["let the search split by time (cv=TimeSeriesSplit(5))"] * search_mixes
        yield Caveat(
            "Rows in the order of time",
            f"The rows are sorted by {name}, and {whose} predict rows by later ones. If rows follow each other in "
            f"time, scores are too good: {', and '.join(ways)}.",
        )
    if searches and splits_into_blocks(cv, case.task) and is_sorted_by_target(case.y, case.task):
        yield Caveat(
            "Rows sorted by the target",
            "Each fold of the search holds out a range of the target that no training row has, so that its scores are "
            "too bad and its penalty may be too strong. Shuffle the rows, or give cv=KFold(5, shuffle=True).",
        )


def _selection(case: Case) -> Iterator[Caveat]:
    facts = case.facts
    dense = 0.8  # share of kernels selected that is no selection
    if facts.n_active == 0:
        yield Caveat(
            "No kernel was selected",
            "The model is a constant. Decrease the strength (alpha), or check y.",
            serious=True,
        )
    elif hasattr(case.model, "kernels") and facts.n_kernels > 5 and facts.n_active > dense * facts.n_kernels:
        yield Caveat(
            "Nearly every kernel has weight",
            f"{facts.n_active:,} of {facts.n_kernels:,} kernels are used: with the {facts.penalty} penalty at this "
            "strength, weights are a ranking and not a selection.",
        )


def _noise(case: Case) -> Iterator[Caveat]:
    if doubt := noise_doubt(case.model):
        yield Caveat(
            "Noise would be selected as well",
            f"{doubt} Trust what is selected only where predictions of rows that were not fitted are clearly better "
            "than a constant; noise_selection(model, X, y) counts by refits what noise selects.",
            serious=True,
        )


def _wide_interval(case: Case) -> Iterator[Caveat]:
    score = case.evaluation.scores[0]
    wide = 0.1  # of an interval, in units of a score of at most 1
    if case.evaluation.way != TRAINING and score.name in BOUNDED_NAMES and score.high - score.low > wide:
        yield Caveat(
            "A wide interval",
            f"The {score.name} of {score.value:.3f} has the 95% interval {score.low:.3f} to {score.high:.3f}. Score "
            "more rows, or repeat the folds with other seeds, before comparing models.",
        )


def _many_levels(case: Case) -> Iterator[Caveat]:
    if no_columns(case.read):
        return
    table = as_frame(case.read)
    names = [str(name) if isinstance(case.read, (pd.DataFrame, Views)) else f"x{name}" for name in table.columns]
    kernels = kernel_table(case.model)
    groups = groups_of(case.model, kernels, "column")
    used = {name for group, weight in zip(groups, kernels["weight"], strict=True) if weight > 0 for name in group}
    levels = {
        name: column.nunique()
        for name, (_, column) in zip(names, table.items(), strict=True)
        if name in used and READ_AS.get(kind_of(column)) == "category"
    }
    many_levels, few_columns = 0.1, 5  # levels of a category, as a share of the rows; columns that are named
    many = sorted((name for name in levels if levels[name] > many_levels * len(table)), key=lambda one: -levels[one])
    if many:
        shown = listed((f"{_show(name)} ({levels[name]:,} levels)" for name in many[:few_columns]), len(many))
        yield Caveat(
            "Categories of many levels",
            f"{shown}: a kernel on a category with so many levels for {len(table):,} rows can fit single rows and "
            "their noise. Its norm is not meaningful; use its importance.",
        )


def _rivals(case: Case) -> Iterator[Caveat]:
    chance = 0.5  # area under the ROC curve of what knows nothing
    # The area under the ROC curve, if these rows tell it from that of chance.
    area = next((score for score in case.evaluation.scores if score.name == AREA and score.low > chance), None)
    for rival in case.evaluation.rivals:
        if rival.better_by.low <= 0 and rival.name == CONSTANT and area is not None:
            yield Caveat(
                "Labels no better than a constant, ranking better",
                "At the threshold of one half the labels are no better than a constant, but the model ranks the rows "
                f"better than chance: {area.name} {area.value:.3f}, {area.low:.3f} to {area.high:.3f}. Choose the "
                "threshold by the costs of errors (predict_proba), or use class_weight='balanced'.",
            )
        elif rival.better_by.low <= 0 and rival.name == CONSTANT:
            yield Caveat(
                "Not better than a constant",
                "On these rows the model is not distinguishable from the best constant; do not interpret it.",
                serious=True,
            )
        elif rival.better_by.high < 0:
            yield Caveat(
                "A simpler model does better",
                f"The {rival.name} scores higher by {-rival.better_by.value:.3f}. Tune the strength, as "
                f"{'MKLSurvivalCV does' if case.task == SURVIVAL else 'MKLClassifierCV and MKLRegressorCV do'}, or add "
                "kernels.",
            )
        elif rival.better_by.value < 0 and rival.name != CONSTANT:
            yield Caveat(
                "A simpler model scores at least as high",
                f"The {rival.name} scores higher by {-rival.better_by.value:.3f}, within chance. These rows do not "
                "show that learning the weights of the kernels improves predictions.",
            )


def _outliers(case: Case) -> Iterator[Caveat]:
    if case.task != "regression":
        return
    errors = np.asarray(case.evaluation.truth, dtype=float) - np.asarray(case.evaluation.predicted, dtype=float)
    middle = np.median(errors, axis=0)
    spread = 1.4826 * np.median(np.abs(errors - middle), axis=0)
    far = int((np.abs(errors - middle) > FAR * spread).sum())
    if far and np.all(spread > 0):
        yield Caveat(
            "Residuals far from the others",
            f"{far:,} predictions are off by more than {FAR:.0f} standard deviations of the typical error; with the "
            "squared loss they dominate the fit. Look at these rows, or try loss='huber'.",
        )


def _show(label: object) -> str:
    text = str(label)
    return f'"{text[:40]}…"' if len(text) > 40 else f'"{text}"'


SIGNS: tuple[Callable[[Case], Iterator[Caveat]], ...] = (
    _trained_on,
    _seen,
    _nearly_perfect,
    _stopped_early,
    _selection,
    _noise,
    _many_levels,
    _rivals,
    _few,
    _wide_interval,
    _imbalance,
    _edge,
    _duplicates,
    _widths,
    _order,
    _outliers,
)
