"""Time against the number of kernels and of samples, beside interior-point solvers, with fitted exponents."""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).parents[2]))  # the problems of the papers are those of all experiments

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import DenseStack
from manykernels.objective import Problem
from manykernels.papers import problems as paper_problems
from manykernels.solvers import Solver, get_solver

PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "skm": ("skm", {}),
    "pairs alone": ("skm", {"newton": False, "max_iter": 10**6}),
    "as published": ("skm", {"newton": False, "rescale": False, "max_iter": 10**6}),
    "conic": ("conic", {}),
    "interior point": ("interior_point", {}),
}
SWEEPS = ("kernels", "kernels, few samples", "samples")
FIXED_KERNELS = 24  # in the sweep over samples
COMPILED_KERNELS, COMPILED_SAMPLES = 3, 30  # of the problem on which everything is compiled
SLOW_SECONDS = 1.0  # a run this long is not repeated
WALL_SHARE = 20.0  # of the limit in CPU seconds: the wall clock of a busy machine, where a solver cannot be asked
SHORTEST = 1e-4  # CPU seconds; systems that count in ticks say 0 for less, which has no logarithm


@dataclass(frozen=True)
class Sweep:
    """What is varied, and how long a run may take."""

    kernels: tuple[int, ...]
    samples: tuple[int, ...]
    few: int
    gap: float
    time_limit: float
    repeats: int


@dataclass(frozen=True)
class Row:
    """One fit of a sweep."""

    data: str
    sweep: str
    n_kernels: int
    n_samples: int
    program: str
    repeat: int
    size: int
    cpu_s: float
    iterations: int
    active: int
    support: int
    gap: float
    status: str


def problems(kernels: np.ndarray, sweep: Sweep) -> list[tuple[str, int, int]]:
    """Return (what varies, kernels, samples) of every problem, corners of the largest one."""
    whole, fixed = min(kernels.shape[1], max(sweep.samples)), min(FIXED_KERNELS, max(sweep.kernels or (FIXED_KERNELS,)))
    counts = sorted({min(n, whole) for n in sweep.samples})
    over_kernels = [(name, m, n) for name, n in zip(SWEEPS, (whole, sweep.few), strict=False) for m in sweep.kernels]
    return over_kernels + [(SWEEPS[-1], fixed, n) for n in counts]


def run(
    name: str, kernels: np.ndarray, y: np.ndarray, constant: float, sweep: Sweep, programs: Sequence[str]
) -> Iterator[Row]:
    """Yield both sweeps on one data set, one row a fit; a program stops where it misses the gap or takes too long."""
    given_up: set[tuple[str, str]] = set()
    tiny = corner(kernels, y, constant, COMPILED_KERNELS, COMPILED_SAMPLES)
    for program in programs:  # compiles, which may take longer than the limit of a run
        timed(solver_of(program, sweep), tiny, sweep.time_limit)
    for (varied, m, n), program in itertools.product(problems(kernels, sweep), programs):
        if (varied, program) in given_up:
            continue
        solution, seconds = measure(corner(kernels, y, constant, m, n), program, sweep)
        row = Row(
            data=name,
            sweep=varied,
            n_kernels=m,
            n_samples=n,
            program=program,
            repeat=0,
            size=n if varied == SWEEPS[-1] else m,
            cpu_s=seconds,
            iterations=solution.n_iter,
            active=len(solution.active),
            support=len(solution.support),
            gap=solution.certificate.relative_gap,
            status=ending(solution, sweep.gap),
        )
        yield row
        if row.status != "converged" or seconds > sweep.time_limit:
            given_up.add((varied, program))


def corner(kernels: np.ndarray, y: np.ndarray, constant: float, m: int, n: int) -> Problem:
    """Return the problem of the first kernels and samples."""
    stack = DenseStack(np.ascontiguousarray(kernels[:m, :n, :n]))
    return paper_problems.skm(constant, np.ones(stack.n_kernels)).problem(stack, y[:n])


def ending(solution: Any, gap: float) -> str:
    """Return how a program ended by itself; what another solver had to finish is not converged."""
    if "went on" in solution.message:
        return "handed_on"
    return "converged" if solution.certificate.relative_gap <= gap else str(solution.status)


