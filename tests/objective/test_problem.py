"""The problem and its certificate, recomputed in plain NumPy, against closed forms and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from manykernels.exceptions import InvalidInputError
from manykernels.grams import as_stack
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import LOSSES
from manykernels.objective.problem import Problem
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.regularizers import REGULARIZERS, BlockL1, ElasticNet, Ridge, Simplex


def make_kernels(rng, n_kernels=4, n_samples=12):
    factors = rng.normal(size=(n_kernels, n_samples, n_samples // 2))
    return factors @ factors.transpose(0, 2, 1) / n_samples


def make_target(rng, task, n_samples=12):
    return np.where(np.arange(n_samples) % 3, 1.0, -1.0) if task == "classification" else rng.normal(size=n_samples)


def make_problem(rng, loss="logistic", regularizer=None, weighted=True, **options):
    kernels = make_kernels(rng)
    if weighted:
        options |= {"sample_weight": rng.uniform(0.2, 3.0, 12), "kernel_penalties": rng.uniform(0.5, 2.0, 4)}
    y = make_target(rng, LOSSES[loss].task)
    y = y if LOSSES[loss].support == "real" else np.abs(y)
    return kernels, Problem(kernels, y, loss, regularizer or BlockL1(0.3), **options)


def make_model(rng, problem, scale=1.0):
    rho = scale * rng.normal(size=problem.n_samples)
    d = rng.uniform(size=problem.n_kernels) * (rng.random(problem.n_kernels) < 0.7)
    return rho, d, float(rng.normal()) if problem.fit_intercept else 0.0


def test_certificate_in_ten_lines_of_numpy(rng) -> None:
    """Logistic loss, block 1-norm, sample weights, kernel penalties, no intercept."""
    K, problem = make_problem(rng, fit_intercept=False)
    rho, d, _ = make_model(rng, problem)
    y, s, w, C = problem.y, problem.sample_weight, problem.kernel_penalties, 0.3
    f = sum(d[m] * K[m] @ rho for m in range(4))
    norms = [np.sqrt(d[m] ** 2 * rho @ K[m] @ rho) for m in range(4)]
    primal = s @ np.log1p(np.exp(-y * f)) + C * w @ norms
    p = np.clip(y * rho / s, 0, 1)
    p = p / max(1, max(np.sqrt((s * p * y) @ K[m] @ (s * p * y)) / (C * w[m]) for m in range(4)))
    dual = -s @ np.array([a * np.log(a) + (1 - a) * np.log(1 - a) if 0 < a < 1 else 0.0 for a in p])
    certificate = problem.certificate(rho, d, 0.0)
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert certificate.dual == pytest.approx(dual, rel=1e-12)
    assert certificate.relative_gap == pytest.approx((primal - dual) / primal, rel=1e-12)


def test_certificate_with_an_intercept_in_numpy(rng) -> None:
    """Squared loss and elastic net: the projection on a zero sum is a weightless mean, as there is no box."""
    K, problem = make_problem(rng, "squared", ElasticNet(0.3, l1_ratio=0.4))
    rho, d, b = make_model(rng, problem)
    y, s, w = problem.y, problem.sample_weight, problem.kernel_penalties
    z = sum(d[m] * K[m] @ rho for m in range(4)) + b
    t = np.array([w[m] * d[m] * np.sqrt(rho @ K[m] @ rho) for m in range(4)])
    primal = s @ (z - y) ** 2 / 2 + 0.3 * np.sum(0.4 * t + 0.6 * t**2 / 2)
    rho0 = rho - rho.mean()
    u = np.array([np.sqrt(rho0 @ K[m] @ rho0) / w[m] for m in range(4)])
    dual = -np.sum(rho0**2 / (2 * s) - y * rho0) - np.sum(np.maximum(u - 0.12, 0) ** 2) / (2 * 0.18)
    certificate = problem.certificate(rho, d, b)
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert certificate.dual == pytest.approx(dual, rel=1e-11)


@given(
    loss=st.sampled_from(sorted(LOSSES)),
    kind=st.sampled_from(sorted(REGULARIZERS)),
    intercept=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 10_000),
    exponent=st.integers(-3, 3),
)
def test_weak_duality_and_the_parts_of_the_gap(loss, kind, intercept, weighted, seed, exponent) -> None:
    rng = np.random.default_rng(seed)
    regularizer = REGULARIZERS[kind](float(rng.uniform(0.05, 3.0)))
    _, problem = make_problem(rng, loss, regularizer, weighted, fit_intercept=intercept)
    rho, d, b = make_model(rng, problem, 10.0**exponent)
    other = make_model(rng, problem)
    certificate = problem.certificate(rho, d, b)
    assert problem.primal(*other) >= problem.dual(rho) - 1e-9 * abs(problem.dual(rho))
    assert problem.primal(rho, d, b) == pytest.approx(certificate.primal, rel=1e-12)
    assert problem.dual(rho) == pytest.approx(certificate.dual, rel=1e-12)
    parts = certificate.kkt.stationarity + certificate.kkt.complementarity
    assert parts == pytest.approx(certificate.relative_gap, rel=1e-8, abs=1e-10)
    assert min(certificate.kkt.to_dict().values()) >= -1e-10


@given(
    loss=st.sampled_from(sorted(LOSSES)),
    kind=st.sampled_from(["l1", "elasticnet"]),
    intercept=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_the_zero_model_is_optimal_at_strength_max(loss, kind, intercept, seed) -> None:
    rng = np.random.default_rng(seed)
    kernels, problem = make_problem(rng, loss, REGULARIZERS[kind](1.0), fit_intercept=intercept)
    for factor, optimal in [(1 + 1e-9, True), (0.8, False)]:
        posed = Problem(
            kernels,
            problem.y,
            loss,
            REGULARIZERS[kind](factor * problem.strength_max()),
            fit_intercept=intercept,
            sample_weight=problem.sample_weight,
            kernel_penalties=problem.kernel_penalties,
        )
        rho, b = posed.zero_model()
        assert (posed.certificate(rho, np.zeros(4), b).relative_gap < 1e-10) == optimal


@pytest.mark.parametrize("intercept", [False, True])
def test_kernel_ridge_regression_has_no_gap(intercept, rng) -> None:
    """Squared loss and ridge, solved by one bordered linear system; weights and penalties included."""
    K, problem = make_problem(rng, "squared", Ridge(0.7), fit_intercept=intercept)
    s, w = problem.sample_weight, problem.kernel_penalties
    d = 1 / (0.7 * w**2)
    system = np.einsum("m,mij->ij", d, K) + np.diag(1 / s)
    if intercept:
        border = np.ones((12, 1))
        system = np.block([[system, border], [border.T, np.zeros((1, 1))]])
    solution = np.linalg.solve(system, np.append(problem.y, 0.0) if intercept else problem.y)
    rho, b = solution[:12], float(solution[12]) if intercept else 0.0
    certificate = problem.certificate(rho, d, b)
    assert abs(certificate.gap) <= 1e-12 * certificate.primal
    assert max(certificate.kkt.to_dict().values()) <= 1e-12
    np.testing.assert_allclose(problem.regularizer.weights(np.ones(4), np.ones(4)) / w**2, d)


def test_a_support_vector_machine_has_no_gap(rng) -> None:
    """One kernel, hinge loss, simplex: scikit-learn's SVC is the solution, with rho = alpha y / C and d = C."""
    kernels = make_kernels(rng, 1, 30) + 0.1 * np.eye(30)
    y = make_target(rng, "classification", 30)
    machine = SVC(C=2.0, kernel="precomputed", tol=1e-9).fit(kernels[0], y)
    rho = np.zeros(30)
    rho[machine.support_] = machine.dual_coef_[0] / 2.0
    problem = Problem(kernels, y, "hinge", Simplex(0.5))
    certificate = problem.certificate(rho, np.array([2.0]), float(machine.intercept_[0]))
    assert certificate.relative_gap < 1e-8


