"""The support kernel machine: its smoothed dual, its steps, its cache, its weights, and its case of one kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, brentq, minimize_scalar
from sklearn.svm import SVC
from tests.support.conic import proved_value

from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.regularizers import BlockL1, Simplex
from manykernels.papers.solvers.skm import SupportKernelMachine
from manykernels.papers.solvers.skm_descent import (
    EQUAL_SHARES,
    NO_CENTER,
    Descent,
    RowCache,
    UnitKernels,
    epsilon_optimality,
    smoothed_dual,
    sparser_weights,
)
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.learners.pair_loops import MISSING, slope_at, smoothed_step, smoothed_weights, threshold
from manykernels.solvers.learners.smo_svm import smo_svm
from manykernels.solvers.solution import IterationRecord
from manykernels.testing.problems import SmallProblem, random_problem
from manykernels.testing.solver import build_problem

KAPPAS = (1.0, 0.7, 0.25, 1e-2)


def small_hinge(seed: int, **changes: object) -> SmallProblem:
    return replace(random_problem(seed, loss="hinge", regularizer="simplex", weighted=True), **changes)


def gaussian_problem(n_samples: int = 60, n_kernels: int = 8, constant: float = 10.0) -> Problem:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n_samples, 4))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n_samples) > 0.8, 1.0, -1.0)
    columns = [rng.choice(4, rng.integers(1, 4), replace=False) for _ in range(n_kernels)]
    squares = [((X[:, None, c] - X[None, :, c]) ** 2).sum(-1) for c in columns]
    kernels = np.stack([np.exp(-d / (2 * rng.uniform(0.5, 2.0) ** 2)) for d in squares])
    return Problem(kernels, y, get_loss("hinge"), Simplex(1.0 / constant))


def objective(norms: np.ndarray, h: float, kappa: float) -> float:
    """``G + alpha'e`` before the minimization over h, for kappa below one."""
    return h**2 / (2 * (1 - kappa) ** 2) + float((np.maximum(norms - h, 0) ** 2).sum()) / (2 * kappa**2)


def weights_of(norms: np.ndarray, center: np.ndarray, constant: float, shares: np.ndarray = EQUAL_SHARES) -> np.ndarray:
    eta, u, c = (np.empty_like(norms) for _ in range(3))
    smoothed_weights(norms**2, center, shares, constant, eta, u, c)
    return eta


# --- the smoothed dual ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", KAPPAS[1:])
def test_minimum_over_the_threshold_against_a_search(kappa: float, rng: np.random.Generator) -> None:
    for size in (1, 2, 30):
        norms = np.append(rng.exponential(size=size), 0.0)
        found = smoothed_dual(norms, kappa)
        search = minimize_scalar(
            lambda h, q: objective(q, h, kappa), args=(norms,), bounds=(0, norms.max()), options={"xatol": 1e-12}
        )
        assert found.value <= search.fun * (1 + 1e-12)
        assert found.value == pytest.approx(objective(norms, found.threshold, kappa), rel=1e-12)
        assert found.value == pytest.approx(search.fun, rel=1e-8)


def test_at_kappa_one_it_is_the_sum_of_the_kernels(rng: np.random.Generator) -> None:
    norms = rng.exponential(size=7)
    found = smoothed_dual(norms, 1.0)
    assert found.value == pytest.approx(0.5 * norms @ norms)
    np.testing.assert_allclose(found.gradient_weights, 1.0)


def test_at_small_kappa_it_is_the_maximum(rng: np.random.Generator) -> None:
    norms = rng.exponential(size=7)
    assert smoothed_dual(norms, 1e-5).value == pytest.approx(0.5 * norms.max() ** 2, rel=1e-4)


