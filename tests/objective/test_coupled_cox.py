"""Cox's partial likelihood: risk sets against plain sums, the default solver against CVXPY, certificates recomputed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.cox import COUNT, STORED, CoxCase, cases, conic_value

from manykernels import solve
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective import CoxPartial, Problem, get_regularizer, survival_target
from manykernels.solvers import SOLVERS, choose_solver, solvers_for

OPTIMA = np.load(STORED)


@pytest.mark.parametrize("case", cases()[:24], ids=str)
def test_risk_sets_are_the_plain_sums(case: CoxCase) -> None:
    joint = case.problem().bound
    n = len(case.time)
    z = np.random.default_rng(n).normal(size=n) * 2
    terms, shares = case.terms(), case.softmax(z)
    sizes = np.array([term.size for term in terms])
    assert joint.value(z) == pytest.approx(case.loss(z), rel=1e-12)
    np.testing.assert_allclose(joint.gradient(z), sizes @ shares - case.hits, atol=1e-12)
    hessian = np.diag(sizes @ shares) - shares.T @ (sizes[:, None] * shares)
    right = hessian @ np.random.default_rng(1).normal(size=n)
    np.testing.assert_allclose(hessian @ joint.inverse_curvature(z).product(right), right, atol=1e-8)
    for scale in (1.0, 0.6, 0.01):
        mixed = [scale * share + (1 - scale) * term.tie for term, share in zip(terms, shares, strict=True)]
        pairs = [(q[q > 0], term.at_risk[q > 0]) for q, term in zip(mixed, terms, strict=True)]
        divergences = [float(q @ np.log(q / at_risk)) for q, at_risk in pairs]
        assert joint.conjugate_along(z, scale) == pytest.approx(float(sizes @ divergences), abs=1e-10)
    # Fenchel and Young, with equality at the gradient.
    assert joint.value(z) + joint.conjugate_along(z, 1.0) == pytest.approx(float(joint.gradient(z) @ z), abs=1e-10)
    # Invariant under shifts of a stratum.
    assert joint.value(z + 3.0 * (case.strata == 0)) == pytest.approx(joint.value(z), rel=1e-12)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("index", range(COUNT))
def test_the_default_solver_finds_the_optimum_of_the_conic_oracle(index: int) -> None:
    case = cases()[index]
    problem = case.problem()
    solution = choose_solver(problem)[0](tol=1e-8).solve(problem)
    told, rho, d = solution.certificate, solution.dual_coef, solution.kernel_weights
    assert told.relative_gap <= 1e-8
    assert told.primal == pytest.approx(OPTIMA[index], rel=1e-6)
    assert told.primal == pytest.approx(case.primal(rho, d), rel=1e-9)
    f = d @ (case.kernels @ rho)
    bound = max(case.dual(f), case.dual(case.scores_behind(rho, f)))
    assert told.dual == pytest.approx(bound, rel=2e-8)


def test_stored_optima_are_what_cvxpy_finds() -> None:
    for index in (7, 15):
        assert conic_value(cases()[index]) == pytest.approx(OPTIMA[index], rel=1e-6)


def test_no_dual_value_is_above_the_optimum() -> None:
    """Whatever scores are asked, and whatever model is certified, the bound is one."""
    rng = np.random.default_rng(3)
    for index in range(0, COUNT, 5):
        case, best = cases()[index], OPTIMA[index] * (1 + 1e-6)
        problem = case.problem()
        assert problem.dual(rng.normal(size=len(case.time))) <= best
        model = rng.normal(size=len(case.time)) * 0.1, rng.uniform(size=len(case.kernels)), 0.0
        certificate = problem.certificate(*model)
        assert certificate.dual <= best
        assert certificate.primal >= OPTIMA[index] * (1 - 1e-9)


def test_strength_max_is_where_the_model_vanishes() -> None:
    case = cases()[0]
    problem = case.problem(case.problem().strength_max() * (1 + 1e-6))
    zero = problem.certificate(problem.zero_model()[0], np.zeros(problem.n_kernels), 0.0)
    assert zero.relative_gap <= 1e-12
    problem = case.problem(case.problem().strength_max() * 0.9)
    assert choose_solver(problem)[0](tol=1e-6).solve(problem).active.size > 0


def test_doubling_a_weight_is_a_second_sample() -> None:
    case = next(case for case in cases() if not case.efron and len(case.time) < 25)
    twice = np.r_[np.arange(len(case.time)), 0]
    weights = np.where(np.arange(len(case.time)) == 0, 2.0, 1.0)
    y, penalty = survival_target(case.event, case.time, case.strata), get_regularizer("ridge", 1.0)
    loss = CoxPartial("breslow")
    one = Problem(case.kernels, y, loss, penalty, sample_weight=weights)
    two = Problem(case.kernels[:, twice[:, None], twice], y[twice], loss, penalty)
    first, second = (choose_solver(each)[0](tol=1e-10).solve(each).certificate.primal for each in (one, two))
    assert first == pytest.approx(second, rel=1e-9)


def test_only_solvers_of_joint_losses_take_it() -> None:
    problem = cases()[0].problem()
    assert solvers_for(problem) == ["working_set", "interior_point", "block_coordinate"]
    with pytest.raises(IncompatibleError, match="one of all samples together"):
        SOLVERS["spicymkl"]().solve(problem)
    with pytest.raises(IncompatibleError, match="at gradients only"):
        problem.conjugate_loss(problem.zero_model()[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CoxPartial("exact"), "'breslow', 'efron', got 'exact'"),
        (lambda: CoxPartial().check_target([1.0, 0.0]), "not zero, but 1 of 2"),
        (lambda: CoxPartial().check_target([-1.0, -2.0]), "There is no event"),
        (lambda: survival_target([True, False], [1.0, -2.0]), r"not negative, but 1 of 2 are not, such as \[-2.0\]"),
        (lambda: survival_target([True, 2], [1.0, 2.0]), "event must hold True .seen. or False"),
        (lambda: survival_target([True, False], [1.0, 2.0], [1]), "Lengths differ: .*strata has 1"),
        (
            lambda: Problem(
                np.eye(2)[None], np.array([1.0, 2.0]), CoxPartial(), get_regularizer("l1", 1.0), fit_intercept=True
            ),
            "has no intercept",
        ),
    ],
)
def test_what_is_no_survival_problem_is_refused(call, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_a_loss_that_couples_samples_has_no_intercept() -> None:
    problem = Problem(np.eye(2)[None], [1.0, 2.0], "cox", get_regularizer("l1", 1.0))
    assert not problem.fit_intercept
    assert problem.zero_model()[1] == 0.0
    target = survival_target([True, True, False, True], [2.0, 1.0, 4.0, 3.0])
    solution = solve(np.eye(4)[None], target, loss="cox", penalty="l1", strength=0.1, tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8
