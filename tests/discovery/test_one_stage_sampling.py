"""Sampling of widths: the density, Algorithm 4, unbiased estimates of the gradient, and the search as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import truncnorm

from manykernels.discovery import (
    ArdGaussianFamily,
    FamilySearch,
    GaussianFamily,
    LaplacianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    discover_by_sampling,
    discover_greedily,
)
from manykernels.discovery.one_stage.discovery import draw_widths, truncated_normal_log_density
from manykernels.exceptions import InvalidInputError
from manykernels.solvers import Status

FAMILY = GaussianFamily(0.05, 20.0)


def drawn_task(n_samples: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a target that one width does not explain."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(n_samples, 2))
    return points, np.sin(4 * points[:, 0]) + points[:, 1] + 0.2 * rng.normal(size=n_samples)


@pytest.mark.parametrize("mean", [0.06, 1.0, 19.0, 400.0])
def test_the_density_is_that_of_scipy(mean: float) -> None:
    for x in (0.05, 0.5, 3.0, 20.0):
        expected = truncnorm.logpdf(x, (0.05 - mean) / mean, (20.0 - mean) / mean, loc=mean, scale=mean)
        assert truncated_normal_log_density(x, mean, mean, 0.05, 20.0) == pytest.approx(expected, abs=1e-9)


@pytest.mark.nightly
def test_the_estimate_of_the_gradient_is_unbiased() -> None:
    points, y = drawn_task(12)
    family = GaussianFamily(0.5, 2.0)
    search, rng = FamilySearch(family, points, SearchSettings(n_starts=1)), np.random.default_rng(0)
    draws = [draw_widths(search, y, rng) for _ in range(150)]

    def square(width: float) -> float:
        return float(y @ search.gram(np.array([width])) @ y)

    ratios = np.array([square(draw.parameter[0]) / np.exp(draw.log_density) for draw in draws])
    integral = quad(square, family.low, family.high, limit=200)[0]
    assert ratios.std() < integral
    assert abs(ratios.mean() - integral) < 4 * ratios.std() / np.sqrt(len(ratios))


def test_one_width_a_feature_is_drawn_feature_after_feature() -> None:
    points, y = drawn_task()
    search = FamilySearch(ArdGaussianFamily(0.05, 20.0), points)
    drawn = draw_widths(search, y, np.random.default_rng(1))
    pairs, log_density, matrix = np.random.default_rng(1), 0.0, np.outer(y, y)
    for column, width in zip(points.T, drawn.parameter, strict=True):
        grid = np.geomspace(0.05, 20.0, 4000)
        squares = (column[:, None] - column) ** 2
        best = grid[np.argmax([np.sum(matrix * np.exp(-squares / (2 * at**2))) for at in grid])]
        ends = (0.05 - best) / best, (20.0 - best) / best
        assert truncnorm.rvs(*ends, loc=best, scale=best, random_state=pairs) == pytest.approx(width, rel=0.01)
        log_density += truncnorm.logpdf(width, *ends, loc=best, scale=best)
        matrix = matrix * np.exp(-squares / (2 * width**2))
    assert drawn.log_density == pytest.approx(log_density, abs=0.02)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_corrected_weights_come_close_to_the_optimum(loss: str) -> None:
    points, y = drawn_task()
    y = y if loss == "squared" else np.sign(y)
    best = discover_greedily(SearchProblem(points, y, loss, strength=0.2), FAMILY, limits=Limits(tol=1e-4)).solution
    drawn = discover_by_sampling(
        SearchProblem(points, y, loss, strength=0.2), FAMILY, n_draws=25, random_state=0
    ).solution
    assert best.certificate.primal * (1 - 1e-4) <= drawn.certificate.primal <= 1.05 * best.certificate.primal
    assert drawn.certificate.dual <= best.certificate.primal
    assert drawn.certificate.relative_gap < 0.25


def test_averaged_weights_give_the_model_they_stand_for() -> None:
    points, y = drawn_task()
    found = discover_by_sampling(
        SearchProblem(points, y, strength=0.2), FAMILY, n_draws=12, corrective=False, random_state=0
    )
    solution, weights = found.solution, found.solution.kernel_weights
    assert weights.sum() == pytest.approx(1 / 0.2)
    gram = sum(d * kernel.spec(points) for d, kernel in zip(weights, found.kernels, strict=True))
    expected = np.linalg.solve(
        np.block([[gram + np.eye(len(y)), np.ones((len(y), 1))], [np.ones((1, len(y))), np.zeros((1, 1))]]),
        np.append(y, 0.0),
    )
    np.testing.assert_allclose(solution.dual_coef, expected[:-1], atol=1e-8)
    assert solution.intercept == pytest.approx(expected[-1])
    gaps = [record.relative_gap for record in solution.history]
    assert gaps[-1] < 0.5 * gaps[0]
    assert solution.status is Status.MAX_ITER


def test_weights_in_the_ball_of_the_thesis_have_the_two_norm_of_at_most_one() -> None:
    points, y = drawn_task()
    given: dict[str, Any] = {"n_draws": 12, "corrective": False, "random_state": 0}
    found = discover_by_sampling(SearchProblem(points, y, strength=0.2), FAMILY, ball=2, **given)
    theta = 0.2 * found.solution.kernel_weights
    assert np.linalg.norm(theta) <= 1 + 1e-12
    assert theta.sum() > 1  # more is drawn, less is regularized


@pytest.mark.nightly
def test_draws_repeat_with_the_seed() -> None:
    points, y = drawn_task()
    first, second, other = (
        discover_by_sampling(SearchProblem(points, y, strength=0.2), FAMILY, n_draws=5, random_state=seed)
        for seed in (0, 0, 1)
    )
    assert first.kernels == second.kernels
    assert first.kernels != other.kernels


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": LaplacianFamily(0.1, 1.0)}, "Widths are drawn for GaussianFamily and ArdGaussianFamily only"),
        ({"family": FAMILY.listed([1.0])}, "and from no list, got GaussianFamily"),
        ({"n_draws": 0}, "n_draws must be an integer"),
        ({"ball": 3}, "ball must be 1 or 2, got 3"),
        ({"step": 0.0}, "step must be a finite positive number"),
    ],
)
def test_errors(changes: dict[str, Any], message: str) -> None:
    points, y = drawn_task()
    arguments: dict[str, Any] = {"family": FAMILY}
    with pytest.raises(InvalidInputError, match=message):
        discover_by_sampling(SearchProblem(points, y, strength=1.0), **(arguments | changes))