def test_ties_and_zeros() -> None:
    found = smoothed_dual([2.0, 2.0, 0.0], 0.5)
    np.testing.assert_allclose(found.weights, [0.5, 0.5, 0.0])
    nothing = smoothed_dual([0.0, 0.0], 0.5)
    assert (nothing.value, nothing.threshold, nothing.weights.sum()) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_compiled_weights_are_those_of_the_sort(kappa: float, rng: np.random.Generator) -> None:
    for size in (1, 3, 200):
        norms = rng.exponential(size=size)
        expected = smoothed_dual(norms, kappa)
        np.testing.assert_allclose(
            weights_of(norms, NO_CENTER, kappa), expected.gradient_weights, rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("kappa", KAPPAS)
def test_gradient_against_differences(kappa: float, rng: np.random.Generator) -> None:
    factors = rng.normal(size=(5, 12, 3))
    kernels, rho = factors @ factors.transpose(0, 2, 1), rng.normal(size=12)

    def value(r: np.ndarray) -> float:
        return smoothed_dual(np.sqrt(np.einsum("i,mij,j->m", r, kernels, r)), kappa).value

    products = kernels @ rho
    analytic = smoothed_dual(np.sqrt(products @ rho), kappa).gradient_weights @ products
    np.testing.assert_allclose(analytic, approx_fprime(rho, value, 1e-7), rtol=1e-4, atol=1e-4 * np.abs(analytic).max())


@pytest.mark.parametrize("kappa", KAPPAS)
def test_paper_weights_sum_to_one(kappa: float, rng: np.random.Generator) -> None:
    norms, penalties = rng.exponential(size=9), rng.uniform(0.5, 2.0, 9)
    found = smoothed_dual(norms / penalties, kappa)
    eta = found.weights / penalties**2
    assert penalties**2 @ eta == pytest.approx(1.0)
    if kappa < 1:
        # The paper: eta_j = (gamma_j - g)_+ / (a_j^2 g) with d_j = 1 - kappa times the penalty, a_j = kappa times it.
        d, a = (1 - kappa) * penalties, kappa * penalties
        gamma, g = norms / d, found.threshold / (1 - kappa)
        paper = np.maximum(gamma - g, 0) / (a**2 * g)
        assert d**2 @ paper == pytest.approx(1.0, rel=1e-6)
        np.testing.assert_allclose(paper * (1 - kappa) ** 2, eta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("sigma", [0.1, 10.0, 1e4])
def test_multiplier_weights_maximize_over_the_simplex(sigma: float, rng: np.random.Generator) -> None:
    norms, center = rng.uniform(0.8, 1.0, size=6), rng.dirichlet(np.ones(6))
    eta = weights_of(norms, center, sigma)
    assert eta.min() >= 0
    assert eta.sum() == pytest.approx(1.0, abs=1e-9)
    slopes = 0.5 * norms**2 - (eta - center) / sigma
    # Optimal on the simplex: equal slopes where the weight is positive, none larger elsewhere.
    assert np.ptp(slopes[eta > 0]) <= 1e-9
    assert slopes.max() <= slopes[eta > 0].max() + 1e-12


@pytest.mark.timeout(60)
def test_a_term_equal_to_the_threshold_does_not_come_and_go_for_ever() -> None:
    """Rounding kept this third term in and left it out by turns, without end."""
    x, slope = np.array([1.8421257644769597, 1.870834779466437, 1.8377279459921867]), (0.125 / 0.875) ** 2
    h = threshold(x, EQUAL_SHARES, slope, 0.0)
    assert np.maximum(x - h, 0).sum() == pytest.approx(slope * h, rel=1e-12)


def test_threshold_solves_its_equation(rng: np.random.Generator) -> None:
    x = rng.normal(size=50) ** 2
    for slope, offset in ((0.0, 1.0), (0.3, 0.0), (5.0, 0.0)):
        h = threshold(x, EQUAL_SHARES, slope, offset)
        assert np.maximum(x - h, 0).sum() == pytest.approx(slope * h + offset)


# --- the step ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("center", "constant", "shares"),
    [
        (NO_CENTER, 0.3, EQUAL_SHARES),
        (NO_CENTER, 1.0, EQUAL_SHARES),
        (NO_CENTER, 0.3, np.array([0.1, 1.0, 5.0, 0.5])),
        (np.full(4, 0.25), 50.0, EQUAL_SHARES),
    ],
)
def test_the_step_is_the_root_of_the_derivative(
    center: np.ndarray, constant: float, shares: np.ndarray, rng: np.random.Generator
) -> None:
    for _ in range(20):
        factors, rho, way = rng.normal(size=(4, 6, 6)), rng.normal(size=6), rng.normal(size=6)
        kernels = factors @ factors.transpose(0, 2, 1)
        squares, linear, curvature = (
            np.einsum("i,mij,j->m", a, kernels, b) for a, b in ((rho, rho), (rho, way), (way, way))
        )

        def slope(t: float) -> float:
            norms = np.sqrt(squares + 2 * t * linear + t**2 * curvature)  # noqa: B023
            return float(weights_of(norms, center, constant, shares) @ (linear + t * curvature) - gain)  # noqa: B023

        gain = 0.0
        gain = slope(0.0) + 1.0
        line = squares, linear, curvature, gain, center, shares, constant
        root = brentq(slope, 0.0, 1e6, xtol=1e-14)
        assert smoothed_step(10.0 * root, *line, 1e-12) == pytest.approx(root, rel=1e-8)
        assert smoothed_step(0.5 * root, *line, 1e-12) == 0.5 * root
        first, second = slope_at(0.7 * root, *line)
        assert first == pytest.approx(slope(0.7 * root), rel=1e-9, abs=1e-12)
        h = 1e-6 * root
        assert second == pytest.approx((slope(0.7 * root + h) - slope(0.7 * root - h)) / (2 * h), rel=1e-3)


def test_no_step_uphill() -> None:
    one = np.ones(1)
    assert smoothed_step(5.0, one, one, one, 0.5, NO_CENTER, EQUAL_SHARES, 1.0, 1e-9) == 0.0


# --- the descent ---------------------------------------------------------------------------------------------------


def test_pairs_reach_the_minimum_of_the_smoothed_dual() -> None:
    problem = gaussian_problem()
    descent = Descent(UnitKernels(problem, np.arange(8)), np.zeros(60), 2**20, True)
    assert descent.minimize(NO_CENTER, 0.3, 1e-9, 10**6) <= 1e-9
    kernels, (lo, hi) = 10.0 * problem.stack.block(), problem.dual_box

    def value(rho: np.ndarray) -> float:
        return smoothed_dual(np.sqrt(np.einsum("i,mij,j->m", rho, kernels, rho)), 0.3).value - problem.y @ rho

    least = value(descent.rho)
    assert descent.rho.sum() == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            other = project_box_hyperplane(descent.rho + size * rng.normal(size=60), lo, hi)
            assert value(other) >= least


@pytest.mark.parametrize("kappa", [0.3, 0.8])
def test_the_problem_with_free_constants_against_cvxpy(kappa: float) -> None:
    """The paper's regularized problem, ``1/2 (sum d_j |w_j|)^2 + 1/2 sum a_j^2 |w_j|^2 + C sum xi``, any ``a_j``."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(7)
    factors = rng.normal(size=(5, 14, 3))
    y = np.where(factors[0, :, 0] + 0.5 * rng.normal(size=14) > 0, 1.0, -1.0)
    problem = Problem(factors @ factors.transpose(0, 2, 1), y, "hinge", Simplex(0.5))
    free = rng.uniform(0.3, 3.0, size=5)
    descent = Descent(UnitKernels(problem, np.arange(5)), np.zeros(14), 2**20, True, free**-2.0)
    assert descent.minimize(NO_CENTER, kappa, 1e-9, 10**6) <= 1e-9
    dual = y @ descent.rho - smoothed_dual(np.sqrt(descent.squares), kappa, free).value

    blocks, b = [cp.Variable(3) for _ in range(5)], cp.Variable()
    norms = np.sqrt(0.5) * cp.hstack([cp.norm(block) for block in blocks])  # of kernels over the strength
    margins = cp.multiply(y, sum(factor @ block for factor, block in zip(factors, blocks, strict=True)) + b)
    penalty = (1 - kappa) ** 2 * cp.square(cp.sum(norms)) + kappa**2 * cp.sum_squares(cp.multiply(free, norms))
    primal = proved_value(cp.Problem(cp.Minimize(penalty / 2 + cp.sum(cp.pos(1 - margins)))))
    assert dual == pytest.approx(primal, rel=1e-6)


def test_free_constants_shape_the_way_and_not_the_optimum() -> None:
    problem = gaussian_problem()
    plain = SupportKernelMachine(tol=1e-8).solve(problem)
    free = tuple(np.random.default_rng(0).uniform(0.3, 3.0, size=8))
    found = SupportKernelMachine(tol=1e-8, smoothing=free).solve(problem)
    assert found.certificate.relative_gap <= 1e-8
    assert found.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-8)
    halfway = [SupportKernelMachine(max_iter=2, smoothing=own) for own in (None, free)]
    with pytest.warns(ConvergenceWarning):
        early = [solver.solve(problem).kernel_weights for solver in halfway]
    assert not np.allclose(*early, rtol=1e-3)
    pairs = SupportKernelMachine(tol=1e-3, newton=False, smoothing=free).solve(problem)  # as published
    assert pairs.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize(
    ("smoothing", "words"), [((1.0, 0.0), "positive"), ((1.0, -1.0), "smoothing"), ((1.0, 2.0), "2 factors")]
)
def test_free_constants_are_checked(smoothing: tuple[float, ...], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        SupportKernelMachine(smoothing=smoothing).solve(gaussian_problem())


def test_shrinking_changes_nothing_in_the_result() -> None:
    problem = gaussian_problem(n_samples=120, constant=1.0)
    found = [SupportKernelMachine(tol=1e-9, shrinking=shrinking).solve(problem) for shrinking in (True, False)]
    np.testing.assert_allclose(found[0].kernel_weights, found[1].kernel_weights, atol=1e-6)
    np.testing.assert_allclose(found[0].certificate.primal, found[1].certificate.primal, rtol=2e-9)


def test_shrinking_leaves_samples_out_on_the_way() -> None:
    problem = gaussian_problem(n_samples=120, constant=1.0)
    descent = Descent(UnitKernels(problem, np.arange(8)), np.zeros(120), 2**24, True)
    descent.minimize(NO_CENTER, 0.5, 1e-3, 10**6)
    grad = descent.weights(NO_CENTER, 0.5)[1]
    assert descent._shrunk(grad, np.arange(120)).size < 90


@pytest.mark.parametrize("rows", [1, 3, 10**6])
def test_the_cache_keeps_its_bounds_and_the_result(rows: int) -> None:
    problem = gaussian_problem()
    row_bytes = 8 * 8 * 60
    kernels = UnitKernels(problem, np.arange(8))
    cache = RowCache(kernels, rows * row_bytes)
    assert cache.rows.shape[0] == min(max(rows, 2), 60)
    for i in (4, 5, 6, 4, 7):
        if cache.slots[i] == MISSING:
            cache.fetch(i)
        np.testing.assert_allclose(cache.rows[cache.slots[i]], 10.0 * problem.stack.block([i])[:, 0])
    assert np.count_nonzero(cache.slots != MISSING) <= cache.rows.shape[0]
    solution = SupportKernelMachine(tol=1e-6, cache_bytes=rows * row_bytes).solve(problem)
    assert solution.certificate.relative_gap <= 1e-6


def test_a_small_cache_fetches_again() -> None:
    problem = gaussian_problem()
    fetched = []
    for most_bytes in (2 * 8 * 8 * 60, 2**24):
        descent = Descent(UnitKernels(problem, np.arange(8)), np.zeros(60), most_bytes, False)
        descent.minimize(NO_CENTER, 0.5, 1e-4, 10**5)
        fetched.append(descent.cache.fetched)
    assert fetched[1] <= 60 < fetched[0]


def test_newton_and_pairs_agree_on_the_multiplier_problem() -> None:
    problem = gaussian_problem(constant=1.0)
    center = np.full(8, 1 / 8)
    both = [Descent(UnitKernels(problem, np.arange(8)), np.zeros(60), 2**24, True) for _ in range(2)]
    for descent in both:
        descent.minimize(center, 1.0, 1e-2, 10**6)
    both[0].minimize(center, 1.0, 1e-10, 10**7)
    both[1].newton(center, 1.0, 1e-12)
    both[1].minimize(center, 1.0, 1e-10, 10**7)
    assert both[1].newton_steps > 0
    np.testing.assert_allclose(both[0].rho, both[1].rho, atol=1e-7)


# --- the solver ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_reaches_the_optimum_of_the_interior_point(seed: int, fit_intercept: bool) -> None:
    problem = build_problem(small_hinge(seed, fit_intercept=fit_intercept))
    solution = SupportKernelMachine(tol=1e-8).solve(problem)
    assert solution.certificate.primal == pytest.approx(
        InteriorPoint(tol=1e-8).solve(problem).certificate.primal, rel=2e-8
    )


@pytest.mark.parametrize("constant", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("change", ["duplicates", "equal", "dominant", "zero"])
def test_nasty_kernels(change: str, constant: float) -> None:
    plain = gaussian_problem(constant=constant)
    kernels = plain.stack.block()
    kernels[4:] = {"duplicates": kernels[:4], "equal": kernels[4:], "dominant": 1e6 * kernels[4:], "zero": 0.0}[change]
    kernels[:] = kernels[0] if change == "equal" else kernels
    problem = replace(plain, stack=kernels)
    assert SupportKernelMachine(tol=1e-6).solve(problem).certificate.relative_gap <= 1e-6


def test_the_algorithm_of_the_paper_alone() -> None:
    problem = gaussian_problem(constant=0.1)
    solution = SupportKernelMachine(newton=False, tol=2e-2).solve(problem)
    assert solution.newton_steps == 0
    assert solution.certificate.relative_gap <= 2e-2


def test_a_stage_that_pairs_cannot_finish_ends_once_its_weights_are_good_enough() -> None:
    """To the letter of the paper, late stages take thousands of rounds; the gap is small long before they end."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for x in X.T for width in (0.5, 1.0, 2.0)])
    y = np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=120))
    problem = Problem(kernels, y, "hinge", Simplex(0.1))
    solution = SupportKernelMachine(newton=False, rescale=False, tol=5e-2, max_iter=100).solve(problem)
    assert solution.n_iter < 20
    assert solution.certificate.relative_gap <= 5e-2


