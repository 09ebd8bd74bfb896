"""Both bounds of Algorithm 1 iteration by iteration, and what other solvers need for the same gap."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _published import solve_as_published
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).parents[2]))  # the problems of the papers are those of all experiments

from manykernels.exceptions import ConvergenceWarning
from manykernels.objective import Problem
from manykernels.papers import problems as paper_problems
from manykernels.solvers import get_solver

REFERENCE_TOL = 1e-8
WALL_SHARE = 3.0  # of the limit in CPU seconds: the wall clock of a busy machine, where a solver cannot be asked
PUBLISHED = "Algorithm 1, LIBSVM"
ALTERNATIONS: dict[str, dict[str, Any]] = {
    "citi, Algorithm 2, plain": {"accelerate": False, "weight_update": "wsr"},
    "citi": {},
}
SIMPLEX_SOLVERS: dict[str, dict[str, Any]] = {
    "working_set": {},
    "conic": {},
    "levelmkl": {"alternate": False},
    "simplemkl": {},
    "silp": {"alternate": False},
    "hessianmkl": {},
    "skm": {},
}


def reference(kernels: np.ndarray, y: np.ndarray, constant: float, eta: float) -> Any:
    """Return the certificate of the optimum, closed to ``REFERENCE_TOL``, in the units of the paper."""
    posed = paper_problems.citi(constant, eta)
    solver = get_solver("working_set" if eta == 1 else "citi").configured(tol=REFERENCE_TOL, max_iter=3000)
    problem = paper_problems.simplemkl(constant) if eta == 1 else posed
    return quietly(solver, problem.problem(kernels, y)).certificate


def bounds(
    kernels: np.ndarray, y: np.ndarray, constant: float, etas: tuple[float, ...], *, tol: float, most: int
) -> pd.DataFrame:
    """Return both bounds of Algorithm 1 for every eta, and the certified bounds of the optimum beside them."""
    frames = []
    for eta in etas:
        run = solve_as_published(kernels, y, constant, eta, tol=tol, most=most, seconds=60.0)
        certificate = reference(kernels, y, constant, eta)
        best, least = constant * certificate.primal, constant * certificate.dual
        frames.append(run.assign(eta=eta, optimum=best, optimum_at_least=least))
    return pd.concat(frames, ignore_index=True)


def check_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Return, a row an eta, how far the bounds ever were on the wrong side of the optimum, relative to it.

    The upper bound is that of the machine, which LIBSVM leaves slightly below its own optimum.
    """
    rows = []
    for eta, run in table.groupby("eta", sort=False):
        optimum = run["optimum"]
        row = {"eta": eta, "repeat": 0, "iterations": len(run), "last_gap": run["relative_gap"].iloc[-1]}
        row["lower_above_optimum"] = float((run["lower"] / optimum - 1).clip(lower=0).max())
        row["upper_below_optimum"] = float((1 - run["upper"] / run["optimum_at_least"]).clip(lower=0).max())
        row["lower_not_positive"] = int((run["lower"] <= 0).sum())
        row["upper_rises"] = float((run["upper"].diff() / optimum).clip(lower=0).max())
        row["optimum_certified_to"] = float((optimum / run["optimum_at_least"] - 1).iloc[0])
        row["cpu_s"] = run["cpu_s"].iloc[-1]
        rows.append(row)
    return pd.DataFrame(rows)


def compare(
    kernels: np.ndarray, y: np.ndarray, constant: float, etas: tuple[float, ...], tols: tuple[float, ...], limit: float
) -> Iterator[dict[str, Any]]:
    """Yield what each program needs for a relative gap, at most ``limit`` CPU seconds.

    At eta = 1 the solvers for the simplex enter as well.
    """
    for eta in etas:
        run = solve_as_published(kernels, y, constant, eta, tol=min(tols), most=10**6, seconds=limit)
        problem = paper_problems.citi(constant, eta).problem(kernels, y)
        simplex = paper_problems.simplemkl(constant).problem(kernels, y) if eta == 1 else None
        for tol in tols:
            key = {"eta": eta, "tol": tol, "repeat": 0}
            yield key | published_row(run, tol)
            for label, given in ALTERNATIONS.items():
                yield key | solver_row(label, "citi", problem, tol, limit, given)
            for name, given in SIMPLEX_SOLVERS.items() if simplex else ():
                yield key | solver_row(name, name, simplex, tol, limit, given)


def published_row(run: pd.DataFrame, tol: float) -> dict[str, Any]:
    """Return the first iteration of Algorithm 1 with this gap, or its end."""
    reached = run[run["relative_gap"] < tol]
    last = (reached if len(reached) else run.tail(1)).iloc[0]
    status = "converged" if len(reached) else "time_limit"
    return {"program": PUBLISHED, "status": status, "gap": last["relative_gap"]} | {
        "iterations": int(last["iteration"]),
        "cpu_s": last["cpu_s"],
    }


def solver_row(
    label: str, name: str, problem: Problem, tol: float, limit: float, given: dict[str, Any]
) -> dict[str, Any]:
    """Solve once against the clock, after a run on three kernels that pays for compilation."""
    stack = problem.stack.block()[:3]
    quietly(get_solver(name).configured(tol=tol, **given), replace(problem, stack=stack, kernel_penalties=None))
    started = time.process_time()
    solver = get_solver(name).configured(
        tol=tol,
        time_limit=WALL_SHARE * limit,
        callback=lambda record: time.process_time() - started > limit,
        max_iter=10**5,
        **given,
    )
    solution = quietly(solver, problem)
    seconds = time.process_time() - started
    return {"program": label, "status": str(solution.status), "gap": solution.certificate.relative_gap} | {
        "iterations": solution.n_iter,
        "cpu_s": seconds,
        "active": len(solution.active),
    }


def quietly(solver: Any, problem: Problem) -> Any:
    """Solve; stopping short is a result here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solver.solve(problem)


def plot(table: pd.DataFrame, shown: float, path: str) -> None:
    """Draw both bounds at one eta, and the gap at all of them."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
    run = table[table["eta"] == shown]
    optimum = run["optimum"].iloc[0]
    left.plot(run["iteration"], run["upper"] / optimum, marker=".", label="upper bound")
    left.plot(run["iteration"], run["lower"] / optimum, marker=".", label="lower bound")
    left.axhline(1.0, color="#8a8f98", linewidth=0.8, linestyle="--")
    left.set(xlabel="iteration", ylabel="objective over the optimum", title=f"eta = {shown:g}", ylim=(-0.5, 2.5))
    left.set_xlim(0, 25)
    for eta, rows in table.groupby("eta", sort=False):
        right.plot(rows["iteration"], rows["relative_gap"].replace(np.inf, np.nan), label=f"eta = {eta:g}")
    right.set(xscale="log", yscale="log", xlabel="iteration", ylabel="upper / lower - 1")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e3e6ea", linewidth=0.8)
        ax.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def plot_updates(table: pd.DataFrame, path: str) -> None:
    """Draw the mean number of updates of each rule against eta."""
    figure, ax = pyplot.subplots(figsize=(5.5, 3.6), layout="constrained")
    for rule, rows in table.groupby("rule", sort=False):
        ax.plot(rows["eta"], rows["updates"], marker=".", label=str(rule))
    ax.axvline(0.25, color="#8a8f98", linewidth=0.8, linestyle="--")
    ax.set(xlabel="eta", ylabel="updates until within 1e-9 of the optimum", ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
