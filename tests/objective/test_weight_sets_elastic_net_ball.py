"""The closed forms against Citi's own Algorithms 2 and 3 and against optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import manykernels.objective
from manykernels.exceptions import InvalidInputError
from manykernels.objective import ElasticNetBall, LpBall, Simplex, elastic_net_linear, elastic_net_reciprocals
from manykernels.objective.regularizers.weight_sets import WeightSet, elastic_net_scale

ETAS = (0.0, 1e-12, 0.25, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12, 1.0)
vectors = arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1e3).map(lambda x: x if x > 1e-6 else 0.0))


def constraint(theta, eta) -> float:
    return eta * np.sum(theta) + (1 - eta) * np.sum(theta**2)


def published_linear(u, eta):
    """Algorithm 3 with its misprint corrected: move negative entries to Z until none is left."""
    d = eta / (2 - 2 * eta)
    kept = np.ones(u.size, dtype=bool)
    while True:
        r = np.sqrt(kept.sum() * d**2 + 2 * d + 1)
        q = np.where(kept, r * u / np.linalg.norm(u[kept]) - d, 0.0)
        if np.all(q >= 0):
            return q
        kept &= q >= 0


def published_reciprocals(beta, eta, rounds=1500):
    """Algorithm 2: the fixed point (13a), alternating with (21) for small eta."""
    x = np.full(beta.size, 1.0)
    for _ in range(rounds):
        if eta < 0.25:
            x = np.cbrt(x * beta / slope(x, eta))
        x = np.sqrt(beta / slope(x, eta))
    return x / elastic_net_scale(x, eta)


def slope(x, eta):
    r = np.sqrt(eta**2 / 4 * x.sum() ** 2 + (1 - eta) * np.sum(x**2))
    return eta / 2 + ((eta / 2) ** 2 * x.sum() + (1 - eta) * x) / r


@pytest.mark.parametrize("eta", [0.0, 0.1, 0.25, 0.5, 0.8])
def test_both_agree_with_the_published_algorithms(eta, rng) -> None:
    for _ in range(3):
        u, beta = rng.exponential(size=9), rng.exponential(size=9) ** 2
        np.testing.assert_allclose(elastic_net_linear(u, eta), published_linear(u, eta), atol=1e-12)
        np.testing.assert_allclose(elastic_net_reciprocals(beta, eta), published_reciprocals(beta, eta), atol=1e-9)


@given(u=vectors, eta=st.sampled_from(ETAS))
def test_linear_maximizer_has_no_duality_gap(u, eta) -> None:
    """``max theta'u = min_nu s.t. conjugate``: the KKT multiplier proves optimality without another solver."""
    theta = elastic_net_linear(u, eta)
    if not np.any(u):
        np.testing.assert_array_equal(theta, 0.0)
        return
    assert np.all(theta >= 0)
    assert constraint(theta, eta) == pytest.approx(1.0, abs=1e-9)
    multiplier = float(theta @ u) / (eta * theta.sum() + 2 * (1 - eta) * (theta @ theta))
    slopes = multiplier * (eta + 2 * (1 - eta) * theta)
    scale = u.max()
    assert np.all(slopes >= u - 1e-9 * scale)
    np.testing.assert_allclose(slopes[theta > 0], u[theta > 0], atol=1e-9 * scale)


@given(beta=vectors, eta=st.sampled_from(ETAS))
def test_reciprocals_minimizer_is_stationary(beta, eta) -> None:
    theta = elastic_net_reciprocals(beta, eta)
    np.testing.assert_array_equal(theta > 0, beta > 0)
    if np.any(beta):
        kept = beta > 0
        assert constraint(theta, eta) == pytest.approx(1.0, abs=1e-9)
        ratio = beta[kept] / (theta[kept] ** 2 * (eta + 2 * (1 - eta) * theta[kept]))
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


@pytest.mark.parametrize("eta", ETAS)
def test_ties_zeros_and_scales(eta) -> None:
    tied = elastic_net_linear(np.array([2.0, 2.0, 0.0]), eta)
    assert constraint(tied, eta) == pytest.approx(1.0, abs=1e-12)
    assert eta == 1 or tied[0] == pytest.approx(tied[1], rel=1e-12)
    for scale in (1e-150, 1e150):
        u = np.array([1.0, 0.7, 0.0])
        np.testing.assert_allclose(elastic_net_linear(scale * u, eta), elastic_net_linear(u, eta), rtol=1e-12)
        expected = elastic_net_reciprocals(u, eta)
        np.testing.assert_allclose(elastic_net_reciprocals(scale * u, eta), expected, rtol=1e-12)
    np.testing.assert_array_equal(elastic_net_reciprocals(np.zeros(3), eta), 0.0)


