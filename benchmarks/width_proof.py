"""Where a proof over one width a feature ends: the gap that branch and bound proves, by features and evaluations.

``python benchmarks/width_proof.py [--draws 3] [--samples 60] [--smoke] [--output DIR]``

Normal columns, a wave of the first one as the target plus noise of a third, squared loss, alpha 1/60. Each row is one
number of columns and of evaluations: the gap that the search claims, relative to the best kernel it met; the share of
the objective that it missed, found by searching on from where proofs met better kernels; and the gap proven. Median
over the draws of the data and, in parentheses, the largest. Seconds are CPU seconds of searches and proofs together,
on one thread.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels.discovery import ArdGaussianFamily, Limits, SearchProblem, SearchSettings, discover_greedily

ALPHA, TOL = 1.0 / 60, 1e-3
INTERVALS = ((0.2, 10.0), (0.05, 50.0))
COLUMNS, BUDGETS = (1, 2, 3, 4, 5), (1_000, 10_000)


def prove(n_columns: int, interval: tuple[float, float], budgets: tuple[int, ...], n_samples: int, seed: int) -> list:
    """Return what each number of evaluations proves of one problem."""
    rng = np.random.default_rng([seed, n_columns])
    points = rng.normal(size=(n_samples, n_columns))
    y = np.sin(2 * points[:, 0]) + 0.3 * rng.normal(size=n_samples)

    def search(proof: int) -> Any:
        return discover_greedily(
            SearchProblem(points, y, strength=ALPHA * n_samples),
            ArdGaussianFamily(*interval),
            settings=SearchSettings(proof=proof),
            limits=Limits(TOL),
            random_state=0,
        ).solution.certificate

    claimed, rows = search(0), []
    for most in budgets:
        started = time.process_time()
        found = search(most)
        rows.append(
            {
                "widths": f"{interval[0]:g} to {interval[1]:g}",
                "columns": n_columns,
                "evaluations": most,
                "claimed": claimed.relative_gap,
                "missed": 1 - found.primal / claimed.primal,
                "proven": found.relative_gap,
                "cpu_s": time.process_time() - started,
            }
        )
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return medians and largest values over the draws."""
    grouped = rows.groupby(["widths", "columns", "evaluations"], sort=False)
    table = grouped.size().rename("draws").reset_index()
    for name, form in (("claimed", ".1e"), ("missed", ".1e"), ("proven", ".1e"), ("cpu_s", ".1f")):
        middle, most = grouped[name].median().to_numpy(), grouped[name].max().to_numpy()
        table[name] = [f"{a:{form}} ({b:{form}})" for a, b in zip(middle, most, strict=True)]
    return table


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--draws", type=int, default=3, help="problems for each number of columns")
    options.add_argument("--samples", type=int, default=60)
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    columns, budgets = ((1, 2), (200,)) if chosen.smoke else (COLUMNS, BUDGETS)
    draws, samples = (1, 20) if chosen.smoke else (chosen.draws, chosen.samples)
    rows = [
        row
        for interval, n_columns, number in itertools.product(INTERVALS, columns, range(draws))
        for row in prove(n_columns, interval, budgets, samples, chosen.seed + number)
    ]
    table = pd.DataFrame(rows)
    common.print_table(summary(table), f"{samples} samples, median (largest) over {draws} draws", {})
    common.save(table, record, chosen.output, "width_proof")


if __name__ == "__main__":
    main()
