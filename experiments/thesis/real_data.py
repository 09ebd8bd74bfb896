"""Sections 6.1.5, 6.2.2, 6.2.3 and 6.3 of the thesis: Gaussian kernels on real data, found or listed.

    python experiments/thesis/real_data.py --data DIR [--quick] [--repeats N] [--minutes M] [--report] [--output DIR]

``DIR`` holds archives such as ``ringnorm.npz`` (arrays ``X``, ``y``); without it, the sets that OpenML has are fetched.
Every result is a row of ``thesis_real_data_runs.csv`` at once, and is not computed again when the command is repeated;
``--report`` computes nothing. Then writes ``tables.md`` (errors and ranks), ``ranks.json``, and the objective of the
search for a width (``widths.csv``, ``widths.png``, 6.2.3). After M minutes no new split is begun.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _learners import HINGE, SQUARED, evaluate
from _ranks import Table, ranked, ranks
from _settings import HINGE_COSTS, LETTER_WIDTHS, PIXELS, RIDGE_COSTS, STANDARDIZED, STRENGTHS, WHOLE, Settings
from _tasks import DIGITS, LETTERS, SETS, Task, group_of, load, split
from matplotlib import pyplot
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, report
from experiments.program import command_line

from manykernels import Gaussian
from manykernels.alignment import center_kernel
from manykernels.discovery import AscentSettings, FamilySearch, GaussianFamily, Limits, align_family
from manykernels.exceptions import ConvergenceWarning

CONSOLE = Console(width=140)
RUNS = "thesis_real_data_runs.csv"
KEYS = ("loss", "set", "repeat", "method")
MEASURED = ("misclassified", "squared", "cpu_s", "kernels")
QUICK_SETS, QUICK_CAP = ("heart", "thyroid"), 40
QUICK = {"strengths": (1.0,), "shrinkages": (1e-2,), "kernels": 3, "wide_kernels": 2, "seconds": 0.5}
BIG, PERIOD = 500, 3  # sets with so many samples to train get one split to three of the others
ITERATIONS = (1, 2, 4)  # of the ascent, at which 6.2.3 draws its objective
WIDE = ("nD", "nD, shrunk")

ONE_STAGE = ("SGD-1s (1D)", "SGD-1s (nD)", "CKL (1D)", "CKL (nD)", "IKL (1D)", "IKL (nD)", "LPMKL (p=2)", "UNIFORM")
TWO_STAGES = ("GCD-2s (1D)", "GCD-2s (nD)", "GCD-2s (nD, shrunk)")
NARROW = tuple(method for method in HINGE if "nD" not in method)
SAMPLED_OR_GREEDY = (*ONE_STAGE[:2], "GCD-1s (1D)", "GCD-1s (nD)", *TWO_STAGES)
# Median ranks of its tables 6.3, 6.4 (MNIST, Letter, other data) and 6.5.
PRINTED_ONE_STAGE = dict(zip(ONE_STAGE, (3, 6, 3, 3.5, 3.5, 5, 3, 6.5), strict=True))
IN_TABLE = ("GCD-2s (1D)", "GCD-2s (nD)", "CKL (1D)", "CKL (nD)", "AMKL", "LPMKL (p=1)", "LPMKL (p=2)", "UNIFORM")
PRINTED_SETS = dict(zip(IN_TABLE, (3, 2, 3, 5, 3, 4, 7, 7), strict=True))
PRINTED_LETTERS = dict(zip(IN_TABLE, (1, 5.5, 2, 3, 4.5, 8, 7, 6), strict=True))
PRINTED_DIGITS = dict(zip(NARROW, (1, 2, 4.5, 4.5, 5, 4), strict=True))
PRINTED_SAMPLED_OR_GREEDY = dict(zip(SAMPLED_OR_GREEDY[:6], (3, 4.5, 3, 3.5, 1.5, 4), strict=True))
TABLES = {
    "6.1.5": Table("squared", "misclassified", ONE_STAGE, printed=PRINTED_ONE_STAGE),
    "6.1.5, squared error": Table("squared", "squared", ONE_STAGE, printed=PRINTED_ONE_STAGE),
    "6.2.2": Table("hinge", "misclassified", tuple(HINGE), printed=PRINTED_SETS),
    "6.2.2, digits": Table("hinge", "misclassified", NARROW, "digits", PRINTED_DIGITS),
    "6.2.2, letters": Table("hinge", "misclassified", tuple(HINGE), "letters", PRINTED_LETTERS),
    "6.3": Table("squared", "squared", SAMPLED_OR_GREEDY, printed=PRINTED_SAMPLED_OR_GREEDY),
}


# --- what is computed ---------------------------------------------------------------------------------------------


def schedule(names: list[str], repeats: int) -> list[tuple[str, int]]:
    """Return sets and repeats in the order in which they are done: small sets first, of large ones fewer splits."""

    def place(job: tuple[str, int]) -> tuple[int, int]:
        size = SETS[job[0]][2][0] if job[0] in SETS else 0
        large = job[0] not in SETS or size >= BIG
        return (PERIOD * job[1] + PERIOD - 1 if large else job[1]), (size + large)

    return sorted([(name, repeat) for repeat in range(repeats) for name in names], key=place)


def jobs(name: str, quick: bool) -> Iterator[tuple[str, str, Any, Settings]]:
    """Return the methods for a set: loss, name, learner and settings."""
    changes: dict[str, Any] = QUICK if quick else {"strengths": STRENGTHS}
    widths = {"digits": PIXELS, "letters": LETTER_WIDTHS, "sets": STANDARDIZED}[group_of(name)]
    for method, learner in HINGE.items():
        if not (name in DIGITS and "nD" in method):  # 784 columns, as in the thesis
            yield "hinge", method, learner, Settings(widths, HINGE_COSTS, **changes)
    for method, learner in SQUARED.items() if name in SETS else ():
        yield "squared", method, learner, Settings(WHOLE, RIDGE_COSTS, **changes)


def compare(names: list[str], arguments: Any, cap: int | None, ledger: Ledger) -> None:
    """Compute what the run table lacks."""
    started = time.monotonic()
    for name, repeat in schedule(names, arguments.repeats):
        missing = [job for job in jobs(name, arguments.quick) if (job[0], name, repeat, job[1]) not in ledger]
        if time.monotonic() - started > 60 * arguments.minutes:
            break
        data = load(name, arguments.data) if missing else None
        if data is None:
            continue
        task = split(*data, name, repeat, cap)
        for loss, method, learner, settings in missing:
            row = {"loss": loss, "set": name, "repeat": repeat, "method": method}
            ledger.add(row | evaluate(learner, task, settings, loss))
        CONSOLE.log(f"{name}, split {repeat}: {time.monotonic() - started:.0f} s")


# --- 6.2.3 --------------------------------------------------------------------------------------------------------


def width_objectives(names: list[str], folder: str | None, cap: int | None) -> pd.DataFrame:
    """Return ``h(width)`` of 6.2.3, the flipped objective of the inner search, at a few iterations of the ascent."""
    frames = []
    for name in names:
        data = load(name, folder)
        if data is not None:
            frames += objectives_of(name, split(*data, name, 0, min(200, cap or 200)))
    return pd.concat(frames, ignore_index=True)


def objectives_of(name: str, task: Task) -> list[pd.DataFrame]:
    """Return ``h(width)`` on one set."""
    chosen = {"digits": PIXELS, "letters": LETTER_WIDTHS, "sets": STANDARDIZED}[group_of(name)]
    low, high = chosen.low, chosen.high
    (X, y), widths, frames = task.train, np.geomspace(low, high, 120), []
    search, ideal = FamilySearch(GaussianFamily(low, high), X), center_kernel(np.outer(y, y))
    for iteration in ITERATIONS:
        gradient = ideal
        if iteration > 1:
            limits, ascent = Limits(max_iter=iteration - 1), AscentSettings("published")
            found = align_family(search, y, np.ones(len(y)), gain=0.0, ascent=ascent, limits=limits)
            parts = [w * Gaussian(float(p[0]))(X) for p, w in zip(found.parameters, found.weights, strict=True)]
            current = center_kernel(np.sum(parts, axis=0))
            gradient = ideal - np.vdot(current, ideal) / np.vdot(current, current) * current
        values = np.array([-np.vdot(Gaussian(float(width))(X), gradient) for width in widths])
        scaled = values / np.abs(values).max()
        frames.append(pd.DataFrame({"set": name, "iteration": iteration, "width": widths, "h": scaled}))
    return frames


def n_minima(values: np.ndarray) -> int:
    """Return the number of local minima of a curve, ends included."""
    padded = np.concatenate([[np.inf], values, [np.inf]])
    return int(np.sum((padded[1:-1] < padded[:-2]) & (padded[1:-1] < padded[2:])))


def draw(curves: pd.DataFrame, path: Path) -> None:
    """Draw ``h`` against the width, one panel a set."""
    names = list(dict.fromkeys(curves["set"]))
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(2.8 * columns, 2.2 * rows), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for iteration, part in curves[curves["set"] == name].groupby("iteration"):
            ax.plot(part["width"], part["h"], label=f"iteration {iteration}")
        ax.set(title=name, xscale="log")
        ax.set_xlabel("width")
    for ax in axes.flat[len(names) :]:
        ax.remove()
    axes[0, 0].legend(fontsize=6)
    figure.savefig(path, dpi=70)


# --- what is told -------------------------------------------------------------------------------------------------


def tables(results: pd.DataFrame) -> dict[str, tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Return, by experiment, the table of the page, the errors split by split that it is made of, and the ranks."""
    made = {}
    for name, table in TABLES.items():
        rows = table.rows(results)
        if rows.empty:
            continue
        of_methods = ranks(rows)
        of_methods["splits"], of_methods["sets"] = len(rows), rows.index.get_level_values("set").nunique()
        same = results[(results["loss"] == table.loss) & (results["set"].map(group_of) == table.group)]
        seconds = same.groupby("method")["cpu_s"].median()
        text = ranked(rows, of_methods, seconds, table.error == "misclassified", table.printed)
        made[name] = (text, rows, of_methods)
    return made


