"""Why a solver is chosen, and the curves of several solvers on one problem."""

from __future__ import annotations

import dataclasses
import signal
import sys
from typing import Any

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError
from manykernels.grams import LazyStack
from manykernels.objective import BlockL1, BlockLq, ElasticNet, ElasticNetBall, LpBall, Regularizer
from manykernels.objective.problem import Problem
from manykernels.solvers import (
    SOLVERS,
    InteriorPoint,
    SpicyMKL,
    WorkingSet,
    compare_solvers,
    explain_solver_choice,
    solvers_for,
)
from manykernels.solvers.registry import COLUMNS, SolverComparison
from manykernels.testing.problems import SmallProblem, random_problem
from manykernels.testing.solver import build_problem, certificate_in_numpy

SMALL = random_problem(3, loss="squared", regularizer="elasticnet")
NAMES = ("working_set", "interior_point", "spicymkl")


@pytest.fixture(scope="module")
def comparison() -> SolverComparison:
    return compare_solvers(build_problem(SMALL), NAMES)


def test_every_solver_reaches_the_gap_and_the_same_optimum(comparison: SolverComparison) -> None:
    ends = comparison.summary()
    assert ends["solver"].tolist() == list(NAMES)
    assert ends["status"].tolist() == ["converged"] * len(NAMES)
    assert ends["primal"].to_numpy() == pytest.approx(ends["primal"].iloc[0], rel=2e-6)


def test_the_last_row_of_each_curve_is_the_returned_model_as_numpy_sees_it(comparison: SolverComparison) -> None:
    last = comparison.frame().groupby("solver", sort=False).last()
    for name, found in comparison.solutions.items():
        judged = certificate_in_numpy(SMALL, found.dual_coef, found.kernel_weights, found.intercept)
        assert last.loc[name, "primal"] == pytest.approx(judged.primal, rel=1e-9)
        assert last.loc[name, "dual"] == pytest.approx(judged.dual, rel=1e-9)
        assert last.loc[name, "passes"] == found.passes


def test_a_curve_is_the_history_and_the_end(comparison: SolverComparison) -> None:
    frame = comparison.frame()
    assert frame.columns.tolist() == COLUMNS
    for name, found in comparison.solutions.items():
        curve = frame[frame["solver"] == name]
        assert curve["relative_gap"].tolist()[:-1] == [record.relative_gap for record in found.history]
        assert (curve["elapsed_s"].diff().dropna() >= 0).all()


