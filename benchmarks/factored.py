"""Ten thousand kernels on up to a million rows: time, memory and certified gap, and how they grow.

``/usr/bin/time -v python benchmarks/factored.py [--problem million|table|small|wide|growth] [--smoke] [--output DIR]``

Columns are standard normal, float32; 27 Gaussian widths from 0.1 to 10 standard deviations on each; ten columns
matter. ``million`` is one fit of 1e6 x 370, ``table`` other losses and sizes, ``small`` strengths at which columns of
noise enter, ``wide`` few rows and up to 23 million kernels, ``growth`` times against rows and columns, with the
exponents of a fit, and a picture of them.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import _common as common
import numpy as np
import pandas as pd

from manykernels.grams.factored import FourierStack
from manykernels.solvers import solve

WIDTHS = np.geomspace(0.1, 10.0, 27).tolist()
TRUE_COLUMNS = 10


@dataclass(frozen=True)
class Case:
    """One fit."""

    rows: int
    columns: int
    loss: str = "logistic"
    relative_strength: float = 0.05
    tol: float = 1e-4
    pass_tol: float = 1e-12


MILLION = [Case(10**6, 370)]
TABLE = [
    Case(10**5, 370),
    Case(10**5, 370, "squared"),
    Case(10**5, 370, "hinge", tol=1e-3),
    Case(1_073_122, 66),
    Case(10**6, 370, "squared"),
    Case(10**6, 370, "hinge"),
]
SIZES = [(10**4, 40), (10**5, 40), (10**6, 40), (10**5, 20), (10**5, 80), (10**5, 320)]
GROWTH = [Case(rows, columns, relative_strength=0.1) for rows, columns in SIZES]
SMALL_STRENGTH = [
    Case(10**5, 370, relative_strength=0.03),
    Case(10**5, 370, relative_strength=0.02, tol=1e-3),
    Case(10**5, 370, relative_strength=0.01, tol=1e-3),
    Case(10**6, 370, relative_strength=0.02),
]
WIDE = [
    Case(500, 10_000, relative_strength=0.2, tol=1e-3),
    Case(900, 86_000, relative_strength=0.6, tol=1e-3, pass_tol=1e-9),
    Case(900, 860_000, relative_strength=0.6, tol=1e-3, pass_tol=1e-9),
]
SMOKE = [Case(5000, 11, loss, 0.1, 1e-3) for loss in ("logistic", "squared")]
FORMATS = {"gap": ".1e", "cpu_s": ".2f", "peak_gb": ".2f", "tol": "g", "relative_strength": "g"}
PROBLEMS = {"million": MILLION, "small": SMALL_STRENGTH, "table": TABLE, "growth": GROWTH, "wide": WIDE}


def draw(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns, float32 in column order, and a target that depends on ten of them."""
    rng = np.random.default_rng(seed)
    columns = np.empty((case.columns, case.rows), dtype=np.float32)
    for column in columns:
        column[:] = rng.standard_normal(case.rows, dtype=np.float32)
    score = np.zeros(case.rows)
    for j in range(min(TRUE_COLUMNS, case.columns)):
        score += np.sin((1 + j / 3) * columns[j] + j)
    if case.loss in ("logistic", "hinge"):
        return columns.T, np.where(score + rng.logistic(size=case.rows) > 0, 1.0, -1.0)
    return columns.T, score + rng.standard_normal(case.rows)


def measure(case: Case, seed: int) -> dict[str, object]:
    """Draw the data, fit, and return what the fit cost and proved; the clock starts when the data are there."""
    X, y = draw(case, seed)
    started = time.process_time()
    with common.quiet():
        model = solve(
            FourierStack.grid(X, WIDTHS, tol=case.pass_tol),
            y,
            loss=case.loss,
            regularizer="l1",
            relative_strength=case.relative_strength,
            tol=case.tol,
        )
    cpu = time.process_time() - started
    found = {int(m) // len(WIDTHS) for m in model.active}
    return asdict(case) | {
        "kernels": len(model.kernel_weights),
        "gap": model.dual_gap,
        "passes": len(model.history) + 1,
        "rank": model.functions.rounds[-1].rank,
        "active": len(model.active),
        "true_columns": len(found & set(range(TRUE_COLUMNS))),
        "other_columns": len(found - set(range(TRUE_COLUMNS))),
        "cpu_s": cpu,
        "peak_gb": common.peak_memory_bytes() / 1e9,
        "status": str(model.status),
    }


def exponents(frame: pd.DataFrame) -> dict[str, float]:
    """Return the exponents of time in rows (at 40 columns) and in columns (at 1e5 rows)."""
    rows, columns = frame[frame["columns"] == 40], frame[(frame["rows"] == 10**5) & (frame["columns"] != 40)]
    return {
        "rows": float(np.polyfit(np.log(rows["rows"]), np.log(rows["cpu_s"]), 1)[0]),
        "columns": float(np.polyfit(np.log(columns["columns"]), np.log(columns["cpu_s"]), 1)[0]),
    }


def picture(frame: pd.DataFrame, path: Path) -> None:
    """Draw CPU time against rows and against columns, both scales logarithmic, with the fitted exponents."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), sharey=True, layout="constrained")
    parts = {"rows": frame[frame["columns"] == 40], "columns": frame[(frame["rows"] == 10**5)].sort_values("columns")}
    for axis, (name, part) in zip(axes, parts.items(), strict=True):
        axis.loglog(part[name], part["cpu_s"], "o-", color="tab:blue")
        axis.set_xlabel(name + (" (40 columns)" if name == "rows" else " (100,000 rows)"))
        axis.set_title(f"exponent {exponents(frame)[name]:.2f}", fontsize=10)
        axis.set_xticks(part[name], [f"{value:,}" for value in part[name]])
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes[0].set_ylabel("CPU seconds")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Ten thousand kernels on up to a million rows.")
    parser.add_argument("--problem", choices=sorted(PROBLEMS), default="million", help="which fits")
    options = parser.parse_args()
    name = "smoke" if options.smoke else options.problem
    cases = SMOKE if options.smoke else PROBLEMS[options.problem]
    record = common.environment()
    common.print_environment(record)
    measure(SMOKE[0], options.seed)  # compiles the loops
    frame = pd.DataFrame([measure(case, options.seed) for case in cases])
    common.print_table(frame, f"factored fits: {name}", FORMATS)
    if name == "growth":
        record |= exponents(frame)
        common.print_table(pd.DataFrame([exponents(frame)]), "exponents of CPU time", {"rows": ".2f", "columns": ".2f"})
    common.save(frame, record, options.output, f"factored_{name}")
    if name == "growth":
        picture(frame, options.output / "factored_growth.png")
    return int((frame["status"] != "converged").any())


if __name__ == "__main__":
    raise SystemExit(main())
