"""Knockoffs: copies with the right moments, statistics that change their sign, and few false selections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import InvalidInputError, KernelBank, MKLClassifier, MKLRegressor
from manykernels.inspection import gaussian_knockoffs, knockoff_selection
from manykernels.inspection.evidence.selection import _equicorrelated, _mvr, _threshold
from manykernels.kernels import Gaussian, Linear

BANK = KernelBank.per_feature([Linear(), Gaussian(1.0)], standardize=True)
MODEL = MKLRegressor(BANK, tol=1e-3)


def correlated(n: int, p: int, seed: int, share: float = 0.5) -> Any:
    covariance = share ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    return np.random.default_rng(seed).normal(size=(n, p)) @ np.linalg.cholesky(covariance).T, covariance


# --- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["mvr", "equicorrelated"])
def test_copies_have_the_moments_of_exchangeable_ones(method: str) -> None:
    X, covariance = correlated(20_000, 4, 0)
    unit, origin = np.array([1.0, 10.0, 0.1, 3.0]), np.array([5.0, -2.0, 0.0, 1.0])
    copies = (gaussian_knockoffs(X * unit + origin, method=method, random_state=1) - origin) / unit
    both = np.cov(np.column_stack([X, copies]).T)
    np.testing.assert_allclose(both[4:, 4:], covariance, atol=0.05)
    between = both[:4, 4:]
    np.testing.assert_allclose((between - covariance)[~np.eye(4, dtype=bool)], 0.0, atol=0.05)
    assert (np.diag(between) < 0.8).all()
    np.testing.assert_allclose(copies.mean(axis=0), 0.0, atol=0.05)


def test_columns_are_told_from_copies_as_well_as_they_can_be() -> None:
    covariance = correlated(2, 6, 0, 0.7)[1]

    def reconstructable(s: Any) -> float:
        return float(np.trace(np.linalg.inv(2 * covariance - np.diag(s))) + np.sum(1 / s))

    best = _mvr(covariance)
    assert np.linalg.eigvalsh(2 * covariance - np.diag(best))[0] > 0
    assert reconstructable(best) < reconstructable(_equicorrelated(covariance))
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = best * np.exp(0.02 * rng.normal(size=6))
        if np.linalg.eigvalsh(2 * covariance - np.diag(near))[0] > 0:
            assert reconstructable(near) >= reconstructable(best) - 1e-9


# --- selection ------------------------------------------------------------------------------------------------------


def test_the_threshold_counts_negative_differences() -> None:
    statistics = np.array([5.0, 4.0, 3.0, 2.5, 2.0, -1.0, 0.0])
    assert _threshold(statistics, 0.2) == 2.0  # (1 + 0) / 5
    assert _threshold(statistics, 0.19) == np.inf
    assert _threshold(np.append(statistics, -4.5), 0.5) == 2.0  # (1 + 1) / 5
    assert _threshold(np.zeros(4), 0.9) == np.inf


def test_a_column_that_changes_places_with_its_copy_changes_the_sign_of_its_statistic() -> None:
    X, _ = correlated(80, 4, 1)
    copies = gaussian_knockoffs(X, random_state=0)
    y = X[:, 0] + np.sin(2 * X[:, 2]) + 0.3 * np.random.default_rng(2).normal(size=80)
    model = MKLRegressor(BANK, tol=1e-8)
    first = knockoff_selection(model, X, y, copies=copies, random_state=0).statistics
    swapped, twins = X.copy(), copies.copy()
    swapped[:, 2], twins[:, 2] = copies[:, 2], X[:, 2]
    second = knockoff_selection(model, swapped, y, copies=twins, random_state=5).statistics
    np.testing.assert_allclose(second, first * np.array([1, 1, -1, 1]), atol=1e-3 * np.abs(first).max())
    assert first["x2"] > 0 > second["x2"]


def test_few_of_the_selected_columns_are_false_and_most_true_ones_are_found() -> None:
    false, found = [], []
    for seed in range(12):
        X, _ = correlated(150, 16, seed)
        rng = np.random.default_rng(100 + seed)
        true = set(rng.permutation(16)[:7].tolist())
        y = sum(1.5 * np.sin(2 * X[:, j]) if j % 2 else X[:, j] for j in true) + rng.normal(size=150)
        selected = {int(name[1:]) for name in knockoff_selection(MODEL, X, y, q=0.2, random_state=seed).selected_}
        false.append(len(selected - true) / max(len(selected), 1))
        found.append(len(selected & true) / 7)
    assert np.mean(false) <= 0.2
    assert np.mean(found) >= 0.7


def test_groups_are_units_and_kernels_across_units_are_left_out() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 12)), columns=list("abcdefghijkl"))
    labels = np.where(X["a"] + X["c"] + X["e"] + X["g"] + X["i"] > 0, "yes", "no")
    groups = {"first": ["a", "b"], "second": ["c", "d"], "third": ["e", "f"], "fourth": ["g", "h"], "fifth": [8, 9]}
    bank = KernelBank([*BANK.kernels, ("pair", Gaussian(1.0), ["a", "b"]), ("all", Gaussian(2.0))], standardize=True)
    found = knockoff_selection(MKLClassifier(bank), X, labels, q=0.3, groups=groups, random_state=0)
    assert found.left_out == ("all",)
    assert list(found.norms.index) == ["first", "second", "third", "fourth", "fifth", "k", "l"]
    assert set(found.selected_) >= {"first", "second", "third", "fourth", "fifth"}
    frame = found.frame()
    assert frame["statistic"].is_monotonic_decreasing
    assert frame.loc[frame["selected"], "name"].isin(found.selected_).all()


def test_the_same_seed_selects_the_same() -> None:
    X, _ = correlated(60, 5, 3)
    first, second = (knockoff_selection(MODEL, X, X[:, 0], q=0.5, random_state=4).statistics for _ in range(2))
    pd.testing.assert_series_equal(first, second)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_copied_is_refused_in_words_unless_copies_are_given() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=50), "kind": rng.choice(["u", "v"], size=50)})
    model = MKLRegressor(tol=1e-2)
    with pytest.raises(InvalidInputError, match=r"Columns \['kind'\] are not numeric"):
        knockoff_selection(model, X, X["size"])
    copies = X.sample(frac=1.0, random_state=0)
    assert list(knockoff_selection(model, X, X["size"], copies=copies, random_state=0).norms.index) == ["size", "kind"]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"q": 1.0}, "q must be below 1"),
        ({"copies": "sdp"}, "copies"),
        ({"copies": np.zeros((2, 3))}, r"copies must have the shape \(40, 3\)"),
        ({"groups": {"one": ["x9"]}}, r"columns \['x9'\] that X lacks"),
        ({"groups": {"one": ["x0"], "two": ["x0"]}}, "of another"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(given: Any, match: str) -> None:
    X, _ = correlated(40, 3, 0)
    with pytest.raises(InvalidInputError, match=match):
        knockoff_selection(MODEL, X, X[:, 0], **given)


def test_columns_without_spread_and_banks_across_units_are_refused() -> None:
    X, _ = correlated(40, 3, 0)
    with pytest.raises(InvalidInputError, match=r"Columns \[1\] are constant"):
        gaussian_knockoffs(np.column_stack([X[:, 0], np.ones(40)]))
    with pytest.raises(InvalidInputError, match="None of the 1 kernels acts inside a unit"):
        knockoff_selection(MKLRegressor(KernelBank([("all", Gaussian(1.0))])), X, X[:, 0])
    with pytest.raises(InvalidInputError, match="precomputed kernels and pairs"):
        knockoff_selection(MKLRegressor("precomputed"), X, X[:, 0])
