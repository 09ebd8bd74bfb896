"""Searches for Gaussian widths in one stage: iterations, kernels and seconds to a gap, on a list and on an interval.

``python benchmarks/widths.py [--draws 5] [--samples 80] [--smoke] [--output DIR]``

The target is a fast wave of the first of two normal columns plus the second one plus noise of a fifth, its sign for
classes; widths from 0.05 to 50, alpha 0.01, at most 100 iterations. Each row is the median over the draws of the data
and, in parentheses, the smallest and the largest; seconds are CPU seconds of one search on one thread.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels.discovery import GaussianFamily, KernelFamily, Limits, SearchProblem, discover_greedily

ALPHA = 0.01
INTERVAL = GaussianFamily(0.05, 50.0)
LIST = INTERVAL.listed(np.geomspace(0.05, 50.0, 30))
LOSSES = ("squared", "hinge", "logistic")
SEARCHES: tuple[tuple[str, KernelFamily, str, float], ...] = (
    ("30 listed widths", LIST, "corrective", 1e-6),
    ("30 listed widths", LIST, "pairwise", 1e-3),
    ("30 listed widths", LIST, "frank_wolfe", 1e-3),
    ("the interval", INTERVAL, "corrective", 1e-6),
    ("the interval", INTERVAL, "sliding", 1e-6),
)


def draw(n_samples: int, loss: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a target that one width does not explain."""
    points = rng.normal(size=(n_samples, 2))
    values = np.sin(4 * points[:, 0]) + points[:, 1] + 0.2 * rng.normal(size=n_samples)
    return points, values if loss == "squared" else np.sign(values)


def search(points: np.ndarray, y: np.ndarray, loss: str, family: KernelFamily, update: str, tol: float) -> dict:
    """Return what one search took."""
    started = time.process_time()
    limits, strength = Limits(tol=tol, max_iter=100), ALPHA * len(y)
    found = discover_greedily(SearchProblem(points, y, loss, strength=strength), family, update=update, limits=limits)
    return {
        "reached": found.solution.certificate.relative_gap <= tol,
        "iterations": found.solution.n_iter,
        "kernels": len(found.kernels),
        "cpu_s": time.process_time() - started,
    }


def measure(n_draws: int, n_samples: int, seed: int) -> pd.DataFrame:
    """Return one row for each loss, search and draw."""
    rows: list[dict[str, Any]] = []
    for loss, number in itertools.product(LOSSES, range(n_draws)):
        points, y = draw(n_samples, loss, np.random.default_rng([seed, number]))
        for widths, family, update, tol in SEARCHES:
            setting = {"loss": loss, "widths": widths, "update": update, "tol": tol, "draw": number}
            rows.append(setting | search(points, y, loss, family, update, tol))
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return medians and ranges over the draws."""
    grouped = rows.groupby(["loss", "widths", "update", "tol"], sort=False)
    table = grouped["reached"].agg(lambda reached: f"{reached.sum()} of {len(reached)}").reset_index()
    for name, digits in (("iterations", 0), ("kernels", 0), ("cpu_s", 2)):
        middle, least, most = (grouped[name].agg(how).to_numpy() for how in ("median", "min", "max"))
        table[name] = [
            f"{a:.{digits}f} ({b:.{digits}f} to {c:.{digits}f})" for a, b, c in zip(middle, least, most, strict=True)
        ]
    return table


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--draws", type=int, default=5, help="problems a loss")
    options.add_argument("--samples", type=int, default=80)
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    draws, samples = (1, 20) if chosen.smoke else (chosen.draws, chosen.samples)
    if not chosen.smoke:
        measure(1, 20, chosen.seed)  # compile
    rows = measure(draws, samples, chosen.seed)
    common.print_table(summary(rows), f"{samples} samples, median (range) over {draws} draws", {"tol": ".0e"})
    common.save(rows, record, chosen.output, "widths")


if __name__ == "__main__":
    main()
