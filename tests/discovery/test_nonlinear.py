"""Non-linear combinations: projection, value, gradient and stationary points recomputed in plain NumPy and by CVXPY."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import check_grad, minimize
from tests.support.conic import proved_value

from manykernels.discovery import Limits, SearchProblem, discover_nonlinear, project_on_ball
from manykernels.discovery.nonlinear import KernelsOfColumns, LinearColumns, NonlinearProblem
from manykernels.exceptions import InvalidInputError
from manykernels.grams import DenseStack
from manykernels.kernels import Gaussian, Linear, WeightedPolynomial
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Ridge
from manykernels.solvers import Status

Array = NDArray[Any]


def data(n: int = 40, p: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.1 * rng.normal(size=n)


def ridge_value(theta: Array, X: Array, y: Array, degree: int, strength: float) -> float:
    """(2.17) times lambda / 2."""
    gram = (X * theta @ X.T) ** degree
    return 0.5 * strength * float(y @ np.linalg.solve(gram + strength * np.eye(len(y)), y))


@pytest.mark.parametrize("seed", range(25))
def test_projection_against_a_cone_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 12))
    v, center = 3 * rng.normal(size=p), np.maximum(rng.normal(size=p), 0.0)
    radius = float(rng.uniform(0.05, 3))
    x = cp.Variable(p, nonneg=True)
    proved_value(cp.Problem(cp.Minimize(cp.sum_squares(x - v)), [cp.norm(x - center) <= radius]))
    found = project_on_ball(v, center, radius)
    assert (found >= 0).all()
    assert np.linalg.norm(found - center) <= radius * (1 + 1e-12)
    assert np.sum((found - v) ** 2) <= np.sum((x.value - v) ** 2) + 1e-7
    # A value within 1e-8 leaves the point of a problem of curvature 2 open by 1e-4.
    np.testing.assert_allclose(found, x.value, atol=1e-4)
    np.testing.assert_allclose(project_on_ball(found, center, radius), found, atol=1e-12)


@pytest.mark.parametrize("seed", range(25))
def test_projection_is_optimal_in_the_form_of_the_paper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 12))
    v, center = 5 * rng.normal(size=p), np.maximum(rng.normal(size=p), 0.0)
    found = project_on_ball(v, center, 1.0)
    inside = np.flatnonzero(found > 0)
    multipliers = (v - found)[inside] / (found - center)[inside]
    m = float(np.median(multipliers))
    assert m >= 0
    np.testing.assert_allclose(found, np.maximum(0, (v + m * center) / (1 + m)), atol=1e-10)
    assert np.linalg.norm(found - center) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("base", [LinearColumns, lambda X: KernelsOfColumns(X, Gaussian(1.0), 3)])
def test_gradient_against_differences(degree: int, loss: str, base: Any) -> None:
    X, y = data()
    target = y if loss == "squared" else np.sign(y)
    problem = Problem(DenseStack(np.zeros((1, 40, 40))), target, get_loss(loss), Ridge(0.7))
    posed = NonlinearProblem(base(X), problem, degree, 0.7, np.full(4, 0.25), 1.0)
    theta = np.array([0.3, 0.1, 0.7, 0.2])
    error = check_grad(lambda t: posed.evaluate(t).value, lambda t: posed.evaluate(t).gradient, theta, epsilon=1e-6)
    assert error < 2e-4 * np.linalg.norm(posed.evaluate(theta).gradient)


def test_value_is_the_one_of_the_thesis() -> None:
    X, y = data()
    found = discover_nonlinear(SearchProblem(X, y, strength=0.3, fit_intercept=False), constant=False, degree=2)
    expected = ridge_value(found.base_weights, X, y, 2, 0.3)
    assert found.solution.certificate.primal == pytest.approx(expected, rel=1e-10)
    assert found.solution.certificate.relative_gap < 1e-8
    np.testing.assert_allclose(
        found.kernels[0].spec(X[:, list(found.kernels[0].columns)]), (X * found.base_weights @ X.T) ** 2, atol=1e-10
    )


def test_linear_kernels_given_as_base_are_the_default() -> None:
    X, y = data()
    plain, given = (discover_nonlinear(SearchProblem(X, y, strength=0.3), base=base) for base in (None, Linear()))
    np.testing.assert_allclose(given.base_weights, plain.base_weights, rtol=1e-8)
    assert given.constant_weight == pytest.approx(plain.constant_weight, rel=1e-8)
    new = np.random.default_rng(2).normal(size=(7, 4))
    np.testing.assert_allclose(given.kernels[0].spec(new, X), plain.kernels[0].spec(new, X), rtol=1e-7)


def test_the_kernel_of_a_base_is_the_power_of_the_weighted_sum() -> None:
    X, y = data()
    base = Gaussian(0.8)
    found = discover_nonlinear(SearchProblem(X, y, strength=0.3, fit_intercept=False), base=base, degree=3)
    total = sum(w * base(X[:, [j]]) for j, w in enumerate(found.base_weights)) + found.constant_weight
    kernel = found.kernels[0].spec(X[:, list(found.kernels[0].columns)])
    np.testing.assert_allclose(kernel, total**3, rtol=1e-12)
    np.testing.assert_allclose(found.kernels[0].spec.diag(X), np.diag(total**3), rtol=1e-12)
    best = 0.5 * 0.3 * float(y @ np.linalg.solve(total**3 + 0.3 * np.eye(len(y)), y))
    assert found.solution.certificate.primal == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("degree", [1, 2])
def test_a_general_solver_finds_nothing_better_nearby(degree: int) -> None:
    X, y = data()
    problem, limits = SearchProblem(X, y, strength=0.5, fit_intercept=False), Limits(tol=1e-9, max_iter=500)
    found = discover_nonlinear(problem, constant=False, degree=degree, limits=limits)
    other = minimize(
        ridge_value,
        found.base_weights,
        args=(X, y, degree, 0.5),
        bounds=[(0, None)] * 4,
        constraints={"type": "ineq", "fun": lambda t: 1.0 - np.sum((t - 0.25) ** 2)},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    value = found.solution.certificate.primal
    assert value <= other.fun * (1 + 1e-7)
    assert np.linalg.norm(found.base_weights - 0.25) == pytest.approx(1.0, rel=1e-9)


def test_degree_one_is_convex_and_the_stationarity_a_bound() -> None:
    X, y = data()
    rough, best = (
        discover_nonlinear(SearchProblem(X, y, strength=0.5), constant=False, degree=1, limits=limits)
        for limits in (Limits(tol=0.5, max_iter=1), Limits(tol=1e-10, max_iter=500))
    )
    lost = rough.solution.certificate.primal / best.solution.certificate.primal - 1
    assert rough.stationarity > 1e-6
    assert 1 - 1 / (1 + lost) <= rough.stationarity * (1 + 1e-9)


def test_every_start_of_degree_two_ends_at_a_stationary_point() -> None:
    X, y = data()
    for reference in (0.0, 0.5, [1.0, 0.0, 0.0, 0.0, 0.2]):
        found = discover_nonlinear(
            SearchProblem(X, y, strength=0.1), reference=reference, limits=Limits(tol=1e-7, max_iter=500)
        )
        center = np.broadcast_to(reference, 5)
        theta = np.append(found.base_weights, found.constant_weight)
        # A stationary point is where the ball is met in the direction of the negative gradient.
        problem = Problem(DenseStack(np.zeros((1, 40, 40))), y, get_loss("squared"), Ridge(0.1))
        base = LinearColumns(np.column_stack([X, np.ones(40)]))
        gradient = NonlinearProblem(base, problem, 2, 0.1, center, 1.0).evaluate(theta).gradient
        np.testing.assert_allclose(theta, center - gradient / np.linalg.norm(gradient), atol=1e-3)
        assert found.solution.status is Status.CONVERGED


def test_the_objective_never_rises() -> None:
    X, y = data()
    found = discover_nonlinear(SearchProblem(X, np.sign(y), "hinge", strength=0.2), degree=3, limits=Limits(tol=1e-6))
    values = [record.primal for record in found.solution.history]
    assert len(values) > 2
    assert (np.diff(values) <= 1e-12 * values[0]).all()


def test_sample_weights_count_as_repetitions() -> None:
    X, y = data()
    counts = np.random.default_rng(0).integers(1, 4, size=40)
    weighted = discover_nonlinear(SearchProblem(X, y, strength=0.5, sample_weight=counts.astype(float)))
    repeated = discover_nonlinear(SearchProblem(np.repeat(X, counts, axis=0), np.repeat(y, counts), strength=0.5))
    np.testing.assert_allclose(weighted.base_weights, repeated.base_weights, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-150, 1e-100, 1e-12, 1e-6, 1e6, 1e12, 1e100])
def test_the_unit_of_the_target_is_the_unit_of_the_model(unit: float) -> None:
    X, y = data()
    plain, scaled = (discover_nonlinear(SearchProblem(X, c * y, strength=0.5)) for c in (1.0, unit))
    np.testing.assert_allclose(scaled.base_weights, plain.base_weights, rtol=1e-9)
    np.testing.assert_allclose(scaled.solution.dual_coef / unit, plain.solution.dual_coef, rtol=1e-6)
    assert scaled.stationarity == pytest.approx(plain.stationarity, rel=1e-4)


def test_limits_stop_the_descent_and_say_so() -> None:
    X, y = data()
    short = discover_nonlinear(SearchProblem(X, y, strength=0.5), limits=Limits(tol=1e-12, max_iter=1, name="descent"))
    assert short.solution.status is Status.MAX_ITER
    assert "Increase max_iter" in short.solution.message
    asked = discover_nonlinear(
        SearchProblem(X, y, strength=0.5), limits=Limits(tol=1e-12, callback=lambda record: True)
    )
    assert asked.solution.status is Status.STOPPED_BY_CALLBACK
    late = discover_nonlinear(SearchProblem(X, y, strength=0.5), limits=Limits(tol=1e-12, time_limit=1e-9))
    assert late.solution.status is Status.TIME_LIMIT


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"degree": 0}, "degree must be an integer of at least 1"),
        ({"radius": 0.0}, "radius must be"),
        ({"reference": -1.0}, "reference must not be negative"),
        ({"reference": [1.0, 2.0]}, r"reference must have shape \(5,\)"),
        ({"strength": 0.0}, "strength"),
        ({"base": "gaussian"}, "base must be a kernel such as"),
        ({"base": Gaussian("median")}, "is not a number yet"),
        ({"base": WeightedPolynomial(2, (1.0, 2.0))}, "base=weighted_polynomial"),
        ({"degree": 4000}, "degree 4000 overflows"),
    ],
)
def test_bad_parameters_are_explained(given: dict[str, Any], words: str) -> None:
    X, y = data()
    with pytest.raises(InvalidInputError, match=words), np.errstate(over="ignore"):
        discover_nonlinear(SearchProblem(X, y, strength=given.pop("strength", 1.0)), **given)


def test_a_target_whose_squares_underflow_is_refused() -> None:
    X, y = data()
    with pytest.raises(InvalidInputError, match=r"underflows at zero scores: y reaches only \d.*e-160"):
        discover_nonlinear(SearchProblem(X, 1e-160 * y, strength=0.5))
