"""Figure 4 of the SpicyMKL publication: relative duality gap and active kernels against CPU time, one run a solver.

    python experiments/spicymkl/traces.py --data DIR [--quick] [--output DIR]

``DIR`` holds ``wpbc.npz`` (arrays ``X`` and ``y``), the set of the publication's figure.
Every certified point of every solver is a row of ``traces.csv``, every run one of ``spicymkl_traces_runs.csv``; CPU
seconds count what the callback costs, too.
"""

from __future__ import annotations

from _racing import (  # first: it limits threads before NumPy is loaded
    AS_PRINTED,
    BLOCK_NORM,
    MOST_ITERATIONS,
    SQUARED_NORM,
    Entrant,
    cpu_limit,
    matching_constant,
    pose,
    warm_up,
)

# isort: split
import shutil
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from _as_printed import LABEL
from _as_printed import trace as trace_as_printed
from _data_sets import load_table
from matplotlib import pyplot
from rich.console import Console
from scipy.linalg import LinAlgWarning
from table4 import make_split

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, fill, markdown, report
from experiments.program import command_line

from manykernels.exceptions import ConvergenceWarning
from manykernels.objective import Problem
from manykernels.solvers import get_solver

ENTRANTS = (
    *(entrant for entrant in BLOCK_NORM if entrant.label in ("working_set", "spicymkl, gamma x 2")),
    *AS_PRINTED,
    *(entrant for entrant in SQUARED_NORM if entrant.printed),
)
DATA, SPLIT, CONSTANT = "wpbc", 0, 0.05  # the publication does not print its C here; this is the middle one
GAPS = (1e-1, 1e-2, 1e-4, 1e-6)
SMALLEST = 1e-9  # of a picture
RUNS, KEYS = "spicymkl_traces_runs.csv", ("problem", "solver", "repeat")
MEASURED = (*(f"to {gap:g}" for gap in GAPS), "cpu_s", "points", "most active", "last")
CONSOLE = Console(width=150)


@dataclass(frozen=True)
class Sizes:
    """How far a run goes, in CPU seconds and to which gap, and how much of the set it sees."""

    tol: float
    limit: float
    most_samples: int
    most_columns: int


FULL = Sizes(1e-6, 20.0, 10**6, 10**6)
QUICK = Sizes(1e-3, 1.0, 40, 1)


def trace(entrant: Entrant, problem: Problem, sizes: Sizes) -> pd.DataFrame:
    """Return the certified points of one run: CPU seconds, gap, active kernels."""
    if entrant.label == LABEL:
        return trace_as_printed(problem, sizes.tol).assign(problem=entrant.problem, solver=entrant.label)
    rows: list[dict[str, Any]] = []
    started = time.process_time()

    def note(record: Any) -> None:
        seconds = time.process_time() - started
        row = {"cpu_s": seconds, "relative_gap": record.relative_gap, "active": record.n_active}
        rows.append({"iteration": record.iteration} | row)

    solver = get_solver(entrant.solver)(tol=sizes.tol, max_iter=MOST_ITERATIONS, callback=note, **entrant.parameters)
    with warnings.catch_warnings(), cpu_limit(sizes.limit) as out_of_time:
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        solution = solver.solve(problem)
    if solution.status == "interrupted" and not out_of_time:
        raise KeyboardInterrupt  # by a person
    return pd.DataFrame(rows).assign(problem=entrant.problem, solver=entrant.label)


def run_all(X: np.ndarray, y: np.ndarray, sizes: Sizes) -> pd.DataFrame:
    """Return the traces of all solvers on one split; none of the squared norm where the block norm selects nothing."""
    made = make_split(X, y, SPLIT)
    target = made.y[made.train]
    squared = matching_constant(made.stack, target, CONSTANT)
    parts = []
    warm_up(ENTRANTS)
    for entrant in ENTRANTS:
        if entrant.problem == "squared" and not squared:
            continue
        problem = pose(entrant.problem, CONSTANT, squared).problem(made.stack, target)
        parts.append(trace(entrant, problem, sizes))
        CONSOLE.print(f"{entrant.key}: {len(parts[-1])} points", highlight=False)
    return pd.concat(parts, ignore_index=True)


def summary(traces: pd.DataFrame) -> list[dict[str, Any]]:
    """Return CPU seconds to several gaps, of points, and the kernels at the end, a row a run."""
    rows = []
    for (problem, solver), part in traces.groupby(["problem", "solver"], sort=False):
        best = part["relative_gap"].cummin()
        row: dict[str, Any] = {"problem": problem, "solver": solver, "repeat": SPLIT}
        row |= {f"to {gap:g}": part["cpu_s"][best <= gap].min() for gap in GAPS}
        row |= {"cpu_s": part["cpu_s"].iloc[-1], "points": len(part)}
        rows.append(row | {"most active": part["active"].max(), "last": part["active"].iloc[-1]})
    return rows


def draw(traces: pd.DataFrame, path: Path) -> None:
    """Draw both panels of the figure."""
    mpl.use("agg")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for number, ((problem, solver), part) in enumerate(traces.groupby(["problem", "solver"], sort=False)):
        label = f"{solver} ({problem})" if problem != "squared" else str(solver)
        given: dict[str, Any] = {"color": f"C{number}", "label": label, "linewidth": 1.2}
        given["linestyle"] = "--" if problem == "logistic" else "-"
        left.plot(part["cpu_s"], part["relative_gap"].clip(lower=SMALLEST), **given)
        right.plot(part["cpu_s"], part["active"], **given)
    left.axhline(0.01, color="0.6", linewidth=0.8, linestyle=":")
    left.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="relative duality gap")
    right.set(xscale="log", yscale="symlog", xlabel="CPU seconds", ylabel="active kernels", ylim=(0, None))
    left.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return the table of Figure 4; ``>`` the seconds of a run that did not get there."""
    rows = []
    for run in runs.to_dict("records"):
        reached = [run[f"to {gap:g}"] for gap in GAPS]
        cells = [f"{value:.2g}" if np.isfinite(value) else f"> {run['cpu_s']:.2g}" for value in reached]
        rows.append([run["solver"], run["problem"], *cells, *(str(run[c]) for c in ("points", "most active", "last"))])
    return {"traces": markdown(["solver", "problem", *MEASURED[:4], "points", "most active", "last"], rows)}


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run everything and write it down."""
    arguments = command_line(__doc__, "spicymkl", data="folder with the archive").parse_args()
    sizes, output = QUICK if arguments.quick else FULL, arguments.output
    samples = load_table(DATA, arguments.data)
    if samples is None:
        CONSOLE.print(f"{DATA}: no archive, nothing is drawn")
        return
    rows = np.random.default_rng(0).permutation(len(samples[1]))[: sizes.most_samples]
    traces = run_all(samples[0][rows][:, : sizes.most_columns], samples[1][rows], sizes)
    traces.to_csv(output / "traces.csv", index=False)
    draw(traces, output / "traces.png")
    (output / RUNS).unlink(missing_ok=True)
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    for row in summary(traces):
        ledger.add(row)
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)
    if arguments.page:
        shutil.copyfile(output / "traces.png", arguments.page.with_name(f"{arguments.page.stem}_traces.png"))
        picture = f"![Gap and active kernels against CPU seconds]({arguments.page.stem}_traces.png)"
        fill(arguments.page, "picture, traces", picture)


if __name__ == "__main__":
    main()
