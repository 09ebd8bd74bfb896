"""Two-stage search: steps against numerical line searches, centering against its definition, stops and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar, nnls
from sklearn.svm import SVC

from manykernels.alignment import cosine
from manykernels.discovery import (
    ArdGaussianFamily,
    FamilySearch,
    GaussianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    TargetSpace,
    align_family,
    discover_in_two_stages,
)
from manykernels.discovery.two_stage.first_stage import alignment_step, distance_step
from manykernels.exceptions import InvalidInputError
from manykernels.solvers import Status


def drawn_task(n_samples: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Return points and labels of two scales."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n_samples, 2))
    return points, np.sign(np.sin(4 * points[:, 0]) + points[:, 1])


def drawn_centered(rng: np.random.Generator, n_samples: int = 8) -> np.ndarray:
    """Return a random centered positive semidefinite matrix."""
    root = rng.normal(size=(n_samples, 3))
    center = np.eye(n_samples) - 1 / n_samples
    return center @ root @ root.T @ center


@pytest.mark.parametrize("seed", range(20))
def test_the_step_of_alignment_is_that_of_a_line_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, member, ideal = (drawn_centered(rng) for _ in range(3))
    step = alignment_step(kernel, member, ideal)
    found = minimize_scalar(lambda at: -cosine(kernel + at * member, ideal), bounds=(0, 1), options={"xatol": 1e-10})
    best = max(-found.fun, cosine(kernel, ideal), cosine(kernel + member, ideal))
    assert cosine(kernel + step * member, ideal) == pytest.approx(best, abs=1e-12)
    assert 0 <= step <= 1


@pytest.mark.parametrize("seed", range(20))
def test_the_step_of_distance_is_that_of_a_line_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    current, vertex, ideal = (drawn_centered(rng) for _ in range(3))

    def distance(step: float) -> float:
        return float(np.sum((current + step * (vertex - current) - ideal) ** 2))

    step = distance_step(current, vertex, ideal)
    found = minimize_scalar(distance, bounds=(0, 1), options={"xatol": 1e-10})
    assert distance(step) <= min(found.fun, distance(0), distance(1)) * (1 + 1e-10)


def test_steps_without_a_choice() -> None:
    one = np.eye(3) - 1 / 3
    assert alignment_step(one, one, one) in (0.0, 1.0)
    assert distance_step(one, one, one) == 0.0


def test_centering_is_that_of_repeated_samples(rng: np.random.Generator) -> None:
    target, weight = rng.normal(size=6), np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    gram, matrix = drawn_centered(rng, 6), drawn_centered(rng, 6)
    repeated = np.repeat(np.arange(6), weight.astype(int))
    n = len(repeated)
    center = np.eye(n) - 1 / n
    whole = center @ gram[np.ix_(repeated, repeated)] @ center
    ideal = center @ np.outer(target[repeated], target[repeated]) @ center
    space = TargetSpace(target, weight)
    assert np.linalg.norm(space.centered(gram)) == pytest.approx(np.linalg.norm(whole))
    assert space.alignment(gram) == pytest.approx(cosine(whole, ideal))
    assert np.vdot(space.adjoint(matrix), gram) == pytest.approx(np.vdot(matrix, space.centered(gram)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("settings", [SearchSettings(), SearchSettings(shrinkage=0.01)])
@pytest.mark.parametrize("criterion", ["alignment", "distance"])
def test_weights_are_repetitions(criterion: str, settings: SearchSettings) -> None:
    points, y = drawn_task()
    weight = 1 + np.arange(40) % 3
    family = ArdGaussianFamily(0.05, 50.0) if settings.shrinkage else GaussianFamily(0.05, 50.0)
    repeated = np.repeat(np.arange(40), weight)
    common: dict[str, Any] = {"criterion": criterion, "random_state": 0}
    one = align_family(FamilySearch(family, points, settings), y, weight, **common)
    search = FamilySearch(family, points[repeated], settings)
    two = align_family(search, y[repeated], np.ones(len(repeated)), **common)
    np.testing.assert_allclose(one.parameters, two.parameters, rtol=1e-4)
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-4)
    np.testing.assert_allclose(one.history, two.history, rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("factor", [1e-20, 1e-3, 1e20])
def test_weights_of_any_size_are_taken(factor: float) -> None:
    points, y = drawn_task()
    search = FamilySearch(GaussianFamily(0.05, 50.0), points)
    usual, scaled = (align_family(search, y, np.full(40, size)) for size in (1.0, factor))
    assert scaled.alignment == pytest.approx(usual.alignment, rel=5e-2)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e80, 1e200])
@pytest.mark.parametrize("criterion", ["alignment", "distance"])
def test_the_scale_of_the_target_does_not_count(criterion: str, scale: float) -> None:
    points, y = drawn_task()
    search, ones = FamilySearch(GaussianFamily(0.05, 50.0), points), np.ones(len(y))
    usual, scaled = (align_family(search, target, ones, criterion=criterion) for target in (y, y * scale))
    np.testing.assert_allclose(scaled.parameters, usual.parameters, rtol=1e-5)
    np.testing.assert_allclose(scaled.weights, usual.weights, rtol=1e-5)
    np.testing.assert_allclose(scaled.history, usual.history, rtol=1e-9)


@pytest.mark.parametrize("criterion", ["alignment", "distance"])
def test_a_finite_family_nears_the_best_alignment(criterion: str) -> None:
    points, y = drawn_task()
    base, widths = GaussianFamily(0.05, 50.0), np.geomspace(0.1, 10.0, 12)
    search = FamilySearch(base.listed(widths), points)
    aligned = align_family(search, y, np.ones(len(y)), criterion=criterion, gain=1e-9, limits=Limits(max_iter=400))
    space = TargetSpace(y, np.ones(len(y)))
    columns = np.stack([space.centered(base.value(points, width)).ravel() for width in widths], axis=1)
    weights = nnls(columns, space.ideal.ravel())[0]
    best = cosine(columns @ weights, space.ideal.ravel())
    assert aligned.alignment <= best + 1e-9
    assert aligned.alignment >= best - (2e-2 if criterion == "alignment" else 2e-3)
    gram = sum(w * base.value(points, p) for w, p in zip(aligned.weights, aligned.parameters, strict=True))
    assert space.alignment(gram) == pytest.approx(aligned.alignment, abs=1e-9)
    if criterion == "alignment":
        assert np.all(np.diff(aligned.history) >= 0)


def test_the_second_stage_is_an_svm_on_the_kernel_found() -> None:
    points, y = drawn_task()
    found = discover_in_two_stages(SearchProblem(points, y, "hinge", strength=0.5), GaussianFamily(0.05, 50.0))
    gram = sum(d * k.spec(points) for d, k in zip(found.solution.kernel_weights, found.kernels, strict=True))
    scores = gram @ found.solution.dual_coef + found.solution.intercept
    machine = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(gram, y)
    np.testing.assert_allclose(scores, machine.decision_function(gram), atol=1e-5)
    primal = np.maximum(1 - y * scores, 0).sum() + found.solution.dual_coef @ gram @ found.solution.dual_coef / 2
    assert found.solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.solution.certificate.relative_gap < 1e-8
    assert found.solution.kernel_weights.sum() == pytest.approx(1 / 0.5)
    assert "centered alignment" in found.solution.message


@pytest.mark.sampled(2)
@pytest.mark.parametrize("criterion", ["alignment", "distance"])
def test_a_width_a_feature_aligns_better(criterion: str) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 4))
    y, ones = np.sign(np.sin(3 * points[:, 2])), np.ones(60)
    values = [
        align_family(FamilySearch(family(0.05, 50.0), points), y, ones, criterion=criterion, random_state=0).alignment
        for family in (GaussianFamily, ArdGaussianFamily)
    ]
    assert values[1] > values[0] + 0.1


def test_shrinkage_moves_widths_together() -> None:
    points, y = drawn_task()
    family = ArdGaussianFamily(0.05, 50.0)
    spreads = []
    for shrinkage in (0.0, 100.0):
        search = FamilySearch(family, points, SearchSettings(shrinkage=shrinkage))
        spreads.append(np.ptp(align_family(search, y, np.ones(len(y)), random_state=0).parameters[0]))
    assert spreads[1] < 0.05 < spreads[0]


def test_limits_and_interrupts_keep_the_kernels_so_far() -> None:
    points, y = drawn_task()
    search, ones = FamilySearch(GaussianFamily(0.05, 50.0), points), np.ones(len(y))
    short = align_family(search, y, ones, gain=0.0, limits=Limits(max_iter=2))
    assert (short.status, len(short.history)) == (Status.MAX_ITER, 2)
    assert align_family(search, y, ones, gain=0.0, limits=Limits(time_limit=1e-9)).status is Status.TIME_LIMIT
    broken = discover_in_two_stages(
        SearchProblem(points, y, "hinge", strength=1.0),
        search.family,
        gain=0.0,
        limits=Limits(callback=lambda record: True),
    )
    assert broken.solution.status is Status.STOPPED_BY_CALLBACK
    assert broken.solution.message.startswith("The first stage stopped (stopped_by_callback) after 1 kernels")
    assert len(broken.kernels) == 1


@pytest.mark.parametrize(
    ("limits", "status"), [(Limits(max_iter=1), Status.MAX_ITER), (Limits(time_limit=1e-9), Status.TIME_LIMIT)]
)
def test_a_first_stage_that_was_cut_off_is_told(limits: Limits, status: Status) -> None:
    points, y = drawn_task()
    problem, family = SearchProblem(points, y, strength=1.0), GaussianFamily(0.05, 50.0)
    cut = discover_in_two_stages(problem, family, limits=limits).solution
    assert cut.status is status
    assert cut.message.startswith(f"The first stage stopped ({status}) after 1 kernels at centered alignment")
    assert (
        f"Increase {'max_iter' if status is Status.MAX_ITER else 'time_limit'}, or accept a larger gain" in cut.message
    )
    whole = discover_in_two_stages(problem, family).solution
    assert whole.status is Status.CONVERGED
    assert whole.message.startswith("converged: relative duality gap")


@pytest.mark.parametrize("value", [0.0, 0.1, 2.5])
@pytest.mark.parametrize("criterion", ["alignment", "distance"])
def test_a_constant_target_finds_no_kernel(criterion: str, value: float) -> None:
    points, _ = drawn_task()
    found = discover_in_two_stages(
        SearchProblem(points, np.full(40, value), strength=1.0), GaussianFamily(0.05, 50.0), criterion=criterion
    )
    assert found.kernels == ()
    assert "no kernel of the family has a positive centered alignment" in found.solution.message
    assert found.solution.intercept == pytest.approx(value)
    np.testing.assert_allclose(found.solution.dual_coef, 0.0, atol=1e-12)


def test_constant_columns_find_no_kernel() -> None:
    _, y = drawn_task()
    found = discover_in_two_stages(SearchProblem(np.full((40, 2), 0.3), y, strength=1.0), GaussianFamily(0.05, 50.0))
    assert found.kernels == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"criterion": "angle"}, "criterion must be one of 'alignment', 'distance'"),
        ({"gain": -1.0}, "gain must be a finite non-negative number"),
    ],
)
def test_errors(changes: dict[str, Any], message: str) -> None:
    points, y = drawn_task()
    with pytest.raises(InvalidInputError, match=message):
        discover_in_two_stages(SearchProblem(points, y, "hinge", strength=1.0), GaussianFamily(0.05, 50.0), **changes)
