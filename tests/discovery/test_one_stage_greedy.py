"""Greedy search in one stage: optimum, certificate and model, each computed a second time by other means."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.optimize import OptimizeResult, minimize

from manykernels.discovery import (
    ArdGaussianFamily,
    DirichletFamily,
    Discovery,
    FamilySearch,
    GaussianFamily,
    LaplacianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    discover_greedily,
)
from manykernels.discovery.one_stage.discovery import _descend, slide_parameters
from manykernels.discovery.one_stage.mixture import Learner, WeightedMembers
from manykernels.exceptions import InvalidInputError
from manykernels.solvers import Status, WorkingSet

LOSSES = ("squared", "hinge", "logistic")
WIDTHS = np.geomspace(0.05, 50.0, 30)
STRENGTH = 0.2


def drawn_task(loss: str, n_samples: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a target that one width does not explain."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(n_samples, 2))
    values = np.sin(4 * points[:, 0]) + points[:, 1] + 0.2 * rng.normal(size=n_samples)
    return points, values if loss == "squared" else np.sign(values)


def loss_value(loss: str, y: np.ndarray, z: np.ndarray) -> float:
    """Return the sum of losses."""
    if loss == "squared":
        return float(np.sum((y - z) ** 2) / 2)
    return float(np.sum(np.maximum(1 - y * z, 0) if loss == "hinge" else np.logaddexp(0, -y * z)))


def conjugate_value(loss: str, y: np.ndarray, rho: np.ndarray) -> float:
    """Return ``sum_i l*(y_i, -rho_i)``."""
    if loss == "squared":
        return float(np.sum(rho**2 / 2 - y * rho))
    part = np.clip(y * rho, 1e-300, 1 - 1e-16)
    return float(np.sum(-part if loss == "hinge" else part * np.log(part) + (1 - part) * np.log1p(-part)))


def recomputed(found: Discovery, points: np.ndarray, y: np.ndarray, loss: str, family: Any) -> tuple[float, float]:
    """Return primal value of the model and a dual bound from a dense grid of the family, in plain NumPy."""
    solution, rho = found.solution, found.solution.dual_coef
    grams = [kernel.spec(points[:, list(kernel.columns)]) for kernel in found.kernels]
    scores = sum(d * gram @ rho for d, gram in zip(solution.kernel_weights, grams, strict=True)) + solution.intercept
    norms = [d * np.sqrt(rho @ gram @ rho) for d, gram in zip(solution.kernel_weights, grams, strict=True)]
    low, high = family.coordinate(np.array([family.low, family.high]))
    members = family.members if family.members is not None else family.parameter(np.linspace(low, high, 800)[:, None])
    largest = max(rho @ family.spec(np.atleast_1d(member))(points) @ rho for member in members)
    largest = max(largest, *(rho @ gram @ rho for gram in grams))
    primal = loss_value(loss, y, scores) + STRENGTH / 2 * sum(norms) ** 2
    return primal, -conjugate_value(loss, y, rho) - largest / (2 * STRENGTH)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
def test_frank_wolfe_approaches_the_same_optimum(loss: str) -> None:
    points, y = drawn_task(loss)
    family = GaussianFamily(0.05, 50.0).listed(WIDTHS)
    best = discover_greedily(SearchProblem(points, y, loss, strength=STRENGTH), family, limits=Limits(tol=1e-7))
    slow = discover_greedily(
        SearchProblem(points, y, loss, strength=STRENGTH),
        family,
        update="frank_wolfe",
        limits=Limits(tol=1e-2, max_iter=200),
    )
    assert slow.solution.status is Status.CONVERGED
    optimum = best.solution.certificate.primal
    assert optimum * (1 - 1e-6) <= slow.solution.certificate.primal <= optimum * 1.01
    primal = [record.primal for record in slow.solution.history]
    assert np.all(np.diff(primal) <= 1e-6 * primal[0])


def test_fixed_steps_move_to_the_new_kernel_by_two_over_k_plus_one() -> None:
    points, y = drawn_task("squared")
    family = GaussianFamily(0.05, 50.0).listed(WIDTHS)
    learner = Learner(SearchProblem(points, y, strength=STRENGTH), FamilySearch(family, points, SearchSettings()))
    path = _descend(learner, Limits(tol=1e-9), np.random.default_rng(0), "fixed_steps")
    weights: dict[str, float] = {}
    for k, found in enumerate(islice(path, 9)):
        if k == 0:
            continue  # the model without kernels
        theta = {
            kernel.name: float(d) * STRENGTH for kernel, d in zip(found.kernels, found.kernel_weights, strict=True)
        }
        step = 2 / (k + 1)
        moved = {name: theta[name] - (1 - step) * weights.get(name, 0.0) for name in theta}
        assert sorted(moved.values())[-1] == pytest.approx(step)
        assert sorted(moved.values())[:-1] == pytest.approx([0.0] * (len(moved) - 1), abs=1e-12)
        weights = theta
    limits = Limits(tol=5e-2, max_iter=200)
    end = discover_greedily(SearchProblem(points, y, strength=STRENGTH), family, update="fixed_steps", limits=limits)
    assert end.solution.status is Status.CONVERGED


@pytest.mark.sampled(6)
@pytest.mark.parametrize("update", ["corrective", "sliding", "pairwise", "frank_wolfe"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_certificate_holds_over_a_dense_grid(loss: str, update: str) -> None:
    points, y = drawn_task(loss)
    family = GaussianFamily(0.05, 50.0)
    limits = Limits(tol=1e-5 if update in ("corrective", "sliding") else 2e-2, max_iter=40)
    found = discover_greedily(SearchProblem(points, y, loss, strength=STRENGTH), family, update=update, limits=limits)
    certificate = found.solution.certificate
    primal, dual = recomputed(found, points, y, loss, family)
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    assert certificate.dual <= dual + 1e-9 * abs(dual)
    assert certificate.dual == pytest.approx(dual, abs=2 * limits.tol * primal)
    assert certificate.relative_gap <= limits.tol
    parts = certificate.kkt.stationarity + certificate.kkt.complementarity
    assert parts == pytest.approx(certificate.gap / abs(certificate.primal), abs=1e-9)
    assert abs(found.solution.dual_coef.sum()) < 1e-8


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", LOSSES)
def test_sliding_ends_at_the_same_optimum_in_fewer_iterations(loss: str) -> None:
    points, y = drawn_task(loss)
    still, slid = (
        discover_greedily(
            SearchProblem(points, y, loss, strength=STRENGTH),
            GaussianFamily(0.05, 50.0),
            update=update,
            limits=Limits(tol=1e-6),
        ).solution
        for update in ("corrective", "sliding")
    )
    assert still.status is slid.status is Status.CONVERGED
    assert slid.certificate.primal == pytest.approx(still.certificate.primal, rel=2e-6)
    assert slid.n_iter < still.n_iter


@pytest.mark.parametrize("loss", LOSSES)
def test_the_slope_of_a_slide_is_that_of_the_objective(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points, y = drawn_task(loss)
    problem = SearchProblem(points, y, loss, strength=STRENGTH)
    learner = Learner(problem, FamilySearch(ArdGaussianFamily(0.05, 50.0), points))
    mixture = WeightedMembers().with_member(learner.search, np.array([0.5, 2.0]))[0]
    mixture = mixture.with_member(learner.search, np.array([1.0, 0.7]))[0].weighted(np.array([0.3, 0.7]))
    slopes = {}

    def look(objective: Any, start: Any, **settings: Any) -> Any:
        slopes["analytic"] = objective(start)[1]
        units = 1e-5 * np.eye(len(start))
        slopes["numeric"] = [(objective(start + unit)[0] - objective(start - unit)[0]) / 2e-5 for unit in units]
        return minimize(objective, start, **settings)

    monkeypatch.setattr("manykernels.discovery.one_stage.discovery.minimize", look)
    moved = slide_parameters(learner, mixture, 1e-11)
    np.testing.assert_allclose(slopes["analytic"], slopes["numeric"], rtol=1e-3, atol=1e-5)
    assert moved.weights.tolist() == [0.3, 0.7]


def test_kernels_that_slid_to_one_place_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    points, y = drawn_task("squared")
    problem = SearchProblem(points, y, strength=STRENGTH)
    learner = Learner(problem, FamilySearch(GaussianFamily(0.05, 50.0), points))
    places = np.log([0.3, 0.7, 0.7 * (1 + 1e-9)])

    def meet(objective: Any, start: Any, **settings: Any) -> OptimizeResult:
        return OptimizeResult(x=places)

    monkeypatch.setattr("manykernels.discovery.one_stage.discovery.minimize", meet)
    mixture = WeightedMembers(
        tuple(np.array([w]) for w in (0.2, 0.6, 0.8)), (np.eye(30),) * 3, np.array([0.5, 0.2, 0.3])
    )
    moved = slide_parameters(learner, mixture, 1e-9)
    np.testing.assert_allclose(np.ravel(moved.parameters), [0.3, 0.7])
    np.testing.assert_allclose(moved.weights, [0.5, 0.5])
    np.testing.assert_array_equal(moved.grams[1], learner.search.gram(np.array([0.7])))
    assert mixture.weights.tolist() == [0.5, 0.2, 0.3]


@pytest.mark.parametrize("family", [LaplacianFamily(0.05, 50.0), DirichletFamily(0.0, 8.0)])
def test_other_families(family: Any) -> None:
    points, y = drawn_task("squared")
    points = points[:, :1]
    found = discover_greedily(SearchProblem(points, y, strength=STRENGTH), family, limits=Limits(tol=1e-4))
    primal, dual = recomputed(found, points, y, "squared", family)
    assert found.solution.status is Status.CONVERGED
    assert found.solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.solution.certificate.dual <= dual + 1e-9 * abs(dual)


def test_a_width_a_feature_is_better_where_features_differ() -> None:
    points, y = drawn_task("squared")
    values = [
        discover_greedily(SearchProblem(points, y, strength=STRENGTH), family(0.05, 50.0), random_state=0).solution
        for family in (GaussianFamily, ArdGaussianFamily)
    ]
    assert values[1].certificate.primal < 0.95 * values[0].certificate.primal


@pytest.mark.nightly
def test_weights_and_intercept_count() -> None:
    points, y = drawn_task("hinge")
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    family, limits = GaussianFamily(0.05, 50.0), Limits(tol=1e-6)
    posed: dict[str, Any] = {"loss": "hinge", "strength": STRENGTH, "fit_intercept": False}
    one = discover_greedily(SearchProblem(points, y, sample_weight=weight, **posed), family, limits=limits)
    two = discover_greedily(SearchProblem(points[repeated], y[repeated], **posed), family, limits=limits)
    assert one.solution.certificate.primal == pytest.approx(two.solution.certificate.primal, rel=2e-6)
    assert one.solution.intercept == 0.0


def test_ctrl_c_and_time_limits_keep_the_best_model() -> None:
    points, y = drawn_task("squared")

    def stop(record: Any) -> bool:
        if record.iteration == 2:
            raise KeyboardInterrupt
        return False

    family = GaussianFamily(0.05, 50.0)
    broken = discover_greedily(SearchProblem(points, y, strength=STRENGTH), family, limits=Limits(1e-9, callback=stop))
    assert broken.solution.status is Status.INTERRUPTED
    assert len(broken.solution.history) == 3
    assert len(broken.kernels) >= 1
    late = discover_greedily(SearchProblem(points, y, strength=STRENGTH), family, limits=Limits(1e-9, time_limit=1e-9))
    assert late.solution.status is Status.TIME_LIMIT


def test_ctrl_c_inside_a_finite_problem_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    points, y = drawn_task("squared")
    steps, step = [], WorkingSet.step

    def interrupted(self: Any, problem: Any, state: Any) -> None:
        steps.append(problem.n_kernels)
        if len(steps) == 1:
            raise KeyboardInterrupt
        step(self, problem, state)

    monkeypatch.setattr(WorkingSet, "step", interrupted)
    found = discover_greedily(SearchProblem(points, y, strength=STRENGTH), GaussianFamily(0.05, 50.0))
    assert found.solution.status is Status.INTERRUPTED
    assert steps == [1]
    assert len(found.solution.history) == 1


def test_a_strength_above_the_largest_selects_nothing() -> None:
    points, y = drawn_task("squared")
    found = discover_greedily(SearchProblem(points, y, strength=1e9), GaussianFamily(0.05, 50.0))
    assert found.kernels == ()
    assert found.solution.intercept == pytest.approx(y.mean())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"update": "greedy"}, "update must be one of 'corrective', 'sliding', 'pairwise', 'frank_wolfe'"),
        ({"family": "gaussian"}, "family must be a KernelFamily"),
        ({"settings": SearchSettings(shrinkage=1.0)}, "needs stages=2"),
    ],
)
def test_errors(changes: dict[str, Any], message: str) -> None:
    points, y = drawn_task("squared")
    with pytest.raises(InvalidInputError, match=message):
        discover_greedily(SearchProblem(points, y, strength=1.0), **({"family": GaussianFamily(0.05, 50.0)} | changes))
