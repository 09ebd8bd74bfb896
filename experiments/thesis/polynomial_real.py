"""Section 6.1.4 of Afkanpour's thesis: polynomial kernels of degree one to three on sets of 20 columns or more.

    python experiments/thesis/polynomial_real.py --data DIR [--quick] [--sets NAME ...] [--minutes M] [--output DIR]

``DIR`` holds archives such as ``ringnorm.npz`` (arrays ``X``, ``y``); without it, the sets that OpenML has are fetched.
Writes ``thesis_polynomial_real_runs.csv`` (a row a set, split and method, at once, and not run again), and draws the
misclassified share of the test part (``errors.png``). After M minutes no new split is begun; ``--report`` runs nothing.
"""

from __future__ import annotations

from _polynomial_runs import MEASURED, misclassified, tuned  # first: it limits threads

# isort: split
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from _polynomial_classifiers import FULL, QUICK, methods
from _tasks import load, split
from rich.console import Console
from sklearn.datasets import fetch_openml

mpl.use("Agg")
sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown
from experiments.ledger import report as write
from experiments.program import command_line
from matplotlib import pyplot

CONSOLE = Console(width=150)
RUNS, KEYS = "thesis_polynomial_real_runs.csv", ("set", "repeat", "method")
SETS = {"sonar": 10, "ionosphere": 10, "german": 10, "ringnorm": 5, "waveform": 5, "splice": 5}  # and random splits
QUICK_SETS, QUICK_CAP = {"sonar": 1, "ionosphere": 1}, 40
SPLICE = 46  # at OpenML: 60 letters, and three classes of which "N" is neither kind of junction


def samples(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows and signs of a set, or None if there is none."""
    try:
        if name == "splice" and folder is None:
            table = fetch_openml(data_id=SPLICE, as_frame=True, read_csv_kwargs={"dtype": None})
            letters = table.data.apply(lambda column: column.astype("category").cat.codes)
            return letters.to_numpy(dtype=float), np.where(table.target == "N", -1.0, 1.0)
        return load(name, folder)
    except OSError as error:
        CONSOLE.print(f"{name}: OpenML cannot be reached ({error})", highlight=False)
        return None


def compare(ledger: Ledger, arguments: Any) -> None:
    """Run what the table lacks, split by split."""
    sets, cap, effort = (QUICK_SETS, QUICK_CAP, QUICK) if arguments.quick else (SETS, None, FULL)
    tables = {name: samples(name, arguments.data) for name in sets if name in (arguments.sets or sets)}
    missing = [name for name, table in tables.items() if table is None]
    if missing:
        CONSOLE.print(f"not at hand, left out: {', '.join(missing)}", highlight=False)
    started = time.monotonic()
    for repeat in range(max(sets.values())):
        for name, table in tables.items():
            if table is None or repeat >= sets[name] or time.monotonic() - started > 60 * arguments.minutes:
                continue
            task = split(*table, name, repeat, cap)
            for method, (make, alphas) in methods(*task.train[0].shape[::-1], effort, repeat).items():
                if (name, repeat, method) not in ledger:
                    key = dict(zip(KEYS, (name, repeat, method), strict=True))
                    ledger.add(key | tuned(make, alphas, task, misclassified))
            CONSOLE.log(f"{name}, split {repeat}: {time.monotonic() - started:.0f} s")


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row a method: mean error on each set, median and mean rank over sets, median CPU seconds of a fit."""
    means = frame.groupby(["set", "method"], sort=False)["error"].mean().unstack()
    places = means.rank(axis=1)
    table = means.T.assign(median_rank=places.median(), mean_rank=places.mean())
    return table.assign(cpu_s=frame.groupby("method")["cpu_s"].median())


def table_text(frame: pd.DataFrame, summary: pd.DataFrame) -> str:
    """Return mean errors with their standard errors over splits, and ranks, as a table for a page."""
    counts = frame.groupby("set", sort=False)["repeat"].nunique()
    errors = frame.groupby(["method", "set"])["error"].sem().fillna(0.0)
    rows = []
    for method, row in summary.sort_values("mean_rank").iterrows():
        cells = [f"{100 * row[name]:.1f} ± {100 * errors[method, name]:.1f}" for name in counts.index]
        ranks = [f"{row['median_rank']:g}", f"{row['mean_rank']:.1f}", f"{row['cpu_s']:.2g}"]
        rows.append([str(method), *cells, *ranks])
    head = ["", *(f"{name} ({count} splits)" for name, count in counts.items())]
    return markdown([*head, "median rank", "mean rank", "CPU s of a fit"], rows)


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Draw mean and standard error of every method, one panel a set."""
    names = list(dict.fromkeys(frame["set"]))
    figure, axes = pyplot.subplots(
        1, len(names), figsize=(2.2 + 2.1 * len(names), 3.4), sharey=True, layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=True):
        by_method = frame[frame["set"] == name].groupby("method", sort=False)["error"]
        labels = [str(label) for label in by_method.groups]
        ax.barh(labels, 100 * by_method.mean()[labels], xerr=100 * by_method.sem().fillna(0.0)[labels], color="C0")
        ax.set(title=name, xlabel="misclassified, %")
    axes[0, 0].invert_yaxis()
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the splits that every method has finished."""
    whole = frame.groupby(["set", "repeat"])["method"].transform("nunique") == frame["method"].nunique()
    return frame[whole]


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return misclassified test rows in percent, mean and standard error."""
    frame = complete(runs)
    return {"real": table_text(frame, summarize(frame))} if len(frame) else {}


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(__doc__, "thesis/polynomial_real")
    parser.add_argument("--sets", nargs="*", choices=list(SETS), help="only these sets")
    parser.add_argument("--minutes", type=float, default=1e9, help="after these no new split is begun")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what the runs so far say")
    arguments = parser.parse_args()
    output = arguments.output
    warnings.simplefilter("ignore")
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    if not arguments.report:
        compare(ledger, arguments)
    frame = complete(ledger.frame())
    if frame.empty:
        CONSOLE.print("There are no runs yet.")
        return
    draw(frame, output / "errors.png")
    CONSOLE.print(write(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