def test_a_corrupted_answer_has_a_gap(rng) -> None:
    K, problem = make_problem(rng, "squared", Ridge(0.7), weighted=False, fit_intercept=False)
    d = np.full(4, 1 / 0.7)
    rho = np.linalg.solve(np.einsum("m,mij->ij", d, K) + np.eye(12), problem.y)
    assert problem.certificate(rho, d, 0.0).relative_gap < 1e-12
    for corrupted in [(1.01 * rho, d), (rho, 1.01 * d), (rho, d * [1, 1, 1, 0]), (rho[::-1].copy(), d)]:
        assert problem.certificate(*corrupted, 0.0).relative_gap > 1e-6


def test_residuals_name_what_is_wrong(rng) -> None:
    _, problem = make_problem(rng, "hinge", weighted=False)
    inside = np.where(problem.y > 0, 0.1, -0.1)
    kkt = problem.certificate(inside, np.ones(4), 0.0).kkt
    assert kkt.box == 0
    assert kkt.intercept == pytest.approx(abs(inside.sum()) / np.abs(inside).sum())
    assert problem.certificate(-inside, np.ones(4), 0.0).kkt.box == 1
    assert problem.certificate(1e3 * inside, np.ones(4), 0.0).kkt.scaling > 0
    assert problem.certificate(np.zeros(12), np.zeros(4), 0.0).kkt.scaling == 0


