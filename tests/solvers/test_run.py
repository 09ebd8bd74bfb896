"""The loop that solvers and searches share: what ends a run, which model it returns, and what it never lets out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams import DenseStack
from manykernels.grams.dense import definite_copy
from manykernels.objective import BlockL1, BlockLq, Problem
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.solvers import BlockCoordinate, InteriorPoint, Solution, Solver, Status, WorkingSet
from manykernels.solvers.run import Run
from manykernels.solvers.solution import Limits, Model


def problem(regularizer: Any = None) -> Problem:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(4, 20, 3))
    kernels = factors @ factors.transpose(0, 2, 1)
    return Problem(kernels, factors[0, :, 0] + 0.1 * rng.normal(size=20), "squared", regularizer or BlockL1(0.5))


@dataclass(frozen=True, kw_only=True)
class Scripted(Solver):
    """Offers scripted models, or raises what stands in their place."""

    script: tuple[Any, ...] = ()

    name: ClassVar[str] = "scripted"

    def initialize(self, problem: Problem, start: Model) -> Iterator[Any]:
        return iter(self.script)

    def step(self, problem: Problem, state: Iterator[Any]) -> None:
        pass

    def extract(self, problem: Problem, state: Iterator[Any]) -> Model:
        found = next(state)
        if isinstance(found, BaseException):
            raise found
        return found


@dataclass(frozen=True, kw_only=True)
class OnlyDefinite(Solver):
    """Breaks down on kernels in float32, and knows the optimum of others."""

    name: ClassVar[str] = "only_definite"

    def initialize(self, problem: Problem, start: Model) -> None:
        return None

    def step(self, problem: Problem, state: None) -> None:
        pass

    def extract(self, problem: Problem, state: None) -> Model:
        if problem.stack.dtype == np.float32:
            raise np.linalg.LinAlgError("indefinite")
        return near_optimal(problem, 1e-10)


@pytest.mark.parametrize(("tol", "on_given"), [(1e-3, True), (1e-9, False)])
def test_a_run_on_kernels_without_the_rounding_of_float32_is_certified_on_the_given_ones_or_on_these(
    tol: float, on_given: bool
) -> None:
    """float32 leaves kernels of rank 3 with eigenvalues of -1e-8; what that means for the model depends on ``tol``."""
    posed = problem()
    single = replace(posed, stack=DenseStack(posed.stack.block().astype(np.float32)))
    copied = definite_copy(single.stack)
    assert copied is not None
    found = OnlyDefinite(tol=tol).solve(single)
    model = found.dual_coef, found.kernel_weights, found.intercept
    assert found.status is Status.CONVERGED
    assert (single.certificate(*model).relative_gap <= tol) == on_given
    assert found.certificate == (single if on_given else single.replace_twin(copied)).certificate(*model)
    assert found.replaced_kernels == ({} if on_given else copied.replaced_kernels)
    assert "nearest definite" in found.message


@dataclass(frozen=True, kw_only=True)
class Hopeless(OnlyDefinite):
    """Does not converge on other kernels either."""

    name: ClassVar[str] = "hopeless"

    def extract(self, problem: Problem, state: None) -> Model:
        raise np.linalg.LinAlgError("anyway")


def test_the_storage_is_named_where_nothing_converges() -> None:
    posed = problem()
    single = replace(posed, stack=DenseStack(posed.stack.block().astype(np.float32)))
    with pytest.warns(ConvergenceWarning, match="The kernels are held in float32, and rounding left them indefinite"):
        found = Hopeless(tol=1e-6).solve(single)
    assert found.status is Status.NUMERICAL_ERROR


def near_optimal(posed: Problem, tol: float = 1e-3) -> Model:
    found = WorkingSet(tol=tol).solve(posed)
    return found.dual_coef, found.kernel_weights, found.intercept


def scaled(model: Model, factor: float) -> Model:
    return model[0], factor * model[1], model[2]


ERRORS = [
    FloatingPointError("overflow"),
    np.linalg.LinAlgError("singular"),
    ValueError("LIBSVM says no"),
    ZeroDivisionError("by zero"),
    OverflowError("too large"),
    RuntimeError("anything else"),
    InvalidInputError("in the middle of a run"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_an_algorithm_raises_ends_the_run_with_the_best_model(error: Exception) -> None:
    posed = problem()
    good = near_optimal(posed)
    with pytest.warns(ConvergenceWarning, match=f"numerical_error.*{type(error).__name__}: {error}"):
        found = Scripted(script=(good, scaled(good, 3.0), error), tol=1e-12).solve(posed)
    assert found.status is Status.NUMERICAL_ERROR
    np.testing.assert_array_equal(found.kernel_weights, good[1])
    assert found.certificate.primal == pytest.approx(posed.primal(*good), rel=1e-12)


@pytest.mark.parametrize("error", [MemoryError("full"), ImportError("pip install it")])
def test_what_is_not_the_algorithms_fault_is_raised(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        Scripted(script=(error,)).solve(problem())


def test_what_was_reached_before_an_error_is_certified() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Breaking(Scripted):
        def worth_certifying(self, problem: Problem, state: Iterator[Any]) -> bool:
            return False

        def step(self, problem: Problem, state: Iterator[Any]) -> None:
            raise np.linalg.LinAlgError("broke down")

    posed = problem()
    good = near_optimal(posed)
    with pytest.warns(ConvergenceWarning, match="broke down"):
        found = Breaking(script=(good,), tol=1e-12).solve(posed)
    np.testing.assert_array_equal(found.kernel_weights, good[1])
    assert found.status is Status.NUMERICAL_ERROR
    with pytest.warns(ConvergenceWarning, match="broke down"):
        found = Breaking(script=(ValueError("nor is there a model"),), tol=1e-12).solve(posed)
    assert not found.kernel_weights.any()


def test_what_a_callback_raises_is_the_users() -> None:
    def callback(record: Any) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        WorkingSet(callback=callback).solve(problem())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_with_numbers_that_are_not_finite_is_no_model(bad: float) -> None:
    posed = problem()
    good = near_optimal(posed)
    with pytest.warns(ConvergenceWarning, match="numerical_error"):
        found = Scripted(script=(good, (good[0], np.full(4, bad), 0.0)), tol=1e-12).solve(posed)
    np.testing.assert_array_equal(found.kernel_weights, good[1])
    assert np.isfinite(found.dual_coef).all()


def test_the_best_model_is_that_of_the_smallest_objective_and_never_worse_than_none() -> None:
    posed = problem()
    good = near_optimal(posed)
    # As good coefficients as any, so that the dual bound is; but weights that miss the target by far.
    wild = scaled(good, 50.0)
    zero_rho, zero_b = posed.zero_model()
    nothing = posed.primal(zero_rho, np.zeros(4), zero_b)
    assert posed.primal(*wild) > nothing
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        found = Scripted(script=(wild, wild), max_iter=2, tol=1e-12).solve(posed)
    assert not found.kernel_weights.any()
    assert found.certificate.primal == pytest.approx(nothing, rel=1e-14)
    better = scaled(good, 1.2)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        found = Scripted(script=(better, wild), max_iter=2, tol=1e-12).solve(posed)
    np.testing.assert_array_equal(found.kernel_weights, better[1])


def test_a_warm_start_worse_than_nothing_is_not_used() -> None:
    posed = problem()
    solved = WorkingSet(tol=1e-9).solve(posed)
    wild = replace(solved, kernel_weights=1e3 * solved.kernel_weights)
    found = WorkingSet(tol=1e-9).solve(posed, wild)
    plain = WorkingSet(tol=1e-9).solve(posed)
    assert found.history[0].primal == plain.history[0].primal
    np.testing.assert_array_equal(found.kernel_weights, plain.kernel_weights)


def test_a_converged_run_returns_the_model_that_converged() -> None:
    posed = problem()
    good = near_optimal(posed, 1e-9)
    found = Scripted(script=(scaled(good, 1.5), good), tol=1e-8).solve(posed)
    assert found.status is Status.CONVERGED
    assert found.certificate.relative_gap <= 1e-8


def test_a_callback_that_stops_a_run_has_a_status_of_its_own() -> None:
    with pytest.warns(ConvergenceWarning, match=r"stopped \(stopped_by_callback\) after 0 iterations"):
        found = WorkingSet(callback=lambda record: True).solve(problem())
    assert found.status is Status.STOPPED_BY_CALLBACK == "stopped_by_callback"


def test_numbers_out_of_range_are_no_warning() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Rooting(Scripted):
        def step(self, problem: Problem, state: Iterator[Any]) -> None:
            np.sqrt(np.array([-1.0])) / np.zeros(1)

    posed = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Rooting(script=(near_optimal(posed),), tol=1e-2).solve(posed).status is Status.CONVERGED


# --- fallback -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Rescued(Scripted):
    fallback: ClassVar[type[Solver] | None] = BlockCoordinate


@pytest.mark.parametrize("script", [(ValueError("no"),), "late"], ids=["numerical_error", "max_iter"])
def test_another_solver_goes_on_where_one_does_not_converge(script: Any) -> None:
    posed = problem()
    good = near_optimal(posed)
    limit = 20 if script == "late" else 200
    found = Rescued(script=(good,) * 20 if script == "late" else script, max_iter=limit, tol=1e-6).solve(posed)
    assert found.status is Status.CONVERGED
    assert "'block_coordinate' went on from its best model" in found.message
    assert found.certificate.relative_gap <= 1e-6


def test_a_fallback_that_fails_leaves_the_first_model() -> None:
    posed = problem()
    good = near_optimal(posed)
    with pytest.warns(ConvergenceWarning, match=r"'block_coordinate' went on"):
        found = Rescued(script=(good,), max_iter=1, tol=1e-14).solve(posed)
    assert found.certificate.primal <= posed.primal(*good)


def test_an_interrupt_of_the_fallback_keeps_the_first_model(monkeypatch: pytest.MonkeyPatch) -> None:
    posed = problem()
    good = near_optimal(posed)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockCoordinate, "_solve", interrupted)
    with pytest.warns(ConvergenceWarning, match="scripted"):
        found = Rescued(script=(good, ValueError("no")), tol=1e-12).solve(posed)
    assert found.status is Status.INTERRUPTED
    np.testing.assert_array_equal(found.kernel_weights, good[1])


@pytest.mark.parametrize("ending", ["stopped", "late"])
def test_no_fallback_after_a_stop_or_a_time_limit(ending: str) -> None:
    posed = problem(BlockLq(0.5, q=1.5))
    limits = {"stopped": {"callback": lambda record: True}, "late": {"time_limit": 1e-9}}[ending]
    with pytest.warns(ConvergenceWarning, match="interior_point") as caught:
        InteriorPoint(tol=1e-10, **limits).solve(posed)
    assert "went on" not in str(caught[0].message)


# --- the loop by itself ---------------------------------------------------------------------------------------------


def model(primal: float, dual: float) -> Solution:
    certificate = Certificate.from_values(primal, dual, max(abs(primal), 1.0), KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0))
    return Solution(np.zeros(1), np.ones(1), primal, certificate)


@pytest.mark.parametrize(
    ("values", "limits", "status", "best"),
    [
        ([(3, 0), (2, 0), (2.5, 1.9)], Limits(), Status.STALLED, 2),
        ([(3, 0), (2, 0), (2, 1)], Limits(), Status.STALLED, 2),
        ([(3, 0), (2, 1.9999)], Limits(), Status.CONVERGED, 2),
        ([(3, 0)] * 5, Limits(patience=3), Status.STALLED, 3),
        ([(3, 0)] * 20, Limits(max_iter=4), Status.MAX_ITER, 3),
        ([(3, 0)] * 5, Limits(time_limit=1e-9), Status.TIME_LIMIT, 3),
        ([(3, 0)] * 5, Limits(callback=lambda record: record.iteration == 2), Status.STOPPED_BY_CALLBACK, 3),
    ],
)
def test_what_ends_a_run(values: list[Any], limits: Limits, status: Status, best: float) -> None:
    run: Run[Solution] = Run(limits, "The run")
    solution = run.follow(model(*value) for value in values).solution()
    assert (solution.status, solution.intercept) == (status, best)
    if status is not Status.CONVERGED:
        assert solution.message.startswith(f"The run stopped ({status}) after {solution.n_iter} iterations")


@pytest.mark.parametrize(("rounding", "words"), [(0.5, "Rounding may be as large"), (1e-9, "made no more progress")])
def test_rounding_is_named_where_it_may_be_the_gap(rounding: float, words: str) -> None:
    """Float64 was blamed for gaps of 2e-2."""
    kkt = KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0)
    certificate = Certificate.from_values(2.0, 1.9, 2.0, kkt, rounding=rounding)
    stuck = [replace(model(2, 1.9), certificate=certificate)] * 3
    found = Run[Solution](Limits(), "The run").follow(iter(stuck)).solution()
    assert found.status is Status.STALLED
    assert words in found.message
    assert "float64" not in found.message


def test_equal_objectives_are_told_apart_by_the_gap() -> None:
    run: Run[Solution] = Run(Limits(), "The run")
    run.follow(model(2, dual) for dual in (0, 1, 0.5))
    assert run.best.certificate.dual == 1


def test_a_run_without_a_model_raises_what_went_wrong() -> None:
    def broken() -> Iterator[Solution]:
        raise ValueError("at once")
        yield model(1, 0)

    run: Run[Solution] = Run(Limits(), "The run")
    with pytest.raises(ValueError, match="at once"):
        run.follow(broken())


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.STALLED])
def test_bounds_that_cross_by_more_than_rounding_are_inaccurate(status: Status) -> None:
    kkt = KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0)
    crossed = Certificate.from_values(1.0, 1.0 + 1e-5, 1.0, kkt, rounding=1e-12)
    found = Solution(np.zeros(2), np.ones(1), 0.0, crossed, status, "converged", solver="any")
    assert found.status is Status.INACCURATE
    assert found.message.startswith("Solver 'any' stopped (inaccurate): the lower bound is above the objective by 1.0e")
    rounded = Certificate.from_values(1.0, 1.0 + 1e-13, 1.0, kkt, rounding=1e-12)
    assert Solution(np.zeros(2), np.ones(1), 0.0, rounded, status, "converged").status is status
    unknown = Certificate.from_values(1.0, 1.0 + 1e-6, 1.0, kkt, rounding=np.nan)
    assert not unknown.crossed
