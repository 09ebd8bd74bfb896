"""Figures 5 and 6 of the SpicyMKL publication: CPU time against the number of kernels and of samples.

    python experiments/spicymkl/figures.py [--data DIR] [--quick] [--output DIR]
    python experiments/spicymkl/figures.py --data DIR --repeats 10 --kernels 50 150 500 --samples 500 1000

``DIR`` may hold ``ringnorm.npz``, ``twonorm.npz`` and ``waveform.npz`` (arrays ``X`` and ``y``); what is not there is
drawn by Breiman's generators. Every run is written to ``figure_runs.csv`` at once and not repeated by the next call. A
solver that misses the gap at one size is not run at larger ones.
"""

from __future__ import annotations

from _racing import (  # first: it limits threads before NumPy is loaded
    BLOCK_NORM,
    ELASTIC_NET,
    SQUARED_NORM,
    Entrant,
    matching_constant,
    pose,
    race,
    warm_up,
)

# isort: split
import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _curves import draw_figure, exponent_table, exponents, medians
from _data_sets import SETS_OF_FIGURES, draw_samples
from _records import Ledger, described, environment, fill_page
from numpy.typing import NDArray
from rich.console import Console

from manykernels import Gaussian, KernelBank
from manykernels.grams import GramStack, build_stack

Array = NDArray[Any]

ENTRANTS = (
    *(entrant for entrant in BLOCK_NORM if entrant.label in ("working_set", "spicymkl, gamma x 2")),
    *(entrant for entrant in SQUARED_NORM if entrant.printed),
    *(entrant for entrant in ELASTIC_NET if entrant.label == "smooth_dual"),
)
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
        for data in SETS_OF_FIGURES:
            for n_kernels in sizes.kernels:
                yield "kernels", n_kernels, sizes.samples_of_kernels, repeat, data
            for n_samples in sizes.samples:
                yield "samples", sizes.kernels_of_samples, n_samples, repeat, data


def build(data: str, n_kernels: int, n_samples: int, repeat: int, folder: str | None) -> tuple[GramStack, Array]:
    """Return the Gram matrices and the classes of one problem; fewer kernels are the first ones of more."""
    X, y = draw_samples(data, n_samples, folder, repeat)
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
            stack, y = build(data, n_kernels, n_samples, repeat, folder)
            squared = matching_constant(stack, y, CONSTANT)
        for entrant in wanted:
            if entrant.problem == "squared" and not squared:
                continue
            key = size | {"repeat": repeat, "problem": entrant.problem, "solver": entrant.label}
            problem = pose(entrant.problem, CONSTANT, squared).problem(stack, y)
            ledger.add(key | race(entrant, problem, sizes.limit)[0])
        CONSOLE.print(f"{data}: {n_kernels} kernels, {n_samples} samples, repeat {repeat + 1}: done", highlight=False)


def write(ledger: Ledger, sizes: Sizes, output: Path) -> None:
    """Write the medians and the figures, and print scaling exponents."""
    table = medians(ledger.frame())
    table.to_csv(output / "figures.csv", index=False)
    for figure in dict.fromkeys(table["figure"]):
        draw_figure(table, figure, sizes.limit, output / f"{figure}.png")
    slopes = exponents(table)
    slopes.to_csv(output / "exponents.csv", index=False)
    CONSOLE.print(table.to_string(index=False, float_format="{:.3g}".format), highlight=False, soft_wrap=True)
    CONSOLE.print(slopes.to_string(index=False, float_format="{:.2f}".format), highlight=False, soft_wrap=True)


def show_on_page(page: Path, output: Path, mark: str) -> None:
    """Copy the pictures beside a page and put links and exponents between its comments ``mark``."""
    prefix = "_".join([page.stem, *mark.split()[1:]])
    record = json.loads((output / "figures.json").read_text())
    slopes = pd.read_csv(output / "exponents.csv")
    repeats = pd.read_csv(output / "figures.csv")["repeats"]
    limit = f"at most {record['sizes']['limit']:g} CPU seconds a fit, one thread"
    parts = [f"{repeats.min()} to {repeats.max()} repeats; {limit}. {described(record['environment'])}"]
    for figure in dict.fromkeys(slopes["figure"]):
        shutil.copyfile(output / f"{figure}.png", page.with_name(f"{prefix}_{figure}.png"))
        parts.append(f"![CPU seconds against the number of {figure}]({prefix}_{figure}.png)")
        parts.append(
            f"Exponents, the slope of log CPU seconds against the log number of {figure}, over all solved sizes:"
        )
        parts.append(exponent_table(slopes[slopes["figure"] == figure]))
    fill_page(page, mark, "\n\n".join(parts) + "\n")


def main() -> None:
    """Run everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with archives; what is not there is generated")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a check that everything runs")
    parser.add_argument("--output", default="experiments/results/spicymkl", help="folder for tables and figures")
    parser.add_argument("--page", type=Path, help="page whose figures, between two comments, are replaced")
    parser.add_argument("--mark", default="figures", help="those comments, if not 'figures', such as 'figures often'")
    parser.add_argument("--repeats", type=int, help="how often, instead of three times")
    parser.add_argument("--kernels", type=int, nargs="*", help="numbers of kernels of Figure 5, instead of all")
    parser.add_argument("--samples", type=int, nargs="*", help="numbers of samples of Figure 6, instead of all")
    parser.add_argument("--again", help="solver whose runs are forgotten and made again")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what the runs so far say")
    arguments = parser.parse_args()
    asked = {"kernels": arguments.kernels, "samples": arguments.samples, "repeats": arguments.repeats}
    given = {name: value for name, value in asked.items() if value is not None}
    sizes, output = replace(QUICK if arguments.quick else FULL, **given), Path(arguments.output)
    ledger = Ledger(output / "figure_runs.csv", KEYS, KEYS + MEASURED)
    ledger.drop(solver=arguments.again)
    if not arguments.report:
        record = {"environment": environment(), "sizes": asdict(sizes), "constant": CONSTANT}
        (output / "figures.json").write_text(json.dumps(record, indent=1) + "\n")
        run_all(ledger, sizes, arguments.data)
    write(ledger, sizes, output)
    if arguments.page:
        show_on_page(arguments.page, output, arguments.mark)


if __name__ == "__main__":
    main()
