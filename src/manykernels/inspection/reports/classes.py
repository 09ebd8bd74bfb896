"""Tables of classes and of labels: the confusion matrix, and the scores of each label."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from manykernels.estimators.supervised.samples import label_matrix
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.plotting import cut_text
from manykernels.inspection.pipelines import last_step
from manykernels.inspection.reports.report import number
from manykernels.validation.arrays import Array

MOST_CLASSES, LONGEST = 12, 48  # classes of a table; letters of a name


def labels_of(model: BaseEstimator, y: Any) -> Array:
    """Return labels as 0, 1 and NaN, (N, T)."""
    labels, n_labels = label_matrix(y), len(last_step(model).classes_)
    if labels is None or labels.shape[1] != n_labels:
        raise InvalidInputError(f"y must have a column for each of {n_labels} labels, got shape {np.shape(y)}.")
    return labels


@dataclass(frozen=True)
class Confusion:
    """Counts of true (rows) and predicted (columns) classes, and their shares of the rows in percent."""

    labels: list[str]
    counts: list[list[int]]
    shares: list[list[int]]
    n_left_out: int  # classes that are not shown


def confusion(truth: np.ndarray, predicted: np.ndarray) -> Confusion:
    """Return the confusion matrix of the most confused classes, or of all few classes."""
    labels = np.unique(np.concatenate([truth, predicted]))
    codes = {label: code for code, label in enumerate(labels.tolist())}
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    pairs = ([codes[label] for label in truth.tolist()], [codes[label] for label in predicted.tolist()])
    np.add.at(counts, pairs, 1)
    wrong = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
    shown = np.sort(np.argsort(-wrong, kind="stable")[:MOST_CLASSES])
    part = counts[np.ix_(shown, shown)]
    shares = 100 * part / np.maximum(counts[shown].sum(axis=1, keepdims=True), 1)
    names = [str(label) for label in labels[shown]]
    return Confusion(names, part.tolist(), shares.round().astype(int).tolist(), len(labels) - len(shown))


@dataclass(frozen=True)
class LabelRows:
    """The scores of the labels as text, the least predictable first."""

    names: list[str]  # of the columns
    rows: list[list[str]]
    n_more: int  # labels that are not shown


def label_rows(table: pd.DataFrame) -> LabelRows:
    """Return the scores of each label beside the accuracy of its more frequent value, by increasing area."""
    table = table.drop(index="mean")
    constant = np.maximum(table["share"], 1.0 - table["share"])
    shown = pd.DataFrame(
        {"samples": table["n_samples"], "share of ones": table["share"], "accuracy": table["accuracy"]}
    )
    shown = shown.assign(
        **{"accuracy of the more frequent value": constant, "area under the ROC curve": table["roc_auc"]}
    )
    if "log_loss" in table:
        shown["log loss"] = table["log_loss"]
    shown, most_rows = shown.sort_values("area under the ROC curve", kind="stable"), 100  # of the table
    rows = [
        [cut_text(str(name), LONGEST), f"{own.iloc[0]:,.0f}", *map(number, own.iloc[1:])]
        for name, own in shown.iterrows()
    ]
    return LabelRows(["label", *shown.columns], rows[:most_rows], max(len(rows) - most_rows, 0))
