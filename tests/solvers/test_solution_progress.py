"""Bars and lines on the terminal: what is shown, that bars reach their total, and that silence is silent."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from manykernels import Gaussian, KernelBank, solve
from manykernels.estimators import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.path import regularization_path
from manykernels.solvers import WorkingSet, solution
from manykernels.solvers.solution import count_to

ALPHAS = (0.1, 0.03, 0.01)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=40)
BANK = KernelBank([(f"x{j} {w}", Gaussian(w), [j]) for j in range(2) for w in (0.5, 2.0)], normalize=None)
EDGE = "ignore:The best strength:UserWarning"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 120 columns would receive."""
    text = io.StringIO()
    monkeypatch.setattr(
        solution, "Console", lambda **_: Console(file=text, force_terminal=True, width=120, color_system=None)
    )
    return text


def regressor(**parameters: Any) -> MKLRegressorCV:
    return MKLRegressorCV(BANK, alphas=ALPHAS, cv=3, **parameters)


@pytest.mark.parametrize("verbose", [1, 2])
def test_a_count_ends_at_its_total(terminal: io.StringIO, verbose: int) -> None:
    with count_to(3, "things", verbose) as advance:
        for thing in range(3):
            advance(f"thing {thing}")
    shown = terminal.getvalue()
    assert "things" in shown
    assert "3/3" in shown
    assert ("thing 1\n" in shown) == (verbose == 2)


def test_bars_tell_when_the_end_is_near(terminal: io.StringIO) -> None:
    """The time left by the speed so far: unknown at first, none at the end."""
    with count_to(2, "things", 1) as advance:
        advance("one")
        advance("two")
    shown = terminal.getvalue()
    assert "left -:--:--" in shown
    assert "left 0:00:00" in shown
    solve(BANK.fit(X).block(*[BANK.fit(X).prepare(X)] * 2), Y, loss="squared", penalty="l1", strength=1, verbose=1)
    assert "left 0:00:00" in terminal.getvalue().rsplit("working_set", 1)[-1]


def test_a_bar_is_taken_down_by_an_interrupt(terminal: io.StringIO) -> None:
    def counting() -> None:
        with count_to(3, "things", 1) as advance:
            advance("one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        counting()
    assert "1/3" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1  # cursor off and on


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings(EDGE)
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("verbose", [1, 2])
def test_cross_validation_counts_the_models_of_its_folds(
    terminal: io.StringIO, verbose: int, n_jobs: int | None
) -> None:
    regressor(resources={"verbose": verbose, "n_jobs": n_jobs}).fit(X, Y)
    shown = terminal.getvalue()
    assert "models of the folds" in shown
    assert "9/9" in shown
    assert shown.count("score") >= (9 if verbose == 2 else 1)
    assert "iteration" in shown  # of the last fit


@pytest.mark.filterwarnings(EDGE)
def test_paths_and_classes_count_together(terminal: io.StringIO) -> None:
    labels = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
    given = {"penalty": "elasticnet", "l1_ratios": (0.3, 0.9), "cv": 2, "resources": {"verbose": 1}}
    MKLClassifierCV(BANK, n_alphas=3, search={"alpha_min_ratio": 0.2}, **given).fit(X, labels)
    assert "12/12" in terminal.getvalue()


@pytest.mark.filterwarnings(EDGE)
def test_the_own_bar_of_a_solver_gives_way_to_the_count(terminal: io.StringIO) -> None:
    regressor(resources={"verbose": 2}, solver=WorkingSet(verbose=2)).fit(X, Y)
    lines = [line for line in terminal.getvalue().splitlines() if "passes" in line]
    # The lines of the last fit only, whose iterations start at 0 once.
    assert sum("iteration 0 " in line for line in lines) == 1


@pytest.mark.parametrize("verbose", [1, 2])
def test_a_path_counts_its_strengths(terminal: io.StringIO, verbose: int) -> None:
    regularization_path(X, Y, kernels=BANK, alphas=ALPHAS, verbose=verbose)
    shown = terminal.getvalue()
    assert "strengths of the path" in shown
    assert "3/3" in shown
    assert ("alpha 0.03 " in shown) or verbose == 1
    assert "iteration" not in shown


def test_one_run_shows_its_gap(terminal: io.StringIO) -> None:
    solve(BANK.fit(X).block(*[BANK.fit(X).prepare(X)] * 2), Y, loss="squared", penalty="l1", strength=1, verbose=2)
    assert "iteration 0  gap" in terminal.getvalue()


@pytest.mark.filterwarnings(EDGE)
def test_silence_is_silent(terminal: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    regressor().fit(X, Y)
    regularization_path(X, Y, kernels=BANK, alphas=ALPHAS)
    assert terminal.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_a_bar_leaves_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with count_to(2, "folds", verbose=1) as advance:
        advance("first")
        advance("second")
    assert capsys.readouterr() == ("", "")
