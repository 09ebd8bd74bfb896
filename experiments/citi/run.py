"""Citi's elastic-net constrained MKL: the updates of Algorithm 2, bounds of Algorithm 1, other solvers, accuracy.

    python experiments/citi/run.py --data DIR [--quick] [--output DIR] [--page PAGE]

``DIR`` holds ``ionosphere.npz``, ``sonar.npz``, ... with arrays ``X`` and ``y``; without it they are fetched from
OpenML. Writes four run tables, whose parts are not run again where they are there, every iteration of Algorithm 1, and
three figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from rich.console import Console

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

mpl.use("Agg")

import _accuracy  # noqa: E402
import _convergence  # noqa: E402
import _published  # noqa: E402
from _data import gram_matrices, load  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, read, report  # noqa: E402
from experiments.program import command_line  # noqa: E402

CONSOLE = Console(width=150)
CURVES = "ionosphere"
CONSTANT = 10.0
UPDATES, BOUNDS, SOLVERS, ACCURACY = (f"citi_{name}_runs.csv" for name in ("updates", "bounds", "solvers", "accuracy"))
KEYS = {
    UPDATES: ("eta", "rule", "repeat"),
    BOUNDS: ("eta", "repeat"),
    SOLVERS: ("eta", "tol", "program", "repeat"),
    ACCURACY: ("data", "eta", "repeat"),
}
MEASURED = {
    UPDATES: ("updates", "most", "increases", "premature", "share_premature", "cpu_s"),
    BOUNDS: (
        *("iterations", "last_gap", "lower_above_optimum", "upper_below_optimum"),
        *("lower_not_positive", "upper_rises", "optimum_certified_to", "cpu_s"),
    ),
    SOLVERS: ("status", "gap", "iterations", "cpu_s", "active"),
    ACCURACY: ("n_train", "C", "accuracy", "gap", "n_kernels", "active", "cpu_s"),
}


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    update_etas: tuple[float, ...]
    draws: int
    size: int
    etas: tuple[float, ...]
    most: int
    tols: tuple[float, ...]
    limit: float
    compared: tuple[float, ...]
    n_curves: int
    n_compared: int
    sets: tuple[str, ...]
    protocol: _accuracy.Protocol


FULL = Sizes(
    update_etas=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0),
    draws=100,
    size=100,
    etas=(0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
    most=1000,
    tols=(1e-2, 1e-4, 1e-6),
    limit=20.0,
    compared=(0.0, 0.5, 1.0),
    n_curves=351,
    n_compared=150,
    sets=("ionosphere", "sonar", "heart_statlog", "wdbc"),
    protocol=_accuracy.Protocol(etas=(0.0, 0.25, 0.5, 0.75, 1.0), splits=5, holdouts=1, most_train=100),
)
QUICK = Sizes(
    update_etas=(0.0, 0.1, 0.25, 0.5, 1.0),
    draws=5,
    size=20,
    etas=(0.0, 0.5, 1.0),
    most=30,
    tols=(1e-2,),
    limit=2.0,
    compared=(0.0, 0.5, 1.0),
    n_curves=50,
    n_compared=40,
    sets=("ionosphere",),
    protocol=_accuracy.Protocol(etas=(0.0, 0.5, 1.0), splits=2, holdouts=1, most_train=60),
)


def main() -> None:
    """Run everything and write it down."""
    arguments = command_line(__doc__, "citi").parse_args()
    sizes, output = QUICK if arguments.quick else FULL, arguments.output
    updates = kept(output, UPDATES, _published.compare_updates(sizes.update_etas, sizes.size, sizes.draws))
    _convergence.plot_updates(updates, str(output / "updates.png"))
    convergence(sizes, arguments.data, output)
    rows = (row for name in sizes.sets for row in _accuracy.measure(name, *load(name, arguments.data), sizes.protocol))
    splits = kept(output, ACCURACY, rows)
    _accuracy.plot(_accuracy.summarize(splits), str(output / "accuracy.png"))
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


def kept(output: Path, name: str, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Write all rows, unless an earlier run has written this table; return it."""
    if not (output / name).exists():
        whole, ledger = list(rows), Ledger(output / name, KEYS[name], MEASURED[name])
        for row in whole:
            ledger.add(row)
    return read(output / name)


