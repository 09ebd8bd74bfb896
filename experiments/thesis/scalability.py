"""The scalability test of the thesis (6.2.1, figure 6.8): more and more samples, longer and longer lists of kernels.

    python experiments/thesis/scalability.py [--quick] [--repeats N] [--minutes M] [--output DIR] [--page PAGE]

Gaussian classes in 50 dimensions of which one or two matter (gamma = 40). Prints test error and CPU time; writes
``thesis_greedy_scalability_runs.csv`` (what is in it is not run again) and a figure of four panels. A method whose
search has hit its time limit is not run on anything larger; its last point is drawn hollow, and marked by ``>`` in the
tables.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from _relevance import LISTED, METHODS, SEARCHES, Sizes, draw, measure
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report
from experiments.program import command_line

from manykernels.exceptions import ConvergenceWarning

GAMMA, N_TRAIN = 40, 50
SAMPLES, KERNELS = (25, 50, 100, 200, 400), (50, 100, 200, 500, 1000, 2000)
QUICK = Sizes(n_validation=100, n_test=200, most_kernels=2, seconds=0.5, constants=(1.0,), shrinkages=(1.0,))
QUICK_SAMPLES, QUICK_KERNELS = (25, 50), (50, 100)
AXES = {"samples": "training samples", "kernels": "kernels on the list"}
AVERAGES = {"error": "mean", "cpu_s": "min", "cut": "any"}  # what runs first also loads libraries
LABELS = {"error": "misclassified (%)", "cpu_s": "CPU seconds a model"}
RUNS, KEYS = "thesis_greedy_scalability_runs.csv", ("axis", "value", "method", "repeat")
MEASURED = ("error", "alignment", "cpu_s", "cut")
CONSOLE = Console(width=130)


def jobs(samples: tuple[int, ...], kernels: tuple[int, ...]) -> Iterator[tuple[str, int, str]]:
    """Return what is run on one draw: axis, value and method."""
    for value in samples:
        yield from (("samples", value, name) for name in METHODS)
    for value in kernels:
        yield from (("kernels", value, name) for name in LISTED)


def run(ledger: Ledger, sizes: Sizes, grids: tuple[tuple[int, ...], tuple[int, ...]], arguments: Any) -> None:
    """Run what the table lacks, by draw, axis, value and method; what was cut short stays away from larger values."""
    limits: dict[tuple[str, str], int] = {(row["axis"], row["method"]): row["value"] for row in ledger.find(cut=True)}
    started = time.monotonic()
    for repeat in range(arguments.repeats):
        for axis, value, name in jobs(*grids):
            late = time.monotonic() - started > 60 * arguments.minutes
            if late or value > limits.get((axis, name), value) or (axis, value, name, repeat) in ledger:
                continue
            of_axis = {"n_train": value} if axis == "samples" else {"n_train": N_TRAIN, "n_listed": value}
            own = replace(sizes, **of_axis)
            row = measure(METHODS[name], draw(GAMMA, 1000 * repeat + own.n_train, own), own)
            if row["cut"]:
                limits[axis, name] = value
            ledger.add({"axis": axis, "value": value, "method": name, "repeat": repeat} | row)
        CONSOLE.log(f"draw {repeat}: {time.monotonic() - started:.0f} s")


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Return averages over the draws."""
    groups = results.groupby(["axis", "value", "method"], sort=False)
    return groups.agg(**{name: (name, how) for name, how in AVERAGES.items()}, draws=("error", "size")).reset_index()


def plot(summary: pd.DataFrame, path: Path) -> None:
    """Draw error and time against the number of samples (top) and of kernels (bottom)."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for row, (axis, label) in zip(axes, AXES.items(), strict=True):
        for ax, column in zip(row, LABELS, strict=True):
            for index, name in enumerate(METHODS):
                draw_line(ax, summary, (axis, name, column), f"C{index}")
            ax.set(xlabel=label, ylabel=LABELS[column], xscale="log")
            values = sorted(set(summary.loc[summary["axis"] == axis, "value"]))
            ax.set_xticks(values, [str(value) for value in values])
            ax.minorticks_off()
        row[1].set_yscale("log")
    axes[0, 0].legend(fontsize=7)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def draw_line(ax: Any, summary: pd.DataFrame, key: tuple[str, str, str], color: str) -> None:
    """Draw a method in one panel; searches do not know the list, and are level lines beside the methods that do."""
    axis, name, column = key
    part = summary[(summary["axis"] == axis) & (summary["method"] == name)]
    style = "-" if "nD" in name else "--"
    if axis == "kernels" and name in SEARCHES:
        level = summary[(summary["axis"] == "samples") & (summary["value"] == N_TRAIN) & (summary["method"] == name)]
        if len(level):
            ax.axhline(level[column].iloc[0], color=color, linestyle=style, linewidth=1)
        return
    ax.plot(part["value"], part[column], color=color, linestyle=style, label=name)
    for value, number, cut in part[["value", column, "cut"]].itertuples(index=False):
        ax.plot(value, number, "o", color=color, markersize=4, fillstyle="none" if cut else "full")


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return errors in percent and CPU seconds of a model, a row a method; ``>`` where a search was cut short."""
    made = {}
    for axis, part in summarize(runs).groupby("axis", sort=False):
        values, rows = sorted(set(part["value"])), []
        for name, own in part.groupby("method", sort=False):
            cells = {r.value: f"{'>' * r.cut}{r.error:.1f}, {'>' * r.cut}{r.cpu_s:.2g}" for r in own.itertuples()}
            rows.append([str(name), *(cells.get(value, "") for value in values)])
        made[str(axis)] = markdown([AXES[str(axis)], *map(str, values)], rows)
    return made


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run the experiment from the command line."""
    parser = command_line(
        __doc__, "thesis/scalability", data="not needed: the classes are drawn at random", quick="one draw of two sizes"
    )
    parser.add_argument("--repeats", type=int, default=5, help="draws")
    parser.add_argument("--minutes", type=float, default=60.0, help="after so many minutes nothing new is begun")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of a search")
    arguments = parser.parse_args()
    sizes, grids = Sizes(seconds=arguments.seconds), (SAMPLES, KERNELS)
    if arguments.quick:
        sizes, grids, arguments.repeats = QUICK, (QUICK_SAMPLES, QUICK_KERNELS), 1
    output = arguments.output
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    with warnings.catch_warnings():
        # Machines and searches that are cut short are part of the comparison: their errors are in the table.
        warnings.simplefilter("ignore", ConvergenceWarning)
        run(ledger, sizes, grids, arguments)
    plot(summarize(ledger.frame()), output / "scalability.png")
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