def test_a_solver_that_lies_about_its_gap_is_found_out() -> None:
    """The certificate is computed from the model after the run, so a changed solution changes the last row."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Liar(WorkingSet):
        def solve(self, problem: Problem, warm_start: Any = None) -> Any:
            honest = super().solve(problem, warm_start)
            return dataclasses.replace(honest, kernel_weights=2 * honest.kernel_weights)

    end = compare_solvers(build_problem(SMALL), [Liar()]).summary().iloc[0]
    assert end["status"] == "converged"
    assert end["relative_gap"] > 1e-2


def test_missing_the_gap_is_a_result_and_not_a_warning() -> None:
    comparison = compare_solvers(build_problem(SMALL), {"short": InteriorPoint(max_iter=1)}, tol=1e-8)
    end = comparison.summary().iloc[0]
    assert (end["solver"], end["status"]) == ("short", "max_iter")
    assert end["relative_gap"] > 1e-8


def test_auto_goes_by_the_name_of_what_it_takes() -> None:
    assert list(compare_solvers(build_problem(SMALL), "auto").solutions) == ["smooth_dual"]


@pytest.mark.parametrize(
    ("solvers", "message"),
    [
        (["auto", "smooth_dual"], "'smooth_dual' occurs twice"),
        ([], "No solvers to compare. Able to solve the problem: smooth_dual, working_set"),
        (["simplex_mkl"], "Unknown solver 'simplex_mkl'"),
    ],
)
def test_what_cannot_be_compared_is_refused(solvers: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        compare_solvers(build_problem(SMALL), solvers)


@pytest.mark.parametrize("name", ["tol", "time_limit"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        compare_solvers(build_problem(SMALL), ["auto"], **{name: 0.0})


def test_an_unable_solver_is_refused_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkingSet, "solve", lambda *_: pytest.fail("a solver was run"))
    with pytest.raises(IncompatibleError, match="'skm' cannot solve this problem"):
        compare_solvers(build_problem(SMALL), ["working_set", "skm"])


def test_a_solver_without_its_extra_is_a_row_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    found = compare_solvers(build_problem(SMALL), {"cones": "conic", "newton": "working_set"})
    ends = found.summary().set_index("solver")
    assert list(found.solutions) == ["newton"]
    assert ends["status"].to_dict() == {"newton": "converged", "cones": "failed"}
    assert ends.loc["cones", "message"] == found.failures["cones"]
    assert "pip install 'manykernels[conic]'" in found.failures["cones"]
    assert ends.loc["newton", "message"].startswith("converged: relative duality gap")
    assert found.frame()["solver"].unique().tolist() == ["newton"]


def test_a_solver_that_fails_is_a_row_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> None:
        raise MemoryError("Unable to allocate 9 GiB.")

    monkeypatch.setattr(SpicyMKL, "solve", too_large)
    found = compare_solvers(build_problem(SMALL), ["spicymkl", "working_set"])
    assert found.failures == {"spicymkl": "Unable to allocate 9 GiB."}
    assert found.summary()["status"].tolist() == ["converged", "failed"]


def test_an_error_of_all_solvers_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match="calls Clarabel"):
        compare_solvers(build_problem(SMALL), ["conic"])


def test_the_plot_has_a_line_a_solver_on_a_logarithmic_axis(comparison: SolverComparison) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = comparison.plot()
    assert ax.get_yscale() == "log"
    curve = comparison.frame().query("solver == 'spicymkl'")
    assert np.array_equal(ax.get_lines()[2].get_ydata(), curve["relative_gap"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(NAMES)
    other = pyplot.figure().subplots()
    assert comparison.plot(other) is other
    pyplot.close("all")


def test_the_plot_says_what_to_install(comparison: SolverComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'manykernels\[plot\]'"):
        comparison.plot()


@pytest.mark.parametrize(
    "small",
    [random_problem(1, loss="hinge", regularizer=name) for name in ("simplex", "lq", "lp_ball", "elasticnet_ball")],
    ids=lambda small: small.regularizer_name,
)
def test_the_explanation_names_every_solver_on_the_right_side(small: SmallProblem) -> None:
    problem = build_problem(small)
    first, data, others, *refused = explain_solver_choice(problem).splitlines()
    able = solvers_for(problem)
    if fallback := SOLVERS[able[0]].fallback:
        assert f"'{fallback.name}' goes on" in refused.pop(0)
    assert first.startswith(f"solver='auto' takes '{able[0]}': ")
    assert f"{problem.n_kernels} kernels, {problem.n_samples} samples" in data
    listed = others.split(": ")[1].rstrip(".")
    assert listed == (", ".join(able[1:]) or "none")
    assert {line.split(":")[0].removeprefix("Not ") for line in refused} == set(SOLVERS) - set(able)


@pytest.mark.parametrize(
    ("regularizer", "reason"),
    [
        (BlockL1(0.1), "the regularizer selects kernels"),
        (BlockLq(0.1), "every kernel keeps a weight"),
        (LpBall(0.1, p=2.0), "every kernel keeps a weight"),
        (LpBall(0.1, p=1.0), "the regularizer selects kernels"),
        (ElasticNetBall(0.1, eta=0.5), "the regularizer selects kernels"),
        (ElasticNetBall(0.1, eta=0.0), "every kernel keeps a weight"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_reason_fits_the_solver(regularizer: Regularizer, reason: str) -> None:
    problem = Problem(np.stack([np.eye(4), np.ones((4, 4))]), np.array([1.0, -1.0, 1.0, -1.0]), "hinge", regularizer)
    assert reason in explain_solver_choice(problem).splitlines()[0]


@pytest.mark.parametrize(
    ("loss", "n_kernels", "expected"),
    [
        ("logistic", 4, "smooth_dual"),
        ("squared", 4, "smooth_dual"),
        ("hinge", 4, "working_set"),
        ("logistic", 5, "working_set"),
    ],
)
def test_elastic_nets_of_few_kernels_are_solved_by_their_smooth_dual(loss: str, n_kernels: int, expected: str) -> None:
    kernels, y = np.stack([np.eye(4)] * n_kernels), np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(kernels, y, loss, ElasticNet(0.1, 0.5))
    assert solvers_for(problem)[0] == expected
    assert explain_solver_choice(problem).startswith(f"solver='auto' takes '{expected}'")
    assert solvers_for(Problem(kernels, y, loss, ElasticNet(0.1, 1.0)))[0] == "working_set"


def test_elastic_nets_of_kernels_that_are_never_stored_are_solved_on_a_working_set() -> None:
    X = np.random.default_rng(0).normal(size=(8, 2))
    bank, prepared = KernelBank([("a", Gaussian(1.0), [0]), ("b", Gaussian(1.0), [1])]).fit_prepare(X)
    problem = Problem(LazyStack(bank, prepared), np.sign(X[:, 0]), "logistic", ElasticNet(0.1, 0.5))
    assert solvers_for(problem)[0] == "working_set"


def interrupting(record: Any) -> None:
    if record.iteration == 1:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_returns_the_runs_so_far() -> None:
    solvers = {"first": "working_set", "second": SpicyMKL(callback=interrupting), "third": "interior_point"}
    with pytest.warns(ConvergenceWarning, match="Runs returned: first, second; missing: third") as caught:
        found = compare_solvers(build_problem(SMALL), solvers, tol=1e-9)
    assert found.summary()["status"].tolist() == ["converged", "interrupted"]
    assert found.frame()["solver"].unique().tolist() == ["first", "second"]
    assert caught[0].filename == __file__


def test_an_interrupt_before_the_first_certificate_of_a_run_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SpicyMKL, "solve", interrupted)
    with pytest.warns(ConvergenceWarning, match="Runs returned: working_set; missing: spicymkl, interior_point"):
        found = compare_solvers(build_problem(SMALL), ["working_set", "spicymkl", "interior_point"])
    assert list(found.solutions) == ["working_set"]
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        compare_solvers(build_problem(SMALL), ["spicymkl", "interior_point"])


def test_a_stop_that_a_callback_asks_for_ends_its_own_run() -> None:
    solvers = {"stopped": SpicyMKL(callback=lambda record: record.iteration == 1), "whole": "working_set"}
    found = compare_solvers(build_problem(SMALL), solvers, tol=1e-9)
    assert found.summary()["status"].tolist() == ["stopped_by_callback", "converged"]
