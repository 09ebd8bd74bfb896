"""Fixed-weight learners: every loss against plain NumPy and scikit-learn, warm starts, and what catches failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Simplex
from manykernels.solvers.learners import learners, products, smo_svm
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.testing.problems import LOSSES, SmallProblem, random_problem
from manykernels.testing.solver import build_problem, certificate_in_numpy

Array = NDArray[np.float64]
ALL_LOSSES = (*LOSSES, "quantile")


def posed(seed: int, loss: str, *, change: float = 0.0) -> tuple[Problem, SmallProblem]:
    """Return a problem with its combined kernel as the only one, with ridge of strength 1, library and plain."""
    small = random_problem(seed, loss=loss, fit_intercept=seed % 2 == 0, weighted=seed % 3 == 0)
    rng = np.random.default_rng(seed)
    d = rng.exponential(size=len(small.kernels)) / small.strength
    d = d * np.exp(change * rng.normal(size=d.size))
    gram = np.einsum("m,mij->ij", d, small.kernels)
    single = replace(
        small,
        kernels=gram[None],
        regularizer_name="ridge",
        regularizer_params={},
        strength=1.0,
        kernel_penalties=None,
    )
    return build_problem(single), single


def check(small: SmallProblem, fit: LearnerFit, tol: float = 1e-9) -> None:
    """Assert that both values are those of the model, recomputed in NumPy, and that they are close."""
    found = certificate_in_numpy(small, fit.rho, np.ones(1), fit.b)
    unit = abs(found.primal)
    np.testing.assert_allclose(
        [fit.primal_value, fit.dual_value], [found.primal, found.dual], rtol=0, atol=1e-10 * unit
    )
    assert found.relative_gap <= tol + 1e-10, small.description
    assert fit.gap <= tol * unit


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", ALL_LOSSES)
@pytest.mark.parametrize("seed", range(12))
def test_cold_and_warm_fits_are_certified(loss: str, seed: int) -> None:
    problem, small = posed(seed, loss)
    cold = fit_learner(problem, small.kernels[0])
    check(small, cold)
    changed, other = posed(seed, loss, change=0.05)
    warm = fit_learner(changed, other.kernels[0], warm=cold)
    check(other, warm)
    assert warm.steps <= 3


@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_a_poor_warm_start_does_no_harm(loss: str) -> None:
    for seed in range(6):
        problem, small = posed(seed, loss)
        far, _ = posed(seed, loss, change=4.0)
        start = fit_learner(far, far.stack.combine(np.ones(1)))
        check(small, fit_learner(problem, small.kernels[0], warm=start))


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "squared_hinge", "huber", "quantile"])
def test_without_active_sets_the_primal_dual_iteration_gets_there(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learners, "exchange_active_sets", lambda *_: iter(()))
    for seed in range(8):
        problem, small = posed(seed, loss)
        check(small, fit_learner(problem, small.kernels[0], tol=1e-7), 1e-7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("loss", "limit"), [("hinge", "SMO_SWEEPS"), ("hinge", "PAIRS_TOL")])
def test_a_poor_approximate_answer_is_only_a_worse_start(
    loss: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, limit, 1)
    for seed in range(0, 12, 2):
        problem, small = posed(seed, loss)
        check(small, fit_learner(problem, small.kernels[0]))


@pytest.mark.parametrize("seed", [2, 3])
def test_the_learner_of_the_hinge_loss_starts_pairs_at_the_last_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without intercept: cold from zero, warm from the old coefficients, which takes fewer steps."""
    starts, steps, original = [], [], smo_svm.svm_loop

    def counted(*arguments: Any) -> tuple[float, int]:
        starts.append(arguments[4].copy())
        violation, taken = original(*arguments)
        steps.append(taken)
        return violation, taken

    monkeypatch.setattr(smo_svm, "svm_loop", counted)
    problem, small = posed(seed, "hinge")
    cold = fit_learner(problem, small.kernels[0])
    changed, other = posed(seed, "hinge", change=0.05)
    check(other, fit_learner(changed, other.kernels[0], warm=cold))
    np.testing.assert_array_equal(starts[0], 0.0)
    np.testing.assert_allclose(starts[1], cold.rho, atol=1e-12)
    assert steps[1] < steps[0]


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "quantile"])
@pytest.mark.parametrize("rank", [1, 6])
def test_large_weights_on_kernels_of_low_rank_take_few_steps(loss: str, rank: int) -> None:
    """Pairs of samples would move for ever here, and a start near the zero model crawls."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        factor = rng.normal(size=(60, rank))
        y = factor[:, 0] + 0.3 * rng.normal(size=60)
        problem = Problem((factor @ factor.T)[None], y, loss, Simplex(1.0), fit_intercept=seed != 1)
        for weight in (1e-2, 1.0, 1e3):
            fit = fit_learner(problem, weight * factor @ factor.T, tol=1e-9)
            assert fit.gap <= 1e-9 * fit.primal_value
            assert fit.steps <= 20


@pytest.fixture
def smooth_data(rng) -> tuple[Array, Array]:
    X = rng.normal(size=(60, 3))
    gram = np.exp(-((X[:, None] - X) ** 2).sum(-1) / 4) + 0.1 * np.eye(60)
    return gram, np.sin(2 * X[:, 0]) + X[:, 1]


def test_same_scores_as_scikit_learn(smooth_data: tuple[Array, Array]) -> None:
    gram, y = smooth_data
    labels = np.where(y > 0, 1.0, -1.0)
    svc = SVC(C=1.0, kernel="precomputed", tol=1e-9).fit(3 * gram, labels)
    fit = fit_learner(Problem(gram[None], labels, "hinge", Simplex(1.0)), 3 * gram)
    np.testing.assert_allclose(3 * gram @ fit.rho + fit.b, svc.decision_function(3 * gram), atol=1e-6)
    svr = SVR(C=1.0, epsilon=0.1, kernel="precomputed", tol=1e-9).fit(gram, y)
    fit = fit_learner(Problem(gram[None], y, "epsilon_insensitive", Simplex(1.0)), gram)
    np.testing.assert_allclose(gram @ fit.rho + fit.b, svr.predict(gram), atol=1e-6)
    ridge = KernelRidge(alpha=1.0, kernel="precomputed").fit(gram, y)
    fit = fit_learner(Problem(gram[None], y, "squared", Simplex(1.0), fit_intercept=False), gram)
    np.testing.assert_allclose(fit.rho, ridge.dual_coef_, rtol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "huber"])
def test_dual_coefficients_are_slopes_of_smooth_losses(loss: str) -> None:
    problem, small = posed(4, loss)
    fit = fit_learner(problem, small.kernels[0], tol=1e-13)
    slopes = -problem.weight * problem.loss.derivative(problem.y, small.kernels[0] @ fit.rho + fit.b)
    np.testing.assert_allclose(fit.rho, slopes, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_a_zero_kernel_leaves_the_best_constant(loss: str) -> None:
    problem, small = posed(2, loss)
    zero = replace(small, kernels=np.zeros_like(small.kernels))
    fit = fit_learner(problem, zero.kernels[0])
    check(zero, fit)
    assert fit.steps == 0


@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_nothing_is_modified_and_equal_calls_agree(loss: str) -> None:
    problem, small = posed(6, loss)
    gram = small.kernels[0].copy()
    first = fit_learner(problem, gram)
    rho = first.rho.copy()
    warm = fit_learner(problem, gram, warm=first)
    np.testing.assert_array_equal(gram, small.kernels[0])
    np.testing.assert_array_equal(first.rho, rho)
    np.testing.assert_array_equal(fit_learner(problem, gram, warm=first).rho, warm.rho)


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, FloatingPointError])
def test_a_breakdown_of_the_iteration_leaves_the_best_fit(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps are taken, the third breaks down: what the second one found is returned."""
    problem, small = posed(3, "logistic")
    original, calls = learners.PrimalDual.newton_step, []

    def breaking(iteration: learners.PrimalDual, wanted: float) -> None:
        calls.append(wanted)
        if len(calls) > 2:
            raise error("broken")
        original(iteration, wanted)

    monkeypatch.setattr(learners.PrimalDual, "newton_step", breaking)
    fit = fit_learner(problem, small.kernels[0], tol=1e-12)
    found = certificate_in_numpy(small, fit.rho, np.ones(1), fit.b)
    assert len(calls) == 3
    assert fit.steps == 2
    assert 0 < found.relative_gap < 0.5
    np.testing.assert_allclose([fit.primal_value, fit.dual_value], [found.primal, found.dual], rtol=1e-10)
