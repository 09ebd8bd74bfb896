"""Every published objective, written out in plain NumPy, equals its conversion on random models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from manykernels.estimators.strength import alpha_from_strength, strength_from_alpha
from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers import BlockL1, BlockLq, ElasticNet, Ridge
from manykernels.papers import problems as paper

N, M = 8, 3


@pytest.fixture
def model(rng):
    """Random kernels, labels, and a random model as scores and block norms."""
    factors = rng.normal(size=(M, N, N))
    kernels = factors @ factors.transpose(0, 2, 1) / N
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    rho, d, b = rng.normal(size=N), rng.uniform(0.1, 1.0, M), 0.3
    f = sum(d[m] * kernels[m] @ rho for m in range(M))
    norms = np.array([d[m] * np.sqrt(rho @ kernels[m] @ rho) for m in range(M)])
    return kernels, y, rho, d, b, f, norms


def converted(posed, model) -> float:
    kernels, y, rho, d, b, _, _ = model
    problem = posed.problem(kernels, y)
    return posed.factor * problem.primal(rho, d, b if problem.fit_intercept else 0.0)


def hinge(y, z) -> float:
    return np.sum(np.maximum(1 - y * z, 0))


def logistic(y, z) -> float:
    return np.sum(np.log1p(np.exp(-y * z)))


def smallest_over_weights(norms, constraint) -> float:
    """Minimize ``sum norms^2 / theta`` over ``constraint(theta) <= 1`` by a generic solver."""
    found = minimize(
        lambda v: np.sum(norms**2 * np.exp(-v)),
        np.full(norms.size, -2.0),
        method="SLSQP",
        bounds=[(-20.0, 0.0)] * norms.size,  # no weight exceeds 1 in any of the sets
        constraints={"type": "ineq", "fun": lambda v: 1 - constraint(np.exp(v))},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return float(found.fun)


def test_spicymkl(model) -> None:
    _, y, _, _, b, f, t = model
    loss = logistic(y, f + b)
    assert converted(paper.spicymkl(0.4), model) == pytest.approx(loss + 0.4 * t.sum(), rel=1e-12)
    net = loss + 0.4 * np.sum(0.7 * t + 0.3 * t**2 / 2)
    assert converted(paper.spicymkl_elastic_net(0.4, 0.3), model) == pytest.approx(net, rel=1e-12)
    power = loss + 0.4 / 1.3 * np.sum(t**1.3)
    assert converted(paper.spicymkl_lq(0.4, 1.3), model) == pytest.approx(power, rel=1e-12)
    squared = loss + 0.2 * t.sum() ** 2
    assert converted(paper.spicymkl_squared(0.4), model) == pytest.approx(squared, rel=1e-12)


def test_squared_and_block_forms_have_the_same_gradient_in_the_norms(model) -> None:
    """At the shared solution ``C = Ct sum t``; the printed ``Ct = C sum t`` fails unless the sum is 1."""
    t = model[-1]
    constant = paper.squared_constant(0.4, t)
    assert constant * t.sum() == pytest.approx(0.4, rel=1e-14)
    assert paper.block_constant(constant, t) == pytest.approx(0.4, rel=1e-14)
    step = 1e-6 * np.eye(M)[0]
    slope = (constant / 2) * ((t + step).sum() ** 2 - (t - step).sum() ** 2) / 2e-6
    assert slope == pytest.approx(0.4, rel=1e-8)


def test_simplemkl_and_skm(model) -> None:
    _, y, _, _, b, f, t = model
    expected = 5.0 * hinge(y, f + b) + 0.5 * t.sum() ** 2
    assert converted(paper.simplemkl(5.0), model) == pytest.approx(expected, rel=1e-12)
    weights = 5.0 * hinge(y, f + b) + 0.5 * smallest_over_weights(t, np.sum)
    assert converted(paper.simplemkl(5.0), model) == pytest.approx(weights, rel=1e-7)
    penalties = np.array([0.5, 1.0, 2.0])
    expected = 0.5 * (penalties @ t) ** 2 + 5.0 * hinge(y, f + b)
    assert converted(paper.skm(5.0, penalties), model) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("p", [1.0, 1.5, 4.0])
def test_kloft(p, model) -> None:
    _, y, _, _, b, f, t = model
    penalty = smallest_over_weights(t, lambda theta: np.sum(theta**p) ** (1 / p))
    expected = 5.0 * hinge(y, f + b) + 0.5 * penalty
    assert converted(paper.kloft(5.0, p), model) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("eta", [0.0, 0.4, 1.0])
def test_citi(eta, model) -> None:
    _, y, _, _, b, f, t = model
    penalty = smallest_over_weights(t, lambda theta: eta * np.sum(theta) + (1 - eta) * np.sum(theta**2))
    expected = 5.0 * hinge(y, f + b) + 0.5 * penalty
    assert converted(paper.citi(5.0, eta), model) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("tau", "mu"), [(0.3, 0.2), (0.3, 0.0), (0.0, 0.2)])
def test_pfbs(tau, mu, model) -> None:
    _, y, _, _, _, f, t = model
    expected = np.mean((f - y) ** 2) + mu * np.sum(t**2) + 2 * tau * np.sum(t)
    assert converted(paper.pfbs(tau, mu, N), model) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("p", [1.0, 1.4, 1.9])
def test_thesis(p, model) -> None:
    _, y, _, _, _, f, t = model
    penalties = np.array([0.5, 1.0, 2.0])
    nu = p / (2 - p)
    penalty = smallest_over_weights(penalties * t, lambda theta: np.sum(theta**nu) ** (1 / nu))
    posed = paper.thesis(p, N, penalties)
    expected = np.mean((f - y) ** 2 / 2) + 0.5 * penalty
    assert converted(posed, model) == pytest.approx(expected, rel=1e-7)
    block = np.mean((f - y) ** 2 / 2) + 0.5 * np.sum((penalties * t) ** p) ** (2 / p)
    assert converted(posed, model) == pytest.approx(block, rel=1e-12)


def test_alpha_is_relative_to_the_mean_loss(model) -> None:
    _, y, _, _, b, f, t = model
    mean_form = logistic(y, f + b) / N + 0.05 * t.sum()
    posed = paper.spicymkl(strength_from_alpha(0.05, N))
    assert converted(posed, model) / N == pytest.approx(mean_form, rel=1e-12)
    assert alpha_from_strength(strength_from_alpha(0.05, N), N) == pytest.approx(0.05, rel=1e-15)
    alpha = paper.alpha_from_svm_constant(5.0, N)
    assert strength_from_alpha(alpha, N) == pytest.approx(paper.simplemkl(5.0).regularizer.strength, rel=1e-14)


def test_weights_in_the_normalization_of_table_3() -> None:
    """At the optimum ``u`` is the derivative of the penalty: strength times d is the table's entry."""
    t, strength = np.array([0.4, 1.0, 2.5]), 0.7
    cases = [
        (BlockL1(strength), np.full(3, strength), t),
        (ElasticNet(strength, 0.6), strength * (0.6 + 0.4 * t), t / (0.6 + 0.4 * t)),
        (BlockLq(strength, 1.3), strength * t**0.3, t**0.7),
        (Ridge(strength), strength * t, np.ones(3)),
    ]
    for regularizer, u, table in cases:
        np.testing.assert_allclose(paper.paper_weights(regularizer, regularizer.weights(t, u)), table, rtol=1e-13)
    theta = paper.paper_weights(paper.simplemkl(5.0).regularizer, paper.simplemkl(5.0).regularizer.weights(t, t))
    np.testing.assert_allclose(theta, t / t.sum(), rtol=1e-14)
    np.testing.assert_allclose(paper.normalized_weights(t), t / 3.9, rtol=1e-14)
    np.testing.assert_array_equal(paper.normalized_weights(np.zeros(2)), 0.0)