def test_smoothing_falls_with_kappa() -> None:
    gaps = []
    for kappa in (0.25, 0.05):
        problem = gaussian_problem(constant=0.1)
        descent = Descent(UnitKernels(problem, np.arange(8)), np.zeros(60), 2**24, True)
        descent.minimize(NO_CENTER, kappa, 1e-6, 10**6)
        eta = smoothed_dual(np.sqrt(descent.squares), kappa).weights
        primal, dual = descent.bounds(eta)
        gaps.append((primal - dual) / primal)
    assert gaps[1] < 0.4 * gaps[0]


def stage_gap(problem: Problem, kappa: float, *, rescale: bool) -> float:
    """Relative gap after the stage at ``kappa``, each stage solved closely."""
    gaps: list[float] = []
    stages = round(-np.log2(kappa)) + 1

    def count(record: IterationRecord) -> bool:
        gaps.append(record.relative_gap)
        return len(gaps) > stages

    SupportKernelMachine(newton=False, rescale=rescale, tol=1e-6, callback=count).solve(problem)
    return gaps[-1]


@pytest.mark.filterwarnings("ignore:Solver 'skm' stopped")
def test_rescaled_stages_leave_an_error_of_second_order() -> None:
    """A quarter of ``kappa`` divides the gap by about sixteen; to the letter of the paper by about four."""
    problem = gaussian_problem()
    exact = [stage_gap(problem, kappa, rescale=True) for kappa in (1 / 8, 1 / 32)]
    literal = [stage_gap(problem, kappa, rescale=False) for kappa in (1 / 8, 1 / 32)]
    assert exact[0] / exact[1] > 10
    assert 2 < literal[0] / literal[1] < 6
    assert exact[0] < 0.1 * literal[0]


