"""The step rule of SGD-1s: draws a solution, length of steps and restarts, at the same CPU seconds.

    python experiments/thesis/steps.py [--columns 40 100] [--seconds 2] [--repeats 3] [--quick] [--output DIR]

The data are those of section 6.1.3 of Afkanpour's thesis, ``p = 2`` at alpha 1e-4. Writes
``thesis_polynomial_steps_runs.csv`` (a row a run, at once, and not run again) and prints a row a setting: objective and
test error, geometric means over the data sets.
The last row tells how many draws make an estimate as long as its error at the zero model,
``(||grad J||_1 / ||grad J||_2)^2``. "All" is the optimum over all products, one vector each.
"""

from __future__ import annotations

import _polynomial_runs as runs  # first: it limits threads before NumPy is loaded

# isort: split
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _polynomial_synthetic import DEGREE, geometric, monomial_task
from _tasks import Task
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report
from experiments.program import command_line

from manykernels.discovery.polynomial.descent import InteractionSampler, MirrorDescent
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import family_norm
from manykernels.discovery.polynomial.product_bases import Index, RankOneBase
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.solvers import get_solver
from manykernels.solvers.learners.learners import fit_learner
from manykernels.validation.arrays import Array

CONSOLE = Console(width=150)
ALPHA = 1e-4
LISTED = 40  # columns up to which all products are tried unasked
RUNS = "thesis_polynomial_steps_runs.csv"
KEYS = ("r", "draws", "scale", "restart_after", "repeat")
OTHERS = ("steps", "cpu_s", "objective", "error", "products")
NEEDED = "needed"  # draws that make an estimate of the gradient, at the zero model of the first data set


@dataclass(frozen=True)
class Rule:
    """Draws a solution, what steps are multiplied by, and steps between restarts (0: none)."""

    draws: int
    scale: float = 1.0
    restart_after: int = 0


EVERYTHING = Rule(0)  # no draws: all products
RULES = (
    *(Rule(1), Rule(1, 8.0), Rule(1, 1.0, 30)),
    *(Rule(50, 0.125), Rule(50), Rule(50, 8.0), Rule(50, 1.0, 20)),
    *(Rule(200), Rule(1000, 0.125), Rule(1000), Rule(1000, 8.0), Rule(1000, 1.0, 5), Rule(4000)),
    EVERYTHING,
)
QUICK = (Rule(1), Rule(20), Rule(20, 1.0, 2), EVERYTHING)


def problem_of(task: Task) -> tuple[PolynomialFamily, Problem]:
    """Return the family of a data set and the problem over it."""
    X, y = task.train
    family = PolynomialFamily.create(RankOneBase(np.ascontiguousarray(X.T)), DEGREE)
    shell = Problem(family.base.stack([()]), y, get_loss("squared"), family.regularizer(ALPHA * len(y)))
    return family, shell


def race(task: Task, rule: Rule, seconds: float, seed: int) -> dict[str, Any]:
    """Take steps for some CPU seconds, and return what their average is worth."""
    family, shell = problem_of(task)
    if rule == EVERYTHING:
        return everything(task)
    descent = MirrorDescent(
        family, shell, ALPHA * len(shell.y), np.random.default_rng(seed),
        batch=rule.draws, scale=rule.scale, restart_after=rule.restart_after,
    )  # fmt: skip
    started = time.process_time()
    while time.process_time() - started < seconds and descent.step():
        pass
    spent, weights = time.process_time() - started, descent.average()
    fit = fit_learner(shell, descent.stack().combine(weights))
    measured = descent.steps, spent, fit.primal_value / len(shell.y)
    return dict(zip(OTHERS, (*measured, *quality(task, family, descent.indices, weights, fit.rho, fit.b)), strict=True))


