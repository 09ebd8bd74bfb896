"""Polynomial kernels, sections 6.1.2 and 6.1.3 of Afkanpour's thesis: convergence, and error and time against r.

    python experiments/thesis/polynomial.py --data DIR [--quick] [--output DIR]

``DIR`` holds ``ringnorm.npz``, ``waveform.npz``, ``ionosphere.npz`` and ``sonar.npz`` (arrays ``X`` and ``y``); without
it only the synthetic part is run. Writes ``convergence.csv``, ``synthetic.csv`` and a figure of each. What is in these
tables already is not run again; ``--report`` runs nothing and writes tables and figures.
"""

from __future__ import annotations

import _polynomial_runs as runs  # first: it limits threads before NumPy is loaded

# isort: split
import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
from _polynomial_convergence import DATA, LARGEST_MATRICES, load, race
from _polynomial_synthetic import FULL, QUICK, Sizes, compare
from _polynomial_tables import ORDER, convergence_table, plot_convergence, plot_synthetic, synthetic_tables
from rich.console import Console

CONSOLE = Console(width=150)
# Of a method in 6.1.2: CPU seconds, and bytes of its matrices.
LIMITS, QUICK_LIMITS = (5.0, LARGEST_MATRICES), (0.3, 1e7)


def converge(folder: Path, limits: tuple[float, float], repeats: int, path: Path) -> None:
    """Race the methods of 6.1.2 on the sets that the table lacks, with the draws of one seed after the other."""
    done = pd.read_csv(path) if path.exists() else pd.DataFrame({"data": [], "seed": []})
    for seed, (name, size) in product(range(repeats), DATA.items()):
        if ((done["data"] == name) & (done["seed"] == seed)).any() or not (folder / f"{name}.npz").exists():
            continue
        found = race(*load(folder, name, size), limits[0], seed, limits[1]).assign(data=name, seed=seed)
        done = pd.concat([done, found], ignore_index=True) if len(done) else found
        done.to_csv(path, index=False)
        CONSOLE.log(f"6.1.2, {name}, draws {seed}: done")


def synthesize(table: runs.Runs, sizes: Sizes, limit: float, methods: Sequence[str] | None) -> None:
    """Run what the table of 6.1.3 lacks, draw by draw: cut off, it has fewer draws of everything."""
    for seed in range(sizes.repeats):
        for r in sizes.columns:
            compare(table, r, seed, sizes, limit, methods)
            CONSOLE.log(f"6.1.3, draw {seed}, r = {r}: done")


def report(output: Path, page: Path | None) -> None:
    """Print and draw what there is, and put the tables into a page."""
    path = output / "convergence.csv"
    texts = {}
    if path.exists():
        convergence = pd.read_csv(path)
        plot_convergence(convergence, output / "convergence.png")
        texts["convergence"] = convergence_table(convergence)
    synthetic = pd.read_csv(output / "synthetic.csv")
    if len(synthetic):
        plot_synthetic(synthetic, output / "synthetic.png")
        texts["synthetic"] = synthetic_tables(synthetic)
    for mark, text in texts.items():
        CONSOLE.print(text, markup=False, highlight=False, soft_wrap=True)
        if page is not None:
            runs.fill_page(page, mark, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both parts, print, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets of section 6.1.2")
    parser.add_argument("--output", type=Path, default=Path("experiments/results/thesis/polynomial"))
    parser.add_argument("--quick", action="store_true", help="small sizes, in seconds")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a fit after which a method stops")
    parser.add_argument("--columns", type=int, nargs="+", help="only these r in 6.1.3")
    parser.add_argument("--methods", nargs="+", choices=ORDER, help="only these methods in 6.1.3")
    parser.add_argument("--seconds", type=float, help="CPU seconds of a method in 6.1.2")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what the runs so far say")
    parser.add_argument("--page", type=Path, help="page whose tables, between two comments, are replaced")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    others = (*runs.MEASURED, "signal", "matrices_s")
    table = runs.Runs(options.output / "synthetic.csv", ("r", "method", "seed"), others)
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, columns=tuple(options.columns)) if options.columns else sizes
    if not options.report:
        if options.data is not None:
            seconds, largest = QUICK_LIMITS if options.quick else LIMITS
            limits = options.seconds or seconds, largest
            converge(options.data, limits, sizes.repeats, options.output / "convergence.csv")
        synthesize(table, sizes, options.limit, options.methods)
    report(options.output, options.page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
