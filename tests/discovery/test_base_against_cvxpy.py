"""Searches against CVXPY and Clarabel, on families small enough to be listed: every optimum is met, every bound holds.

Monomials of four columns up to degree two for SGD-1s and HKL; thirty Gaussian widths for GCD-1s, IKL and alignf.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import conic_optimum

from manykernels import alignment
from manykernels.alignment import aligned_weights
from manykernels.discovery import (
    Discovery,
    GaussianFamily,
    Limits,
    SearchProblem,
    discover_greedily,
    discover_hierarchical,
    discover_polynomial,
)
from manykernels.exceptions import ConvergenceWarning
from manykernels.testing.problems import SmallProblem

N, R, DEGREE = 30, 4, 2
STRENGTH, WAVE_STRENGTH = 1.0, 0.2
GROWTH = 1.7
DEGREE_PENALTIES = np.array([1.0, 0.8, 1.5])
LOSSES = ("squared", "logistic", "hinge")
WIDTHS = np.geomspace(0.05, 50.0, 30)
STOCHASTIC, EXACT, ORACLE = 1e-3, 1e-6, 1e-7  # relative distances from the optimum; ORACLE is that of CVXPY's own


@pytest.fixture
def points(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, R))


def target(points: np.ndarray, loss: str) -> np.ndarray:
    """Return a response with an interaction, a wave and noise, or its sign."""
    noise = np.random.default_rng(1).normal(size=len(points))
    values = 2 * points[:, 0] * points[:, 1] - points[:, 2] + np.sin(3 * points[:, 0]) + 0.3 * noise + 0.2
    return values if loss == "squared" else np.where(values > 0, 1.0, -1.0)


def solved(problem: cp.Problem) -> float:
    """Return the value found by Clarabel to ten digits; that it may lack the last of them is no reason to fail."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(problem.value)


def feature_optimum(features: np.ndarray, y: np.ndarray, loss: str, penalty: Callable[[Any], Any]) -> float:
    """Return ``min_{w,b} sum_i l(y_i, (features w)_i + b) + (STRENGTH/2) penalty(w)^2``."""
    w, b = cp.Variable(features.shape[1]), cp.Variable()
    z = features @ w + b
    losses = {
        "squared": lambda: cp.sum_squares(z - y) / 2,
        "logistic": lambda: cp.sum(cp.logistic(cp.multiply(-y, z))),
        "hinge": lambda: cp.sum(cp.pos(1 - cp.multiply(y, z))),
    }
    objective = (losses[loss]() + STRENGTH / 2 * cp.square(penalty(w))) / len(y)
    return solved(cp.Problem(cp.Minimize(objective))) * len(y)


def assert_certified(found: Discovery, best: float, within: float) -> None:
    """Check that the optimum is met and that no bound on the way claims more than is true."""
    certificate, history = found.solution.certificate, found.solution.frame()
    assert best * (1 - ORACLE) <= certificate.primal <= best * (1 + within)
    assert certificate.gap >= certificate.primal - best * (1 + ORACLE)
    assert len(history) > 1
    assert (history["primal"] >= best * (1 - ORACLE)).all()
    assert (history["dual"] <= best * (1 + ORACLE)).all()


# --- monomials: SGD-1s and HKL --------------------------------------------------------------------------------------


def ordered_products() -> list[tuple[int, ...]]:
    """Return the 1 + 4 + 16 multi-indices of the thesis, permutations apart."""
    return [index for degree in range(DEGREE + 1) for index in product(range(R), repeat=degree)]


def monomials(points: np.ndarray, indices: list[tuple[int, ...]]) -> np.ndarray:
    return np.column_stack([np.prod(points[:, list(index)], axis=1) for index in indices])


