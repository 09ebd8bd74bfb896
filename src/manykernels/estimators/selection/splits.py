"""Splits into folds: those of a splitter that can say something, those of fewer rows, and who is exchangeable."""

from __future__ import annotations

import numbers
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import (
    BaseCrossValidator,
    BaseShuffleSplit,
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
    check_cv,
)

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

Split = tuple[Array, Array]
CrossValidation: TypeAlias = int | BaseCrossValidator | BaseShuffleSplit | Iterable[Split] | None

FIRST_FOLDS, FIRST_SHARE = 3, 0.5  # folds in which what is in doubt is tried first, at least, and of many folds
SHARE_OF_COST = 0.15  # of the fits in all folds, that those of fewer rows in the first folds may be predicted to take
WORTH_FEWER = 0.1  # seconds that a fit must be predicted to be shorter by: dozens are, and folds are opened once more
MOST_LABELS = 100  # distinct targets that may be classes, none of which may be missing
# Splitters that hold any samples out.
EXCHANGING = (KFold, StratifiedKFold, RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit, StratifiedShuffleSplit)
EXCHANGING_GROUPS = (GroupKFold, GroupShuffleSplit, LeaveOneGroupOut, LeavePGroupsOut, StratifiedGroupKFold)


def splits_of(
    cv: CrossValidation, y: Any, groups: ArrayLike | None = None, *, classifier: bool
) -> list[tuple[Array, Array]]:
    """Return the rows to learn from and those held out of every fold; more folds than rows are refused in words."""
    try:
        return list(check_cv(cv, y, classifier=classifier).split(np.zeros(len(y)), y, groups))
    except InvalidInputError:
        raise
    except ValueError as error:
        most = int(np.unique(y, return_counts=True)[1].max()) if classifier and np.ndim(y) == 1 else len(y)
        share = f", of which the largest class has {most}" if most < len(y) else ""
        raise InvalidInputError(
            f"cv={cv!r} makes no folds of these {len(y)} samples{share}: {str(error).rstrip('.')}. "
            f"Take fewer folds, at most {max(most, 2)}, or more samples."
        ) from None


def n_first_folds(n_folds: int) -> int:
    """Return in how many folds what is in doubt is tried first: of many small folds more, as one tells little."""
    return min(n_folds, max(FIRST_FOLDS, int(FIRST_SHARE * n_folds)))


def of_fewer_rows(
    splits: Sequence[Split], target: Array, weight: Array, seconds: Callable[[int], float]
) -> list[Split]:
    """Return the first folds with fewer rows to learn from, spread over the targets; none where that spares little.

    ``seconds`` predicts how long a fit on so many rows takes. All candidates are tried with as many rows as cost a
    small share of trying them in all folds; what cannot win there need not be tried with more.
    """
    fewer = []
    n_first = n_first_folds(len(splits))
    for train, test in splits[:n_first]:
        known = train[weight[train] > 0]
        whole = seconds(len(known))
        allowed = SHARE_OF_COST * len(splits) / n_first * whole
        n_kept = bisect_right(range(1, len(known) + 1), allowed, key=seconds)
        if not n_kept or whole - seconds(n_kept) < WORTH_FEWER or target.dtype.names is not None:
            return []
        first = target[known] if target.ndim == 1 else target[known, 0]
        ordered = known[np.argsort(first, kind="stable")]
        kept = np.sort(ordered[np.arange(n_kept) * len(known) // n_kept])
        if len(np.unique(first)) <= MOST_LABELS and len(np.unique(target[kept])) < len(np.unique(first)):
            return []
        fewer.append((kept, test))
    return fewer


def weighed_splits(splits: Sequence[Split], weight: Array) -> list[Split]:
    """Return the splits that can say something: samples of weight zero count as absent, and may be all of a part.

    A fold without weight among its training rows has no model, and one without weight among its held-out rows no
    score.
    """
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


def exchanges(cv: Any, groups: Any) -> bool:
    """Whether folds take samples, or groups of equal size, for exchangeable: then noise is known."""
    splitters = (numbers.Integral, *EXCHANGING, *(() if groups is None else EXCHANGING_GROUPS))
    return np.ndim(groups) < 2 and (cv is None or isinstance(cv, splitters))