def test_certificate_reads_one_pass_and_active_kernels(rng) -> None:
    kernels = make_kernels(rng)
    stack = as_stack(kernels)
    problem = Problem(stack, make_target(rng, "regression"), "squared", BlockL1(0.1))
    stack.counters.reset()
    problem.certificate(rng.normal(size=12), np.array([0.0, 1.0, 0.0, 0.0]), 0.0)
    assert stack.counters.passes == pytest.approx(1.25)


@given(seed=st.integers(0, 10_000), size=st.integers(1, 12), exponent=st.integers(-9, 12))
def test_projection_is_the_nearest_feasible_point(seed, size, exponent) -> None:
    """Compare with bisection on nu, and check the variational inequality of a projection."""
    rng = np.random.default_rng(seed)
    lo = np.where(rng.random(size) < 0.3, -np.inf, -rng.exponential(size=size) * (rng.random(size) < 0.7))
    hi = np.where(rng.random(size) < 0.3, np.inf, rng.exponential(size=size) * (rng.random(size) < 0.7))
    r = 10.0**exponent * rng.normal(size=size)
    x = project_box_hyperplane(r, lo, hi)
    assert np.all((lo <= x) & (x <= hi))
    # Rounding of r itself, which the subtraction of nu brings into entries without bounds.
    rounding = 1e-13 * (np.abs(x).sum() + 1e-300)
    assert abs(x.sum()) <= rounding
    low, high = -1e14, 1e14
    for _ in range(200):
        nu = 0.5 * (low + high)
        low, high = (nu, high) if np.clip(r - nu, lo, hi).sum() > 0 else (low, nu)
    np.testing.assert_allclose(x, np.clip(r - high, lo, hi), atol=1e-12 * max(1.0, np.abs(r).max()))
    np.testing.assert_array_equal(project_box_hyperplane(x, lo, hi), x)


def test_feasible_dual_survives_huge_values(rng) -> None:
    for loss in LOSSES:
        _, problem = make_problem(rng, loss)
        for scale in (1e-200, 1e20, 1e150):
            rho = problem.feasible_dual(scale * rng.normal(size=12))
            assert abs(rho.sum()) <= 1e-12 * np.abs(rho).sum()
            assert np.isfinite(problem.conjugate_loss(rho)) or scale == 1e150


def test_sample_weights_equal_repeated_samples(rng) -> None:
    """Weight 2 on a sample is the same problem as having the sample twice."""
    kernels, y = make_kernels(rng), make_target(rng, "classification")
    counts = np.array([1, 2, 3] * 4)
    index = np.repeat(np.arange(12), counts)
    one = Problem(kernels, y, "logistic", Simplex(0.4), sample_weight=counts)
    two = Problem(kernels[:, index][:, :, index], y[index], "logistic", Simplex(0.4))
    rho, d, b = make_model(rng, one)
    first, second = one.certificate(rho, d, b), two.certificate((rho / counts)[index], d, b)
    assert first.primal == pytest.approx(second.primal, rel=1e-12)
    assert one.total_weight == two.total_weight
    inside = one.feasible_dual(rho)
    assert one.dual(inside) == pytest.approx(two.dual((inside / counts)[index]), rel=1e-12)


