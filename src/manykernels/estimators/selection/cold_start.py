"""Folds of pairs with unseen members in the test set: new drugs, new targets, or both."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array, check_choice, check_count
from manykernels.validation.parameters import RandomSource

NEW = ("left", "right", "both", "members")


class ColdStartKFold(BaseCrossValidator):
    """Cross-validation over pairs in which members of the test pairs are new to the model.

    Scores of random folds measure the completion of a table of pairs. For predictions on unseen drugs or targets, use
    the splits below:

    ============= ============================================ ==================================================
    ``new``       test pairs                                   training pairs
    ============= ============================================ ==================================================
    ``"left"``    whose first member is in the fold            whose first member is not
    ``"right"``   whose second member is in the fold           whose second member is not
    ``"both"``    whose first and second are in their folds    of which neither is; ``n_splits`` squared splits
    ``"members"`` with a member in the fold, both of one kind  without any member in the fold
    ============= ============================================ ==================================================

    In a split of ``"both"`` pairs with one new member are in neither part.

    Parameters
    ----------
    n_splits : int, default=5
        Folds of the members of a kind.
    new : {"left", "right", "both", "members"}
        What is new in test pairs, see above.
    shuffle : bool, default=True
        Whether members are spread over the folds at random; else in the order of their values.
    random_state : int, RandomState or None
        Of the shuffle; with a number every call gives the same splits.

    Examples
    --------
    >>> from manykernels.estimators import ColdStartKFold
    >>> pairs = [["aspirin", "COX1"], ["aspirin", "COX2"], ["heparin", "COX1"], ["heparin", "COX2"]]
    >>> for train, test in ColdStartKFold(2, new="both", shuffle=False).split(pairs):
    ...     print(train, test)
    [3] [0]
    [2] [1]
    [1] [2]
    [0] [3]
    """

    __metadata_request__split: ClassVar = {"groups": None}  # may be requested

    def __init__(
        self, n_splits: int = 5, *, new: str = "both", shuffle: bool = True, random_state: RandomSource = None
    ) -> None:
        self.n_splits = check_count(n_splits, "n_splits", least=2)
        self.new = check_choice(new, NEW, "new")
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y, groups : ignored

        Examples
        --------
        >>> from manykernels.estimators import ColdStartKFold
        >>> ColdStartKFold(3, new="both").get_n_splits()
        9
        """
        return self.n_splits**2 if self.new == "both" else self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """Yield positions of training and of test pairs.

        Parameters
        ----------
        X : table or array of shape (n_pairs, 2)
            The pairs: positions or names. Anything with as many rows, if the pairs are ``groups``.
        y : ignored
        groups : table or array of shape (n_pairs, 2), optional
            The pairs, where X is something else, for example a `KernelStack` of their kernels.

        Yields
        ------
        train : ndarray of int
        test : ndarray of int

        Raises
        ------
        InvalidInputError
            If these are no pairs, there are fewer members than folds, or a part of a split would be empty.

        Examples
        --------
        >>> from manykernels.estimators import ColdStartKFold
        >>> pairs = [[0, 0], [0, 1], [1, 0]]
        >>> [test.tolist() for _, test in ColdStartKFold(2, new="left", shuffle=False).split(pairs)]
        [[0, 1], [2]]
        """
        first, second = _columns(X if groups is None else groups)
        for number, (train, test) in enumerate(self._masks(first, second)):
            if not train.any() or not test.any():
                raise InvalidInputError(
                    f"Split {number} of {self.get_n_splits()} has {train.sum()} training and {test.sum()} test pairs "
                    f"(new={self.new!r}, {len(first)} pairs): take fewer folds, or another random_state."
                )
            yield np.flatnonzero(train), np.flatnonzero(test)

    def _masks(self, first: Array, second: Array) -> Iterator[tuple[Array, Array]]:
        """Yield training and test masks of pairs."""
        random = check_random_state(self.random_state)
        if self.new == "members":
            together = self._folds(np.concatenate([first, second]), "members", random).reshape(2, -1)
            for fold in range(self.n_splits):
                held = (together == fold).any(axis=0)
                yield ~held, held
            return
        left = None if self.new == "right" else self._folds(first, "first members", random)
        right = None if self.new == "left" else self._folds(second, "second members", random)
        for split in range(self.get_n_splits()):
            held = [] if left is None else [left == (split // self.n_splits if self.new == "both" else split)]
            held += [] if right is None else [right == split % self.n_splits]
            yield ~np.any(held, axis=0), np.all(held, axis=0)

    def _folds(self, values: Array, kind: str, random: np.random.RandomState) -> Array:
        """Return the fold of the member of every pair."""
        members, codes = np.unique(values, return_inverse=True)
        if len(members) < self.n_splits:
            raise InvalidInputError(f"{len(members)} {kind} cannot be spread over n_splits={self.n_splits} folds.")
        order = random.permutation(len(members)) if self.shuffle else np.arange(len(members))
        folds = np.empty(len(members), dtype=np.intp)
        folds[order] = np.arange(len(members)) * self.n_splits // len(members)
        return folds[codes.ravel()]


def _columns(pairs: Any) -> tuple[Array, Array]:
    """Return first and second members."""
    table = np.asarray(pairs)
    if table.ndim != 2 or table.shape[1] != 2:
        raise InvalidInputError(
            f"Pairs are a table of two columns, first and second member; got shape {table.shape}. Pass the pairs as "
            "groups where X is something else."
        )
    return table[:, 0], table[:, 1]
