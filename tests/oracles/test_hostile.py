"""Problems of the fuzzer that once ended unconverged, and what is said where rounding is to blame."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.generator import draw
from tests.fuzz.judge import judge, problem_of
from tests.solvers.test_weight_sets import nasty_problem
from tests.support.matrices import ON_MATRICES

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import DenseStack, as_stack
from manykernels.grams.dense import definite_copy
from manykernels.objective import BlockLq, ElasticNet, LpBall, Problem, Simplex, get_loss
from manykernels.solvers import InteriorPoint, Status, choose_solver
from manykernels.solvers.registry import SOLVERS


@pytest.mark.parametrize("seed", [30415])
def test_a_cycle_of_the_iteration_is_broken_by_steady_steps(seed: int) -> None:
    verdict = judge(draw(seed, hostile=True), time_limit=100.0)  # a busy machine compiles for longer than ten seconds
    assert verdict.converged, verdict


@pytest.mark.parametrize("seed", [3, 4, 10])
def test_weak_penalties_on_kernels_of_different_scale_need_no_second_solver(seed: int) -> None:
    problem = nasty_problem(seed, LpBall(1.0, 1.0))
    solution = choose_solver(problem)[0](tol=1e-8).solve(problem)
    assert solution.status is Status.CONVERGED
    assert "went on" not in solution.message


@pytest.mark.parametrize("seed", [60101, 60141])
def test_kernels_that_float32_left_indefinite_are_solved_without_its_rounding(seed: int) -> None:
    case = draw(seed, hostile=seed % 4 != 0)
    problem = problem_of(case)
    solution = choose_solver(problem)[0](tol=case.tol).solve(problem)
    assert solution.status is Status.CONVERGED
    assert solution.dual_gap <= case.tol
    assert f"stand for {len(solution.replaced_kernels)} of {problem.n_kernels} kernels" in solution.message
    copied = problem.replace_twin(definite_copy(problem.stack))
    exact = copied.certificate(solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert (solution.certificate.primal, solution.certificate.dual) == (exact.primal, exact.dual)
    assert judge(case).failure == ""


def test_only_indefinite_float32_kernels_are_copied() -> None:
    factor = np.random.default_rng(0).standard_normal((30, 2))
    gram = factor @ factor.T
    single = np.stack([gram, np.eye(30)]).astype(np.float32)
    assert definite_copy(as_stack(np.eye(30, dtype=np.float32)[None])) is None
    assert definite_copy(DenseStack(single.astype(np.float64))) is None
    copied = definite_copy(DenseStack(single))
    assert copied is not None
    assert copied.dtype == np.float64
    assert np.linalg.eigvalsh(copied.array)[:, 0].min() >= -1e-13 * np.abs(gram).max() * 30
    np.testing.assert_allclose(copied.array, single, atol=1e-6)


def test_the_unit_of_the_gap_does_not_grow_with_a_shift_of_the_target() -> None:
    gram, y = np.eye(6)[None], np.array([0.0, 1.0, -1.0, 2.0, 0.5, 0.0])
    tiny = [Problem(gram, y + shift, get_loss("squared"), Simplex(1.0)).tiny for shift in (0.0, 1e4)]
    assert tiny[1] == pytest.approx(tiny[0], rel=1e-6)
    assert Problem(gram, y + 1e4, get_loss("squared"), Simplex(1.0), fit_intercept=False).tiny > 1e4 * tiny[0]


@pytest.mark.parametrize("q", [1.2, 1.5])
def test_kernels_of_next_to_no_norm_do_not_shorten_steps(q: float) -> None:
    """With one kernel a column some norms are next to nothing at any time: steps were a hundredth of their length."""
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((60, 25))
    grams, y = columns[:, :, None] * columns[:, None], np.sign(columns[:5].sum(axis=0))
    for regularizer in (BlockLq(0.25, q), LpBall(0.25, q), LpBall(0.25, 4.0)):
        solution = InteriorPoint(tol=1e-6).solve(Problem(grams, y, get_loss("logistic"), regularizer))
        assert solution.status is Status.CONVERGED
        assert solution.n_iter <= 25


@pytest.mark.parametrize("name", sorted(ON_MATRICES))
def test_a_limit_that_is_over_at_once_ends_every_solver_with_a_model(name: str) -> None:
    factors = np.random.default_rng(0).standard_normal((3, 30, 5))
    grams, y = factors @ factors.transpose(0, 2, 1), np.sign(factors[0, :, 0])
    regularizers = (Simplex(0.1), ElasticNet(0.1, 0.5), LpBall(0.1, 2.0))
    problems = [Problem(grams, y, loss, one) for loss in ("hinge", "squared") for one in regularizers]
    problem = next(problem for problem in problems if not SOLVERS[name].refusals(problem))
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        solution = SOLVERS[name].configured(tol=1e-12, time_limit=1e-9).solve(problem)
    assert solution.status is Status.TIME_LIMIT
    assert np.isfinite(solution.certificate.primal)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_splitting_goes_on_where_a_newton_system_breaks_down(l1_ratio: float, loss: str) -> None:
    """Kernels of scale 1e-3 to 1e3, one of them zero, once ended in an error of the factorization."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((5, 20, 3))
    grams = factors @ factors.transpose(0, 2, 1) * (10.0 ** np.linspace(-3, 3, 5))[:, None, None]
    y = rng.standard_normal(20)
    grams[2] = 0.0
    problem = Problem(grams, np.sign(y) if loss == "logistic" else y, loss, ElasticNet(1e-3, l1_ratio))
    assert SOLVERS["pfbs"](tol=1e-8).solve(problem).status is Status.CONVERGED
