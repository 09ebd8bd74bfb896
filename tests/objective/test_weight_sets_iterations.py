"""The sub-problems of the elastic-net ball on 10,000 random inputs, against methods that share nothing with them.

Every input is judged by a multiplier: stationarity (reciprocals) and a duality gap (linear) prove the answer. Samples
are recomputed: reciprocals by bisection in logarithms, twice nested; linear values by minimizing their dual.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from experiments.citi._published import linear_iterations

from manykernels.objective.regularizers.weight_sets import elastic_net_linear, elastic_net_reciprocals, wsr_iterations

ETAS = (0.0, 1e-12, 0.25, 1 - 1e-12, 1.0)
WORST = 1e-9


def random_vectors(rng, count, longest):
    """Yield ``(vector, eta)`` with zeros, ties and entries over twelve orders of magnitude, of log-uniform length."""
    for index in range(count):
        size = int(np.ceil(longest ** rng.random()))
        vector = rng.exponential(size=size) if rng.random() < 0.5 else 10 ** rng.uniform(-6, 6, size)
        if rng.random() < 0.3:
            vector = vector[rng.integers(0, max(1, size // 3), size)]
        if rng.random() < 0.3:
            vector = np.where(rng.random(size) < 0.3, 0.0, vector)
        yield vector, float(ETAS[index % 5] if index % 7 else rng.random())


def constraint(theta, eta) -> float:
    return eta * np.sum(theta) + (1 - eta) * np.sum(theta**2)


def entries(log_nu, log_beta, eta):
    """Solve ``theta^2 (eta + 2 (1 - eta) theta) = nu beta`` by bisection on ``log theta``."""
    right = log_nu + log_beta
    low, high = np.full(right.size, -120.0), np.full(right.size, 120.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = 2 * middle + np.log(eta + 2 * (1 - eta) * np.exp(middle)) > right
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp((low + high) / 2)


def reciprocals_by_bisection(beta, eta):
    theta, used = np.zeros(beta.size), beta > 0
    low, high = -120.0, 120.0
    for _ in range(60):
        middle = (low + high) / 2
        over = constraint(entries(middle, np.log(beta[used] / beta.max()), eta), eta) > 1
        low, high = (low, middle) if over else (middle, high)
    theta[used] = entries((low + high) / 2, np.log(beta[used] / beta.max()), eta)
    return theta


def linear_dual(u, eta, nu) -> float:
    """``max_x theta'u - nu (eta sum theta + (1 - eta) sum theta^2 - 1)``: above the maximum for every ``nu > 0``."""
    return nu + float(np.sum(np.maximum(u - nu * eta, 0.0) ** 2)) / (4 * nu * (1 - eta))


def linear_value_by_ternary_search(u, eta) -> float:
    """Minimize the dual, whose error is of second order; the minimizer is bracketed by the ends of the set."""
    low, high = np.log(u.max() / 4), np.log(2 * np.sqrt(u.size) * u.max())
    for _ in range(120):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        better = linear_dual(u, eta, np.exp(first)) <= linear_dual(u, eta, np.exp(second))
        low, high = (low, second) if better else (first, high)
    return linear_dual(u, eta, np.exp((low + high) / 2))


def reciprocals_error(beta, theta, eta) -> float:
    """How far ``beta = nu theta^2 (eta + 2 (1 - eta) theta)`` is from holding with one ``nu`` for all entries.

    The right side grows at least with the square of theta, so that theta is at least twice as accurate.
    """
    used = beta > 0
    multipliers = beta[used] / theta[used] ** 2 / (eta + 2 * (1 - eta) * theta[used])
    return float(np.abs(multipliers / np.median(multipliers) - 1).max())


def linear_error(u, theta, eta) -> float:
    """Relative duality gap, with the multiplier that the maximizer implies."""
    value = float(theta @ u)
    if eta == 1:
        return float(u.max() - value) / value
    return abs(linear_dual(u, eta, value / (1 + (1 - eta) * float(theta @ theta))) - value) / value


@pytest.mark.nightly
def test_ten_thousand_random_inputs(rng) -> None:
    worst = {"reciprocals": 0.0, "linear": 0.0, "constraint": 0.0}
    for index, (vector, eta) in enumerate(chain(random_vectors(rng, 9_600, 30), random_vectors(rng, 400, 10_000))):
        name = "linear" if index % 3 else "reciprocals"
        theta = elastic_net_linear(vector, eta) if index % 3 else elastic_net_reciprocals(vector, eta)
        if not vector.any():
            np.testing.assert_array_equal(theta, 0.0)
            continue
        error = linear_error(vector, theta, eta) if index % 3 else reciprocals_error(vector, theta, eta)
        worst[name] = max(worst[name], error)
        worst["constraint"] = max(worst["constraint"], abs(constraint(theta, eta) - 1))
    assert max(worst.values()) < WORST, worst


