"""Which coordinate to update? RCDM, RACDM, uniform and gradient-proportional sampling on (6.1): figure 6.1.

    python experiments/thesis/sampling.py [--quick] [--output DIR] [--page PAGE]

Needs no data (``--data`` is accepted, as by all experiments). Writes ``thesis_sampling_runs.csv`` (a row a run),
``curves.csv`` and ``sampling.png``: the objective over its initial value against iterations, median and range of the
runs, on (6.1), on (6.1) with unequal Lipschitz constants, and where no coordinate matters more than another.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _coordinate_descent import METHODS, Quadratic
from matplotlib import pyplot
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, cpu_seconds, markdown, report
from experiments.program import command_line

CONSOLE = Console()
RUNS = "thesis_sampling_runs.csv"
KEYS = ("problem", "method", "repeat")
MEASURED = ("iterations", "after_5_percent", "after_all", "distinct", "derivatives", "cpu_s")
FLOOR = 1e-16  # of the objective, for drawing
FULL = {"n": 10_000, "iterations": 20_000, "runs": 10}
QUICK = {"n": 400, "iterations": 800, "runs": 2}


def problems(n: int) -> dict[str, Quadratic]:
    """Return (6.1), the same with curvatures from 0.01 to 1 in random order, and one of equal coordinates."""
    decaying, ones = 0.9 ** np.arange(1, n + 1), np.ones(n)
    curvatures = np.random.default_rng(0).permutation(np.geomspace(0.01, 1.0, n))
    return {
        "(6.1)": Quadratic(decaying, ones),
        "(6.1), unequal curvatures": Quadratic(decaying, curvatures),
        "equal coordinates": Quadratic(np.full(n, 1 / np.sqrt(n)), ones),
    }


def run(ledger: Ledger, n: int, iterations: int, runs: int) -> pd.DataFrame:
    """Run what the table lacks, one row a run with its end, its coordinates and its cost; return the curves."""
    every, curves = iterations // 200, []
    jobs = [(*item, name, seed) for item in problems(n).items() for name in METHODS for seed in range(runs)]
    for label, problem, name, seed in track(jobs, console=CONSOLE, description="sampling"):
        with cpu_seconds() as spent:
            found = METHODS[name](problem, iterations, every, np.random.default_rng(seed))
        at, key = every * np.arange(len(found.values)), dict(zip(KEYS, (label, name, seed), strict=True))
        curves.append(pd.DataFrame(key | {"iteration": at, "value": found.values}))
        if tuple(key.values()) not in ledger:
            row = {"after_5_percent": found.values[len(found.values) // 20], "after_all": found.values[-1]}
            row |= {"iterations": iterations, "distinct": found.distinct, "derivatives": found.derivatives}
            ledger.add(key | row | spent)
    return pd.concat(curves, ignore_index=True)


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return the medians over runs, a row a method."""
    medians = runs.groupby(["problem", "method"], sort=False)[["after_5_percent", "after_all", "distinct"]].median()
    labels, last = list(dict.fromkeys(runs["problem"])), int(runs["iterations"].max())
    head = ["method", f"(6.1), after {last // 20}", f"after {last}"]
    head += [f"{label.replace('(6.1), ', '')}, after {last}" for label in labels[1:]]
    rows = []
    for name in dict.fromkeys(runs["method"]):
        first = medians.loc[labels[0], name]
        values = [first["after_5_percent"], *(medians.loc[(label, name), "after_all"] for label in labels)]
        rows.append([name, *(f"{value:.2g}" for value in values), f"{first['distinct']:.0f}"])
    seconds = runs.groupby("method", sort=False)["cpu_s"].median()
    rows = [[*row, f"{seconds[row[0]]:.2g}"] for row in rows]
    return {"medians": markdown([*head, "coordinates touched on (6.1)", "CPU s a run"], rows)}


LEDGERS = {RUNS: tables}


def draw(curves: pd.DataFrame, output: Path) -> None:
    """Draw the median and the range over runs, one panel a problem."""
    labels = list(dict.fromkeys(curves["problem"]))
    figure, axes = pyplot.subplots(1, len(labels), figsize=(4.2 * len(labels), 3.6), sharey=True, layout="constrained")
    for ax, label in zip(axes, labels, strict=True):
        for method, part in curves[curves["problem"] == label].groupby("method", sort=False):
            values = part.groupby("iteration")["value"].agg(["min", "median", "max"]).clip(lower=FLOOR)
            dashed = "--" if "full step" in str(method) else "-"
            ax.plot(values.index, values["median"], dashed, label=method, linewidth=1.5)
            ax.fill_between(values.index, values["min"], values["max"], alpha=0.2)
        ax.set(title=label, xlabel="iterations", yscale="log", ylim=(FLOOR, 1e3))
        ax.locator_params(axis="x", nbins=4)
    axes[0].set_ylabel("objective / initial objective")
    axes[0].legend(fontsize=7)
    figure.savefig(output / "sampling.png", dpi=80)


def main() -> None:
    """Run everything and write it down."""
    arguments = command_line(__doc__, "thesis/sampling", data="not needed: the problems are formulas").parse_args()
    output = arguments.output
    sizes: dict[str, Any] = QUICK if arguments.quick else FULL
    curves = run(Ledger(output / RUNS, KEYS, MEASURED), **sizes)
    curves.to_csv(output / "curves.csv", index=False)
    draw(curves, output)
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
