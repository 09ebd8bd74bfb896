"""The oracle's own formulas against their definitions: every conjugate is a supremum, computed here by brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from manykernels.testing.formulas import (
    bisect_decreasing,
    loss_bounds,
    loss_conjugate,
    loss_value,
    penalty_conjugate,
    penalty_dual_scale,
    penalty_value,
)

LOSSES = {
    "logistic": {},
    "hinge": {},
    "squared_hinge": {},
    "squared": {},
    "epsilon_insensitive": {"epsilon": 0.3},
    "huber": {"delta": 0.7},
    "quantile": {"tau": 0.2},
}
PENALTIES = [
    ("elasticnet", {"l1_ratio": 0.3}),
    ("lq", {"q": 1.25}),
    ("ridge", {}),
    ("simplex", {}),
    ("lp_ball", {"p": 1.0}),
    ("lp_ball", {"p": 2.0}),
]
STRENGTHS = (0.3, 2.0)


def supremum_of_loss(name: str, params: dict[str, float], y: float, r: float) -> float:
    """Return ``sup_z -r z - l(y, z)`` by a bounded search."""

    def objective(z: float) -> float:
        return float(loss_value(name, params, np.array([y]), np.array([z]))[0] + r * z)

    return -min(minimize_scalar(objective, bounds=(-b, b), options={"xatol": 1e-12}).fun for b in (3.0, 30.0))


@pytest.mark.parametrize(("name", "y", "share"), list(product(LOSSES, (-1.0, 1.0), (0.03, 0.4, 0.9))))
def test_the_conjugate_of_a_loss_is_the_supremum(name: str, y: float, share: float) -> None:
    params = LOSSES[name]
    lo, hi = (float(np.clip(bound, -2, 2)[0]) for bound in loss_bounds(name, params, np.array([y])))
    r = lo + share * (hi - lo)
    conjugate = float(loss_conjugate(name, params, np.array([y]), np.array([r]))[0])
    assert conjugate == pytest.approx(supremum_of_loss(name, params, y, r), abs=1e-7)


@pytest.mark.parametrize(
    ("name", "y"), list(product(("logistic", "hinge", "epsilon_insensitive", "huber", "quantile"), (-1, 1)))
)
def test_outside_the_bounds_the_supremum_is_infinite(name: str, y: float) -> None:
    target, far = np.array([float(y)]), np.array([1e9])
    for bound, sign in zip(loss_bounds(name, LOSSES[name], target), (-1, 1), strict=True):
        r = bound + sign * 0.01
        reached = [-r * z - loss_value(name, LOSSES[name], target, z) for z in (far, -far)]
        assert max(float(value[0]) for value in reached) > 1e6


def supremum_of_penalty(name: str, params: dict[str, float], strength: float, u: np.ndarray) -> float:
    """Return ``sup_t t' u - Omega(t)`` over non-negative t, as squares."""

    def objective(x: np.ndarray) -> float:
        return penalty_value(name, params, strength, x**2) - float(x**2 @ u)

    starts = np.random.default_rng(0).uniform(0.2, 2.0, (6, u.size)) * np.sqrt(u.max() / strength)
    return -min(minimize(objective, x, method="Powell", options={"xtol": 1e-9, "ftol": 1e-12}).fun for x in starts)


@pytest.mark.parametrize(("case", "strength"), list(product(PENALTIES, STRENGTHS)), ids=str)
def test_the_conjugate_of_a_penalty_is_the_supremum(case: tuple[str, dict[str, Any]], strength: float) -> None:
    u = np.array([0.5, 1.7, 1.1])
    reached = supremum_of_penalty(*case, strength, u)
    assert penalty_conjugate(*case, strength, u) == pytest.approx(reached, rel=2e-5, abs=1e-9)


@pytest.mark.parametrize("eta", [0.0, 0.15, 0.5, 0.9, 1.0])
def test_the_elastic_net_ball_is_searched_as_well_as_by_sequential_programming(eta: float) -> None:
    t, u = np.array([0.5, 1.7, 1.1]), np.array([0.2, 1.5, 1.4])

    def reach(objective: Callable[[np.ndarray], float]) -> float:
        room = {"type": "ineq", "fun": lambda x: 1 - eta * x.sum() - (1 - eta) * (x**2).sum()}
        bounds, options = [(1e-12, None)] * 3, {"ftol": 1e-14, "maxiter": 1000}
        found = minimize(objective, np.full(3, 0.3), method="SLSQP", bounds=bounds, constraints=room, options=options)
        return float(found.fun)

    value = penalty_value("elasticnet_ball", {"eta": eta}, 0.7, t)
    conjugate = penalty_conjugate("elasticnet_ball", {"eta": eta}, 0.7, u)
    assert value == pytest.approx(0.35 * reach(lambda x: float((t**2 / x).sum())), rel=1e-7)
    assert conjugate == pytest.approx(-reach(lambda x: -float(x @ u**2)) / 1.4, rel=1e-7)


def test_the_block_one_norm_is_finite_up_to_its_strength_and_scaled_down_to_it() -> None:
    u = np.array([0.5, 4.0])
    assert penalty_conjugate("l1", {}, 4.0, u) == 0.0
    assert penalty_conjugate("l1", {}, 3.9, u) == np.inf
    assert penalty_dual_scale("l1", {}, 1.0, u) == 0.25
    assert penalty_conjugate("l1", {}, 1.0, 0.25 * u) == 0.0
    assert penalty_dual_scale("ridge", {}, 1.0, u) == 1.0


def test_weight_sets_meet_where_they_are_the_same_set() -> None:
    t, u = np.array([0.4, 0.0, 2.0]), np.array([0.3, 1.0, 0.9])
    for function, x in ((penalty_value, t), (penalty_conjugate, u)):
        simplex = function("simplex", {}, 0.7, x)
        assert function("lp_ball", {"p": 1.0}, 0.7, x) == pytest.approx(simplex, rel=1e-12)
        assert function("elasticnet_ball", {"eta": 1.0}, 0.7, x) == pytest.approx(simplex, rel=1e-9)
        euclidean = function("lp_ball", {"p": 2.0}, 0.7, x)
        assert function("elasticnet_ball", {"eta": 0.0}, 0.7, x) == pytest.approx(euclidean, rel=1e-9)


def test_the_bisection_finds_the_root_on_both_scales() -> None:
    assert bisect_decreasing(lambda x: 2.0 - x**3, 0.0, 2.0) == pytest.approx(2 ** (1 / 3), rel=1e-15)
    assert bisect_decreasing(lambda x: 1e-5 - x, 1e-12, 1e3, geometric=True) == pytest.approx(1e-5, rel=1e-14)
