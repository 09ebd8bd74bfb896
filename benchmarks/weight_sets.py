"""Lp balls and elastic-net balls at a gap of 1e-8: the default solver, CVXPY + Clarabel, and block coordinate descent.

``python benchmarks/weight_sets.py [--problems N] [--time-limit SECONDS] [--smoke] [--output DIR]``
``python benchmarks/weight_sets.py --contract 2000``

Random problems of the tests, half of them on kernels of low rank, with the lp ball at p = 1, 1.5, 2 and 4 and the
elastic-net ball at eta = 0, 0.5 and 1 in turn. *Same optimum*: the objective is that of CVXPY + Clarabel to 1e-6, or to
what Clarabel's own answer is certified to if that is less. Then larger problems (Gaussian kernels on single columns,
150 samples and 150 kernels), by time only. Gaps are recomputed in plain NumPy; seconds are CPU seconds of one thread.

``--contract`` runs every solver that accepts such a set, at tolerances of 1e-2 and 1e-4, on problems drawn anew, and
counts where the weights are more than 1e-12 off the boundary of their set, and where the objective at exactly these
weights is below the certified bound.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels.solvers.registry import choose_solver, get_solver, solvers_for
from manykernels.testing.problems import LOSSES, SmallProblem, random_problem, small_problems
from manykernels.testing.solver import build_problem, certificate_in_numpy, check_weight_set, model_of

sys.path.insert(0, str(Path(__file__).parents[1]))  # the problems and the conic oracle are those of the tests
from tests.support.conic import conic_optimum
from tests.support.low_rank import low_rank_problem

GAP, SAME, ORACLE_REFUSED = 1e-8, 1e-6, 1e-5
SETS: tuple[tuple[str, dict[str, float]], ...] = (
    *(("lp_ball", {"p": p}) for p in (1.0, 1.5, 2.0, 4.0)),
    *(("elasticnet_ball", {"eta": eta}) for eta in (0.0, 0.5, 1.0)),
)
CONTRACT_TOLERANCES = (1e-2, 1e-4)
LARGE_LOSSES = ("hinge", "logistic", "epsilon_insensitive", "squared")
PLAIN = 100  # problems of the tests
SMOKE_PROBLEMS, SMOKE_SECONDS = 7, 3.0
FORMATS = {"worst gap": ".1e", "CPU s": ".1f", "alternation CPU s": ".1f", "worst": ".1e"}


def drawn(number: int) -> SmallProblem:
    """Return the problem of that number: one of the tests' or on kernels of low rank, with a set in turn."""
    name, params = SETS[number % len(SETS)]
    half = number // 2
    small = low_rank_problem(half) if number % 2 else _plain()[half % PLAIN]
    text = f"{small.loss_name} + {name} {params}, number {number}: {small.description}"
    return replace(small, regularizer_name=name, regularizer_params=params, description=text)


@cache
def _plain() -> tuple[SmallProblem, ...]:
    return tuple(small_problems(PLAIN))


