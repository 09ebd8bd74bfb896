"""Views that are said to matter do, in the amount that is said, and the others do not."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.datasets import MultiviewData, make_multiview

N = 40_000
SIZES = (2, 3, 5, 4)


def drawn(effect: str = "radial", task: str = "regression", **options: object) -> MultiviewData:
    return make_multiview(N, SIZES, 2, effect=effect, task=task, random_state=11, **options)


def test_columns_belong_to_their_views() -> None:
    data = make_multiview(20, SIZES, 3, random_state=0)
    assert data.X.shape == (20, 14)
    assert {view: len(columns) for view, columns in data.views.items()} == dict(
        zip(("view0", "view1", "view2", "view3"), SIZES, strict=True)
    )
    assert [column for columns in data.views.values() for column in columns] == list(data.X.columns)
    assert len(set(data.informative)) == 3
    assert set(data.informative) <= set(data.views)


@pytest.mark.parametrize("effect", ["radial", "linear"])
def test_effects_are_standardized_functions_of_their_view(effect: str) -> None:
    data = drawn(effect)
    assert list(data.effects.columns) == list(data.informative)
    for view in data.informative:
        x = data.X[data.views[view]].to_numpy()
        p = x.shape[1]
        by_hand = (np.square(x).sum(axis=1) - p) / np.sqrt(2 * p) if effect == "radial" else x.sum(axis=1) / p**0.5
        np.testing.assert_allclose(data.effects[view], by_hand, rtol=1e-12, atol=1e-12)
        assert abs(by_hand.mean()) < 4 / np.sqrt(N)
        assert by_hand.var() == pytest.approx(1.0, abs=4 * np.sqrt(8 / N))


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_the_true_score_explains_the_stated_share(noise: float) -> None:
    data = drawn(noise=noise)
    residual = data.y - data.effects.to_numpy().sum(axis=1)
    r2 = 1.0 - residual.var() / data.y.var()
    assert r2 == pytest.approx(data.best_r2, abs=0.02)
    assert data.best_r2 == pytest.approx(2 / (2 + noise**2))


@pytest.mark.parametrize("effect", ["radial", "linear"])
def test_only_informative_views_explain_the_target(effect: str) -> None:
    data = drawn(effect, noise=0.1)
    for view, columns in data.views.items():
        x = data.X[columns].to_numpy()
        feature = np.square(x).sum(axis=1) if effect == "radial" else x.sum(axis=1)
        squared_correlation = np.corrcoef(feature, data.y)[0, 1] ** 2
        expected = 1 / 2.01 if view in data.informative else 0.0
        assert squared_correlation == pytest.approx(expected, abs=0.02)


def test_a_radial_effect_is_uncorrelated_with_every_column() -> None:
    data = drawn("radial")
    correlations = [np.corrcoef(data.X[column], data.y)[0, 1] for column in data.X]
    assert np.abs(correlations).max() < 0.03


def test_classes_are_signs_of_the_score() -> None:
    data = drawn(task="classification", noise=0.0)
    np.testing.assert_array_equal(data.y, np.where(data.effects.to_numpy().sum(axis=1) > 0, 1.0, -1.0))


def test_every_view_may_be_informative() -> None:
    chosen = {make_multiview(2, (1, 1, 1), 1, random_state=seed).informative[0] for seed in range(30)}
    assert chosen == {"view0", "view1", "view2"}


def test_the_random_state_decides_the_draw() -> None:
    one, two, other = (make_multiview(30, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.y, two.y)
    assert one.informative == two.informative
    assert np.abs(one.X - other.X).to_numpy().max() > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_informative": 5}, "n_informative must be at most the number of views, 4, got 5"),
        ({"n_informative": 0}, "n_informative must be an integer of at least 1"),
        ({"n_features": (3, 0)}, r"n_features\[1\] must be an integer of at least 1"),
        ({"effect": "cubic"}, "effect must be one of .*'cubic'"),
        ({"task": "ranking"}, "task must be one of .*'ranking'"),
        ({"noise": -0.1}, "noise must be a finite number of at least 0, got -0.1"),
        ({"noise": np.nan}, "noise must be a finite number of at least 0, got nan"),
    ],
)
def test_impossible_requests_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_multiview(10, **options)