def test_kernel_penalties_equal_scaled_kernels(rng) -> None:
    """Penalty w on a kernel is the same problem as the kernel divided by w squared."""
    kernels, y, w = make_kernels(rng), make_target(rng, "regression"), np.array([0.5, 1.0, 2.0, 3.0])
    one = Problem(kernels, y, "huber", BlockL1(0.4), kernel_penalties=w)
    two = Problem(kernels / w[:, None, None] ** 2, y, "huber", BlockL1(0.4))
    rho, d, b = make_model(rng, one)
    first, second = one.certificate(rho, d, b), two.certificate(rho, d * w**2, b)
    assert first.primal == pytest.approx(second.primal, rel=1e-12)
    assert first.dual == pytest.approx(second.dual, rel=1e-12)


def test_take_keeps_everything_else(rng) -> None:
    _, problem = make_problem(rng, "hinge", Simplex(0.4))
    part = problem.take(np.array([2, 0]))
    rho, _, b = make_model(rng, problem)
    assert part.n_kernels == 2
    assert part.loss is problem.loss
    np.testing.assert_array_equal(part.kernel_penalties, problem.kernel_penalties[[2, 0]])
    full = problem.certificate(rho, np.array([0.3, 0, 0.7, 0]), b)
    assert part.certificate(rho, np.array([0.7, 0.3]), b).primal == pytest.approx(full.primal, rel=1e-12)


def test_a_problem_never_changes(rng) -> None:
    weight, y = np.ones(12), make_target(rng, "regression")
    problem = Problem(make_kernels(rng), y, "squared", Ridge(1.0), sample_weight=weight)
    weight[0], y[0] = 5.0, 5.0
    assert problem.sample_weight[0] == 1
    assert problem.y[0] != 5
    with pytest.raises(ValueError, match="read-only"):
        problem.y[0] = 2.0
    with pytest.raises(AttributeError, match="cannot assign to field"):
        problem.loss = None


def test_scale_of_the_gap_when_the_loss_is_zero() -> None:
    problem = Problem(np.eye(3)[None], np.zeros(3), "squared", Ridge(1.0))
    certificate = problem.certificate(np.zeros(3), np.zeros(1), 0.0)
    assert certificate.relative_gap == 0
    assert problem.loss_at_zero == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.ones(3)}, "nothing to learn"),
        ({"y": -np.ones(3), "loss": "hinge"}, "Every label is -1"),
        ({"y": np.ones(4)}, "y has 4 samples but the kernels have 3"),
        ({"y": np.array([1.0, 2.0, -1.0])}, "needs labels -1 and \\+1"),
        ({"loss": "logit"}, "Unknown loss"),
        ({"regularizer": "l1"}, "regularizer must be a Regularizer such as BlockL1"),
        ({"sample_weight": np.array([1.0, 0.0, 1.0])}, "sample_weight must be positive, but entry 1 is 0"),
        ({"sample_weight": np.ones(2)}, "sample_weight must have shape \\(3,\\)"),
        ({"sample_weight": np.array([1.0, np.nan, 1.0])}, "sample_weight contains 1 NaN"),
        ({"kernel_penalties": np.array([1.0, -1.0])}, "kernel_penalties must be positive, but entry 1 is -1"),
        ({"y": np.full(3, 1e200), "loss": "squared"}, "overflows at zero scores: y reaches 1e\\+200"),
    ],
)
def test_bad_problems_are_refused(changes, message) -> None:
    arguments = {"y": np.array([1.0, -1.0, 1.0]), "loss": "logistic", "regularizer": BlockL1(1.0)} | changes
    with pytest.raises(InvalidInputError, match=message):
        Problem(np.stack([np.eye(3), np.ones((3, 3))]), **arguments)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ((np.zeros(2), np.ones(1), 0.0), "rho must have shape \\(3,\\)"),
        ((np.full(3, np.nan), np.ones(1), 0.0), "rho contains 3 NaN"),
        ((np.zeros(3), np.array([-1.0]), 0.0), "must not be negative, but d\\[0\\] is -1"),
        ((np.zeros(3), np.ones(1), 0.5), "0 without fit_intercept; got 0.5"),
        ((np.full(3, 1e250), np.ones(1), 0.0), "overflows: .* Normalize the kernels"),
    ],
)
def test_bad_models_are_refused(model, message) -> None:
    problem = Problem(1e150 * np.eye(3)[None], np.ones(3), "squared", Ridge(1.0), fit_intercept=False)
    with pytest.raises(InvalidInputError, match=message):
        problem.certificate(*model)


