"""Folds of pairs whose members are new."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from manykernels import ColdStartKFold, InvalidInputError, KernelStack, MKLRegressor
from manykernels.grams import PairStack

RNG = np.random.default_rng(0)
PAIRS = np.column_stack([RNG.integers(0, 12, 200), RNG.integers(0, 9, 200)])


@pytest.mark.parametrize("new", ["left", "right", "both"])
def test_new_members_are_in_no_training_pair(new):
    splitter = ColdStartKFold(3, new=new, random_state=0)
    splits = list(splitter.split(PAIRS))
    assert len(splits) == splitter.get_n_splits() == (9 if new == "both" else 3)
    columns = {"left": [0], "right": [1], "both": [0, 1]}[new]
    for train, test in splits:
        for column in columns:
            assert not set(PAIRS[train, column]) & set(PAIRS[test, column])
        if new != "both":
            assert len(train) + len(test) == len(PAIRS)
    tested = np.concatenate([test for _, test in splits])
    assert sorted(tested) == list(range(len(PAIRS)))  # every pair is tested once


def test_pairs_of_one_kind():
    pairs = RNG.integers(0, 10, (80, 2))
    for train, test in ColdStartKFold(4, new="members", random_state=0).split(pairs):
        seen = set(pairs[train].ravel())
        assert all(len({i, j} - seen) >= 1 for i, j in pairs[test])
        assert len(train) + len(test) == len(pairs)


def test_names_tables_and_seeds():
    frame = pd.DataFrame({"drug": [f"d{i}" for i in PAIRS[:, 0]], "target": PAIRS[:, 1]})
    splitter = ColdStartKFold(3, new="left", random_state=1)
    first, again = ([test.tolist() for _, test in splitter.split(frame)] for _ in range(2))
    assert first == again
    other = [test.tolist() for _, test in ColdStartKFold(3, new="left", random_state=2).split(frame)]
    assert first != other
    assert "ColdStartKFold" in repr(splitter)


def test_scikit_learn_scores_unseen_members_lower_than_gaps():
    """A target of members alone: known members tell it, new ones with no kernel to others do not."""
    effects = np.random.default_rng(1).normal(size=12)
    y = effects[PAIRS[:, 0]]
    stack = PairStack(np.eye(12)[None], np.eye(9)[None], PAIRS, products=[(0, None), (None, 0)])
    kernels, model = KernelStack(stack.block()), MKLRegressor("precomputed")
    gaps = cross_val_score(clone(model), kernels, y, cv=3)
    cold = cross_val_score(model, kernels, y, groups=PAIRS, cv=ColdStartKFold(3, new="left", random_state=0))
    assert gaps.min() > 0.8
    assert cold.max() < 0.1


@pytest.mark.parametrize(
    ("options", "pairs", "message"),
    [
        ({}, [[0, 0], [1, 1]], "2 first members cannot be spread over n_splits=5"),
        ({"n_splits": 2, "shuffle": False}, [[0, 0], [1, 1]], "Split 1 of 4 has 0 training and 0 test pairs"),
        ({"n_splits": 2}, [0, 1, 2], "a table of two columns"),
    ],
)
def test_what_cannot_be_split_is_said(options, pairs, message):
    with pytest.raises(InvalidInputError, match=message):
        list(ColdStartKFold(**options).split(pairs))


def test_parameters_are_checked():
    with pytest.raises(InvalidInputError, match="n_splits"):
        ColdStartKFold(1)
    with pytest.raises(InvalidInputError, match="new must be"):
        ColdStartKFold(new="drugs")
