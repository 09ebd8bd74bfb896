"""A fitted bank evaluates what its kernels and its normalization say, recomputed kernel by kernel in plain NumPy."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from manykernels import MKLClassifier
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import (
    ArdGaussian,
    ChiSquared,
    Cosine,
    Dirichlet,
    FromCallable,
    Gaussian,
    Group,
    KernelBank,
    KernelSpec,
    Laplacian,
    Linear,
    Matern,
    Pairwise,
    PerFeature,
    Polynomial,
)

MIXED = [
    ("near", Gaussian(0.5), [0, 2]),
    ("line", Linear(), [1]),
    ("far", Gaussian(3.0), [0, 2]),
    ("rough", Matern(1.0, 1.5), [0, 2]),
    ("cubic", Polynomial(3), [0, 2, 3]),
    ("line too", Linear(), [0, 2, 3]),
    ("ard", ArdGaussian((0.5, 4.0)), [0, 2]),
    ("swapped", Gaussian(0.5), [2, 0]),
    ("city", Laplacian(2.0), [0, 2]),
    ("cosine", Cosine(), [1, 3]),
    ("wave", Dirichlet(2, 0.5), [3]),
    ("median", Gaussian("0.7*median"), [0, 1, 2, 3]),
    ("product", Gaussian(1.0) * Polynomial(2), [1]),
    ("multiple", 2 * Gaussian(1.0), [1]),
    ("named", Pairwise("rbf", {"gamma": 0.2}), [0, 1]),
    ("function", FromCallable(lambda A, B: A @ B.T + 1.0, "affine"), [0, 1]),
]
NORMALIZATIONS = ["trace", "mean_diagonal", "unit_diagonal", None]


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(30, 4)) * [1.0, 20.0, 0.3, 2.0] + [0.0, 500.0, -1.0, 2.0]


@pytest.fixture
def Z(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(6, 4)) * [2.0, 20.0, 0.3, 2.0] + [0.0, 520.0, -1.0, 2.0]


def by_hand(
    spec: KernelSpec, train: np.ndarray, new: np.ndarray, normalize: str | None, center: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training matrix, cross matrix and new diagonal of one kernel, from the definitions."""
    K, C, d = spec(train), spec(new, train), spec.diag(new)
    if center:
        n = len(train)
        H = np.eye(n) - np.ones((n, n)) / n
        d = d - 2 * C.mean(axis=1) + K.mean()
        C = (C - np.ones((len(new), n)) / n @ K) @ H
        K = H @ K @ H
    diagonal = np.diag(K)
    if normalize == "unit_diagonal":
        return K / np.sqrt(np.outer(diagonal, diagonal)), C / np.sqrt(np.outer(d, diagonal)), np.ones(len(new))
    scale = {"trace": 1 / diagonal.sum(), "mean_diagonal": 1 / diagonal.mean(), None: 1.0}[normalize]
    return K * scale, C * scale, d * scale


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("standardize", [False, True])
def test_blocks_and_diagonals_are_those_of_the_definitions(
    standardize: bool, normalize: str | None, center: bool, X: np.ndarray, Z: np.ndarray
) -> None:
    bank = KernelBank(MIXED, standardize=standardize, normalize=normalize, center=center)
    fitted = bank.fit(X)
    train, new = fitted.prepare(X), fitted.prepare(Z)
    K, C, d = fitted.block(train, train), fitted.block(new, train), fitted.diag(new)
    mean, deviation = (X.mean(axis=0), X.std(axis=0)) if standardize else (0.0, 1.0)
    A, B = (X - mean) / deviation, (Z - mean) / deviation
    for m, (spec, (name, _, columns)) in enumerate(zip(fitted.table.specs, MIXED, strict=True)):
        expected = by_hand(spec, A[:, columns], B[:, columns], normalize, center)
        size = np.abs(expected[0]).max()
        for found, correct in zip((K[m], C[m], d[m]), expected, strict=True):
            np.testing.assert_allclose(found, correct, rtol=1e-7, atol=1e-8 * size, err_msg=name)
    np.testing.assert_array_equal(K, K.transpose(0, 2, 1))


