"""Citi's elastic-net constrained MKL: the updates of Algorithm 2, bounds of Algorithm 1, other solvers, accuracy.

    python experiments/citi/run.py --data DIR [--quick] [--output DIR]

``DIR`` holds ``ionosphere.npz``, ``sonar.npz``, ... with arrays ``X`` and ``y``; without it they are fetched from
OpenML. Writes five tables as CSV, ``results.json`` and three figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from rich.console import Console

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

mpl.use("Agg")

import _accuracy  # noqa: E402
import _convergence  # noqa: E402
from _data import gram_matrices, load  # noqa: E402
from _published import compare_updates  # noqa: E402

import manykernels  # noqa: E402

CONSOLE = Console(width=150)
CURVES = "ionosphere"
CONSTANT = 10.0


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
    sets=("ionosphere", "sonar"),
    protocol=_accuracy.Protocol(etas=(0.0, 0.5, 1.0), splits=2, holdouts=1, most_train=60),
)


def main() -> None:
    """Run everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of archives; without it the sets are fetched from OpenML")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a check that everything runs")
    parser.add_argument("--output", default="experiments/results/citi", help="folder for tables and figures")
    arguments = parser.parse_args()
    sizes, output = QUICK if arguments.quick else FULL, Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    updates = compare_updates(sizes.update_etas, sizes.size, sizes.draws)
    report("updates of Algorithm 2", updates, output / "updates.csv")
    _convergence.plot_updates(updates, str(output / "updates.png"))
    checks, compared = convergence(sizes, arguments.data, output)
    summary = accuracy(sizes, arguments.data, output)
    record = {
        "sizes": asdict(sizes),
        "version": manykernels.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "tables": {
            name: json.loads(table.to_json(orient="records"))
            for name, table in {"updates": updates, "bounds": checks, "solvers": compared, "accuracy": summary}.items()
        },
    }
    (output / "results.json").write_text(json.dumps(record, indent=1))


def convergence(sizes: Sizes, folder: str | None, output: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run Algorithm 1 and other solvers on one set."""
    X, y = load(CURVES, folder)
    kernels, y = gram_matrices(X[: sizes.n_curves]), y[: sizes.n_curves]
    CONSOLE.print(f"{CURVES}: {len(kernels)} kernels, {len(y)} samples, C = {CONSTANT:g}\n", highlight=False)
    table = _convergence.bounds(kernels, y, CONSTANT, sizes.etas, tol=min(sizes.tols), most=sizes.most)
    table.to_csv(output / "iterations.csv", index=False)
    _convergence.plot(table, 0.5, str(output / "bounds.png"))
    checks = _convergence.check_bounds(table)
    report("bounds of Algorithm 1", checks, output / "bounds.csv")
    kernels, y = gram_matrices(X[: sizes.n_compared]), y[: sizes.n_compared]
    compared = _convergence.compare(kernels, y, CONSTANT, sizes.compared, sizes.tols, sizes.limit)
    report(f"to a relative gap, {len(y)} samples", compared, output / "solvers.csv")
    return checks, compared


def accuracy(sizes: Sizes, folder: str | None, output: Path) -> pd.DataFrame:
    """Measure accuracy against eta on every set."""
    frames = [_accuracy.measure(name, *load(name, folder), sizes.protocol) for name in sizes.sets]
    pd.concat(frames).to_csv(output / "splits.csv", index=False)
    summary = _accuracy.summarize(pd.concat(frames))
    report("accuracy against eta", summary, output / "accuracy.csv")
    _accuracy.plot(summary, str(output / "accuracy.png"))
    return summary


def report(title: str, table: pd.DataFrame, path: Path) -> None:
    """Print a table and write it."""
    CONSOLE.print(f"{title}\n{table.to_string(float_format='{:.4g}'.format)}\n", highlight=False)
    table.to_csv(path, index=False)


if __name__ == "__main__":
    main()