def texts(results: pd.DataFrame) -> dict[str, str]:
    """Return the tables of the page."""
    return {name: text for name, (text, _, _) in tables(results).items()}


LEDGERS = {RUNS: texts}


def write_ranks(results: pd.DataFrame, output: Path) -> None:
    """Write the ranks of every experiment of which there are results."""
    told = {name: of_methods.to_dict("records") for name, (_, _, of_methods) in tables(results).items()}
    (output / "ranks.json").write_text(json.dumps(told, indent=1, default=float))


def report_widths(names: list[str], arguments: Any, cap: int | None, output: Path) -> None:
    """Write and draw the objective of the search, unless an earlier run has."""
    path = output / "widths.csv"
    if not path.exists():
        width_objectives(names, arguments.data, cap).to_csv(path, index=False)
    curves = pd.read_csv(path)
    draw(curves, output / "widths.png")
    minima = curves.groupby(["set", "iteration"], sort=False)["h"].agg(lambda h: n_minima(h.to_numpy())).unstack()
    CONSOLE.print("Local minima of h (6.2.3)\n" + minima.to_string(), highlight=False)


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(__doc__, "thesis/real_data", quick="two sets, 40 samples, for a check that everything runs")
    parser.add_argument("--report", action="store_true", help="only write tables and figures of what is there")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these, with commas between")
    parser.add_argument("--repeats", type=int, default=10, help="random splits of every set")
    parser.add_argument("--minutes", type=float, default=120.0, help="after so many minutes no new split is begun")
    arguments = parser.parse_args()
    output, cap = arguments.output, QUICK_CAP if arguments.quick else None
    arguments.repeats = 1 if arguments.quick else arguments.repeats
    every = [*SETS, *DIGITS, *LETTERS]
    names = arguments.sets or (list(QUICK_SETS) if arguments.quick else every)
    unknown = sorted(set(names) - set(every))
    if unknown:
        parser.error(f"there is no set {', '.join(unknown)}; there are {', '.join(every)}")
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    with warnings.catch_warnings():
        # LIBSVM and solvers that are cut short are part of the comparison: their errors are in the table.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if not arguments.report:
            compare(names, arguments, cap, ledger)
        report_widths(names, arguments, cap, output)
    write_ranks(ledger.frame(), output)
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
