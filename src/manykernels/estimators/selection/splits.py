"""Splits of rows into training and held-out rows, restricted to informative splits."""

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.model_selection import (
    BaseCrossValidator,
    BaseShuffleSplit,
    GroupKFold,
    StratifiedGroupKFold,
    TimeSeriesSplit,
    check_cv,
)

from manykernels.exceptions import InvalidInputError, warn
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import listed

Split = tuple[Array, Array]
CrossValidation: TypeAlias = int | BaseCrossValidator | BaseShuffleSplit | Iterable[Split] | None

N_FOLDS = 5  # where nothing is said of folds
MOST_NAMED = 5  # classes that a message names


def splits_of(
    cv: CrossValidation, y: Any, groups: ArrayLike | None = None, *, classifier: bool, events: bool = False
) -> list[tuple[Array, Array]]:
    """Return the rows to learn from and those held out of every fold; what makes no folds is refused in words.

    None is five folds, or as many as the samples, those of the largest class, or groups allow. A number of folds keeps
    groups whole. ``events`` says that ``y`` are no classes to learn but events that folds share: some may have none
    without.
    """
    most = int(np.unique(y, return_counts=True)[1].max()) if classifier and np.ndim(y) == 1 else len(y)
    counted = cv is None or isinstance(cv, Integral)
    n_groups = _n_groups(groups, len(y)) if counted and groups is not None else len(y)
    most_folds = min(most, n_groups)
    asked: Any = min(N_FOLDS, max(most_folds, 2)) if cv is None else cv
    try:
        if counted and groups is not None:
            asked = _keeping_groups(int(asked), y, groups, classifier)
        with warnings.catch_warnings():  # of classes with fewer samples than folds, which are named below
            warnings.filterwarnings("ignore", "The least populated class")
            splits = list(check_cv(asked, y, classifier=classifier).split(np.zeros(len(y)), y, groups))
    except InvalidInputError:
        raise
    except ValueError as error:
        if groups is None and "groups" in str(error):
            raise InvalidInputError(
                f"cv={cv!r} splits by groups, and none were given: pass groups, one label a sample, along with X and y."
            ) from None
        raise InvalidInputError(_describe_refusal(cv, len(y), most, n_groups, error)) from None
    if classifier and not events and np.ndim(y) == 1:
        _check_classes(cv, y, splits, counted=counted, by_groups=counted and groups is not None)
    for number, (train, _) in enumerate(splits, 1):
        if len(train) == 1:
            raise InvalidInputError(
                f"Fold {number} of {len(splits)} leaves 1 of {len(y)} training samples; at least 2 are needed. Use "
                f"more samples, or larger training folds."
            )
    return splits


def _describe_refusal(cv: CrossValidation, n_samples: int, most: int, n_groups: int, error: ValueError) -> str:
    """Return the error message for samples, of which a class has ``most``, that cannot be split, with the way out."""
    start, cause, most_folds = f"cv={cv!r} makes no folds of these {n_samples} samples", str(error), min(most, n_groups)
    cause = f": {cause.rstrip('.')}."
    if cv is not None and not (isinstance(cv, Integral) and int(cv) > 1):
        return start + cause
    limit = f"there are {n_groups} groups" if n_groups < most else f"the largest class has {most}"
    share = f", of which {limit}" if most_folds < n_samples else ""
    way = f" Take fewer folds, at most {most_folds}, or" if most_folds > 1 else " Take"
    return f"{start}{share}{cause}{way} {'more groups' if n_groups < most else 'more samples'}."


def _n_groups(groups: ArrayLike, n_samples: int) -> int:
    """Return the number of groups, a label per sample."""
    labels: Array = np.asarray(groups)
    gaps = pd.isna(labels)
    if gaps.any():
        told = f"groups is missing for {gaps.sum()} of {n_samples} samples. Give each of these"
        raise InvalidInputError(f"{told} a group, such as one of its own, or leave the samples out.")
    if labels.shape != (n_samples,):
        told = f"groups must hold one label for each of the {n_samples} samples, got shape {labels.shape}"
        raise InvalidInputError(f"{told}.")
    return len(pd.unique(labels))


