"""Alignment metrics and ideal kernels against their definitions in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from manykernels.alignment import alignment, center_kernel, centered_alignment, target_features, target_kernel
from manykernels.cli.targets import split_columns
from manykernels.exceptions import InvalidInputError, NotPSDError

Array = NDArray[Any]


def random_kernel(seed: int, n: int = 12) -> Array:
    features = np.random.default_rng(seed).normal(size=(n, 4)) + 2.0
    return features @ features.T


def by_definition(K: Array, L: Array) -> float:
    C = np.eye(len(K)) - 1 / len(K)
    first, second = C @ K @ C, C @ L @ C
    return float(np.trace(first @ second) / np.sqrt(np.trace(first @ first) * np.trace(second @ second)))


@pytest.mark.parametrize("seed", range(5))
def test_metrics_are_their_definitions(seed: int) -> None:
    K, L = random_kernel(seed), random_kernel(seed + 100)
    assert alignment(K, L) == pytest.approx(np.sum(K * L) / np.sqrt(np.sum(K * K) * np.sum(L * L)), rel=1e-13)
    assert centered_alignment(K, L) == pytest.approx(by_definition(K, L), rel=1e-12)
    C = np.eye(12) - 1 / 12
    np.testing.assert_allclose(center_kernel(K), C @ K @ C, atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_scale_does_not_count_and_after_centering_neither_do_constants(seed: int) -> None:
    K, L = random_kernel(seed), random_kernel(seed + 50)
    assert centered_alignment(3e-7 * K + 5.0, L) == pytest.approx(by_definition(K, L), rel=1e-6)
    assert centered_alignment(1e200 * K, 1e200 * L) == pytest.approx(centered_alignment(K, L), rel=1e-12)
    assert alignment(K + 100.0, L) != pytest.approx(alignment(K, L), rel=1e-3)
    assert centered_alignment(K, 7.0 * K) == pytest.approx(1.0, abs=1e-14)


def test_nothing_passed_in_changes() -> None:
    K = random_kernel(0)
    K.flags.writeable = False
    center_kernel(K)
    assert 0 < centered_alignment(K, np.eye(12)) < 1


@pytest.mark.parametrize(
    ("K", "L", "words"),
    [
        (np.ones((3, 2)), np.eye(3), "K must be a kernel matrix of shape"),
        (np.eye(3), np.eye(4), "must be on the same samples"),
        (np.eye(3), np.full((3, 3), np.nan), "L contains 9 NaN"),
        (np.ones((3, 3)), np.eye(3), "not defined: K is zero"),
        (np.eye(3), 1e6 * np.ones((3, 3)), "not defined: L is zero"),
        (np.empty((0, 0)), np.eye(3), "shape"),
    ],
)
def test_metrics_refuse_what_has_no_alignment(K: Array, L: Array, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        centered_alignment(K, L)


def test_a_matrix_that_is_not_symmetric_is_no_kernel() -> None:
    with pytest.raises(NotPSDError, match="K is not symmetric"):
        alignment([[1.0, 2.0], [0.0, 1.0]], np.eye(2))


def test_codings_of_labels() -> None:
    labels = np.array(["b", "a", "c", "a", "b", "a"])
    same = labels[:, None] == labels
    sizes = np.array([2, 3, 1, 3, 2, 3])
    np.testing.assert_array_equal(target_kernel(labels, "indicator"), same.astype(float))
    np.testing.assert_allclose(target_kernel(labels, "balanced"), same / sizes, atol=1e-15)
    # Against the rest: two samples agree on all three columns or, of two classes, on one of them.
    np.testing.assert_array_equal(target_kernel(labels, "signs"), np.where(same, 3.0, -1.0))
    assert target_features(labels, "signs").shape == (6, 3)


def test_two_classes_and_numbers_are_outer_products() -> None:
    signs = np.array([1.0, -1.0, 1.0])
    for y in (signs, ["yes", "no", "yes"], [True, False, True], signs[:, None]):
        np.testing.assert_array_equal(target_kernel(y), np.outer(signs, signs))
    y = np.array([0.5, 2.0, -1.0])
    np.testing.assert_array_equal(target_kernel(y), np.outer(y, y))
    np.testing.assert_array_equal(target_kernel([3, 4, 3], "numbers"), np.outer([3, 4, 3], [3, 4, 3]))
    two = np.array([[1.0, 2.0], [0.0, 1.0]])
    np.testing.assert_array_equal(target_kernel(two), two @ two.T)


def test_after_centering_signs_and_indicator_agree() -> None:
    labels = np.random.default_rng(0).integers(4, size=30)
    assert centered_alignment(target_kernel(labels, "signs"), target_kernel(labels, "indicator")) == pytest.approx(1.0)
    assert centered_alignment(target_kernel(labels, "balanced"), target_kernel(labels, "indicator")) < 0.9999


@pytest.mark.parametrize(
    ("y", "coding", "words"),
    [
        ([1, 2], "hot", "coding must be one of 'auto'"),
        (["a", "b"], "numbers", "y must hold numbers"),
        ([0.1, np.nan], "auto", "y contains 1 NaN"),
        (np.ones((2, 2, 2)), "auto", "y must have shape"),
        ([], "auto", "y must have shape"),
        (np.ones((3, 2)), "indicator", r"Labels must have shape"),
        (np.array([1, "a", None], dtype=object), "signs", "cannot be compared"),
    ],
)
def test_targets_refuse_what_they_cannot_code(y: Any, coding: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        target_features(y, coding)


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (np.arange(21) % 21, False),
        (1e3 * (np.arange(40) % 21), False),
        (1e-3 * (np.arange(40) % 21), False),
        (np.arange(40) % 10, True),
        (np.arange(40.0) % 3, True),
        (0.5 * (np.arange(40) % 3), False),
        (0.3 + 0.4 * (np.arange(40) % 2), True),
        (np.arange(40) % 20 > 9, True),
        ([f"class {k % 20}" for k in range(40)], True),
        (pd.Series(np.arange(40) % 20, dtype="Int64"), False),
    ],
)
def test_labels_are_told_from_numbers_as_by_the_command(y, labels) -> None:
    """Counts from 0 to 20 were 21 classes, and the same counts times 1e-3 numbers."""
    expected = target_features(y, "signs" if labels else "numbers")
    np.testing.assert_array_equal(target_features(y), expected)
    table = pd.DataFrame({"x": np.arange(float(len(y))), "y": y})
    assert split_columns(table, "y").task == ("classification" if labels else "regression")
