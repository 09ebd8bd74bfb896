"""Wrong arguments of solvers are named before any work, with what to do instead."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.matrices import ON_MATRICES

from manykernels import InvalidInputError, solve
from manykernels.exceptions import IncompatibleError, NotPSDError
from manykernels.objective import LOSSES, REGULARIZERS, Problem, get_regularizer
from manykernels.solvers import (
    ALIASES,
    SILP,
    SOLVERS,
    ForwardBackward,
    compare_solvers,
    configured_solver,
    explain_solver_choice,
    get_solver,
)
from manykernels.solvers.registry import ALIAS_REGULARIZERS

Array = NDArray[np.float64]
GIVEN: dict[str, Any] = {"loss": "hinge", "penalty": "simplex", "strength": 0.1}
SWITCHES = [
    (name, entry.name) for name, cls in ON_MATRICES.items() for entry in fields(cls) if entry.type in ("bool", bool)
]


@pytest.fixture
def data(rng) -> tuple[Array, Array]:
    factors = rng.normal(size=(3, 20, 4))
    return factors @ factors.transpose(0, 2, 1), np.sign(factors[0, :, 0])


@pytest.fixture
def problem(data: tuple[Array, Array]) -> Problem:
    return Problem(*data, "hinge", get_regularizer("simplex", 0.1))


def easy(data: tuple[Array, Array], solver: str) -> Problem:
    """Return a problem that the solver accepts."""
    cls = SOLVERS[solver]
    losses = [loss for loss in sorted(LOSSES) if LOSSES[loss].support == "real"]  # others refuse these targets
    names = ((loss, name) for loss in losses for name in sorted(REGULARIZERS))
    posed = (Problem(*data, loss, get_regularizer(name, 0.1)) for loss, name in names)
    return next(found for found in posed if not cls.refusals(found))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"time_limit": "5"}, "time_limit must be a positive number, got '5'"),
        ({"time_limit": -1}, "time_limit must be a finite positive number, got -1"),
        ({"time_limit": 0}, "time_limit must be a finite positive number, got 0"),
        ({"time_limit": np.nan}, "time_limit must be a finite positive number, got nan"),
        ({"verbose": "x"}, "verbose must be an integer of at least 0, got 'x'"),
        ({"verbose": -1}, "verbose must be an integer of at least 0, got -1"),
        ({"callback": "x"}, "callback must be None or take an IterationRecord, got 'x'"),
        ({"tol": 0.0}, "tol must be a finite positive number"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"warm_start": 3}, "warm_start must be None or a Solution, as solve returns it, got 3"),
        ({"solver": ["silp"]}, r"solver must be a name or a configured solver such as .*, got \['silp'\]"),
        ({"solver": None}, "solver must be a name or a configured solver such as .*, got None"),
        ({"solver": SILP}, "solver must be a name or a configured solver such as SILP"),
        ({"solver": "slip"}, "Unknown solver 'slip'. Known: 'auto', .*aliases 'citi', 'lpmkl', 'group_lasso_mkl'"),
        ({"solver": "silp", "foo": 1}, "Solver 'silp' has no parameter 'foo'. It has: tol, max_iter"),
        ({"solver": SILP(), "foo": 1}, "Solver 'silp' has no parameter 'foo'. It has: tol, max_iter"),
        ({"solver": "working_set", "initial_size": 0}, "initial_size must be an integer of at least 1, got 0"),
    ],
)
def test_a_wrong_argument_of_solve_is_named(data: tuple[Array, Array], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        solve(*data, **GIVEN, **changes)


def test_usual_limits_are_accepted(data: tuple[Array, Array]) -> None:
    solution = solve(*data, **GIVEN, time_limit=np.float64(100), verbose=False, callback=lambda _: None)
    assert str(solution.status) == "converged"


@pytest.mark.parametrize("rounds", [0, -1, 1.5, True])
def test_splitting_needs_a_number_of_steps(rounds: Any) -> None:
    with pytest.raises(InvalidInputError, match="round_steps must be an integer of at least 1"):
        ForwardBackward(round_steps=rounds)


@pytest.mark.parametrize(("solver", "switch"), SWITCHES)
def test_every_switch_is_true_or_false(data: tuple[Array, Array], solver: str, switch: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{switch} must be True or False, got 'no'"):
        SOLVERS[solver](**{switch: "no"}).solve(easy(data, solver))


def test_there_are_switches() -> None:
    assert {("pfbs", "accelerate"), ("skm", "shrinking"), ("block_coordinate", "accelerate")} <= set(SWITCHES)


def test_parameters_of_a_configured_solver_are_replaced_and_the_others_stay(problem: Problem) -> None:
    changed = configured_solver(SILP(tol=1e-3, max_iter=7), problem, tol=1e-2)
    assert changed == SILP(tol=1e-2, max_iter=7)


def test_a_warm_start_must_fit(data: tuple[Array, Array]) -> None:
    kernels, y = data
    weight = np.ones(20)
    weight[0] = 0.0
    other = solve(kernels[:2, :15, :15], y[:15], **GIVEN)
    said = "warm_start has 15 samples and 2 kernels, but the problem has 20 and 3"
    for given in ({}, {"sample_weight": weight}):
        with pytest.raises(InvalidInputError, match=said):
            solve(kernels, y, **GIVEN, **given, warm_start=other)
    with pytest.raises(InvalidInputError, match="warm_start must be None or a Solution"):
        solve(kernels, y, **GIVEN, sample_weight=weight, warm_start=3)
    same = solve(kernels, y, **GIVEN, sample_weight=weight)
    assert solve(kernels, y, **GIVEN, sample_weight=weight, warm_start=same).n_iter == 0


def test_kernels_in_place_of_a_problem(data: tuple[Array, Array]) -> None:
    said = r"problem must be a Problem, got ndarray. Make one: Problem\(kernels, y, "
    for call in (explain_solver_choice, SILP().solve, lambda kernels: compare_solvers(kernels, ["auto"])):
        with pytest.raises(InvalidInputError, match=said):
            call(data[0])


@pytest.mark.parametrize("solvers", [5, None, SILP()])
def test_what_is_compared_must_be_a_list(problem: Problem, solvers: Any) -> None:
    with pytest.raises(InvalidInputError, match="solvers must be a list of names or configured solvers"):
        compare_solvers(problem, solvers)


def test_indefinite_kernels_are_told_what_clips_them(data: tuple[Array, Array]) -> None:
    said = r'as_stack\(kernels, psd="clip"\) for solve'
    with pytest.raises(NotPSDError, match=said):
        solve(-data[0], data[1], **GIVEN)


# --- names of the literature ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REGULARIZERS))
@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_an_alias_takes_the_regularizers_of_its_method(data: tuple[Array, Array], alias: str, name: str) -> None:
    posed = Problem(*data, "hinge", get_regularizer(name, 0.1))
    if name in ALIAS_REGULARIZERS[alias]:
        assert configured_solver(alias, posed) == get_solver(ALIASES[alias])()
        return
    meant = " or ".join(map(repr, ALIAS_REGULARIZERS[alias]))
    said = (
        f"Solver '{alias}' is 'block_coordinate' for the regularizer {meant}, not '{name}'.*solver='block_coordinate'"
    )
    with pytest.raises(IncompatibleError, match=said):
        configured_solver(alias, posed)


def test_every_alias_says_what_it_solves() -> None:
    assert set(ALIAS_REGULARIZERS) == set(ALIASES)
    assert {name for meant in ALIAS_REGULARIZERS.values() for name in meant} <= set(REGULARIZERS)


@pytest.mark.parametrize(("ball", "norm"), [("lp_ball", "lq"), ("simplex", "l1")])
def test_the_penalties_of_an_alias_have_the_same_solutions(data: tuple[Array, Array], ball: str, norm: str) -> None:
    """At the strength that the solution of one gives the other: ``(lam/2) s^2`` and ``(C/q) s^q`` of one norm ``s``."""
    kernels, y = data
    q = {"lq": 1.5, "l1": 1.0}[norm]
    extra = {"lq": {"q": q}, "l1": {}}[norm]
    ball_extra = {"lp_ball": {"p": q / (2.0 - q)}, "simplex": {}}[ball]
    first = solve(kernels, y, loss="hinge", penalty=get_regularizer(norm, 0.5, **extra), tol=1e-9)
    norms = np.sqrt(np.einsum("i,mij,j->m", first.dual_coef, kernels, first.dual_coef)) * first.kernel_weights
    size = float(np.sum(norms**q)) ** (1.0 / q)
    other = get_regularizer(ball, 0.5 * size ** (q - 2.0), **ball_extra)
    second = solve(kernels, y, loss="hinge", penalty=other, tol=1e-9)
    np.testing.assert_allclose(second.kernel_weights, first.kernel_weights, rtol=1e-3, atol=1e-4)
