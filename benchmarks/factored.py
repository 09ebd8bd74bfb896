"""Ten thousand kernels on up to a million rows: time, memory and certified gap, and how they grow.

``/usr/bin/time -v python benchmarks/factored.py [--problem million|table|small|wide|growth] [--smoke] [--output DIR]``

Columns are standard normal, float32; 27 Gaussian widths from 0.1 to 10 standard deviations on each; ten columns
matter. ``million`` is one fit of 1e6 x 370, ``table`` other losses and sizes, ``small`` strengths at which columns of
noise enter, ``wide`` few rows and up to 23 million kernels, ``growth`` times against rows, columns, kernels and
classes (with weights of their own, and shared), with fitted exponents, and a picture of them.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLClassifier
from manykernels.grams.factored import FourierStack
from manykernels.solvers import solve

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
    widths: int = 27
    classes: int = 2
    outputs: str = ""  # "own" or "shared": a fit of the estimator

    @property
    def grid(self) -> list[float]:
        """Widths on each column."""
        return np.geomspace(0.1, 10.0, self.widths).tolist()


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
COMMON = {"relative_strength": 0.1}
IN_CLASSES = COMMON | {"rows": 5000, "columns": 10, "widths": 9, "tol": 1e-3}
SWEEPS = {
    "rows": [Case(rows, columns, **COMMON) for rows, columns in SIZES if columns == 40],
    "columns": [Case(rows, columns, **COMMON) for rows, columns in sorted(SIZES) if rows == 10**5],
    "widths": [Case(10**5, 40, widths=widths, **COMMON) for widths in (9, 27, 81, 243)],
    "classes, own": [Case(**IN_CLASSES, classes=classes, outputs="own") for classes in (3, 5, 8, 12)],
    "classes, shared": [Case(**IN_CLASSES, classes=classes, outputs="shared") for classes in (3, 5, 8, 12)],
}
GROWTH = list(dict.fromkeys(case for sweep in SWEEPS.values() for case in sweep))
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
SMOKE += [Case(2000, 4, tol=1e-3, widths=3, classes=3, outputs=outputs) for outputs in ("own", "shared")]
FORMATS = {"gap": ".1e", "cpu_s": ".2f", "peak_gb": ".2f", "tol": "g", "alpha": f"{'g'}*max"}
PROBLEMS = {"million": MILLION, "small": SMALL_STRENGTH, "table": TABLE, "growth": GROWTH, "wide": WIDE}


def draw(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns, float32 in column order, and a target that depends on ten of them."""
    rng = np.random.default_rng(seed)
    columns = np.empty((case.columns, case.rows), dtype=np.float32)
    for column in columns:
        column[:] = rng.standard_normal(case.rows, dtype=np.float32)
    if case.outputs:
        scores = [np.sin(columns * (1 + k / 3) + k).T @ rng.standard_normal(case.columns) for k in range(case.classes)]
        return columns.T, (np.array(scores) + rng.gumbel(size=(case.classes, case.rows))).argmax(axis=0)
    score = np.zeros(case.rows)
    for j in range(min(TRUE_COLUMNS, case.columns)):
        score += np.sin((1 + j / 3) * columns[j] + j)
    if case.loss in ("logistic", "hinge"):
        return columns.T, np.where(score + rng.logistic(size=case.rows) > 0, 1.0, -1.0)
    return columns.T, score + rng.standard_normal(case.rows)


def measure(case: Case, seed: int) -> dict[str, object]:
    """Draw the data, fit, and return what the fit cost and proved; the clock starts when the data are there."""
    X, y = draw(case, seed)
    if case.outputs:
        return measure_classes(case, X, y)
    started = time.process_time()
    with common.quiet():
        model = solve(
            FourierStack.grid(X, case.grid, tol=case.pass_tol),
            y,
            loss=case.loss,
            penalty="l1",
            alpha=f"{case.relative_strength}*max",
            tol=case.tol,
        )
    cpu = time.process_time() - started
    found = {int(m) // case.widths for m in model.active}
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


def measure_classes(case: Case, X: np.ndarray, y: np.ndarray) -> dict[str, object]:
    """Fit a classifier of several classes, and return what the fit cost and proved."""
    alpha = f"{case.relative_strength}*max"
    model = MKLClassifier(KernelBank.per_feature(widths=case.grid), outputs=case.outputs, alpha=alpha, tol=case.tol)
    started = time.process_time()
    with common.quiet():
        model.fit(X, y)
    cpu, gap = time.process_time() - started, float(np.max(model.dual_gap_))
    return asdict(case) | {
        "kernels": case.columns * case.widths,
        "gap": gap,
        "active": int(np.count_nonzero(np.atleast_2d(model.kernel_weights_).any(axis=0))),
        "cpu_s": cpu,
        "peak_gb": common.peak_memory_bytes() / 1e9,
        "status": "converged" if gap <= case.tol else "not converged",
    }


def growth(frame: pd.DataFrame) -> dict[str, tuple[list[int], list[float], float]]:
    """Return sizes, CPU seconds and the fitted exponent of every sweep."""
    seconds = dict(zip(GROWTH, frame["cpu_s"], strict=True))
    found = {}
    for name, cases in SWEEPS.items():
        sizes, spent = [getattr(case, name.split(",")[0]) for case in cases], [seconds[case] for case in cases]
        found[name] = sizes, spent, float(np.polyfit(np.log(sizes), np.log(spent), 1)[0])
    return found


def picture(found: dict[str, tuple[list[int], list[float], float]], path: Path) -> None:
    """Draw CPU time against each size, both scales logarithmic, with the fitted exponents."""
    import matplotlib.pyplot as plt

    beside = ("40 columns", "100,000 rows", "100,000 rows x 40 columns", "5,000 rows x 10 columns")
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), sharey=True, layout="constrained")
    for axis, name, fixed in zip(axes, ("rows", "columns", "widths", "classes"), beside, strict=True):
        for sweep, (sizes, spent, exponent) in found.items():
            if sweep.startswith(name):
                axis.loglog(sizes, spent, "o-", label=f"{sweep.removeprefix('classes, ')}: exponent {exponent:.2f}")
                axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set_xlabel(f"{name} ({fixed})")
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
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
    for case in SMOKE if name == "growth" else SMOKE[:1]:
        measure(case, options.seed)  # compiles the loops
    frame = pd.DataFrame([measure(case, options.seed) for case in cases])
    common.print_table(frame, f"factored fits: {name}", FORMATS)
    if name == "growth":
        fitted = {f"exponent, {sweep}": exponent for sweep, (*_, exponent) in growth(frame).items()}
        record |= fitted
        common.print_table(pd.DataFrame([fitted]), "exponents of CPU time", dict.fromkeys(fitted, ".2f"))
    common.save(frame, record, options.output, f"factored_{name}")
    if name == "growth":
        picture(growth(frame), options.output / "factored_growth.png")
    return int((frame["status"] != "converged").any())


if __name__ == "__main__":
    raise SystemExit(main())