def large(loss: str, place: int, size: int, seed: int) -> SmallProblem:
    """Return Gaussian kernels of one column each, of which five matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, size))
    kernels = np.exp(-((X.T[:, :, None] - X.T[:, None]) ** 2) / 2)
    signal = np.sin(2 * X[:, :5]).sum(axis=1) + 0.3 * rng.normal(size=size)
    y = np.where(signal > 0, 1.0, -1.0) if loss in ("hinge", "logistic") else signal
    name, params = SETS[place]
    loss_params = {"epsilon": 0.1} if loss == "epsilon_insensitive" else {}
    given = {"loss_params": loss_params, "regularizer_params": params}
    return SmallProblem(kernels, y, loss, name, 1e-2 * size, description=f"{loss}, N = M = {size}", **given)


def run(small: SmallProblem, solver: Any, time_limit: float) -> dict[str, Any]:
    """Solve once; return the gap and the primal value in plain NumPy, and the CPU seconds."""
    problem, started = build_problem(small), time.process_time()
    with common.quiet():
        solution = solver(tol=GAP, time_limit=time_limit, max_iter=10_000).solve(problem)
    seconds = time.process_time() - started
    judged = certificate_in_numpy(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    return {"gap": judged.relative_gap, "primal": judged.primal, "seconds": seconds}


def row(small: SmallProblem, time_limit: float, *, oracle: bool) -> dict[str, Any]:
    """Solve by the default and by alternation, and compare with CVXPY if it is asked."""
    label = f"{small.regularizer_name} {small.regularizer_params}"
    default = run(small, choose_solver(build_problem(small))[0], time_limit)
    slow = run(small, get_solver("block_coordinate"), time_limit)
    found = {"set": label, "problem": small.description, **default}
    found |= {"slow_gap": slow["gap"], "slow_seconds": slow["seconds"]}
    if oracle:
        best = conic_optimum(small, accept=ORACLE_REFUSED)
        found["difference"] = abs(default["primal"] / best.primal - 1.0)
        found["same"] = found["difference"] <= max(SAME, best.excess)
    return found


def contract(n_problems: int) -> pd.DataFrame:
    """Return one row a solver and tolerance: problems, and the two faults of the contract of weight sets."""
    rows: list[dict[str, Any]] = []
    for seed in range(n_problems):
        name, params = SETS[seed % len(SETS)]
        drawn_here = random_problem(seed, loss=LOSSES[seed % len(LOSSES)], regularizer="simplex")
        small = replace(drawn_here, regularizer_name=name, regularizer_params=params, description=f"seed {seed}")
        problem = build_problem(small)
        for key, tol in product(solvers_for(problem), CONTRACT_TOLERANCES):
            rows.append({"solver": key, "set": f"{name} {params}", "tol": tol} | judged(small, key, tol))
    return pd.DataFrame(rows).groupby(["solver", "tol"]).sum(numeric_only=True).reset_index()


def judged(small: SmallProblem, key: str, tol: float) -> dict[str, int]:
    """Return whether the weights are off their boundary by more than 1e-12, or the objective is below the bound."""
    with common.quiet():
        solution = get_solver(key)(tol=tol, time_limit=20.0).solve(build_problem(small))
    model = model_of(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    fault = ""
    try:
        check_weight_set(small, model, solution.kernel_weights, solution.certificate.dual)
    except AssertionError as error:
        fault = str(error)
        common.CONSOLE.print(f"{key}, tol {tol:g}: {fault}", soft_wrap=True)
    off = "boundary" in fault
    return {"problems": 1, "off the boundary": int(off), "below the bound": int(bool(fault) and not off)}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row a set."""
    rows = []
    for label, part in frame.groupby("set", sort=False):
        cells = {"set": label, "problems": len(part), "at 1e-8": int((part["gap"] <= GAP).sum())}
        if "same" in part:
            cells["same optimum"] = int(part["same"].sum())
        cells |= {"worst gap": float(part["gap"].max()), "CPU s": float(part["seconds"].sum())}
        cells |= {"alternation at 1e-8": int((part["slow_gap"] <= GAP).sum())}
        rows.append(cells | {"worst": float(part["slow_gap"].max()), "alternation CPU s": part["slow_seconds"].sum()})
    return pd.DataFrame(rows)


def main() -> None:
    """Solve, print, save."""
    parser = common.parser("Weight sets at 1e-8: default, CVXPY, alternation.")
    parser.add_argument("--problems", type=int, default=200, help="number of random problems")
    parser.add_argument("--time-limit", type=float, default=20.0, help="wall-clock seconds a run may take")
    parser.add_argument("--size", type=int, default=150, help="samples and kernels of the large problems")
    parser.add_argument("--contract", type=int, default=0, metavar="N", help="only the contract, on N problems")
    options = parser.parse_args()
    if options.smoke:
        options.contract = 0
        options.problems, options.time_limit, options.size = SMOKE_PROBLEMS, SMOKE_SECONDS, 20
    record = common.environment()
    common.print_environment(record)
    if options.contract:
        common.print_table(contract(options.contract), f"contract of weight sets, {options.contract} problems", {})
        return
    small = pd.DataFrame([row(drawn(i), options.time_limit, oracle=True) for i in range(options.problems)])
    common.print_table(table(small), f"{options.problems} random problems", FORMATS)
    for one in small[(small["gap"] > GAP) | ~small["same"]].itertuples():
        common.CONSOLE.print(f"missed: gap {one.gap:.1e}, off by {one.difference:.1e}: {one.problem}", soft_wrap=True)
    places = [(loss, place) for place in range(len(SETS)) for loss in LARGE_LOSSES]
    many = [row(large(*one, options.size, options.seed), options.time_limit, oracle=False) for one in places]
    big = pd.DataFrame(many)
    common.print_table(table(big), f"{len(LARGE_LOSSES)} losses, N = M = {options.size}", FORMATS)
    common.save(small, record, options.output, "weight_sets")
    common.save(big, record, options.output, "weight_sets_large")


if __name__ == "__main__":
    main()