def lp_penalty(p: float) -> Callable[[Any], Any]:
    """Return the norm whose half square is the least of ``sum_i rho_i^2 t_i^2 / theta_i / 2`` over the lp ball."""
    rho = np.array([DEGREE_PENALTIES[len(index)] for index in ordered_products()])
    return lambda w: cp.pnorm(cp.multiply(rho, w), 2 * p / (p + 1), approx=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_sgd_1s_with_polishing(points: np.ndarray, loss: str, p: float) -> None:
    y = target(points, loss)
    best = feature_optimum(monomials(points, ordered_products()), y, loss, lp_penalty(p))
    found = discover_polynomial(
        SearchProblem(points, y, loss, strength=STRENGTH),
        degree=DEGREE,
        p=p,
        degree_penalties=DEGREE_PENALTIES,
        normalize=None,
        limits=Limits(STOCHASTIC),
        random_state=0,
    )
    assert str(found.solution.status) == "converged"
    assert_certified(found, best, STOCHASTIC)


@pytest.mark.nightly
@pytest.mark.parametrize("loss", LOSSES)
def test_sgd_1s_as_in_the_thesis_by_stochastic_steps_alone(points: np.ndarray, loss: str) -> None:
    y = target(points, loss)
    best = feature_optimum(monomials(points, ordered_products()), y, loss, lp_penalty(2.0))
    found = discover_polynomial(
        SearchProblem(points, y, loss, strength=STRENGTH),
        degree=DEGREE,
        degree_penalties=DEGREE_PENALTIES,
        normalize=None,
        n_steps=1500,
        polish=False,
        limits=Limits(1e-6),
        random_state=0,
    )
    assert_certified(found, best, STOCHASTIC)


def graph_penalty(nodes: list[tuple[int, ...]]) -> Callable[[Any], Any]:
    """Return ``sum_v d_v ||w_{D(v)}||`` of (2.13): the descendants of a monomial are its multiples."""

    def divides(v: tuple[int, ...], w: tuple[int, ...]) -> bool:
        return all(w.count(column) >= v.count(column) for column in v)

    groups = [[m for m, w in enumerate(nodes) if divides(v, w)] for v in nodes]
    return lambda w: sum(GROWTH ** len(v) * cp.norm(w[group]) for v, group in zip(nodes, groups, strict=True))


@pytest.mark.parametrize("loss", LOSSES)
def test_hkl(points: np.ndarray, loss: str) -> None:
    y = target(points, loss)
    nodes = [index for index in ordered_products() if tuple(sorted(index)) == index]
    best = feature_optimum(monomials(points, nodes), y, loss, graph_penalty(nodes))
    found = discover_hierarchical(
        SearchProblem(points, y, loss, strength=STRENGTH), degree=DEGREE, growth=GROWTH, limits=Limits(tol=EXACT)
    )
    assert_certified(found, best, EXACT)


# --- thirty widths: GCD-1s, IKL and alignf --------------------------------------------------------------------------


def wave(loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a target that one width does not explain."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(N, 2))
    values = np.sin(4 * points[:, 0]) + points[:, 1] + 0.2 * rng.normal(size=N)
    return points, values if loss == "squared" else np.sign(values)


def gaussian_grams(points: np.ndarray) -> np.ndarray:
    squares = np.square(points[:, None] - points).sum(axis=2)
    return np.exp(-squares / (2 * WIDTHS[:, None, None] ** 2))


def greedy(points: np.ndarray, y: np.ndarray, loss: str, update: str, limits: Limits) -> tuple[Discovery, float]:
    """Return what the search finds, and the optimum."""
    family = GaussianFamily(0.05, 50.0).listed(WIDTHS)
    found = discover_greedily(
        SearchProblem(points, y, loss, strength=WAVE_STRENGTH), family, update=update, limits=limits
    )
    best = conic_optimum(SmallProblem(gaussian_grams(points), y, loss, "simplex", WAVE_STRENGTH)).primal
    return found, best


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
def test_ikl(loss: str) -> None:
    found, best = greedy(*wave(loss), loss, "corrective", Limits(tol=EXACT))
    assert str(found.solution.status) == "converged"
    assert len(found.kernels) > 1
    assert_certified(found, best, EXACT)


@pytest.mark.nightly
@pytest.mark.parametrize("loss", LOSSES)
def test_gcd_1s_by_pairwise_steps(loss: str) -> None:
    found, best = greedy(*wave(loss), loss, "pairwise", Limits(tol=EXACT, max_iter=400))
    assert_certified(found, best, EXACT)


@pytest.mark.nightly
@pytest.mark.parametrize("loss", LOSSES)
def test_gcd_1s_by_the_steps_of_frank_wolfe_nears_the_optimum_as_fast_as_those_do(loss: str) -> None:
    points, y = wave(loss)
    found, best = greedy(points, y, loss, "frank_wolfe", Limits(tol=EXACT, max_iter=80))
    excess = found.solution.frame()["primal"].to_numpy() / best - 1
    assert_certified(found, best, 10 * STOCHASTIC)
    assert excess[-1] < 4 / len(excess) * excess[1]  # proportional to the inverse of the number of steps


def largest_alignment(grams: np.ndarray, y: np.ndarray) -> float:
    """Return the maximum of (2.11): the centered alignment of a non-negative combination with ``y y'``."""
    center = np.eye(N) - 1 / N
    flat, ideal = (center @ grams @ center).reshape(len(grams), -1), (center @ np.outer(y, y) @ center).ravel()
    flat, ideal = flat / np.linalg.norm(flat, axis=1, keepdims=True), ideal / np.linalg.norm(ideal)
    theta = cp.Variable(len(grams), nonneg=True)
    return solved(cp.Problem(cp.Maximize((flat @ ideal) @ theta), [cp.norm(flat.T @ theta) <= 1]))


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_alignf(loss: str) -> None:
    points, y = wave(loss)
    grams = gaussian_grams(points)
    best = largest_alignment(grams, y)
    found = aligned_weights(grams, y, target="numbers")
    assert best * (1 - EXACT) <= found.alignment <= best * (1 + ORACLE)
    assert found.upper_bound >= best * (1 - ORACLE)


def test_alignf_stopped_early_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    points, y = wave("hinge")
    grams = gaussian_grams(points)
    best = largest_alignment(grams, y)
    monkeypatch.setattr(alignment, "FIRST_SET", 1)
    monkeypatch.setattr(alignment, "MOST_ROUNDS", 1)
    with pytest.warns(ConvergenceWarning, match="proven optimal only up to"):
        found = aligned_weights(grams, y, target="numbers")
    assert found.alignment < best * (1 - EXACT)
    assert found.gap >= 1 - found.alignment / best
