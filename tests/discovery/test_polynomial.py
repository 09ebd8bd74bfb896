"""The search over polynomial kernels reaches the optimum over the whole family, and its certificate says so."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import proved_value

from manykernels.discovery import Limits, PolynomialDiscovery, SearchProblem, discover_polynomial
from manykernels.discovery.polynomial.descent import MirrorDescent, RidgeSolver, WarmStartedSolver, project_on_lp_ball
from manykernels.discovery.polynomial.family import PolynomialFamily, multiplicity
from manykernels.discovery.polynomial.product_bases import RankOneBase
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import Gaussian, Linear
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers.weight_sets import LpBall
from manykernels.solvers import Status, WorkingSet, solve
from manykernels.solvers.learners.learners import fit_learner

N, R, D = 30, 4, 2
RHO = np.array([1.0, 0.8, 1.5])
STRENGTH = 2.0
LOSSES = ["squared", "logistic", "hinge"]
COLUMNS = [f"x{j}" for j in range(R)]
CASES = [*((loss, None) for loss in LOSSES), ("squared", "power"), ("squared", "centered"), ("logistic", "power")]


@pytest.fixture
def points(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(N, R))
    X.flags.writeable = False
    return X


@pytest.fixture
def signal(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return points[:, 0] * points[:, 1] - points[:, 2] + 0.5 + 0.3 * rng.normal(size=N)


def target(loss: str, signal: np.ndarray) -> np.ndarray:
    return signal if loss == "squared" else np.where(signal > 0, 1.0, -1.0)


def features(points: np.ndarray, index: tuple[int, ...], normalize: str | None = None) -> np.ndarray:
    values = np.ones(len(points))
    for j in set(index):
        power = points[:, j] ** index.count(j)
        power = power - power.mean() if normalize == "centered" else power
        values = values * (power / np.sqrt(np.mean(power**2)) if normalize else power)
    return values


def ordered(degree: int = D) -> list[tuple[int, ...]]:
    return [index for d in range(degree + 1) for index in product(range(R), repeat=d)]


def optimum(points: np.ndarray, y: np.ndarray, loss: str, p: float, normalize: str | None = None) -> float:
    """Return the optimum over all ordered products, by a cone program in the weights of the monomials."""
    Phi = np.column_stack([features(points, index, normalize) for index in ordered()])
    rho = np.array([RHO[len(index)] for index in ordered()])
    w, b = cp.Variable(Phi.shape[1]), cp.Variable()
    z = Phi @ w + b
    losses = {
        "squared": cp.sum_squares(z - y) / 2,
        "logistic": cp.sum(cp.logistic(cp.multiply(-y, z))),
        "hinge": cp.sum(cp.pos(1 - cp.multiply(y, z))),
    }
    q = 2 * p / (p + 1)  # min over ||theta||_p <= 1 of sum t^2 / theta is ||t||_q^2
    penalty = STRENGTH / 2 * cp.square(cp.pnorm(cp.multiply(rho, w), q, approx=False))
    return proved_value(cp.Problem(cp.Minimize(losses[loss] + penalty)))


def discover(
    points: np.ndarray, y: np.ndarray, loss: str = "squared", p: float = 2.0, **more: Any
) -> PolynomialDiscovery:
    settings = {"degree": D, "degree_penalties": RHO, "random_state": 0, "limits": Limits(1e-4), "normalize": None}
    posed = {key: more.pop(key) for key in ("strength", "sample_weight", "fit_intercept") if key in more}
    problem = SearchProblem(points, y, more.pop("loss", loss), **({"strength": STRENGTH} | posed))
    return discover_polynomial(problem, p=more.pop("p", p), **(settings | more))


def recomputed(
    points: np.ndarray, y: np.ndarray, loss: str, p: float, found: PolynomialDiscovery, normalize: str | None = None
) -> tuple[float, float]:
    """Return the primal value of the model and the dual value of its dual vector, over all ordered products."""
    solution = found.solution
    rho, b = solution.dual_coef, solution.intercept
    f, norms = np.zeros(N), []
    for kernel, d in zip(found.kernels, solution.kernel_weights, strict=True):
        K = kernel.spec(points[:, list(kernel.columns)])
        index = tuple(COLUMNS.index(name) for name in kernel.name.split(" x ")) if kernel.name != "1" else ()
        factors, c = len(index), multiplicity(index)
        t = RHO[factors] * d * np.sqrt(max(rho @ K @ rho, 0.0)) / c
        f, norms = f + d * K @ rho, norms + [t] * c
    q = 2 * p / (p + 1)
    z = f + b
    values = {
        "squared": (z - y) ** 2 / 2,
        "logistic": np.logaddexp(0, -y * z),
        "hinge": np.maximum(1 - y * z, 0),
    }
    conjugates = {"squared": rho**2 / 2 - y * rho, "hinge": -y * rho}
    primal = values[loss].sum() + STRENGTH / 2 * np.sum(np.array(norms) ** q) ** (2 / q)
    if loss == "logistic":
        r = np.clip(y * rho, 1e-300, 1)
        conjugate = np.sum(r * np.log(r) + np.where(r < 1, (1 - r) * np.log1p(-np.minimum(r, 1 - 1e-16)), 0))
    else:
        conjugate = conjugates[loss].sum()
    v = np.array([(features(points, i, normalize) @ rho) ** 2 / RHO[len(i)] ** 2 for i in ordered()])
    top = v.max() if p == 1 else np.sum(v ** (p / (p - 1))) ** ((p - 1) / p)
    return float(primal), float(-conjugate - top / (2 * STRENGTH))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize(("loss", "normalize"), CASES)
def test_the_objective_is_the_optimum_over_ordered_products(
    points: Any, signal: Any, loss: str, normalize: str | None, p: float
) -> None:
    y = target(loss, signal)
    found = discover(points, y, loss, p, normalize=normalize)
    best = optimum(points, y, loss, p, normalize)
    certificate = found.solution.certificate
    assert str(found.solution.status) == "converged"
    assert certificate.relative_gap <= 1e-4
    assert certificate.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= certificate.primal <= best * (1 + 1e-3)
    assert (found.n_family, found.n_distinct, found.method) == (21, 15, "enumeration")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize(("loss", "normalize"), CASES)
def test_the_certificate_is_that_of_brute_force(
    points: Any, signal: Any, loss: str, normalize: str | None, p: float
) -> None:
    y = target(loss, signal)
    found = discover(points, y, loss, p, normalize=normalize)
    primal, dual = recomputed(points, y, loss, p, found, normalize)
    certificate = found.solution.certificate
    np.testing.assert_allclose(certificate.primal, primal, rtol=1e-9)
    # The best dual vector so far, scaled at best, is at least as good as that of the returned model as it is.
    assert certificate.dual >= dual - 1e-9 * abs(dual)
    np.testing.assert_allclose(certificate.dual, dual, rtol=1e-3)
    kkt = certificate.kkt
    np.testing.assert_allclose(kkt.stationarity + kkt.complementarity, certificate.relative_gap, atol=1e-9)


@pytest.mark.nightly
def test_the_mirror_descent_alone_converges(points: np.ndarray, signal: np.ndarray) -> None:
    best = optimum(points, signal, "squared", 2.0)
    few, many = (discover(points, signal, n_steps=n, polish=False, limits=Limits(1e-6)).solution for n in (20, 2500))
    assert many.certificate.primal - best < 0.2 * (few.certificate.primal - best)
    assert many.certificate.primal <= best * (1 + 1e-3)
    assert many.certificate.dual <= best <= many.certificate.primal
    assert str(many.status) == "max_iter"
    assert "Raise max_kernels, n_steps" in many.message


def test_batches_of_draws_are_worth_as_many_steps(points: np.ndarray, signal: np.ndarray) -> None:
    best = optimum(points, signal, "squared", 2.0)
    one, many = (
        discover(points, signal, n_steps=60, batch=batch, polish=False, limits=Limits(1e-9)).solution.certificate
        for batch in (1, 50)
    )
    assert many.primal - best < 0.5 * (one.primal - best)
    assert many.dual <= best <= many.primal


def test_restarts_keep_converging(points: np.ndarray, signal: np.ndarray) -> None:
    best = optimum(points, signal, "squared", 2.0)
    found = discover(points, signal, n_steps=120, restarts=3, polish=False, limits=Limits(1e-9)).solution.certificate
    assert found.dual <= best <= found.primal <= best * 1.01


def test_a_lasso_path_is_where_the_search_begins_at_p_one(points: np.ndarray, signal: np.ndarray) -> None:
    best = optimum(points, signal, "squared", 1.0)
    found = discover(points, signal, p=1.0, limits=Limits(1e-6)).solution
    assert best * (1 - 1e-9) <= found.certificate.primal <= best * (1 + 1e-6)
    assert found.n_iter <= 3  # the constant, and what the path selects; draws alone need more


@pytest.mark.nightly
@pytest.mark.parametrize("p", [1.0, 1.5])
def test_the_mirror_descent_converges_on_other_balls(points: np.ndarray, signal: np.ndarray, p: float) -> None:
    best = optimum(points, signal, "squared", p)
    found = discover(points, signal, p=p, n_steps=600, polish=False, limits=Limits(1e-6)).solution
    assert best * (1 - 1e-6) <= found.certificate.primal <= best * 1.03


@pytest.mark.nightly
def test_the_gradient_estimate_is_unbiased(points: np.ndarray, signal: np.ndarray) -> None:
    family = PolynomialFamily.create(RankOneBase(np.ascontiguousarray(points.T)), D, RHO)
    problem = Problem(family.base.stack([()]), signal, get_loss("squared"), family.regularizer(STRENGTH))
    rho, _ = problem.zero_model()
    gradient = {i: 0.5 * (features(points, i) @ rho) ** 2 / RHO[len(i)] ** 2 for i in ordered()}
    size, n = sum(gradient.values()), 1500
    # A constant step so small that the ball does not bind: theta after one step is the estimate itself.
    totals = dict.fromkeys(combinations_with_replacement(range(R), 2), 0.0)
    rng = np.random.default_rng(0)
    for _ in range(n):
        descent = MirrorDescent(family, problem, STRENGTH, rng, step_size=1e-3)
        descent.step()
        if descent.indices[0] in totals:
            totals[descent.indices[0]] += float(descent._theta[0]) * 1e3 * size / n
    for index, mean in totals.items():
        spread = np.sqrt(gradient[index] * size / multiplicity(index) / n)
        assert abs(mean - gradient[index]) < 4.5 * spread


@pytest.mark.sampled(3)
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_keep_the_weighted_sum_of_kernels(points: Any, signal: Any, loss: str, batch: int) -> None:
    family = PolynomialFamily.create(RankOneBase(np.ascontiguousarray(points.T)), 3)
    problem = Problem(family.base.stack([()]), target(loss, signal), get_loss(loss), family.regularizer(STRENGTH))
    descent = MirrorDescent(family, problem, STRENGTH, np.random.default_rng(0), batch=batch)
    for _ in range(40):
        descent.step()
    np.testing.assert_allclose(descent._gram, descent.stack().combine(descent._weights(descent._theta)), rtol=1e-9)
    assert np.sum(descent.counts * descent._theta**2) <= 1 + 1e-12
    np.testing.assert_allclose(np.sum(descent.counts * (descent.average() * STRENGTH / descent.counts) ** 2), 1.0)
    descent.restart_after = descent.steps
    before = descent.average()
    descent._restart()
    np.testing.assert_allclose(descent._gram, descent.stack().combine(before), rtol=1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_warm_learners_agree_with_cold_ones(points: Any, signal: Any, loss: str, fit_intercept: bool) -> None:
    y, rng = target(loss, signal), np.random.default_rng(0)
    shell = Problem(
        np.ones((1, N, N)), y, get_loss(loss), PolynomialFamily.create(RankOneBase(points.T), 1).regularizer(1.0),
        fit_intercept=fit_intercept, sample_weight=rng.random(N) + 0.5,
    )  # fmt: skip
    learner = RidgeSolver(shell) if loss == "squared" else WarmStartedSolver(shell)
    gram = points @ points.T
    for _ in range(40):
        gram = 0.9 * gram + np.multiply.outer(*[rng.normal(size=N)] * 2)
        rho = learner.solve(gram)
        exact = fit_learner(shell, gram, tol=1e-12)
        dual = -shell.conjugate_loss(shell.feasible_dual(rho)) - rho @ gram @ rho / 2
        np.testing.assert_allclose(dual, exact.dual_value, rtol=1e-5)
    assert learner.systems >= 40


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_projections_are_the_nearest_points(p: float) -> None:
    rng = np.random.default_rng(0)
    theta, counts = 2 * rng.random(5), np.array([1.0, 2.0, 3.0, 6.0, 1.0])
    x = cp.Variable(5, nonneg=True)
    inside = cp.pnorm(cp.multiply(counts ** (1 / p), x), p, approx=False) <= 1
    proved_value(cp.Problem(cp.Minimize(cp.sum(cp.multiply(counts, cp.square(x - theta)))), [inside]))
    np.testing.assert_allclose(project_on_lp_ball(theta, counts, p), x.value, atol=1e-5)
    np.testing.assert_array_equal(project_on_lp_ball(theta / 100, counts, p), theta / 100)


@pytest.mark.parametrize("normalize", [None, "power"])
def test_general_base_kernels_reach_the_optimum_on_all_products(
    points: Any, signal: Any, normalize: str | None
) -> None:
    base = [(Gaussian(1.0), (0,)), (Gaussian(2.0), (1, 2)), (Linear(), (3,))]
    limits = Limits(1e-6)
    options = {"base": base, "degree": 3, "p": 1.5, "limits": limits, "normalize": normalize}
    found = discover_polynomial(SearchProblem(points, signal, strength=0.5), **options, random_state=0)
    grams = [spec(points[:, list(columns)]) for spec, columns in base]
    levels = [[gram**a / (np.mean(np.diag(gram) ** a) if normalize else 1.0) for gram in grams] for a in (1, 2, 3)]
    indices = [i for d in range(4) for i in product(range(3), repeat=d)]
    stack = np.array(
        [np.prod([np.ones((N, N)), *(levels[i.count(j) - 1][j] for j in set(i))], axis=0) for i in indices]
    )
    given = solve(stack, signal, loss="squared", penalty=LpBall(0.5, p=1.5), tol=1e-8)
    np.testing.assert_allclose(found.solution.certificate.primal, given.certificate.primal, rtol=2e-6)
    assert found.solution.certificate.dual <= given.certificate.primal
    names = [kernel.name for kernel in found.kernels]
    assert "gaussian(width=1)[x0] x gaussian(width=2)[x1, x2]" in names
    rebuilt = [kernel.spec(points[:, list(kernel.columns)]) for kernel in found.kernels]
    f = np.tensordot(found.solution.kernel_weights, rebuilt, axes=1) @ found.solution.dual_coef
    problem = found.solution
    np.testing.assert_allclose(problem.dual_coef, signal - f - problem.intercept, atol=1e-3)


def test_one_kernel_for_every_column(points: np.ndarray, signal: np.ndarray) -> None:
    found = discover_polynomial(
        SearchProblem(points, signal, strength=0.5), base=Gaussian("median"), degree=1, random_state=0
    )
    spec = next(kernel.spec for kernel in found.kernels if kernel.columns == (2,))
    distances = np.abs(points[:, 2, None] - points[:, 2])[np.triu_indices(N, 1)]
    np.testing.assert_allclose(spec.width, np.median(distances))  # type: ignore[attr-defined]


def test_sample_weights_and_no_intercept_are_respected(points: np.ndarray, signal: np.ndarray) -> None:
    twice = np.r_[np.arange(N), np.arange(5)]
    weight = np.ones(N)
    weight[:5] = 2.0
    given = discover(points, signal, sample_weight=weight, fit_intercept=False).solution
    repeated = discover(points[twice], signal[twice], fit_intercept=False).solution
    assert given.intercept == 0.0
    np.testing.assert_allclose(given.certificate.primal, repeated.certificate.primal, rtol=2e-4)


def test_a_budget_too_small_gives_a_weaker_but_valid_certificate(points: np.ndarray, signal: np.ndarray) -> None:
    best = optimum(points, signal, "squared", 1.5)
    found = discover(points, signal, p=1.5, budget=1.0, limits=Limits(1e-4, max_iter=10))
    assert found.method == "bound"
    assert found.solution.certificate.dual <= best * (1 + 1e-6)
    assert found.solution.certificate.primal <= best * 1.001


@pytest.mark.parametrize("limit", [1e-9, 1e-2])
def test_a_search_out_of_time_is_certified_all_the_same(points: np.ndarray, signal: np.ndarray, limit: float) -> None:
    best = optimum(points, signal, "squared", 1.5)
    found = discover(points, signal, p=1.5, limits=Limits(1e-9, time_limit=limit))
    certificate = found.solution.certificate
    assert str(found.solution.status) == "time_limit"
    assert certificate.dual <= best * (1 + 1e-6) <= certificate.primal * (1 + 2e-6)


@pytest.mark.nightly
def test_products_that_no_survey_names_are_drawn(points: np.ndarray) -> None:
    # The budget pays for an enumeration of pairs only: largest alone would never bring the triple.
    y = points[:, 0] * points[:, 1] * points[:, 2]
    found = discover(points, y, degree=3, degree_penalties=None, p=1.0, budget=6e3, n_steps=1, strength=0.1)
    assert found.method == "bound"
    assert found.kernels[found.solution.kernel_weights.argmax()].name == "x0 x x1 x x2"


def test_a_constant_target_needs_no_kernel(points: np.ndarray) -> None:
    found = discover(points, np.full(N, 3.0))
    assert found.kernels == ()
    np.testing.assert_allclose(found.solution.intercept, 3.0)


def test_runs_are_reproducible_and_do_not_touch_their_data(points: np.ndarray, signal: np.ndarray) -> None:
    before = signal.copy()
    first, second = (discover(points, signal, polish=False, n_steps=20).solution for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef, second.dual_coef)
    np.testing.assert_array_equal(signal, before)
    other = discover(points, signal, polish=False, n_steps=20, random_state=np.random.RandomState(3)).solution
    assert other.certificate.primal != first.certificate.primal


def test_centered_powers_need_columns(points: np.ndarray, signal: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="normalize='centered' needs base kernels that are linear"):
        discover_polynomial(SearchProblem(points, signal, strength=1.0), base=Gaussian(1.0), normalize="centered")


BAD = [
    ({"normalize": "trace"}, "normalize must be 'power', 'centered' or None, got 'trace'"),
    ({"degree": 0}, "degree must be an integer of at least 1"),
    ({"p": 2.5}, r"p must lie between 1 and 2, got 2.5"),
    ({"p": 0.5}, "p must be at least 1"),
    ({"strength": -1.0}, "strength"),
    ({"degree_penalties": [1.0, -1.0, 1.0]}, "degree_penalties"),
    ({"n_steps": 0}, "n_steps must be an integer of at least 1"),
    ({"max_kernels": 0}, "max_kernels must be"),
    ({"step_size": 0.0}, "step_size must be"),
    ({"base": []}, "needs at least one base kernel"),
    ({"base": [(Linear(), (9,))]}, "column position 9, but it has 4"),
    ({"base": [Linear()]}, r"pair \(kernel, column positions\)"),
    ({"loss": "square"}, "square"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_explained(points: Any, signal: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        discover(points, signal, **change)


def test_missing_values_are_refused(points: np.ndarray, signal: np.ndarray) -> None:
    broken = points.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InvalidInputError, match="points contains 1 NaN"):
        discover(broken, signal)


def test_an_interrupt_inside_a_restricted_solve_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner solver returns its best model after Ctrl-C; the search must not go on from it."""
    runs: list[int] = []

    def interrupted(self: Any, problem: Any, state: Any) -> None:
        runs.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkingSet, "step", interrupted)
    X = np.random.default_rng(0).normal(size=(40, 4))
    found = discover_polynomial(
        SearchProblem(X, X[:, 0] * X[:, 1], strength=0.1), p=1.0, random_state=0, limits=Limits(tol=1e-6)
    )
    assert found.solution.status is Status.INTERRUPTED
    assert len(runs) == 1
