"""Which coordinate to update? RCDM, RACDM, uniform and gradient-proportional sampling on (6.1): figure 6.1.

    python experiments/thesis/sampling.py [--quick] [--output DIR]

Needs no data (``--data`` is accepted, as by all experiments). Writes ``results.json``, ``curves.csv`` and
``sampling.png``: the objective over its initial value against iterations, median and range of the runs, on (6.1), on
(6.1) with unequal Lipschitz constants, and on a problem where no coordinate matters more than another.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _coordinate_descent import METHODS, Quadratic
from matplotlib import pyplot
from rich.console import Console
from rich.progress import track

CONSOLE = Console()
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


def measure(n: int, iterations: int, runs: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the curves of all runs, and one row a run with its end, its coordinates and its cost."""
    every = iterations // 200
    curves, ends = [], []
    jobs = [(*item, name, seed) for item in problems(n).items() for name in METHODS for seed in range(runs)]
    for label, problem, name, seed in track(jobs, console=CONSOLE, description="sampling"):
        started = time.process_time()
        run = METHODS[name](problem, iterations, every, np.random.default_rng(seed))
        seconds = time.process_time() - started
        at = every * np.arange(len(run.values))
        curves.append(
            pd.DataFrame({"problem": label, "method": name, "run": seed, "iteration": at, "value": run.values})
        )
        ends.append(
            {
                "problem": label,
                "method": name,
                "run": seed,
                "after_5_percent": run.values[len(run.values) // 20],
                "after_all": run.values[-1],
                "distinct": run.distinct,
                "derivatives": run.derivatives,
                "cpu_s": seconds,
            }
        )
    return pd.concat(curves, ignore_index=True), pd.DataFrame(ends)


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="not needed: the problems are formulas")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a check that everything runs")
    parser.add_argument("--output", default="experiments/results/thesis/sampling", help="folder for tables and figures")
    arguments = parser.parse_args()
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, Any] = QUICK if arguments.quick else FULL
    curves, ends = measure(**sizes)
    table = ends.drop(columns="run").groupby(["problem", "method"], sort=False).median().reset_index()
    CONSOLE.print(table.to_string(index=False, float_format="{:.3g}".format), highlight=False, soft_wrap=True)
    curves.to_csv(output / "curves.csv", index=False)
    draw(curves, output)
    report = {"sizes": sizes, "medians": table.to_dict("records")}
    (output / "results.json").write_text(json.dumps(report, indent=1, default=float))


if __name__ == "__main__":
    main()