def test_normalizations_keep_their_promise_on_training_rows(X: np.ndarray) -> None:
    for center in (False, True):
        diagonals = {}
        for normalize in NORMALIZATIONS:
            bank = KernelBank(MIXED, standardize=True, normalize=normalize, center=center)
            fitted, rows = bank.fit_prepare(X)
            diagonals[normalize] = fitted.diag(rows)
            K = fitted.block(rows, rows)
            np.testing.assert_allclose(np.einsum("mii->mi", K), diagonals[normalize], rtol=1e-9, atol=1e-12)
            if center and normalize != "unit_diagonal":
                np.testing.assert_allclose(K.sum(axis=2), 0, atol=1e-9 * np.abs(K).max())
        np.testing.assert_allclose(diagonals["trace"].sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(diagonals["mean_diagonal"].mean(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(diagonals["unit_diagonal"], 1.0, rtol=1e-12)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_new_rows_never_influence_the_normalization(normalize: str | None, X: np.ndarray, Z: np.ndarray) -> None:
    fitted, train = KernelBank(MIXED, standardize=True, normalize=normalize, center=True).fit_prepare(X)
    alone = fitted.block(fitted.prepare(Z[:1]), train)
    together = fitted.block(fitted.prepare(np.vstack([Z[:1], 100 * Z])), train)
    np.testing.assert_allclose(together[:, :1], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", ["trace", "unit_diagonal"])
def test_parts_of_a_block_are_parts_of_the_whole(normalize: str, center: bool, X: np.ndarray, Z: np.ndarray) -> None:
    fitted, train = KernelBank(MIXED, standardize=True, normalize=normalize, center=center).fit_prepare(X)
    new = fitted.prepare(Z)
    whole = fitted.block(new, train)
    kernels, rows, cols = [7, 0, 5, 3], [4, 1], np.arange(30) % 3 == 0
    out = np.empty((4, 2, 10))
    part = fitted.block(new, train, kernels=kernels, rows=rows, cols=cols, out=out)
    assert part is out
    tolerance = {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(part, whole[kernels][:, rows][:, :, cols], **tolerance)
    np.testing.assert_allclose(fitted.block(new, train, rows=slice(2, 5)), whole[:, 2:5], **tolerance)
    np.testing.assert_allclose(
        fitted.block(new.take([5, 0]), train.take(cols)), whole[:, [5, 0]][:, :, cols], **tolerance
    )
    np.testing.assert_allclose(fitted.block(new, train, kernels=[2, 2]), whole[[2, 2]], **tolerance)
    np.testing.assert_allclose(fitted.diag(new, kernels), fitted.diag(new)[kernels], **tolerance)
    assert fitted.block(new, train, kernels=[]).shape == (0, 6, 30)


@pytest.mark.parametrize("center", [False, True])
def test_a_bank_of_fewer_kernels_is_that_part_of_the_whole(center: bool, X: np.ndarray, Z: np.ndarray) -> None:
    fitted, train = KernelBank(MIXED, standardize=True, center=center).fit_prepare(X)
    expected = fitted.block(fitted.prepare(Z), train)
    chosen = [8, 2, 1]
    small = fitted.take(chosen)
    assert small.names == ("city", "far", "line")
    np.testing.assert_array_equal(small.scales, fitted.scales[chosen])
    support = train.take([3, 4, 20])
    for rows in (support, small.narrow(support)):
        found = small.block(small.prepare(Z), rows)
        np.testing.assert_allclose(found, expected[chosen][:, :, [3, 4, 20]], rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(small.take([2, 0]).scales, fitted.scales[[1, 8]])
    assert small.narrow(support) is not support
    with pytest.raises(InvalidInputError, match="prepared by another bank"):
        fitted.block(small.prepare(X), small.prepare(X))


def test_groups_hold_every_kernel_once_and_share_what_can_be_shared(X: np.ndarray) -> None:
    fitted = KernelBank(MIXED).fit(X)
    rows = fitted.prepare(X)
    assert sorted(m for group in fitted.groups for m in group.kernels) == list(range(16))
    first = fitted.groups[0]
    assert (first.family, first.positions, first.kernels) == ("squared_distance", (0, 2), (0, 2, 3))
    assert all(
        fitted.table.specs[m] == spec
        for group in fitted.groups
        for m, spec in zip(group.kernels, group.specs, strict=True)
    )
    ard = next(group for group in fitted.groups if group.column_widths)
    assert isinstance(ard, Group)
    for index, group in enumerate(fitted.groups):
        points = rows.points(index)
        assert points.flags.c_contiguous
        assert points.dtype == np.float64
        D = cdist(X[:, group.positions], X[:, group.positions], "sqeuclidean")
        if group.family == "squared_distance" and group.column_widths is None:
            np.testing.assert_allclose(cdist(points, points, "sqeuclidean"), D, rtol=1e-9)
        if group.family == "inner_product":
            np.testing.assert_array_equal(points, X[:, group.positions])
    np.testing.assert_allclose(
        np.ptp(rows.points(fitted.groups.index(ard)), axis=0), np.ptp(X[:, [0, 2]], axis=0) / [0.5, 4]
    )


@pytest.mark.parametrize("center", [False, True])
def test_a_pickled_bank_gives_the_same_bits(center: bool, X: np.ndarray, Z: np.ndarray) -> None:
    fitted = KernelBank(MIXED[:-1], standardize=True, normalize="unit_diagonal", center=center).fit(X)
    copy = pickle.loads(pickle.dumps(fitted))
    expected = fitted.block(fitted.prepare(Z), fitted.prepare(X))
    np.testing.assert_array_equal(copy.block(copy.prepare(Z), copy.prepare(X)), expected)
    assert copy.frame().equals(fitted.frame())


class Holder(BaseEstimator):
    def __init__(self, kernels: Any = None) -> None:
        self.kernels = kernels


def test_a_bank_is_an_immutable_value_that_estimators_can_hold() -> None:
    bank = KernelBank(MIXED, standardize=True)
    same = KernelBank(list(MIXED), standardize=True)
    assert bank == same
    assert hash(bank) == hash(same)
    assert bank != bank.replace(center=True)
    assert clone(Holder(bank)).kernels is bank
    assert deepcopy(bank) is bank
    plain = KernelBank(MIXED[:-1])
    assert pickle.loads(pickle.dumps(plain)) == plain
    with pytest.raises(FrozenInstanceError, match="cannot assign"):
        bank.center = True  # type: ignore[misc]


def test_the_list_given_is_not_kept(X: np.ndarray) -> None:
    columns = [0]
    entries = [("k", Linear(), columns)]
    bank = KernelBank(entries)
    columns.append(1)
    entries.append(("l", Linear(), [1]))
    assert bank.fit(X).table.positions == ((0,),)


def test_length_iteration_sum_and_repr() -> None:
    bank = KernelBank(MIXED[:2]) + KernelBank([PerFeature(Linear()), Gaussian(2.0)])
    assert len(bank) == 4
    assert [type(entry).__name__ for entry in bank] == ["OnColumns", "OnColumns", "PerFeature", "OnColumns"]
    assert len(repr(KernelBank.simplemkl())) < 150
    with pytest.raises(InvalidInputError, match="standardize: False and True; center: False and True"):
        bank + KernelBank(MIXED, standardize=True, center=True)
    with pytest.raises(InvalidInputError, match=r"'near', .* appear more than once"):
        bank + bank
    with pytest.raises(TypeError, match="unsupported operand"):
        bank + 1  # type: ignore[operator]


def test_the_frame_names_kernels_and_columns(X: np.ndarray) -> None:
    frame = KernelBank([("near", Gaussian(0.5), [0, 2]), ("line", Linear(), [1])], normalize=None).fit(X).frame()
    assert frame.columns.tolist() == ["name", "kernel", "columns", "scale"]
    assert frame.iloc[0].tolist() == ["near", "gaussian(width=0.5)", "x0, x2", 1.0]


BAD = [
    (lambda: KernelBank([]), "not empty; got \\[\\]"),
    (lambda: KernelBank("default"), "kernels must be a list of"),
    (lambda: KernelBank([("a", 3.0, [0])]), "Expected a kernel such as"),
    (lambda: KernelBank([("a", Linear(), 0, 1)]), "An entry of a KernelBank is"),
    (lambda: KernelBank([("", Linear())]), "non-empty string, got ''"),
    (lambda: KernelBank([("a", Linear()), ("a", Linear())]), "\\['a'\\] appear more than once"),
    (lambda: KernelBank([Linear()], normalize="unit"), "normalize must be one of 'trace'.*got 'unit'"),
    (lambda: KernelBank([Linear()], center="yes"), "center must be True or False, got 'yes'"),
    (lambda: KernelBank([("a", Linear(), 1.5)]).fit(np.eye(3)), "Column 1.5 is selected by name"),
    (lambda: KernelBank([("a", ArdGaussian((1.0, 2.0)))]).fit(np.eye(3)), "Kernel 'a': 2 widths for 3 column"),
    (lambda: KernelBank([("a", ChiSquared())]).fit(-np.eye(3)), "needs data >= 0"),
    (
        lambda: KernelBank([("a", FromCallable(lambda A, B: -A @ B.T, "negative"))]).fit(np.eye(3)),
        "Kernel 'a' is not positive semidefinite: its diagonal has the entry -1",
    ),
    (
        lambda: KernelBank([PerFeature(Linear()), ("x0: linear()", Linear())]).fit(np.eye(2)),
        "\\['x0: linear\\(\\)'\\] appear more than once",
    ),
]


@pytest.mark.parametrize(("build", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_banks_are_explained(build: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_bad_blocks_are_explained(X: np.ndarray) -> None:
    fitted, rows = KernelBank(MIXED).fit_prepare(X)
    with pytest.raises(InvalidInputError, match="out must be float64 of shape \\(16, 30, 30\\)"):
        fitted.block(rows, rows, out=np.empty((16, 30, 30), dtype=np.float32))
    with pytest.raises(InvalidInputError, match="kernels has position 16, but positions go from 0 to 15"):
        fitted.block(rows, rows, kernels=[16])
    with pytest.raises(InvalidInputError, match="No kernels chosen"):
        fitted.take([])


def test_tags_say_what_a_bank_reads() -> None:
    numbers, everything = KernelBank.per_feature(Linear()), KernelBank.auto(missing="mask")
    told = [get_tags(MKLClassifier(bank)).input_tags for bank in (None, numbers, everything)]
    assert [(tags.categorical, tags.string, tags.allow_nan) for tags in told] == [
        (True, True, False),
        (False, False, False),
        (True, True, True),
    ]
