"""Table 4 of the SpicyMKL publication and what goes with it: iterations, SVM evaluations, CPU time, kernels, accuracy.

    python experiments/spicymkl/table4.py --data DIR [--quick] [--output DIR]

``DIR`` holds ``liver.npz``, ``pima.npz``, ``ionosphere.npz``, ``wpbc.npz`` and ``sonar.npz`` (arrays ``X`` and ``y``).
Without it pima, ionosphere and sonar are fetched from OpenML, which has the other two in no usable form. Every run is
written to ``spicymkl_runs.csv`` at once and not repeated by the next call. ``--only``, ``--limit`` and ``--splits``
give some solvers more time on fewer splits; what ``--only`` names is written to ``spicymkl_long_runs.csv``, since
tables are of one limit.
"""

from __future__ import annotations

from _racing import (  # first: it limits threads before NumPy is loaded
    AS_PRINTED,
    BLOCK_NORM,
    ELASTIC_NET,
    SPLITTING,
    SQUARED_NORM,
    Entrant,
    matching_constant,
    pose,
    race,
    warm_up,
)

# isort: split
import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _as_printed import scores as printed_scores
from _claims import table_claims
from _data_sets import load_table
from _paper import CONSTANTS, DATA_SETS
from _tables import all_tables, draw_seconds, fastest, summarize
from numpy.typing import NDArray
from rich.console import Console
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, report
from experiments.program import command_line

from manykernels import KernelBank
from manykernels.grams import GramStack, build_stack, cross_apply
from manykernels.papers import PrintedRun

Array = NDArray[Any]

ENTRANTS = (*BLOCK_NORM, *AS_PRINTED, *SPLITTING, *SQUARED_NORM, *ELASTIC_NET)
RUNS, LONG_RUNS = "spicymkl_runs.csv", "spicymkl_long_runs.csv"
KEYS = ("data", "constant", "repeat", "problem", "solver")
MEASURED = ("status", "cpu_s", "n_iter", "machines", "newton_steps", "passes", "active", "relative_gap", "accuracy")
CONSOLE = Console(width=150)


@dataclass(frozen=True)
class Sizes:
    """How much is computed; limits in CPU seconds a fit."""

    data: tuple[str, ...]
    constants: tuple[float, ...]
    splits: int
    slow_splits: int
    limit: float
    most_samples: int
    most_columns: int
    only: tuple[str, ...] = ()

    @property
    def entrants(self) -> tuple[Entrant, ...]:
        """The solvers that run: all, or those that are named."""
        return tuple(entrant for entrant in ENTRANTS if not self.only or entrant.label in self.only)


FULL = Sizes(DATA_SETS, CONSTANTS, 10, 3, 20.0, 10**6, 10**6)
QUICK = Sizes(("liver", "wpbc"), (0.05, 0.5), 2, 1, 2.0, 40, 1)


@dataclass(frozen=True)
class Split:
    """One random split with its kernels: the training stack and what predicts on test rows."""

    bank: Any
    stack: GramStack
    X: Array
    y: Array
    train: Array
    test: Array

    def accuracy(self, solution: Any) -> float:
        """Return the share of test rows whose class the model tells; NaN without a model."""
        if solution is None:
            return float("nan")
        rows, support = self.bank.prepare(self.X[self.test]), self.bank.prepare(self.X[self.train])
        if isinstance(solution, PrintedRun):
            values = printed_scores(
                solution, lambda weights, part: cross_apply(self.bank, rows, support, weights, part)
            )
        else:
            values = cross_apply(self.bank, rows, support, solution.kernel_weights, solution.dual_coef)
            values = values + solution.intercept
        return float(np.mean(np.where(values >= 0, 1.0, -1.0) == self.y[self.test]))