@pytest.mark.parametrize("corrupted", [elastic_net_reciprocals, elastic_net_linear])
def test_a_slightly_wrong_answer_is_caught(corrupted, rng) -> None:
    vector, eta = rng.exponential(size=20), 0.3
    error = reciprocals_error if corrupted is elastic_net_reciprocals else linear_error
    theta = corrupted(vector, eta)
    assert error(vector, theta, eta) < WORST
    assert error(vector, theta * np.linspace(1 - 1e-4, 1 + 1e-4, 20), eta) > WORST


@pytest.mark.parametrize("longest", [1, 40, 10_000])
def test_reciprocals_against_bisection(longest, rng) -> None:
    for beta, eta in random_vectors(rng, 8 if longest < 1000 else 3, longest):
        if beta.any():
            expected = reciprocals_by_bisection(beta, eta)
            np.testing.assert_allclose(elastic_net_reciprocals(beta, eta), expected, rtol=WORST)


@pytest.mark.parametrize("longest", [1, 40, 10_000])
def test_linear_values_against_ternary_search(longest, rng) -> None:
    for u, eta in random_vectors(rng, 30 if longest < 1000 else 10, longest):
        if u.any():
            expected = u.max() if eta == 1 else linear_value_by_ternary_search(u, eta)
            assert elastic_net_linear(u, eta) @ u == pytest.approx(expected, rel=WORST)


@pytest.mark.parametrize("eta", [0.0, 1e-12, 0.1, 0.25, 0.7, 1 - 1e-12, 1.0])
def test_citis_own_iterations_reach_the_same(eta, rng) -> None:
    """The excess certifies the value; theta itself is accurate to its square root."""
    for _ in range(5):
        beta, u = rng.exponential(size=30) ** 2, rng.exponential(size=30)
        result = wsr_iterations(beta, eta)
        exact = elastic_net_reciprocals(beta, eta)
        assert result.excess <= 1e-12
        assert np.sum(beta / result.theta) == pytest.approx(np.sum(beta / exact), rel=1e-11)
        assert constraint(result.theta, eta) == pytest.approx(1, rel=1e-12)
        assert linear_iterations(u, eta) @ u == pytest.approx(elastic_net_linear(u, eta) @ u, rel=1e-11)


def test_excess_is_a_proof_at_every_stop(rng) -> None:
    """Stopped early, the objective really is within ``1 + excess`` of the optimum."""
    for eta in (0.0, 0.1, 0.24, 0.5, 0.9):
        beta = rng.exponential(size=20) ** 3
        best = np.sum(beta / elastic_net_reciprocals(beta, eta))
        for tol in (1e-1, 1e-2, 1e-4):
            result = wsr_iterations(beta, eta, tol=tol)
            assert np.sum(beta / result.theta) <= best * (1 + result.excess) * (1 + 1e-13)
            assert result.excess <= tol


def test_switching_saves_iterations_for_small_eta_and_one_step_solves_the_simplex(rng, monkeypatch) -> None:
    beta = rng.exponential(size=200) ** 2
    switching = wsr_iterations(beta, 0.05).n_iter
    monkeypatch.setattr("manykernels.objective.regularizers.weight_sets.SWITCHING_BELOW", 0.0)
    assert switching < wsr_iterations(beta, 0.05).n_iter
    assert wsr_iterations(beta, 1.0).n_iter == 1


def test_warm_start_and_zeros(rng) -> None:
    beta = np.append(rng.exponential(size=9), 0.0)
    cold = wsr_iterations(beta, 0.5)
    warm = wsr_iterations(beta, 0.5, cold.theta)
    assert warm.n_iter < cold.n_iter
    assert warm.theta[-1] == 0
    np.testing.assert_array_equal(wsr_iterations(np.zeros(3), 0.5).theta, 0.0)
    np.testing.assert_array_equal(linear_iterations(np.zeros(3), 0.5), 0.0)


@pytest.mark.parametrize("eta", [0.1, 0.5, 1.0])
def test_entries_that_vanish_beside_the_largest_get_no_weight(eta) -> None:
    tiny = np.finfo(float).smallest_subnormal
    result = wsr_iterations(np.array([1.0, 9.0, tiny]), eta, np.array([1.0, 1.0, 1e-160]))
    assert result.excess <= 1e-12
    expected = wsr_iterations(np.array([1.0, 9.0]), eta).theta
    np.testing.assert_allclose(result.theta[:2], expected, rtol=1e-6)
    scaled = wsr_iterations(np.array([1e8, 9e8, tiny]), eta)
    assert scaled.excess <= 1e-12
    assert scaled.theta[2] == 0
