"""Section 6.2.1 of the thesis: Gaussian classes in 50 dimensions of which fewer and fewer matter.

    python experiments/thesis/greedy.py [--quick] [--repeats N] [--standardize] [--output DIR] [--page PAGE]

Compares searches for one width and for one width a feature, in one and two stages, with methods on 50 listed widths.
Prints test error, alignment and time for each relevance level. Writes a row a draw and method to
``thesis_greedy_runs.csv``, where both kinds of columns have room and nothing is run twice, and a figure.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _relevance import METHODS, Sizes, draw, measure
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report
from experiments.program import command_line

from manykernels.exceptions import ConvergenceWarning

RELEVANCE, QUICK_RELEVANCE = (0, 1, 2, 5, 10, 20, 40), (0, 40)
QUICK = Sizes(n_validation=200, n_test=300, most_kernels=2, constants=(1.0,), shrinkages=(1e-5, 1.0))
MEASURES = {"error": "misclassified (%)", "alignment": "alignment, test samples", "cpu_s": "CPU seconds a model"}
AVERAGES = {"error": "mean", "alignment": "mean", "cpu_s": "median"}  # what runs first also loads libraries
FORMATS = {"error": "{:.1f}", "alignment": "{:.2f}", "cpu_s": "{:.3f}"}
SHOWN = {"alignment": (0, 5, 40), "cpu_s": (0, 5, 40)}  # levels of which the page tells alignments and times
RUNS, KEYS = "thesis_greedy_runs.csv", ("columns", "relevance", "method", "repeat")
MEASURED = ("error", "alignment", "cpu_s", "cut")
DRAWN, SCALED = "as drawn", "scaled"
CONSOLE = Console(width=130)


def compare(ledger: Ledger, columns: str, gamma: int, repeat: int, sizes: Sizes) -> None:
    """Run what the table lacks on one draw: error, alignment and time of every method."""
    data = draw(gamma, 1000 * repeat + gamma, sizes)
    for name, method in METHODS.items():
        if (columns, gamma, name, repeat) not in ledger:
            place = {"columns": columns, "relevance": gamma, "method": name, "repeat": repeat}
            ledger.add(place | measure(method, data, sizes))


def plot(results: pd.DataFrame, path: Path) -> None:
    """Draw error, alignment and time against the relevance level: means, and one standard error for the error."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    levels = sorted(results["relevance"].unique())
    for name, part in results.groupby("method", sort=False):
        groups = part.groupby("relevance")
        spread = groups["error"].std(ddof=0) / np.sqrt(groups.size())
        for ax, column in zip(axes, MEASURES, strict=True):
            style = "-" if "nD" in str(name) else "--"
            means = groups[column].agg(AVERAGES[column]).loc[levels]
            bars = spread.loc[levels] if column == "error" else None
            ax.errorbar(range(len(levels)), means, yerr=bars, marker=".", linestyle=style, label=name, capsize=2)
    for ax, label in zip(axes, MEASURES.values(), strict=True):
        ax.set(xlabel="relevance parameter", ylabel=label)
        ax.set_xticks(range(len(levels)), levels)
    axes[2].set_yscale("log")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=75)
    plt.close(figure)


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return errors, alignments and times, a row a method, of columns as drawn and scaled."""
    made = {}
    for columns, own in runs.groupby("columns", sort=False):
        summary = own.groupby(["method", "relevance"], sort=False).agg(AVERAGES)
        levels, names = sorted(set(own["relevance"])), list(dict.fromkeys(own["method"]))
        rows = [[name, *(f"{summary.loc[(name, level), 'error']:.1f}" for level in levels)] for name in names]
        made[f"errors, columns {columns}"] = markdown([f"%, columns {columns}", *map(str, levels)], rows)
        picked = [(column, level) for column, some in SHOWN.items() for level in some if level in levels]
        head = [f"{'alignment' if column == 'alignment' else 'CPU s'} at {level}" for column, level in picked]
        rows = [[name, *(FORMATS[c].format(summary.loc[(name, level), c]) for c, level in picked)] for name in names]
        made[f"alignment, columns {columns}"] = markdown([f"columns {columns}", *head], rows)
    return made


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run the experiment from the command line."""
    parser = command_line(
        __doc__,
        "thesis/greedy",
        data="not needed: the classes are drawn at random",
        quick="one small draw of two levels",
    )
    parser.add_argument("--repeats", type=int, default=10, help="draws of each level")
    parser.add_argument("--standardize", action="store_true", help="scale columns to unit variance")
    arguments = parser.parse_args()
    sizes, levels = (QUICK, QUICK_RELEVANCE) if arguments.quick else (Sizes(), RELEVANCE)
    sizes, output = replace(sizes, standardize=arguments.standardize), arguments.output
    columns = SCALED if arguments.standardize else DRAWN
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    jobs = [(gamma, repeat) for repeat in range(1 if arguments.quick else arguments.repeats) for gamma in levels]
    with warnings.catch_warnings():
        # Machines and searches that are cut short are part of the comparison: their errors are in the table.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for gamma, repeat in track(jobs, "draws", console=CONSOLE):
            compare(ledger, columns, gamma, repeat, sizes)
    for name, own in ledger.frame().groupby("columns"):
        plot(own, output / f"greedy_{str(name).replace(' ', '_')}.png")
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
