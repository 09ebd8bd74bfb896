"""Figures 5 and 6 of the SpicyMKL publication: CPU time against the number of kernels and of samples.

    python experiments/spicymkl/figures.py [--data DIR] [--quick] [--output DIR]
    python experiments/spicymkl/figures.py --data DIR --repeats 10 --kernels 50 150 500 --samples 500 1000

``DIR`` may hold ``ringnorm.npz``, ``twonorm.npz``, ``waveform.npz`` and ``splice_ida.npz`` (arrays ``X`` and ``y``);
what is not there is drawn by Breiman's generators, or, splice, left out. Every run is written to
``spicymkl_figures_runs.csv`` at once and not repeated by the next call. A solver that misses the gap at one size is not
run at larger ones.
"""

from __future__ import annotations

from _racing import (  # first: it limits threads before NumPy is loaded
    AS_PRINTED,
    BLOCK_NORM,
    ELASTIC_NET,
    FIGURES_ONLY,
    SQUARED_NORM,
    Entrant,
    matching_constant,
    pose,
    race,
    warm_up,
)

# isort: split
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _claims import figure_claims
from _curves import SIZE, draw_figure, exponent_table, exponents, medians
from _data_sets import SETS_OF_FIGURES, draw_samples
from numpy.typing import NDArray
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, fill, markdown, report
from experiments.program import command_line

from manykernels import Gaussian, KernelBank
from manykernels.grams import GramStack, build_stack

Array = NDArray[Any]

ENTRANTS = (
    *(entrant for entrant in BLOCK_NORM if entrant.label in ("working_set", "spicymkl, gamma x 2")),
    *AS_PRINTED,
    *(entrant for entrant in SQUARED_NORM if entrant.printed),
    *(entrant for entrant in ELASTIC_NET if entrant.label == "smooth_dual"),
    *FIGURES_ONLY,
)
RUNS = "spicymkl_figures_runs.csv"
CONSTANT = 0.05  # the publication does not print it for its figures; this is the middle one of its tables
KEYS = ("figure", "data", "n_kernels", "n_samples", "repeat", "problem", "solver")
MEASURED = ("status", "cpu_s", "n_iter", "machines", "newton_steps", "passes", "active", "relative_gap")
CONSOLE = Console(width=150)


@dataclass(frozen=True)
class Sizes:
    """How much is computed; the limit in CPU seconds a fit."""

    kernels: tuple[int, ...]
    samples_of_kernels: int
    samples: tuple[int, ...]
    kernels_of_samples: int
    repeats: int
    limit: float
    sets: tuple[str, ...] = SETS_OF_FIGURES


FULL = Sizes((50, 150, 500, 1500, 6000), 200, (500, 1000, 2000, 3000), 20, 3, 20.0)
QUICK = Sizes((5, 10), 30, (30, 60), 5, 1, 2.0)


def random_kernels(n_kernels: int, n_features: int, seed: int) -> KernelBank:
    """Return Gaussians on random subsets of standardized columns, of width ``5 chi2 + 0.1`` and unit trace.

    The publication does not give the degrees of freedom of its chi-squared variable (here 1) nor how subsets are drawn
    (here each column with probability 1/2).
    """
    rng = np.random.default_rng(seed)
    kernels: list[Any] = []
    for m in range(n_kernels):
        columns = np.flatnonzero(rng.random(n_features) < 0.5)
        columns = columns if columns.size else rng.integers(n_features, size=1)
        kernels.append((f"k{m}", Gaussian(5.0 * rng.chisquare(1) + 0.1), columns))
    return KernelBank(kernels, standardize=True, normalize="trace")


def planned(sizes: Sizes) -> Iterator[tuple[str, int, int, int, str]]:
    """Yield figure, kernels, samples, repeat and data set, one repeat of everything after the other."""
    for repeat in range(sizes.repeats):
        for data in sizes.sets:
            for n_kernels in sizes.kernels:
                yield "kernels", n_kernels, sizes.samples_of_kernels, repeat, data
            for n_samples in sizes.samples:
                yield "samples", sizes.kernels_of_samples, n_samples, repeat, data


def build(data: str, n_kernels: int, n_samples: int, repeat: int, folder: str | None) -> tuple[GramStack, Array] | None:
    """Return the Gram matrices and the classes of one problem, if there are samples; few kernels are the first ones."""
    samples = draw_samples(data, n_samples, folder, repeat)
    if samples is None:
        return None
    X, y = samples
    bank = random_kernels(n_kernels, X.shape[1], repeat).fit(X)
    return build_stack(bank, X, kind="packed", memory_budget="3 GB"), y