def test_norms_neither_overflow_nor_vanish_in_their_squares() -> None:
    """Coefficients of 1e-200 with weights of 1e200 are an ordinary model: its norm is not zero."""
    problem = Problem(np.eye(3)[None], np.array([1.0, 2.0, -1.0]), "squared", Ridge(1.0), fit_intercept=False)
    rho = np.array([0.5, 1.0, -0.5])
    expected = problem.certificate(rho, np.ones(1), 0.0)
    for scale in (1e-200, 1e200):
        found = problem.certificate(scale * rho, np.ones(1) / scale, 0.0)
        assert found.primal == pytest.approx(expected.primal, rel=1e-12)
        np.testing.assert_allclose(problem.dual_norms(scale * rho), scale * problem.dual_norms(rho), rtol=1e-12)


def test_a_loss_that_overflows_has_no_gap_to_speak_of() -> None:
    problem = Problem(1e150 * np.eye(3)[None], np.ones(3), "squared", Ridge(1.0), fit_intercept=False)
    certificate = problem.certificate(np.full(3, 1e100), np.ones(1), 0.0)
    assert certificate.relative_gap == np.inf
    assert certificate.relative_rounding == np.inf


def test_a_lower_bound_above_the_value_is_an_error_unless_rounding_explains_it() -> None:
    parts = KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0)
    beyond = Certificate.from_values(1.0, 1.25, 1.0, parts, rounding=1e-3)
    within = Certificate.from_values(1.0, 1.25, 1.0, parts, rounding=0.3)
    assert (beyond.relative_gap, beyond.relative_rounding) == (0.25, 1e-3)
    assert (within.relative_gap, within.relative_rounding) == (0.0, 0.3)


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e8])
def test_rounding_grows_with_what_cancels(rng, shift) -> None:
    """Targets far from zero lose digits: the bound says how many, and stays far below any tolerance without a shift."""
    kernels = make_kernels(rng)
    problem = Problem(kernels, make_target(rng, "regression") + shift, "squared", Ridge(1.0))
    certificate = problem.certificate(rng.normal(size=12), np.ones(4), shift)
    assert 1e-16 < certificate.relative_rounding < 1e-13 * max(shift, 10.0) ** 2


def test_coefficients_that_sum_to_zero_up_to_rounding_are_charged_for_the_rest(rng) -> None:
    """One far target of next to no weight: its small coefficient costs as much as the target when all are moved."""
    kernels, y, weight = make_kernels(rng), make_target(rng, "regression"), np.full(12, 500.0)
    y[0], weight[0] = 1e9, 1e-9
    problem = Problem(kernels, y, "huber", BlockL1(1e6), sample_weight=weight)
    rho, b = problem.zero_model()
    rho[1:] += np.spacing(np.abs(rho).max()) * 2  # still of zero sum as far as float64 tells
    certificate, point = problem.certificate(rho, np.zeros(4), b), problem.feasible_dual(rho)
    left = abs(math.fsum(point))
    assert left > 0
    assert certificate.rounding >= 0.9 * left / 12 * y[0]


def test_extreme_kernel_scales_give_the_same_relative_gap(rng) -> None:
    """Multiplying kernels by a and the strength by its root poses the same problem."""
    kernels, y = make_kernels(rng), make_target(rng, "classification")
    rho, d = rng.normal(size=12), rng.uniform(size=4)
    expected = Problem(kernels, y, "hinge", BlockL1(0.3)).certificate(rho, d, 0.1)
    for scale in (1e-150, 1e150):
        problem = Problem(scale * kernels, y, "hinge", BlockL1(0.3 * np.sqrt(scale)))
        certificate = problem.certificate(rho, d / scale, 0.1)
        assert certificate.primal == pytest.approx(expected.primal, rel=1e-10)
        assert certificate.dual == pytest.approx(expected.dual, rel=1e-10)


def test_norms_of_the_empty_model_are_those_of_the_kernels_that_are_there():
    """They are kept, until a kernel that was indefinite by rounding is replaced by the nearest definite one."""
    kernels, problem = make_problem(np.random.default_rng(0), weighted=False)
    rho = problem.empty_coefficients
    before = problem.dual_norms(rho)
    problem.stack._replace(2, 4.0 * kernels[2])
    problem.stack._replaced = {2: 1e-9}
    np.testing.assert_allclose(problem.dual_norms(rho), before * [1.0, 1.0, 2.0, 1.0], rtol=1e-12)