def test_a_shrunk_box_returns_to_itself() -> None:
    problem = gaussian_problem()
    descent = Descent(UnitKernels(problem, np.arange(8)), np.zeros(60), 2**24, True)
    descent.minimize(NO_CENTER, 0.5, 1e-4, 10**5)
    rho, low, high = descent.rho.copy(), *problem.dual_box
    descent.shrink_box(0.3)
    np.testing.assert_allclose(descent.rho, 0.3 * rho, rtol=1e-14)
    np.testing.assert_allclose(descent.squares, 0.09 * np.einsum("i,mij,j->m", rho, 10 * problem.stack.block(), rho))
    descent.shrink_box(1.0)
    np.testing.assert_allclose(descent.rho, rho, rtol=1e-14)
    assert ((low <= descent.rho) & (descent.rho <= high)).all()
    for bound in (low, high):
        assert np.any(rho == bound)
        np.testing.assert_array_equal(descent.rho == bound, rho == bound)


def test_kernels_that_cannot_matter_leave_and_come_back() -> None:
    problem = gaussian_problem(n_kernels=40)
    solver = SupportKernelMachine(tol=1e-8)
    state = solver.initialize(problem, (np.zeros(60), np.zeros(40), 0.0))
    sizes = []
    for _ in range(4):
        solver.step(problem, state)
        solver.observe(problem, state, problem.certificate(*solver.extract(problem, state)))
        sizes.append(state.descent.squares.size)
    assert sizes[0] == 40
    assert sizes[-1] < 30
    state.norms[:] = 2.0 * state.norms.max()
    assert solver._revised(problem, state).squares.size == 40


