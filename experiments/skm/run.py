"""Support kernel machine by SMO: scaling in kernels and samples, the continuation along kappa, support kernels.

    python experiments/skm/run.py --data DIR [--quick] [--output DIR]

The experiment of Bach, Lanckriet and Jordan (2004), section 6. ``DIR`` holds ``ionosphere.npz`` and
``breast_cancer_wisconsin.npz`` with arrays ``X`` and ``y``, and ``adult_a9a.npz`` for a third set in the sweep over
samples; without it they are fetched from OpenML. ``--only`` runs the sweeps of one set. Writes four tables
as CSV, ``results.json`` and two figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from rich.console import Console

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

mpl.use("Agg")

import _continuation  # noqa: E402
import _kernels  # noqa: E402
import _scaling  # noqa: E402

import manykernels  # noqa: E402

CONSOLE = Console(width=150)
CONSTANT = 1.0
SEED = 0


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    sweeps: dict[str, _scaling.Sweep]
    continued: tuple[str, ...]
    n_kernels: int
    n_samples: int
    stage_tol: float
    seconds: float
    support_tol: float


SWEEP = _scaling.Sweep(
    kernels=(6, 12, 24, 48, 96, 192),
    samples=(50, 71, 100, 141, 200, 400, 700),
    few=100,
    gap=1e-2,
    time_limit=8.0,
    repeats=3,
)
ADULT = replace(SWEEP, kernels=(), samples=(100, 200, 400, 800, 1600))
FULL = Sizes(
    sweeps={"ionosphere": SWEEP, "breast cancer": SWEEP, "adult": ADULT},
    continued=("ionosphere", "breast cancer"),
    n_kernels=96,
    n_samples=351,
    stage_tol=1e-4,
    seconds=20.0,
    support_tol=1e-6,
)
QUICK_SWEEP = _scaling.Sweep(kernels=(4, 8), samples=(30, 60), few=30, gap=1e-2, time_limit=2.0, repeats=1)
QUICK = Sizes(
    sweeps={"ionosphere": QUICK_SWEEP, "breast cancer": QUICK_SWEEP, "adult": replace(QUICK_SWEEP, kernels=())},
    continued=("ionosphere",),
    n_kernels=8,
    n_samples=50,
    stage_tol=1e-4,
    seconds=0.5,
    support_tol=1e-4,
)


def main() -> None:
    """Run everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of archives; without it the sets are fetched from OpenML")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a check that everything runs")
    parser.add_argument("--output", default="experiments/results/skm", help="folder for tables and figures")
    parser.add_argument("--only", choices=list(FULL.sweeps), help="the sweeps of this set, and nothing else")
    arguments = parser.parse_args()
    sizes, output = QUICK if arguments.quick else FULL, Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    if arguments.only:
        sizes = replace(sizes, sweeps={arguments.only: sizes.sweeps[arguments.only]})
    stages = {} if arguments.only else continuation(sizes, arguments.data, output)
    tables = stages | scaling(sizes, arguments.data, output)
    record = {
        "sizes": asdict(sizes),
        "version": manykernels.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "tables": {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()},
    }
    (output / "results.json").write_text(json.dumps(record, indent=1))


def continuation(sizes: Sizes, folder: str | None, output: Path) -> dict[str, pd.DataFrame]:
    """Follow kappa on every set in both ways, and count support kernels."""
    stages, counts = [], []
    for name in sizes.continued:
        kernels, y = _kernels.draw(*_kernels.load(name, folder), sizes.n_kernels, sizes.n_samples, SEED)
        _continuation.follow(kernels[:3, :30, :30], y[:30], CONSTANT, rescale=True, tol=1e-2, seconds=1.0)  # compiles
        for variant in (_continuation.AS_PUBLISHED, _continuation.RESCALED):
            rescale = variant == _continuation.RESCALED
            given = {"rescale": rescale, "tol": sizes.stage_tol, "seconds": sizes.seconds}
            table = _continuation.follow(kernels, y, CONSTANT, **given)
            stages.append(table.assign(data=name, variant=variant))
        found = _continuation.support(kernels, y, CONSTANT, sizes.support_tol, 6 * sizes.seconds)
        counts.append(found.assign(data=name))
    tables = {"stages": pd.concat(stages, ignore_index=True), "support": pd.concat(counts, ignore_index=True)}
    report("along kappa", tables["stages"], output / "stages.csv")
    report(f"support kernels at gap {sizes.support_tol:g}", tables["support"], output / "support.csv")
    _continuation.plot(tables["stages"], str(output / "stages.png"))
    return tables


def scaling(sizes: Sizes, folder: str | None, output: Path) -> dict[str, pd.DataFrame]:
    """Run the sweeps on every set and fit the exponents."""
    frames = []
    for name, sweep in sizes.sweeps.items():
        if folder is not None and not (Path(folder) / f"{_kernels.FILES[name]}.npz").exists():
            CONSOLE.print(f"{name}: no archive, left out")
            continue
        X, y = _kernels.load(name, folder)
        kernels, y = _kernels.draw(X, y, max((*sweep.kernels, _scaling.FIXED_KERNELS)), max(sweep.samples), SEED)
        frames.append(_scaling.run(name, kernels, y, CONSTANT, sweep))
    frame = pd.concat(frames, ignore_index=True)
    fits = _scaling.exponents(frame)
    report("fits", frame, output / "scaling.csv")
    report("CPU time grows as size to the power of", fits.drop(columns="level"), output / "exponents.csv")
    _scaling.plot(frame, fits, str(output / "scaling.png"))
    return {"scaling": frame, "exponents": fits}


def report(title: str, table: pd.DataFrame, path: Path) -> None:
    """Print a table and write it."""
    CONSOLE.print(f"{title}\n{table.to_string(float_format='{:.3g}'.format)}\n", highlight=False)
    table.to_csv(path, index=False)


if __name__ == "__main__":
    main()