def make_split(X: Array, y: Array, seed: int) -> Split:
    """Split 80/20 at random and evaluate the kernels of the SimpleMKL protocol, 27 (p + 1) of unit trace."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    bank = KernelBank.simplemkl(normalize="trace").fit(X[train])
    return Split(bank, build_stack(bank, X[train], kind="packed", memory_budget="4 GB"), X, y, train, test)


def planned(sizes: Sizes) -> Iterator[tuple[str, int, bool]]:
    """Yield data set, split, and whether it is the turn of the slow solvers, split by split.

    A run that is cut off then has fewer splits of everything.
    """
    for split in range(sizes.splits):
        for slow in (False, True)[: 1 + (split < sizes.slow_splits)]:
            for data in sizes.data:
                yield data, split, slow


def given_up(ledger: Ledger, entrant: Entrant, data: str, constant: float) -> bool:
    """Return whether a solver other than the default has failed on an earlier split of this cell."""
    if entrant.solver == "working_set":
        return False
    runs = ledger.find(data=data, constant=constant, problem=entrant.problem, solver=entrant.label)
    return any(run["status"] != "converged" for run in runs)


def run_split(ledger: Ledger, sizes: Sizes, data: str, split: int, slow: bool, X: Array, y: Array) -> None:
    """Run everything on one split that the ledger lacks."""
    made: Split | None = None
    for constant in sizes.constants:
        squared = 0.0
        for entrant in (entrant for entrant in sizes.entrants if entrant.slow == slow):
            key = {"data": data, "constant": constant, "repeat": split}
            key |= {"problem": entrant.problem, "solver": entrant.label}
            if ledger.find(**key) or given_up(ledger, entrant, data, constant):
                continue
            made = make_split(X, y, split) if made is None else made
            warm_up(sizes.entrants)
            target = made.y[made.train]
            if entrant.problem == "squared":
                squared = squared or matching_constant(made.stack, target, constant)
                if not squared:
                    continue
            problem = pose(entrant.problem, constant, squared).problem(made.stack, target)
            measured, solution = race(entrant, problem, sizes.limit)
            ledger.add(key | measured | {"accuracy": round(made.accuracy(solution), 4)})


def trimmed(X: Array, y: Array, sizes: Sizes) -> tuple[Array, Array]:
    """Return the first columns and a few random rows of a set, for a quick run."""
    rows = np.random.default_rng(0).permutation(len(y))[: sizes.most_samples]
    return (X[rows][:, : sizes.most_columns], y[rows]) if len(rows) < len(y) else (X[:, : sizes.most_columns], y)


def run_all(ledger: Ledger, sizes: Sizes, folder: str | None) -> None:
    """Run what the ledger lacks, with a line of progress a split."""
    for data, split, slow in planned(sizes):
        samples = load_table(data, folder)
        if samples is None:
            CONSOLE.print(f"{data}: no archive, left out")
            continue
        run_split(ledger, sizes, data, split, slow, *trimmed(*samples, sizes))
        CONSOLE.print(f"{data}, split {split + 1}, {'slow' if slow else 'fast'} solvers: done", highlight=False)


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return all tables of Table 4 and what goes with it."""
    return all_tables(summarize(runs), fastest(runs)) | table_claims(runs)


def long_tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return iterations and machines of few solvers with another limit, of which seconds and rivals say nothing."""
    return {f"{name}, longer": text for name, text in list(tables(runs).items())[:2]}


LEDGERS = {RUNS: tables, LONG_RUNS: long_tables}


def chosen(sizes: Sizes, arguments: argparse.Namespace) -> Sizes:
    """Return the sizes with what the command line says otherwise."""
    splits = arguments.splits or sizes.splits
    return replace(
        sizes,
        splits=splits,
        slow_splits=min(splits, arguments.slow_splits or sizes.slow_splits),
        limit=arguments.limit or sizes.limit,
        only=tuple(arguments.only),
    )


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(__doc__, "spicymkl")
    parser.add_argument("--again", help="solver whose runs are forgotten and made again")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what the runs so far say")
    labels = list(dict.fromkeys(entrant.label for entrant in ENTRANTS))
    parser.add_argument("--only", nargs="+", choices=labels, default=[], metavar="SOLVER", help="labels of solvers")
    parser.add_argument("--limit", type=float, help="CPU seconds a fit")
    parser.add_argument("--splits", type=int, help="random splits of every set")
    parser.add_argument("--slow-splits", type=int, help="the same of slow solvers, at most 3 unless given")
    arguments = parser.parse_args()
    sizes, output = chosen(QUICK if arguments.quick else FULL, arguments), arguments.output
    ledger = Ledger(output / (LONG_RUNS if sizes.only else RUNS), KEYS, MEASURED)
    ledger.drop(solver=arguments.again)
    if not arguments.report:
        run_all(ledger, sizes, arguments.data)
    draw_seconds(summarize(ledger.frame()), output / "seconds.png")
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