def _keeping_groups(n_folds: int, y: Any, groups: ArrayLike, classifier: bool) -> list[Split]:
    """Return folds with whole groups, stratified as far as the groups allow."""
    splits = list(GroupKFold(n_folds).split(np.zeros(len(y)), y, groups))  # refuses more folds than groups
    if not classifier:
        return splits
    equal = list(StratifiedGroupKFold(n_folds).split(np.zeros(len(y)), y, groups))
    return equal if all(len(test) for _, test in equal) else splits  # equal shares may leave a fold empty


def _check_classes(cv: CrossValidation, y: Any, splits: Sequence[Split], *, counted: bool, by_groups: bool) -> None:
    """Raise ``InvalidInputError`` for a fold with a single class, of several in all rows."""
    codes = np.unique(y, return_inverse=True)[1]
    for number, (train, _) in enumerate(splits, 1):
        if len(train) and codes.max() > 0 and not np.ptp(codes[train]):
            only, alone = np.asarray(y)[train].tolist()[0], np.count_nonzero(codes != codes[train[0]]) == 1
            why = ALONE if alone else _why_one_class(cv, by_groups)
            told = f"Fold {number} of {len(splits)} leaves one class to learn from, {only!r}, of {codes.max() + 1} in y"
            raise InvalidInputError(f"{told}: {why}")
    labels, sizes = np.unique(y, return_counts=True)
    few = labels[sizes < len(splits)].tolist() if counted else []
    if few:
        warn(
            f"The least populated class has {sizes.min()} of {len(y)} samples, fewer than the {len(splits)} folds: "
            f"{listed(map(repr, few[:MOST_NAMED]), len(few))}. Folds that hold out all samples of a class learn "
            "nothing about it."
        )
    lacking = [np.setdiff1d(codes[test], codes[train]) for train, test in splits]
    if not counted and any(map(len, lacking)):
        names = np.unique(np.asarray(y))[np.unique(np.concatenate(lacking))].tolist()
        warn(
            f"{sum(map(bool, map(len, lacking)))} of {len(splits)} folds hold out classes absent from their training "
            f"rows: {listed(map(repr, names[:MOST_NAMED]), len(names))}. These rows count as wrong."
        )


ALONE = "the other one has a single sample. Give more of it, or alpha to an estimator without a search."


def _why_one_class(cv: CrossValidation, by_groups: bool) -> str:
    """Return how folds come to have a single class, and the way out."""
    if by_groups:
        return "its groups have no other. Take fewer folds, or more groups."
    if isinstance(cv, TimeSeriesSplit):
        return (
            "it learns from the earliest rows, which have no other. Take fewer folds, larger ones (test_size), or "
            "splits of your own that begin later, a list of (training rows, held-out rows). Where rows are sorted by "
            "class and not by time, take StratifiedKFold."
        )
    return (
        f"cv={cv!r} does not look at classes. Take a splitter that does, such as StratifiedKFold, or one that shuffles "
        "rows that are sorted by class (KFold(shuffle=True))."
    )


def weighed_splits(splits: Sequence[Split], weight: Array) -> list[Split]:
    """Return the splits that can say something: samples of weight zero count as absent, and may be all of a part.

    A fold without weight among the training rows has no model, and one without weight among the held-out rows no score.
    """
    found = [split for split in splits if all(weight[part].any() for part in split)]
    if not found:
        raise InvalidInputError(
            f"All {len(splits)} folds have no samples of positive weight for training or for testing. Use fewer "
            f"folds, shuffle them (KFold(5, shuffle=True)), or drop the samples of weight zero first."
        )
    left_out = len(splits) - len(found)
    if left_out:
        warn(
            f"{left_out} of {len(splits)} folds have no samples of positive weight for training or for testing, and "
            f"are left out. Shuffle the folds, or drop the samples of weight zero first.",
        )
    return found