def measure(problem: Problem, program: str, sweep: Sweep) -> tuple[Any, float]:
    """Solve once to warm up, then several times against the CPU clock unless it is slow; the best one counts."""
    solver = solver_of(program, sweep)
    solution, seconds = timed(solver, problem, sweep.time_limit)
    if seconds < SLOW_SECONDS:
        seconds = min(timed(solver, problem, sweep.time_limit)[1] for _ in range(sweep.repeats))
    return solution, seconds


def solver_of(program: str, sweep: Sweep) -> Solver:
    """Return the solver of a program."""
    name, given = PROGRAMS[program]
    return get_solver(name).configured(tol=sweep.gap, time_limit=WALL_SHARE * sweep.time_limit, **given)


def timed(solver: Solver, problem: Problem, limit: float) -> tuple[Any, float]:
    """Return the solution and CPU seconds, of which a run may take ``limit``; stopping short is a result here."""
    started = time.process_time()
    limited = replace(solver, callback=lambda record: time.process_time() - started > limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = limited.solve(problem)
    return solution, max(time.process_time() - started, SHORTEST)


def exponents(frame: pd.DataFrame) -> pd.DataFrame:
    """Fit ``log t = a + p log size`` by least squares to the finished runs, and once to the two largest alone."""
    rows = []
    for (data, sweep, program), part in frame.groupby(["data", "sweep", "program"], sort=False):
        done = part[part["status"] == "converged"]
        row = {"data": data, "sweep": sweep, "program": program, "points": len(done), "censored": len(part) - len(done)}
        row |= {"largest": done["size"].max(), "seconds_there": done["cpu_s"].max() if len(done) else np.nan}
        if len(done) > 1:
            x, t = np.log(done["size"].to_numpy()), np.log(done["cpu_s"].to_numpy())
            slope, level = np.polyfit(x, t, 1)
            row |= {"exponent": slope, "last_exponent": (t[-1] - t[-2]) / (x[-1] - x[-2]), "level": level}
            row["seconds_there"] = float(np.exp(t[-1]))
        rows.append(row)
    return pd.DataFrame(rows)


def plot(frame: pd.DataFrame, fits: pd.DataFrame, path: str) -> None:
    """Draw every sweep on logarithmic axes with the fitted lines; censored points are hollow."""
    names = list(frame["data"].unique())
    shape = len(names), len(SWEEPS)
    figure, axes = pyplot.subplots(*shape, figsize=(13, 3.4 * shape[0]), layout="constrained", squeeze=False)
    for (row, name), (column, sweep) in itertools.product(enumerate(names), enumerate(SWEEPS)):
        ax, part = axes[row, column], frame[(frame["data"] == name) & (frame["sweep"] == sweep)]
        if part.empty:  # Adult, of which the paper varies the samples only
            ax.remove()
            continue
        for number, program in enumerate(PROGRAMS):
            fit = fits[(fits["data"] == name) & (fits["sweep"] == sweep) & (fits["program"] == program)]
            draw(ax, part[part["program"] == program], fit, program, f"C{number}")
        fixed = part["n_kernels" if sweep == SWEEPS[-1] else "n_samples"].iloc[0]
        label = f"samples N (M = {fixed})" if sweep == SWEEPS[-1] else f"kernels M (N = {fixed})"
        ax.set(title=name, xlabel=label, ylabel="CPU seconds", xscale="log", yscale="log")
        sizes = sorted(part["size"].unique())
        ax.set_xticks(sizes, labels=[str(size) for size in sizes])
        ax.minorticks_off()
        ax.grid(visible=True, alpha=0.25)
        ax.legend(frameon=False, fontsize="x-small")
    figure.savefig(path, dpi=75)
    pyplot.close(figure)


def draw(ax: Any, own: pd.DataFrame, fit: pd.DataFrame, program: str, color: str) -> None:
    """Draw the points of one program and the line through those that finished."""
    if own.empty:
        return
    done = own["status"] == "converged"
    ax.plot(own["size"][done], own["cpu_s"][done], "o", color=color, markersize=4)
    ax.plot(own["size"][~done], own["cpu_s"][~done], "o", color=color, fillstyle="none")
    slope = fit["exponent"].iloc[0] if "exponent" in fit else np.nan
    if np.isnan(slope):
        ax.plot([], [], "o", color=color, label=f"{program}: no fit")
        return
    line = np.exp(fit["level"].iloc[0]) * own["size"] ** slope
    ax.plot(own["size"], line, "-", color=color, label=f"{program}: {slope:.2f}")
