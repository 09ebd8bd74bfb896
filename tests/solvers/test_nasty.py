"""The two default solvers on a hundred problems made to break them, judged by plain NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from manykernels.exceptions import ConvergenceWarning, IncompatibleError
from manykernels.solvers import SOLVERS, solvers_for
from manykernels.testing.checks import build_problem
from manykernels.testing.nasty import TRAITS, nasty_problem, nasty_problems
from manykernels.testing.oracles import certificate_in_numpy
from manykernels.testing.problems import LOSSES, REGULARIZERS, SmallProblem

COUNT, GAP = 100, 1e-6
ENGINES = ("working_set", "interior_point")

# The optimum of each is below a hundredth of the loss at zero. Other solvers reach the gap (spicymkl on 73, smooth_dual
# on 94 and 99, pfbs and conic on 0), except on 81, where block_coordinate and conic came to 1e-5.
LOST = {
    ("working_set", 0): "a strength of 0.001 on duplicated kernels of uneven scale: stalls at gap 1",
    ("working_set", 81): "a kernel of scale 1e6 and an optimum of 2e-7: stalls at gap 1",
    ("interior_point", 0): "a strength of 0.001 on duplicated kernels of uneven scale: stays at gap 1",
    ("interior_point", 73): "separable classes under a ridge of 0.005: stays at gap 0.013",
    ("interior_point", 81): "a kernel of scale 1e6 and an optimum of 2e-7: stays at gap 1",
    ("interior_point", 94): "a kernel of scale 1e6, twice, under a ridge of 0.004: stays at gap 1",
    ("interior_point", 99): "a kernel of scale 1e6, twice, and an optimum of 6e-6: stays at gap 0.88",
}


@cache
def problems() -> tuple[SmallProblem, ...]:
    return tuple(nasty_problems(COUNT))


def accepted(solver: str) -> list[int]:
    return [i for i, small in enumerate(problems()) if not SOLVERS[solver].refusals(build_problem(small))]


def cases() -> list[object]:
    found: list[object] = []
    for solver, number in [(name, number) for name in ENGINES for number in accepted(name)]:
        reason = LOST.get((solver, number))
        marks = [pytest.mark.xfail(strict=True, reason=reason, raises=ConvergenceWarning)] if reason else []
        found.append(pytest.param(solver, number, marks=marks))
    return found


@pytest.mark.parametrize(("solver", "number"), cases())
def test_the_gap_is_reached(solver: str, number: int) -> None:
    small = problems()[number]
    solution = SOLVERS[solver](tol=GAP).solve(build_problem(small))
    assert solution.certificate.relative_gap <= GAP, small.description
    judged = certificate_in_numpy(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert judged.primal == pytest.approx(solution.certificate.primal, rel=GAP), small.description
    assert judged.relative_gap <= 2 * GAP, small.description


@pytest.mark.parametrize("solver", ENGINES)
def test_the_others_are_refused_with_the_name_of_a_solver_that_does(solver: str) -> None:
    for number in set(range(COUNT)) - set(accepted(solver)):
        problem = build_problem(problems()[number])
        with pytest.raises(IncompatibleError, match=f"Able: .*{solvers_for(problem)[0]}"):
            SOLVERS[solver]().solve(problem)


def test_equal_numbers_give_equal_problems() -> None:
    for number in (0, 17, 99):
        once, again = problems()[number], nasty_problem(number)
        assert np.array_equal(once.kernels, again.kernels)
        assert np.array_equal(once.y, again.y)
        assert once.description == again.description


def test_the_problems_have_their_traits() -> None:
    for number, small in enumerate(problems()):
        trait = list(TRAITS)[number % len(TRAITS)]
        checks = {
            "duplicate kernels": _has_duplicates,
            "one dominant kernel": lambda s: s.kernels[0].diagonal().mean() == pytest.approx(1e6),
            "a zero kernel": lambda s: not s.kernels[-1].any(),
            "separable classes": _is_separable,
        }
        if trait == "everything":
            assert _has_duplicates(small)
            assert not small.kernels[len(small.kernels) // 2 - 1].any()
        else:
            assert checks[trait](small), small.description


def test_every_loss_meets_every_regularizer_and_constants_span_six_decades() -> None:
    pairs = {(small.loss_name, small.regularizer_name) for small in problems()}
    assert {loss for loss, _ in pairs} == {*LOSSES, "quantile"}
    assert {regularizer for _, regularizer in pairs} == {*REGULARIZERS, "lp_ball", "elasticnet_ball"}
    assert len(pairs) == 49
    strengths = [small.strength for small in problems()]
    assert min(strengths) == pytest.approx(1e-3)
    assert 0.8e3 < max(strengths) <= 1e3
    assert {small.fit_intercept for small in problems()} == {True, False}


def test_a_lost_case_is_an_accepted_one() -> None:
    assert all(number in accepted(solver) for solver, number in LOST)


def _has_duplicates(small: SmallProblem) -> bool:
    half = len(small.kernels) // 2
    return np.array_equal(small.kernels[:half], small.kernels[half:])


def _is_separable(small: SmallProblem) -> bool:
    """The last kernel alone fits: its function in the direction of the target is the target."""
    return np.allclose(small.kernels[-1] @ small.y, small.y * small.y.size)
