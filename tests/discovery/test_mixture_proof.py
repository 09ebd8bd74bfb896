"""The bound over all widths, one a feature: against dense grids, duality with other dual vectors, and what is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import GaussianMKL, solve
from manykernels.discovery import (
    ArdGaussianFamily,
    GaussianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    discover_greedily,
)
from manykernels.discovery.one_stage.mixture import corner_bound
from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.weight_sets import Simplex
from manykernels.solvers import Status


def energy(points: np.ndarray, vector: np.ndarray, widths: Any) -> float:
    """Return ``r'K_w r``."""
    scaled = points / np.asarray(widths)
    return float(vector @ np.exp(-0.5 * ((scaled[:, None] - scaled) ** 2).sum(axis=2)) @ vector)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("most", [8, 60, 400])
def test_no_widths_exceed_the_bound(n_columns: int, most: int) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(12, n_columns))
        vector = rng.normal(size=12) if seed % 2 else np.sin(3 * points[:, 0])
        vector = vector - vector.mean() * (seed % 3 == 0)
        found = corner_bound(points, vector, 0.1, 20.0, slack=1e-2, most=most)
        listed = np.exp(rng.uniform(np.log(0.1), np.log(20.0), (300, n_columns)))
        values = [energy(points, vector, widths) for widths in listed]
        assert max(values) <= found.bound * (1 + 1e-9)
        assert energy(points, vector, found.widths) == pytest.approx(found.best, rel=1e-7)
        assert found.best <= found.bound


def test_the_bound_falls_with_evaluations_and_becomes_tight() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(20, 2))
    vector = np.sin(3 * points[:, 0])
    bounds = [corner_bound(points, vector, 0.1, 10.0, slack=1e-3, most=most) for most in (10, 100, 1000, 10_000)]
    assert np.all(np.diff([found.bound for found in bounds]) <= 0)
    grid = np.geomspace(0.1, 10.0, 60)
    best = max(energy(points, vector, (a, b)) for a in grid for b in grid)
    assert best <= bounds[-1].bound <= 1.002 * bounds[-1].best
    assert bounds[-1].evaluations < 10_000


def test_vectors_without_pairs_and_a_slack_of_zero() -> None:
    points = np.random.default_rng(0).normal(size=(5, 2))
    assert 1.0 <= corner_bound(points, np.eye(5)[0], 0.1, 1.0, slack=0.0, most=50).bound <= 1.1
    assert corner_bound(points, np.zeros(5), 0.1, 1.0, slack=0.0, most=50).bound < 1e-12
    assert corner_bound(points, np.ones(5), 0.3, 0.3, slack=0.0, most=50).bound > 0


def drawn_task(loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of which one matters."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(30, 2))
    score = np.sin(2 * points[:, 0])
    return points, score if loss == "squared" else np.where(score > 0, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_the_dual_bound_lies_below_every_list(loss: str) -> None:
    points, y = drawn_task(loss)
    family = ArdGaussianFamily(0.2, 10.0)
    found = discover_greedily(
        SearchProblem(points, y, loss, strength=0.5),
        family,
        settings=SearchSettings(proof=20_000),
        limits=Limits(1e-2),
        random_state=0,
    )
    certificate = found.solution.certificate
    assert found.solution.status is Status.CONVERGED
    assert 0 <= certificate.relative_gap <= 1e-2
    assert "over all widths the relative duality gap is at most" in found.solution.message
    grid = np.geomspace(0.2, 10.0, 8)
    listed = np.stack([family.value(points, np.array([a, b])) for a in grid for b in grid])
    best = solve(listed, y, loss=loss, penalty=Simplex(0.5), tol=1e-6).certificate
    assert certificate.dual <= best.primal * (1 + 1e-9)


def test_what_a_proof_meets_is_searched_from() -> None:
    """A search from equal widths alone misses the best kernel here and takes itself to be done; the proof does not."""
    rng = np.random.default_rng([0, 2])
    points = rng.normal(size=(60, 2))
    y = np.sin(2 * points[:, 0]) + 0.3 * rng.normal(size=60)
    plain, found = (
        discover_greedily(
            SearchProblem(points, y, strength=1.0, fit_intercept=False),
            ArdGaussianFamily(0.3, 6.0),
            settings=SearchSettings(n_starts=1, proof=proof),
            limits=Limits(1e-3),
            random_state=0,
        ).solution.certificate
        for proof in (0, 6000)
    )
    assert plain.relative_gap <= 1e-3
    assert plain.dual > found.primal  # what the search took for a bound is none
    assert found.primal < 0.995 * plain.primal
    assert found.relative_gap <= 1e-3


def test_a_proof_that_falls_short_is_told() -> None:
    points, y = drawn_task("squared")
    found = discover_greedily(
        SearchProblem(points, y, strength=0.5),
        ArdGaussianFamily(0.05, 50.0),
        settings=SearchSettings(proof=10),
        limits=Limits(1e-3),
        random_state=0,
    )
    assert found.solution.status is Status.STALLED
    assert found.solution.certificate.relative_gap > 1e-3
    assert found.solution.message.endswith("A larger proof may bring the bound down")


def test_the_estimator_proves() -> None:
    points, y = drawn_task("squared")
    shared: dict[str, Any] = {"alpha": 0.02, "per_feature": True, "width_range": (0.2, 10.0), "tol": 1e-2}
    model = GaussianMKL(**shared, proof=20_000, random_state=0).fit(points, y)
    assert model.dual_gap_ <= 1e-2
    assert "over all widths" in model.solution_.message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SearchSettings(proof=-1), "proof must be an integer of at least 0"),
        (
            lambda: discover_greedily(
                SearchProblem(*drawn_task("squared"), strength=1.0),
                GaussianFamily(0.1, 1.0),
                settings=SearchSettings(proof=5),
            ),
            "is for Gaussian kernels with one width a feature, none of them listed",
        ),
        (lambda: GaussianMKL(stages=2, proof=5).fit(*drawn_task("squared")), "for the greedy search in one stage"),
    ],
)  # fmt: skip
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
