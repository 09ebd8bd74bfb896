"""Stability selection keeps its promise on noise and finds what is there; importance by shuffling and leaving out."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import get_scorer, r2_score

from manykernels import (
    Gaussian,
    GaussianMKL,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    leave_one_out_importance,
    predictive_importance,
    stability_selection,
)
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import StabilityDisplay, StabilitySelection

BANK = KernelBank.per_feature(Linear(), standardize=True)


def _table(seed: int, n: int = 60, p: int = 8) -> tuple[pd.DataFrame, Any]:
    X = np.random.default_rng(seed).normal(size=(n, p))
    noise = 0.5 * np.random.default_rng(100 + seed).normal(size=n)
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(p)]), X[:, 1] - X[:, 4] + noise


# --- stability ---


@pytest.mark.nightly
def test_false_selections_on_noise_stay_within_the_bound() -> None:
    false = []
    for seed in range(6):
        X = np.random.default_rng(seed).normal(size=(40, 20))
        y = np.random.default_rng(500 + seed).normal(size=40)
        found = stability_selection(
            MKLRegressor(BANK), X, y, n_pairs=6, expected_false=1.0, threshold=0.6, random_state=seed
        )
        assert found.error_bound <= 1.0
        false.append(len(found.selected))
    # The mean of six draws, each of which is nearly always 0 or 1, of an expectation of at most 1.
    assert np.mean(false) <= 1.0


def test_true_columns_are_selected() -> None:
    X, y = _table(0)
    found = stability_selection(MKLRegressor(BANK), X, y, n_pairs=15, expected_false=1.0, random_state=0)
    assert set(found.selected) == {"c1", "c4"}
    assert found.frame().columns.tolist() == ["name", "frequency", "selected"]
    assert found.frequencies.sum() <= found.n_first + 1e-12
    assert found.n_halves == 30


@pytest.mark.nightly
def test_stability_of_classes_weights_and_kernels() -> None:
    X, y = _table(1)
    bank = KernelBank.per_feature([Gaussian(1.0), Linear()], standardize=True)
    codes = np.digitize(y, [-1, 1])
    weight = np.where(np.arange(60) < 50, 1.0, 0.0)
    found = stability_selection(
        MKLClassifier(bank), X, codes, by="kernel", n_pairs=4, expected_false=4.0, sample_weight=weight, random_state=3
    )
    again = stability_selection(
        MKLClassifier(bank), X[:50], codes[:50], by="kernel", n_pairs=4, expected_false=4.0, random_state=3
    )
    pd.testing.assert_series_equal(found.frequencies.sort_index(), again.frequencies.sort_index())
    assert len(found.frequencies) == 16
    assert found.frequencies.index[0].startswith(("c1", "c4"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": "color"}, "by must be one of"),
        ({"threshold": 0.5}, "threshold must be above 0.5"),
        ({"expected_false": 0.01}, "expected_false must be at least"),
        ({"n_pairs": 0}, "n_pairs"),
    ],
)
def test_wrong_arguments_of_stability(changes: dict[str, Any], message: str) -> None:
    X, y = _table(0)
    with pytest.raises(InvalidInputError, match=message):
        stability_selection(MKLRegressor(BANK), X, y, **changes)


def test_a_penalty_that_selects_nothing_is_refused() -> None:
    X, y = _table(0)
    with pytest.raises(InvalidInputError, match="every kernel a weight"):
        stability_selection(MKLRegressor(BANK, penalty="ridge"), X, y)


# --- permutation ---


@pytest.mark.nightly
def test_permutation_is_that_of_the_part_of_a_view() -> None:
    X, y = _table(2, n=90)
    model = MKLRegressor(BANK, alpha=0.01).fit(X[:60], y[:60])
    found = predictive_importance(model, X[60:], y[60:], n_repeats=99, random_state=0)
    assert set(found["name"][:2]) == {"c1", "c4"}
    assert (found["p_value"][:2] == 0.01).all()
    # The same by the long way: shuffle the column itself. The two draws differ, their means nearly do not.
    random, drops = np.random.default_rng(1), []
    for _ in range(60):
        shuffled = X[60:].assign(c1=random.permutation(X["c1"][60:]))
        drops.append(r2_score(y[60:], model.predict(X[60:])) - r2_score(y[60:], model.predict(shuffled)))
    row = found[found["name"] == "c1"].iloc[0]
    assert row["importance"] == pytest.approx(np.mean(drops), abs=5 * row["std"] / np.sqrt(99))


@pytest.mark.nightly
def test_p_values_on_noise_are_not_small() -> None:
    X, y = _table(3, n=120)
    model = MKLRegressor(BANK, alpha=1e-3).fit(X[:60], y[:60])
    unrelated = np.random.default_rng(9).normal(size=60)
    values = predictive_importance(model, X[60:], unrelated, n_repeats=99, random_state=0)["p_value"]
    assert (values > 0.02).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scoring", [None, "roc_auc_ovr", "neg_log_loss"])
def test_permutation_for_classes_and_scorers(scoring: str | None) -> None:
    X, y = _table(4)
    codes = np.digitize(y, [-1, 1])
    model = MKLClassifier(BANK, alpha=0.01).fit(X, codes)
    found = predictive_importance(model, X, codes, n_repeats=19, scoring=scoring, random_state=0)
    assert set(found["name"][:2]) == {"c1", "c4"}


def test_areas_under_curve_are_those_of_scikit_learn() -> None:
    X, y = _table(4)
    model = MKLClassifier(BANK, alpha=0.01).fit(X, np.where(y > 0, "high", "low"))
    own, other = (
        predictive_importance(model, X, np.where(y > 0.3, "high", "low"), n_repeats=19, scoring=scoring, random_state=0)
        for scoring in ("roc_auc", get_scorer("roc_auc"))
    )
    columns = ["name", "importance", "std"]  # scikit-learn's rounding hides ties, which a p-value counts
    pd.testing.assert_frame_equal(own[columns], other[columns], rtol=1e-10)


def test_permutation_of_a_search_and_wrong_arguments() -> None:
    X, y = _table(5)
    model = GaussianMKL(resources={"max_iter": 3}).fit(X[["c1", "c2"]], np.sin(X["c1"]))
    assert len(predictive_importance(model, X[["c1", "c2"]], np.sin(X["c1"]), by="kernel", n_repeats=9)) >= 1
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        predictive_importance(model, X[["c1", "c2"]][:1], y[:1])
    with pytest.raises(InvalidInputError, match="by must be"):
        predictive_importance(model, X[["c1", "c2"]], y, by="row")


# --- leaving out ---


def test_leaving_out_finds_what_nothing_replaces() -> None:
    X, y = _table(6)
    X = X[["c0", "c1", "c4"]].assign(copy=X["c4"])
    found = leave_one_out_importance(MKLRegressor(BANK, alpha=0.01), X, y, cv=4).set_index("name")
    assert found.index[0] == "c1"
    assert found.loc["c1", "p_value"] < 0.05 < found.loc["c0", "p_value"]
    assert abs(found.loc["c4", "importance"]) < 0.1 * found.loc["c1", "importance"], "its copy takes its place"


def test_leaving_out_views_of_a_classifier() -> None:
    X, y = _table(7)
    views = {"first": ["c0", "c1", "c4"], "second": ["c2", "c3"]}
    model = MKLClassifier(KernelBank.from_views(views, Linear(), normalize="mean_diagonal"), alpha=0.02)
    found = leave_one_out_importance(model, X, y > 0, cv=3, scoring="roc_auc")
    assert found["name"].tolist() == ["first", "second"]
    assert found["n_kernels"].tolist() == [1, 1]


def test_leaving_out_columns_with_gaps() -> None:
    X, y = _table(9)
    X = X[["c1", "c2"]].mask(np.random.default_rng(0).random((60, 2)) < 0.1)
    found = leave_one_out_importance(MKLRegressor(KernelBank.auto(missing="indicator"), alpha=0.01), X, y, cv=3)
    assert found["name"].tolist() == ["c1", "c2"]


def test_what_cannot_be_left_out_is_refused() -> None:
    X, y = _table(8)
    with pytest.raises(InvalidInputError, match="nothing can be left out"):
        leave_one_out_importance(MKLRegressor(KernelBank([Linear()])), X, y)
    with pytest.raises(InvalidInputError, match="of banks"):
        leave_one_out_importance(MKLRegressor("precomputed"), X, y)


# --- the picture ---


@pytest.mark.parametrize("n_units", [5, 5000])
@pytest.mark.parametrize("size", [(3.0, 2.0), (9.0, 7.0)])
def test_stability_is_drawn_for_few_and_many(n_units: int, size: tuple[float, float]) -> None:
    frequencies = pd.Series(np.linspace(1.0, 0.01, n_units), index=[f"column {j} of many" for j in range(n_units)])
    found = StabilitySelection(frequencies, 0.75, 7, 1.0, 100, "view")
    _, ax = plt.subplots(figsize=size)
    display = StabilityDisplay.from_selection(found).plot(ax)
    assert len(display.frame()) == min(n_units, 20)
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert len(shown) >= 2
    assert (n_units > 20) <= shown[-1].endswith("more")
    assert f"{len(found.selected)} stable views" in ax.get_title().replace("\n", " ")
    plt.close()
