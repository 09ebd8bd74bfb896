"""Section 6.2.1 of the thesis: Gaussian classes in 50 dimensions of which fewer and fewer matter.

    python experiments/thesis/greedy.py [--quick] [--repeats N] [--standardize] [--output DIR]

Compares searches for one width and for one width a feature, in one and two stages, with methods on 50 listed widths.
Prints test error, alignment and time for each relevance level; writes two tables and a figure of three panels.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _relevance import METHODS, Sizes, draw, measure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from manykernels.exceptions import ConvergenceWarning

RELEVANCE, QUICK_RELEVANCE = (0, 1, 2, 5, 10, 20, 40), (0, 40)
QUICK = Sizes(n_validation=200, n_test=300, most_kernels=2, constants=(1.0,), shrinkages=(1e-5, 1.0))
MEASURES = {"error": "misclassified (%)", "alignment": "alignment, test samples", "cpu_s": "CPU seconds a model"}
AVERAGES = {"error": "mean", "alignment": "mean", "cpu_s": "median"}  # what runs first also loads libraries
FORMATS = {"error": "{:.1f}", "alignment": "{:.2f}", "cpu_s": "{:.3f}"}
CONSOLE = Console(width=130)


def compare(gamma: int, repeat: int, sizes: Sizes) -> list[dict[str, Any]]:
    """Return error, alignment and time of every method on one draw."""
    data = draw(gamma, 1000 * repeat + gamma, sizes)
    place = {"relevance": gamma, "repeat": repeat}
    return [{**place, "method": name, **measure(method, data, sizes)} for name, method in METHODS.items()]


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


def save(results: pd.DataFrame, output: Path) -> pd.DataFrame:
    """Write tables and figure, and return the table of averages."""
    results.to_csv(output / "results.csv", index=False)
    summary = results.groupby(["method", "relevance"], sort=False).agg(AVERAGES).reset_index()
    summary.to_csv(output / "summary.csv", index=False)
    plot(results, output / "greedy.png")
    return summary


def show(summary: pd.DataFrame) -> None:
    """Print errors, alignments and times, a row a method."""
    for column, form in FORMATS.items():
        levels = list(dict.fromkeys(summary["relevance"]))
        table = Table(MEASURES[column], *(str(level) for level in levels))
        for name, part in summary.groupby("method", sort=False):
            values = part.set_index("relevance")[column]
            table.add_row(str(name), *(form.format(values[level]) for level in levels))
        CONSOLE.print(table)


def main() -> None:
    """Run the experiment from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small draw of two levels")
    parser.add_argument("--repeats", type=int, default=10, help="draws of each level")
    parser.add_argument("--standardize", action="store_true", help="scale columns to unit variance")
    parser.add_argument("--data", help="not needed: the classes are drawn at random")
    parser.add_argument("--output", default="experiments/results/thesis/greedy", help="folder for tables and figure")
    arguments = parser.parse_args()
    sizes, levels = (QUICK, QUICK_RELEVANCE) if arguments.quick else (Sizes(), RELEVANCE)
    sizes, output = replace(sizes, standardize=arguments.standardize), Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    jobs = [(gamma, repeat) for repeat in range(1 if arguments.quick else arguments.repeats) for gamma in levels]
    table: list[dict[str, Any]] = []
    for gamma, repeat in track(jobs, "draws", console=CONSOLE):
        with warnings.catch_warnings():
            # Machines and searches that are cut short are part of the comparison: their errors are in the table.
            warnings.simplefilter("ignore", ConvergenceWarning)
            table += compare(gamma, repeat, sizes)
        summary = save(pd.DataFrame(table), output)
    show(summary)


if __name__ == "__main__":
    main()