def test_values_are_continuous_at_eta_one() -> None:
    """The value moves by about ``1 - eta`` only: cancellation would show as jumps far above it."""
    u = np.array([1.0, 1 - 1e-9, 0.5, 0.99])
    for small in (1e-3, 1e-6, 1e-9, 1e-12, 1e-15):
        value = elastic_net_linear(u, 1 - small) @ u
        assert 1 - 1e-14 <= value <= 1 + small


def test_closed_forms() -> None:
    np.testing.assert_allclose(elastic_net_linear(np.array([3.0, 4.0]), 0.0), [0.6, 0.8], rtol=1e-14)
    np.testing.assert_allclose(elastic_net_linear(np.array([3.0, 4.0]), 1.0), [0.0, 1.0])
    np.testing.assert_allclose(elastic_net_reciprocals(np.array([1.0, 4.0]), 1.0), [1 / 3, 2 / 3], rtol=1e-14)
    cube = np.array([1.0, 2.0])
    np.testing.assert_allclose(elastic_net_reciprocals(cube**3, 0.0), cube / np.sqrt(5), rtol=1e-14)


@pytest.mark.parametrize("name", ["elastic_net_linear", "elastic_net_reciprocals"])
def test_both_are_public(name) -> None:
    assert name in manykernels.objective.__all__


@pytest.mark.parametrize("eta", ETAS)
def test_negative_objectives_get_no_weight(eta, rng) -> None:
    """They neither enter nor change what the others get; no random point of the set does better."""
    u = rng.normal(size=8)
    theta = elastic_net_linear(u, eta)
    np.testing.assert_array_equal(theta[u <= 0], 0.0)
    np.testing.assert_array_equal(theta[u > 0], elastic_net_linear(u[u > 0], eta))
    for _ in range(50):
        other = rng.exponential(size=8) ** 3
        assert other @ u / elastic_net_scale(other, eta) <= theta @ u + 1e-12
    np.testing.assert_array_equal(elastic_net_linear([-1.0, 2.0], eta), [0.0, 1.0])
    np.testing.assert_array_equal(elastic_net_linear([-1.0, -2.0], eta), 0.0)


def test_lists_of_numbers_will_do_and_nothing_has_no_weights() -> None:
    assert elastic_net_linear([3, 4], 0).tolist() == pytest.approx([0.6, 0.8])
    assert elastic_net_reciprocals([1, 4], 1).tolist() == pytest.approx([1 / 3, 2 / 3])
    assert elastic_net_linear([], 0.5).shape == elastic_net_reciprocals([], 0.5).shape == (0,)


@pytest.mark.parametrize("function", [elastic_net_linear, elastic_net_reciprocals])
@pytest.mark.parametrize(
    ("vector", "eta", "said"),
    [
        ([1.0, np.nan], 0.5, r"contains 1 NaN or infinite value\(s\), the first at index \(1,\)"),
        ([np.inf, 1.0], 0.5, "contains 1 NaN or infinite"),
        ([[1.0, 2.0], [3.0, 4.0]], 0.5, r"must be one-dimensional, got shape \(2, 2\)"),
        (3.0, 0.5, r"must be one-dimensional, got shape \(\)"),
        (["a", "b"], 0.5, "must hold real numbers"),
        ([[1.0], [1.0, 2.0]], 0.5, "rows of different lengths: row 0 has 1"),
        ([1.0, 2.0], -0.5, "eta must be a finite non-negative number of at most 1, got -0.5"),
        ([1.0, 2.0], 1.5, "eta must be a finite non-negative number of at most 1, got 1.5"),
        ([1.0, 2.0], np.inf, "eta must be a finite non-negative number of at most 1, got inf"),
        ([1.0, 2.0], np.nan, "eta must be a finite non-negative number of at most 1, got nan"),
        ([1.0, 2.0], "half", "eta must be a non-negative number, got 'half'"),
    ],
)
def test_bad_input_is_refused(function, vector, eta, said) -> None:
    with pytest.raises(InvalidInputError, match=said):
        function(vector, eta)


def test_negative_numerators_have_no_minimum() -> None:
    with pytest.raises(InvalidInputError, match="beta must not be negative, but entry 1 is -2"):
        elastic_net_reciprocals([1.0, -2.0], 0.5)


@pytest.mark.parametrize("penalty", [ElasticNetBall(0.3, 0.4), ElasticNetBall(30.0, 0.0), LpBall(2.0, 3.0)], ids=str)
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_the_scale_of_any_set_is_the_root_of_its_limit(penalty: ElasticNetBall | LpBall, size: float) -> None:
    theta = size * np.random.default_rng(0).random(7)
    assert WeightSet.scale(penalty, theta) == pytest.approx(penalty.scale(theta), rel=1e-12)


@pytest.mark.parametrize("penalty", [Simplex(0.3), ElasticNetBall(0.3, 0.4), LpBall(2.0, 3.0)], ids=str)
def test_weights_of_nothing_stay_zero(penalty: WeightSet) -> None:
    assert not penalty.on_boundary(np.zeros(3)).any()
