"""The primal-dual iteration on sets of kernel weights: lp balls and elastic-net balls of every shape."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.generator import draw
from tests.fuzz.judge import judge
from tests.support.matrices import ON_MATRICES

from manykernels.objective import ElasticNetBall, LpBall, Problem, Simplex, get_loss, get_regularizer
from manykernels.solvers import choose_solver, get_solver
from manykernels.testing.problems import small_problems
from manykernels.testing.solver import build_problem, check_weight_set, model_of

LOSSES = ("hinge", "squared", "logistic", "epsilon_insensitive", "quantile", "huber", "squared_hinge")
SETS = [LpBall(1.0, p) for p in (1.0, 1.001, 1.5, 2.0, 4.0, 100.0)] + [
    ElasticNetBall(1.0, eta) for eta in (0.0, 1e-6, 0.5, 1 - 1e-6, 1.0)
]


def nasty_problem(seed: int, regularizer: LpBall | ElasticNetBall) -> Problem:
    """Rank-one, low-rank, duplicate and zero kernels, one of them of scale 1e3, at a strength over five decades."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((6, 14, 2)) * [1.0, float(seed % 2)]
    grams = factors @ factors.transpose(0, 2, 1)
    grams[1], grams[2], grams[3] = grams[0], 0.0, 1e3 * grams[3]
    loss = get_loss(LOSSES[seed % len(LOSSES)])
    y = factors[0, :, 0] + 0.5 * rng.standard_normal(14)
    strength = 10 ** rng.uniform(-3, 2)
    chosen = type(regularizer)(
        strength, *[getattr(regularizer, name) for name in ("p", "eta") if name in vars(regularizer)]
    )
    return Problem(grams, np.sign(y) if loss.task == "classification" else y, loss, chosen, fit_intercept=seed % 3 > 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", SETS, ids=str)
def test_every_set_reaches_the_finest_gap(regularizer: LpBall | ElasticNetBall) -> None:
    for seed in range(SETS.index(regularizer), SETS.index(regularizer) + 3):
        problem = nasty_problem(seed, regularizer)
        solver = choose_solver(problem)[0]
        solution = solver(tol=1e-8).solve(problem)
        assert solver.name in ("working_set", "interior_point")
        assert solution.certificate.relative_gap <= 1e-8, f"seed {seed}: {solution.message}"


@pytest.mark.parametrize("regularizer", [LpBall(0.3, 1.0), ElasticNetBall(0.3, 1.0)], ids=str)
@pytest.mark.parametrize("name", ["working_set", "hessianmkl", "simplemkl", "skm", "conic"])
def test_a_ball_that_is_the_simplex_is_solved_as_one(regularizer: LpBall | ElasticNetBall, name: str) -> None:
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((4, 12, 3))
    grams, y = factors @ factors.transpose(0, 2, 1), np.sign(factors[0, :, 0])
    values = [
        get_solver(name)(tol=1e-6).solve(Problem(grams, y, "hinge", one)).certificate.primal
        for one in (regularizer, Simplex(0.3))
    ]
    assert values[0] == pytest.approx(values[1], rel=2e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(ON_MATRICES))
def test_kernel_weights_are_on_the_boundary_of_their_set(name: str) -> None:
    cls = get_solver(name)
    for small in small_problems(300, regularizers=("simplex", "lp_ball", "elasticnet_ball")):
        problem = build_problem(small)
        if cls.refusals(problem):
            continue
        found = cls(tol=max(1e-2, cls.attainable_gap)).solve(problem)
        model = model_of(small, found.dual_coef, found.kernel_weights, found.intercept)
        check_weight_set(small, model, found.kernel_weights, found.certificate.dual)


@pytest.mark.parametrize("solver", ["block_coordinate", "pfbs"])
def test_each_group_has_weights_on_the_boundary_of_its_own_set(solver: str) -> None:
    factors = np.random.default_rng(0).standard_normal((6, 30, 3))
    grams, y = factors @ factors.transpose(0, 2, 1), factors[0, :, 0] + factors[3, :, 1]
    penalty = get_regularizer({(0, 1, 2): "simplex", "*": "lp_ball"}, 5.0)
    d = get_solver(solver)(tol=1e-2).solve(Problem(grams, y, "squared", penalty)).kernel_weights
    assert 5.0 * d[:3].sum() == pytest.approx(1.0, abs=1e-12)
    assert 5.0 * np.linalg.norm(d[3:]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("seed", [41452, 41482, 40773, 41562, 41158])
def test_cases_of_the_fuzzer_on_which_alternation_stalled(seed: int) -> None:
    verdict = judge(draw(seed, hostile=seed % 4 != 0))
    assert verdict.converged, verdict
