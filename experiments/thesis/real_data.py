"""Sections 6.2.2, 6.2.3 and 6.3 of the thesis: Gaussian kernels on real data, found or listed, in one stage or two.

    python experiments/thesis/real_data.py --data DIR [--quick] [--repeats N] [--minutes M] [--output DIR]

``DIR`` holds archives such as ``ringnorm.npz`` (arrays ``X``, ``y``); without it, the sets that OpenML has are fetched.
Writes ``results.csv`` as results come, mean errors (``errors_6.2.2.csv``, ``errors_6.3.csv``) and median ranks
(``results.json``), and the objective of the search for a width (``widths.csv``, ``widths.png``, 6.2.3). After M minutes
no new split is begun.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _learners import CLASSIFIERS, HIGH, LOW, REGRESSORS, Settings, evaluate
from _tasks import DIGITS, SETS, load, split
from matplotlib import pyplot
from rich.console import Console

from manykernels import Gaussian
from manykernels.alignment import center_kernel
from manykernels.discovery import FamilySearch, GaussianFamily, Limits, align_family
from manykernels.exceptions import ConvergenceWarning

CONSOLE = Console(width=140)
FULL = Settings(costs=tuple(10.0 ** np.arange(-2, 4.5, 0.5)), strengths=(1e-3, 1e-2, 1e-1))
QUICK = Settings(costs=(0.1, 1.0, 10.0), strengths=(1e-2,), kernels=3)
QUICK_SETS, QUICK_CAP = ("heart", "thyroid"), 40
ITERATIONS = (1, 2, 4)  # of the ascent, at which 6.2.3 draws its objective


def compare(names: list[str], arguments: Any, settings: Settings, cap: int | None, path: Path) -> pd.DataFrame:
    """Return one row a set, repeat, experiment and method; rows are written to ``path`` as they come."""
    rows: list[dict[str, Any]] = []
    started = time.monotonic()
    for repeat in range(arguments.repeats):
        for name in names:
            data = load(name, arguments.data)
            if data is None or time.monotonic() - started > 60 * arguments.minutes:
                continue
            task = split(*data, name, repeat, cap)
            for experiment, loss, learners in (("6.2.2", "hinge", CLASSIFIERS), ("6.3", "squared", REGRESSORS)):
                for method, learner in learners.items():
                    if name in DIGITS and ("nD" in method or experiment == "6.3"):
                        continue  # 784 columns, as in the thesis
                    result = evaluate(learner, task, settings, loss)
                    rows.append({"experiment": experiment, "set": name, "repeat": repeat, "method": method, **result})
            pd.DataFrame(rows).to_csv(path, index=False)
            CONSOLE.log(f"{name}, split {repeat}: {time.monotonic() - started:.0f} s")
    return pd.DataFrame(rows)


def ranks(results: pd.DataFrame) -> pd.DataFrame:
    """Return the median over sets of the rank of each method's mean error, and its median CPU seconds."""
    means = results.groupby(["set", "method"], sort=False)["error"].mean().unstack()
    table = pd.DataFrame({"median_rank": means.rank(axis=1).median(), "mean_rank": means.rank(axis=1).mean()})
    table["cpu_s"] = results.groupby("method")["cpu_s"].median()
    return table.reset_index()


def width_objectives(names: list[str], folder: str | None, cap: int | None) -> pd.DataFrame:
    """Return ``h(width)`` of 6.2.3, the flipped objective of the inner search, at a few iterations of the ascent."""
    widths, frames = np.geomspace(LOW, HIGH, 120), []
    for name in names:
        data = load(name, folder)
        if data is None:
            continue
        X, y = split(*data, name, 0, min(200, cap or 200)).train
        ideal = center_kernel(np.outer(y, y))
        search = FamilySearch(GaussianFamily(LOW, HIGH), X)
        for iteration in ITERATIONS:
            gradient = ideal
            if iteration > 1:
                found = align_family(search, y, np.ones(len(y)), gain=0.0, limits=Limits(max_iter=iteration - 1))
                parts = [w * Gaussian(float(p[0]))(X) for p, w in zip(found.parameters, found.weights, strict=True)]
                current = center_kernel(np.sum(parts, axis=0))
                gradient = ideal - np.vdot(current, ideal) / np.vdot(current, current) * current
            values = np.array([-np.vdot(Gaussian(float(width))(X), gradient) for width in widths])
            scaled = values / np.abs(values).max()
            frames.append(pd.DataFrame({"set": name, "iteration": iteration, "width": widths, "h": scaled}))
    return pd.concat(frames, ignore_index=True)


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


def main() -> None:
    """Run everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of archives; without it sets are fetched from OpenML")
    parser.add_argument("--quick", action="store_true", help="two sets, 40 samples, for a check that everything runs")
    parser.add_argument("--repeats", type=int, default=10, help="random splits of every set")
    parser.add_argument("--minutes", type=float, default=120.0, help="after so many minutes no new split is begun")
    parser.add_argument("--output", default="experiments/results/thesis/real_data", help="folder for results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = 1
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    settings, cap = (QUICK, QUICK_CAP) if arguments.quick else (FULL, None)
    # Small sets first: what the time allows is then most of the table.
    names = list(QUICK_SETS) if arguments.quick else [*sorted(SETS, key=lambda name: SETS[name][2][0]), *DIGITS]
    with warnings.catch_warnings():
        # LIBSVM and solvers that are cut short are part of the comparison: their errors are in the table.
        warnings.simplefilter("ignore", ConvergenceWarning)
        curves = width_objectives([name for name in names if name in SETS], arguments.data, cap)
        results = compare(names, arguments, settings, cap, output / "results.csv")
    curves.to_csv(output / "widths.csv", index=False)
    draw(curves, output / "widths.png")
    minima = curves.groupby(["set", "iteration"], sort=False)["h"].agg(lambda h: n_minima(h.to_numpy())).unstack()
    CONSOLE.print("Local minima of h (6.2.3)\n" + minima.to_string(), highlight=False)
    report: dict[str, Any] = {"most_minima": int(minima.to_numpy().max()), "repeats": arguments.repeats}
    for experiment, part in results.groupby("experiment"):
        table = ranks(part[~part["set"].isin(DIGITS)])
        errors = part.groupby(["set", "method"], sort=False)["error"].mean().unstack()
        errors.to_csv(output / f"errors_{experiment}.csv")
        report[str(experiment)] = table.to_dict("records")
        CONSOLE.print(f"\n{experiment}\n" + errors.to_string(float_format="{:.3f}".format), highlight=False)
        CONSOLE.print(table.to_string(index=False, float_format="{:.2f}".format), highlight=False)
    (output / "results.json").write_text(json.dumps(report, indent=1, default=float))


if __name__ == "__main__":
    main()