@pytest.mark.parametrize("name", ["kappa_factor", "smallest_kappa", "cache_bytes"])
def test_parameters_are_checked(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        SupportKernelMachine(**{name: -1}).solve(gaussian_problem())


def test_kappa_must_fall() -> None:
    with pytest.raises(InvalidInputError, match="below 1"):
        SupportKernelMachine(kappa_factor=1.0).solve(gaussian_problem())


# --- optimality and sparsity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_epsilon_optimality_bounds_the_gap(seed: int) -> None:
    problem = build_problem(small_hinge(seed))
    for tol in (0.3, 1e-2, 1e-6):
        solution = SupportKernelMachine(tol=tol).solve(problem)
        found = epsilon_optimality(problem, solution.dual_coef, solution.kernel_weights)
        assert solution.certificate.gap <= found.bound * (1 + 1e-9) + 1e-12 * problem.loss_at_zero
    assert found.bound <= 1e-3 * problem.loss_at_zero


@pytest.mark.parametrize("seed", range(4))
def test_the_stopping_rule_of_the_paper_ends_a_run(seed: int) -> None:
    problem = build_problem(small_hinge(seed))
    unit = problem.n_samples * problem.regularizer.strength
    exact = SupportKernelMachine(tol=1e-8).solve(problem)
    loose = SupportKernelMachine(tol=1e-8, epsilons=(5e-2, 1e-2)).solve(problem)
    found = epsilon_optimality(problem, loose.dual_coef, loose.kernel_weights)
    assert loose.status == "converged"
    assert found.eps1 <= 5e-2 * unit
    assert found.eps2 <= 1e-2
    assert loose.certificate.gap <= found.bound * (1 + 1e-9) + 1e-12 * problem.loss_at_zero
    assert loose.n_iter <= exact.n_iter
    if loose.certificate.relative_gap > 1e-8:
        assert "its own rule" in loose.message


@pytest.mark.parametrize("epsilons", [(1e-3,), (1e-3, -1.0), 1e-3])
def test_wrong_epsilons_are_named(epsilons: object) -> None:
    with pytest.raises(InvalidInputError, match="epsilons"):
        SupportKernelMachine(epsilons=epsilons)


def test_epsilon_optimality_in_plain_numpy() -> None:
    problem = gaussian_problem()
    solution = InteriorPoint(tol=1e-3).solve(problem)
    rho, d = problem.feasible_dual(solution.dual_coef), solution.kernel_weights
    kernels, (lo, hi) = problem.stack.block(), problem.dual_box
    values = 5.0 * np.einsum("i,mij,j->m", rho, kernels, rho)
    grad = np.einsum("m,mij,j->i", d, kernels, rho) - problem.y
    found = epsilon_optimality(problem, rho, d)
    assert found.eps1 == pytest.approx(values.max() - values[d > 0].min())
    assert found.eps2 == pytest.approx(0.5 * (grad[rho > lo].max() - grad[rho < hi].min()))


def test_epsilon_optimality_needs_its_problem() -> None:
    problem = replace(gaussian_problem(), regularizer=BlockL1(1.0))
    with pytest.raises(IncompatibleError, match="simplex"):
        epsilon_optimality(problem, np.zeros(60), np.zeros(8))


def test_linear_programs_remove_duplicates_and_keep_optimality() -> None:
    plain = gaussian_problem()
    kernels = np.concatenate([plain.stack.block(), plain.stack.block()])
    problem = replace(plain, stack=kernels, kernel_penalties=None)
    full = SupportKernelMachine(tol=1e-6).solve(problem)
    sparse = SupportKernelMachine(tol=1e-6, sparsify=True).solve(problem)
    single = SupportKernelMachine(tol=1e-6).solve(plain)
    assert full.active.size > single.active.size >= sparse.active.size
    assert sparse.certificate.relative_gap <= 1e-6
    assert np.unique(sparse.active % 8).size == sparse.active.size


def test_weights_that_are_needed_stay() -> None:
    products = np.array([[-1.0, 0.0], [0.0, 1.0]])
    y, rho, box = np.array([-0.5, 0.5]), np.array([-0.5, 0.5]), (np.array([-1.0, 0.0]), np.array([0.0, 1.0]))
    eta = np.array([0.5, 0.5])
    kept = sparser_weights(products, y, rho, box, eta, 1e-9, fit_intercept=False)
    np.testing.assert_array_equal(kept, eta)


# --- one kernel ----------------------------------------------------------------------------------------------------


def svm_data(n_samples: int = 150) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n_samples, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_samples) > 0.2, 1.0, -1.0)
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 2), y