def given_up(ledger: Ledger, entrant: Entrant, figure: str, data: str, n_kernels: int, n_samples: int) -> bool:
    """Return whether the solver has missed the gap at this size or a smaller one."""
    runs = ledger.find(figure=figure, data=data, problem=entrant.problem, solver=entrant.label)
    failed = (run for run in runs if run["status"] != "converged")
    return any(run["n_kernels"] <= n_kernels and run["n_samples"] <= n_samples for run in failed)


def run_all(ledger: Ledger, sizes: Sizes, folder: str | None) -> None:
    """Run what the ledger lacks, with a line of progress a problem."""
    for figure, n_kernels, n_samples, repeat, data in planned(sizes):
        size: dict[str, Any] = {"figure": figure, "data": data, "n_kernels": n_kernels, "n_samples": n_samples}
        wanted = [
            entrant
            for entrant in ENTRANTS
            if not ledger.find(**size, repeat=repeat, problem=entrant.problem, solver=entrant.label)
            and not given_up(ledger, entrant, **size)
        ]
        if wanted:
            warm_up(ENTRANTS)
            built = build(data, n_kernels, n_samples, repeat, folder)
            if built is None:
                CONSOLE.print(f"{data}: no archive, left out")
                continue
            stack, y = built
            squared = matching_constant(stack, y, CONSTANT)
        for entrant in wanted:
            if entrant.problem == "squared" and not squared:
                continue
            key = size | {"repeat": repeat, "problem": entrant.problem, "solver": entrant.label}
            problem = pose(entrant.problem, CONSTANT, squared).problem(stack, y)
            ledger.add(key | race(entrant, problem, sizes.limit)[0])
        CONSOLE.print(f"{data}: {n_kernels} kernels, {n_samples} samples, repeat {repeat + 1}: done", highlight=False)


def exponent_tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return the exponents of both figures, and for each set median seconds at the sizes."""
    table, made = medians(runs), {}
    slopes = exponents(table)
    for figure in dict.fromkeys(slopes["figure"]):
        made[f"exponents, {figure}"] = exponent_table(slopes[slopes["figure"] == figure])
    for (figure, data), own in table.groupby(["figure", "data"], sort=False):
        made[f"seconds, {figure}, {data}"] = seconds_table(own, SIZE[str(figure)], f"{data}, {figure}")
    return made | figure_claims(runs)


def seconds_table(own: pd.DataFrame, size: str, title: str) -> str:
    """Return median CPU seconds, a row a solver and a column a size; ``>`` where a run missed the gap."""
    values, rows = sorted(set(own[size])), []
    for (solver, problem), part in own.groupby(["solver", "problem"], sort=False):
        known = {r[size]: f"{'> ' * bool(r['failed'])}{r['cpu_s']:.2g}" for r in part.to_dict("records")}
        rows.append([f"{solver}, {problem}", *(known.get(value, "") for value in values)])
    return markdown([f"CPU s, {title}", *map(str, values)], rows)


LEDGERS = {RUNS: exponent_tables}


def show(ledger: Ledger, sizes: Sizes, output: Path, page: Path | None) -> None:
    """Write and print the tables, draw the figures, and put both into a page."""
    table = medians(ledger.frame())
    for figure in dict.fromkeys(table["figure"]):
        draw_figure(table, figure, sizes.limit, output / f"{figure}.png")
        if page is not None:
            shutil.copyfile(output / f"{figure}.png", page.with_name(f"{page.stem}_{figure}.png"))
            picture = f"![CPU seconds against the number of {figure}]({page.stem}_{figure}.png)"
            fill(page, f"picture, {figure}", picture)
    CONSOLE.print(report(LEDGERS, output, page), markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(__doc__, "spicymkl", data="folder with archives; what is not there is generated")
    parser.add_argument("--sets", nargs="+", choices=SETS_OF_FIGURES, help="only these")
    parser.add_argument("--repeats", type=int, help="how often, instead of three times")
    parser.add_argument("--kernels", type=int, nargs="*", help="numbers of kernels of Figure 5, instead of all")
    parser.add_argument("--samples", type=int, nargs="*", help="numbers of samples of Figure 6, instead of all")
    parser.add_argument("--again", help="solver whose runs are forgotten and made again")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what the runs so far say")
    arguments = parser.parse_args()
    asked = {"kernels": arguments.kernels, "samples": arguments.samples, "repeats": arguments.repeats}
    asked |= {"sets": arguments.sets}
    given = {name: value for name, value in asked.items() if value is not None}
    sizes, output = replace(QUICK if arguments.quick else FULL, **given), arguments.output
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    ledger.drop(solver=arguments.again)
    if not arguments.report:
        run_all(ledger, sizes, arguments.data)
    show(ledger, sizes, output, arguments.page)


if __name__ == "__main__":
    main()
