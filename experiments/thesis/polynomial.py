"""Polynomial kernels, sections 6.1.2 and 6.1.3 of Afkanpour's thesis: convergence, and error and time against r.

    python experiments/thesis/polynomial.py --data DIR [--quick] [--output DIR]

``DIR`` holds ``ringnorm.npz``, ``waveform.npz``, ``ionosphere.npz`` and ``sonar.npz`` (arrays ``X`` and ``y``); without
it only the synthetic part is run. Writes two run tables, all points of 6.1.2 (``convergence.csv``) and two figures.
What is in the run tables is not run again; ``--report`` runs nothing and writes tables and figures.
"""

from __future__ import annotations

import _polynomial_runs as runs  # first: it limits threads before NumPy is loaded

# isort: split
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
from _polynomial_convergence import DATA, LARGEST_MATRICES, REACHED, ends, load, race
from _polynomial_synthetic import FULL, QUICK, Sizes, compare
from _polynomial_tables import ORDER, convergence_table, plot_convergence, plot_synthetic, synthetic_tables
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger
from experiments.ledger import report as write
from experiments.program import command_line

CONSOLE = Console(width=150)
# Of a method in 6.1.2: CPU seconds, and bytes of its matrices.
LIMITS, QUICK_LIMITS = (5.0, LARGEST_MATRICES), (0.3, 1e7)


CONVERGENCE, SYNTHETIC = "thesis_polynomial_convergence_runs.csv", "thesis_polynomial_runs.csv"
LEDGERS = {
    CONVERGENCE: lambda frame: {"convergence": convergence_table(frame)},
    SYNTHETIC: lambda frame: synthetic_tables(frame),
}


def converge(folder: Path, limits: tuple[float, float], repeats: int, output: Path) -> None:
    """Race the methods of 6.1.2 on the sets that the table lacks, with the draws of one seed after the other."""
    ledger = Ledger(output / CONVERGENCE, ("data", "method", "repeat"), ("steps", *REACHED, "cpu_s"))
    for seed, (name, size) in product(range(repeats), DATA.items()):
        if ledger.find(data=name, repeat=seed) or not (folder / f"{name}.npz").exists():
            continue
        found = race(*load(folder, name, size), limits[0], seed, limits[1]).assign(data=name, repeat=seed)
        path = output / "convergence.csv"
        found.to_csv(path, mode="a", header=not path.exists(), index=False)
        for row in ends(found):
            ledger.add(row)
        CONSOLE.log(f"6.1.2, {name}, draws {seed}: done")


def synthesize(table: Ledger, sizes: Sizes, limit: float, methods: Sequence[str] | None) -> None:
    """Run what the table of 6.1.3 lacks, draw by draw: cut off, it has fewer draws of everything."""
    for seed in range(sizes.repeats):
        for r in sizes.columns:
            compare(table, r, seed, sizes, limit, methods)
            CONSOLE.log(f"6.1.3, draw {seed}, r = {r}: done")


def report(output: Path, page: Path | None) -> None:
    """Print and draw what there is, and put the tables into a page."""
    if (output / "convergence.csv").exists():
        plot_convergence(pd.read_csv(output / "convergence.csv"), output / "convergence.png")
    if (output / SYNTHETIC).exists():
        plot_synthetic(pd.read_csv(output / SYNTHETIC), output / "synthetic.png")
    CONSOLE.print(write(LEDGERS, output, page), markup=False, highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both parts, print, save and draw."""
    parser = command_line(__doc__, "thesis/polynomial", data="folder of the data sets of section 6.1.2")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a fit after which a method stops")
    parser.add_argument("--columns", type=int, nargs="*", help="only these r in 6.1.3")
    parser.add_argument("--repeats", type=int, help="draws of the data")
    parser.add_argument("--methods", nargs="+", choices=ORDER, help="only these methods in 6.1.3")
    parser.add_argument("--seconds", type=float, help="CPU seconds of a method in 6.1.2")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what the runs so far say")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    others = (*runs.MEASURED, "signal", "matrices_s")
    table = Ledger(options.output / SYNTHETIC, ("r", "method", "repeat"), others)
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, columns=tuple(options.columns)) if options.columns is not None else sizes
    sizes = replace(sizes, repeats=options.repeats or sizes.repeats)
    if not options.report:
        if options.data is not None:
            seconds, largest = QUICK_LIMITS if options.quick else LIMITS
            limits = options.seconds or seconds, largest
            converge(Path(options.data), limits, options.repeats or sizes.repeats, options.output)
        synthesize(table, sizes, options.limit, options.methods)
    report(options.output, options.page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