def svc(gram: np.ndarray, y: np.ndarray, constant: float, weight: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    fitted = SVC(C=constant, kernel="precomputed", tol=1e-10).fit(gram, y, sample_weight=weight)
    alpha = np.zeros(y.size)
    alpha[fitted.support_] = np.abs(fitted.dual_coef_[0])
    return alpha, float(fitted.intercept_[0])


def svm_objective(gram: np.ndarray, y: np.ndarray, alpha: np.ndarray) -> float:
    return 0.5 * (alpha * y) @ gram @ (alpha * y) - alpha.sum()


@pytest.mark.parametrize("constant", [0.01, 1.0, 100.0])
def test_one_kernel_is_svc(constant: float) -> None:
    gram, y = svm_data()
    alpha, b = smo_svm(gram, y, constant, tol=1e-9)
    expected, intercept = svc(gram, y, constant)
    # LIBSVM rounds the kernel to single precision: coefficients of a nearly singular matrix feel that, scores do not.
    np.testing.assert_allclose(gram @ (y * alpha), gram @ (y * expected), atol=1e-6 * max(constant, 1.0))
    assert svm_objective(gram, y, alpha) == pytest.approx(svm_objective(gram, y, expected), rel=1e-6)
    assert svm_objective(gram, y, alpha) <= svm_objective(gram, y, expected) + 1e-9 * alpha.sum()
    assert b == pytest.approx(intercept, abs=1e-6 * max(constant, 1.0))
    assert y @ alpha == pytest.approx(0.0, abs=1e-10 * constant)


def test_kappa_one_is_svc_on_the_sum() -> None:
    problem = gaussian_problem()
    solver = SupportKernelMachine(tol=1e-9)
    state = solver.initialize(problem, (np.zeros(60), np.zeros(8), 0.0))
    state.kappa = 1e-7  # what the tolerance of this stage is proportional to
    solver._solve_sum(problem, state)
    total = 10.0 * problem.stack.block().sum(axis=0)
    expected, _ = svc(total, problem.y, 1.0)
    found, best = (svm_objective(total, problem.y, alpha) for alpha in (np.abs(state.rho), expected))
    assert found == pytest.approx(best, rel=1e-6)
    assert found <= best + 1e-9


def test_constants_per_sample() -> None:
    gram, y = svm_data()
    sizes = np.random.default_rng(2).uniform(0.1, 3.0, y.size)
    alpha, _ = smo_svm(gram, y, sizes, tol=1e-9)
    np.testing.assert_allclose(alpha, svc(gram, y, 1.0, sizes)[0], atol=1e-6)


def test_without_an_intercept() -> None:
    gram, y = svm_data()
    alpha, b = smo_svm(gram, y, 1.0, tol=1e-9, fit_intercept=False)
    grad = gram @ (y * alpha) - y
    assert b == 0.0
    assert (y * grad)[alpha == 0].min() >= -1e-8
    assert (y * grad)[alpha == 1.0].max() <= 1e-8
    assert np.abs(grad[(alpha > 0) & (alpha < 1)]).max() <= 1e-8


def test_a_warm_start_gives_the_same_and_saves_steps() -> None:
    gram, y = svm_data()
    alpha, b = smo_svm(gram, y, 10.0, tol=1e-9)
    near = gram * (1 + 1e-4)
    with pytest.warns(ConvergenceWarning, match="max_steps"):
        smo_svm(near, y, 10.0, tol=1e-3, max_steps=40)
    again, shifted = smo_svm(near, y, 10.0, alpha, 1e-3, max_steps=40)
    assert svm_objective(gram, y, again) == pytest.approx(svm_objective(gram, y, alpha), rel=1e-3)
    assert shifted == pytest.approx(b, abs=1e-2)


def test_an_infeasible_warm_start_is_mended() -> None:
    gram, y = svm_data()
    alpha, _ = smo_svm(gram, y, 1.0, np.full(y.size, 50.0), 1e-9)
    np.testing.assert_allclose(alpha, smo_svm(gram, y, 1.0, tol=1e-9)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"gram": np.ones((3, 2))}, "shape"),
        ({"y": [1.0, 2.0, 1.0]}, "label"),
        ({"C": -1.0}, "C must be"),
        ({"C": [1.0, 0.0, 1.0]}, "C must be positive"),
        ({"warm": [0.0]}, "warm"),
        ({"tol": 0.0}, "tol"),
        (
            {"gram": np.diag([1.0, np.nan, 1.0])},
            r"gram contains 1 NaN .* first at index \(1, 1\)",
        ),
        ({"gram": np.full((3, 3), np.inf)}, "gram contains 9 NaN"),
        ({"gram": [["a", "b"], ["c", "d"]]}, "gram must hold real numbers"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_svm_input_is_checked(changes: dict[str, object], match: str) -> None:
    given: dict[str, object] = {"gram": np.eye(3), "y": [1.0, -1.0, 1.0], "C": 1.0, **changes}
    with pytest.raises(InvalidInputError, match=match):
        smo_svm(**given)


def test_svm_leaves_its_arguments_alone() -> None:
    gram, y = svm_data()
    warm = np.full(y.size, 0.1)
    copies = gram.copy(), y.copy(), warm.copy()
    smo_svm(gram, y, 1.0, warm)
    for array, copy in zip((gram, y, warm), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