def convergence(sizes: Sizes, folder: str | None, output: Path) -> None:
    """Run Algorithm 1 and other solvers on one set."""
    X, y = load(CURVES, folder)
    kernels, target = gram_matrices(X[: sizes.n_curves]), y[: sizes.n_curves]
    if not (output / BOUNDS).exists():
        table = _convergence.bounds(kernels, target, CONSTANT, sizes.etas, tol=min(sizes.tols), most=sizes.most)
        table.to_csv(output / "iterations.csv", index=False)
        _convergence.plot(table, 0.5, str(output / "bounds.png"))
        kept(output, BOUNDS, _convergence.check_bounds(table).to_dict("records"))
    kernels, target = gram_matrices(X[: sizes.n_compared]), y[: sizes.n_compared]
    kept(output, SOLVERS, _convergence.compare(kernels, target, CONSTANT, sizes.compared, sizes.tols, sizes.limit))


# --- tables of the page ---------------------------------------------------------------------------------------------


def updates_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return the mean number of updates of each rule, a row an eta."""
    wide = runs.pivot_table(index="eta", columns="rule", values="updates")
    early = runs.pivot_table(index="eta", columns="rule", values="share_premature")
    rules = list(dict.fromkeys(runs["rule"]))
    rows = [
        [f"{eta:g}", *(f"{wide.loc[eta, rule]:.1f}" for rule in rules), f"{100 * early.loc[eta, '(21)']:.0f} %"]
        for eta in wide.index
    ]
    return {"updates": markdown(["eta", "(13a)", "(21)", "both in turn", "(20) fires early after (21) alone"], rows)}


def bounds_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return iterations and bounds of Algorithm 1, a row an eta."""
    rows = [
        [f"{r.eta:g}", f"{r.iterations}", f"{r.lower_not_positive}", f"{r.last_gap:.1e}", f"{r.cpu_s:.2g}"]
        for r in runs.itertuples()
    ]
    head = ["eta", "iterations", "iterations with a lower bound that is not positive", "gap at the end", "CPU s"]
    return {"bounds": markdown(head, rows)}


def solvers_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return iterations and CPU seconds to each gap, a row a program."""
    tols, rows = sorted(set(runs["tol"]), reverse=True), []
    for (eta, program), own in runs.groupby(["eta", "program"], sort=False):
        cells = []
        for tol in tols:
            run = own[own["tol"] == tol].iloc[0]
            reached = run["gap"] <= tol
            cells.append(f"{run['iterations']}; {run['cpu_s']:.2g}" if reached else f"not in {run['cpu_s']:.0f} s")
        last = own.iloc[-1]
        active = f"{last['active']:.0f}" if np.isfinite(last["active"]) and last["gap"] <= last["tol"] else ""
        rows.append([f"{eta:g}", f"{program}", *cells, active])
    return {"solvers": markdown(["eta", "program", *(f"gap {tol:.0e}" for tol in tols), "kernels at the last"], rows)}


def accuracy_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return accuracy, its deviation over splits, and the median number of kernels, a row a set."""
    etas, rows = list(dict.fromkeys(runs["eta"])), []
    for name, own in runs.groupby("data", sort=False):
        cells = []
        for eta in etas:
            part = own[own["eta"] == eta]
            kernels = f" ({part['active'].median():.0f})" if eta != _accuracy.UNIFORM else ""
            cells.append(f"{part['accuracy'].mean():.1f} ± {part['accuracy'].std():.1f}{kernels}")
        rows.append([str(name), str(own["n_kernels"].iloc[0]), *cells, f"{own['cpu_s'].mean():.2g}"])
    names = ["equal weights" if eta == _accuracy.UNIFORM else f"eta = {float(eta):g}" for eta in etas]
    return {"accuracy": markdown(["set", "kernels", *names, "CPU s a choice"], rows)}


LEDGERS = {UPDATES: updates_table, BOUNDS: bounds_table, SOLVERS: solvers_table, ACCURACY: accuracy_table}


if __name__ == "__main__":
    main()