def everything(task: Task) -> dict[str, Any]:
    """Return what the optimum over all products is worth."""
    family, shell = problem_of(task)
    started = time.process_time()
    indices = [i for d in range(DEGREE + 1) for i in combinations_with_replacement(range(family.base.n_base), d)]
    problem = replace(shell, stack=family.base.stack(indices), kernel_penalties=family.penalties(indices))
    found = get_solver("block_coordinate").configured(tol=1e-2, max_iter=100).solve(problem)
    measured = found.n_iter, time.process_time() - started, found.certificate.primal / len(shell.y)
    model = found.kernel_weights, found.dual_coef, found.intercept
    return dict(zip(OTHERS, (*measured, *quality(task, family, indices, *model)), strict=True))


def quality(task: Task, family: PolynomialFamily, indices: list[Index], d: Array, rho: Array, b: float) -> Any:
    """Return the test error of a model, and its number of products."""
    assert isinstance(family.base, RankOneBase)
    kept = np.flatnonzero(d)
    indices = [indices[m] for m in kept]
    coefficients = d[kept] * (family.base.features(indices) @ rho)
    values = coefficients @ family.base.features_of(np.ascontiguousarray(task.test[0].T), indices) + b
    return runs.squared_error(values, task.test[1]), len(kept)


def needed_draws(task: Task) -> float:
    """Return how many draws make an estimate of the gradient as long as its error, at the zero model."""
    family, shell = problem_of(task)
    rho, _ = shell.zero_model()
    return float((2.0 * InteractionSampler(family, rho).gradient_norm / family_norm(family, rho).norm) ** 2)


def summary(frame: pd.DataFrame) -> str:
    """Return a table for a page, a row a rule and two columns an r."""
    sizes = sorted(frame["r"].unique())
    rows = []
    for rule, own in frame.groupby(list(KEYS[1:4])):
        draws, scale, after = rule
        cells = [f"{draws:g}" if draws else "all", f"{scale:g}", f"every {after:g} steps" if after else "none"]
        for r in sizes:
            part = own[own["r"] == r]
            values = f"{part['steps'].mean():.0f}", f"{part['cpu_s'].mean():.1f}", f"{geometric(part['objective']):.1e}"
            cells += [*values, f"{geometric(part['error']):.1e}"] if len(part) else [""] * 4
        rows.append(cells)
    head = ["draws a solution", "scale", "restarts"]
    needed = [f"{frame.loc[frame['r'] == r, NEEDED].iloc[0]:.0f} draws" for r in sizes]
    rows.append(["as long as its error", "", "", *(cell for draws in needed for cell in (draws, "", "", ""))])
    head += [f"r = {r}: {what}" for r in sizes for what in ("steps", "CPU s", "objective", "error")]
    return markdown(head, rows)


LEDGERS = {RUNS: lambda frame: {"steps": summary(frame)}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the table lacks, print and save."""
    parser = command_line(__doc__, "thesis/polynomial", data="not needed: the data sets are drawn at random")
    parser.add_argument("--columns", type=int, nargs="+", default=[40, 100])
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds of a run")
    parser.add_argument("--repeats", type=int, default=3, help="data sets")
    parser.add_argument("--everything", action="store_true", help="all products at more than 40 columns, too: minutes")
    options = parser.parse_args(arguments)
    if options.quick:
        options.columns, options.seconds, options.repeats = [6], 0.1, 1
    table = Ledger(options.output / RUNS, KEYS, (*OTHERS, NEEDED))
    sizes = (60, 100) if options.quick else (500, 1000)
    needed = {r: needed_draws(monomial_task(r, *sizes, 0)) for r in options.columns}
    for seed in range(options.repeats):
        for r in options.columns:
            task = monomial_task(r, *sizes, seed)
            for rule in QUICK if options.quick else RULES:
                key = (r, *astuple(rule), seed)
                listed = rule != EVERYTHING or r <= LISTED or options.everything
                if listed and key not in table:
                    row = dict(zip(KEYS, key, strict=True)) | {NEEDED: needed[r]}
                    table.add(row | race(task, rule, options.seconds, seed))
    CONSOLE.print(report(LEDGERS, options.output, options.page), markup=False, highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