def test_tikhonov_exponent_gives_the_block_norm() -> None:
    """Minimizing ``sum (t^2/d + d^p / p) / 2`` over d gives a multiple of ``sum t^q`` for ``p = q/(2-q)``."""
    t = np.array([0.4, 1.0, 2.5])
    for q in (1.2, 1.5):
        p = paper.tikhonov_exponent(q)
        d = t ** (2 / (p + 1))
        values = 0.5 * (t**2 / d + d**p / p)
        np.testing.assert_allclose(values / t**q, values[0] / t[0] ** q, rtol=1e-12)
        grid = d * np.array([[0.99], [1.01]])
        assert np.all(0.5 * (t**2 / grid + grid**p / p) > values)
    assert paper.tikhonov_exponent(2.0) == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper.thesis(2.0, 5), "1 <= p < 2, got 2.0"),
        (lambda: paper.simplemkl(0.0), "constant must be a finite positive number, got 0.0"),
        (lambda: paper.pfbs(0.0, 0.0, 5), "tau \\+ mu must be a finite positive number"),
        (lambda: paper.tikhonov_exponent(3.0), "q must be between 1 and 2"),
        (lambda: paper.squared_constant(1.0, np.zeros(2)), "The sum of block norms must be a finite positive number"),
        (lambda: strength_from_alpha(-1.0, 5), "alpha must be a finite positive number"),
    ],
)
def test_bad_constants_are_refused(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
