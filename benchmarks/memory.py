"""Peak memory of a fit whose kernels are never stored: N = 1000, M = 2000, 16 GB if they were.

``/usr/bin/time -v python benchmarks/memory.py [--bank random|grid] [--check] [--smoke] [--output DIR]``

The bank is either Gaussian kernels on random column subsets or, with ``--bank grid``, on every column by itself over a
grid of widths, where kernels share their distances.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import _common as common
import numpy as np
import pandas as pd

from manykernels.datasets import make_ringnorm
from manykernels.grams.plan import format_bytes, plan_stack, stack_nbytes
from manykernels.grams.training import build_stack
from manykernels.kernels import KernelBank
from manykernels.solvers import solve

BAR_BYTES = 1e9
N_FEATURES = 20
ALPHA = 2.5e-4  # strength on the mean loss of kernels with unit mean diagonal: C = 0.05 at N = 200 and unit trace
TOL = 1e-4
FORMATS = {"cpu_s": ".1f"}


@dataclass(frozen=True)
class Stage:
    """How far the process got, and the most memory it held until then."""

    stage: str
    cpu_s: float
    peak_bytes: int


def bank(kind: str, n_kernels: int, rng: np.random.Generator) -> KernelBank:
    """Return Gaussians on random column subsets, or on every column by itself over a geometric grid of widths."""
    if kind == "random":
        return common.bank_of(common.random_gaussians(n_kernels, N_FEATURES, rng))
    return KernelBank.per_feature(widths=np.geomspace(0.1, 20.0, n_kernels // N_FEATURES).tolist(), normalize="trace")


def measure(kind: str, n_samples: int, n_kernels: int, seed: int) -> tuple[list[Stage], dict[str, object]]:
    """Draw, build and fit; return the peak memory after each, and the solution's figures."""
    started, rng = time.process_time(), np.random.default_rng(seed)
    stages = [Stage("imports", 0.0, common.peak_memory_bytes())]
    X, y = make_ringnorm(n_samples, N_FEATURES, random_state=rng)
    fitted, prepared = bank(kind, n_kernels, rng).fit_prepare(X)
    stack = build_stack(fitted, prepared, kind="lazy", memory_budget=int(BAR_BYTES))
    stages.append(Stage("bank and lazy stack", time.process_time() - started, common.peak_memory_bytes()))
    alpha = ALPHA / np.sqrt(n_samples)
    with common.quiet():
        solution = solve(stack, y, loss="logistic", penalty="l1", alpha=alpha, tol=TOL, time_limit=400.0)
    stages.append(Stage("fit", time.process_time() - started, common.peak_memory_bytes()))
    figures = {
        "kernels": stack.n_kernels,
        "samples": stack.n_samples,
        "status": str(solution.status),
        "gap": solution.certificate.relative_gap,
        "passes": solution.passes,
        "newton_steps": solution.newton_steps,
        "active": len(solution.active),
    }
    return stages, figures


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Peak memory of a fit on a lazy stack.")
    parser.add_argument(
        "--bank", choices=["random", "grid"], default="random", help="random subsets or one column each"
    )
    parser.add_argument("--samples", type=int, default=1000, help="number of samples")
    parser.add_argument("--kernels", type=int, default=2000, help="number of kernels")
    parser.add_argument("--check", action="store_true", help="compare with the bar; exit with 1 if it is missed")
    options = parser.parse_args()
    n, m = (100, 100) if options.smoke else (options.samples, options.kernels)
    record = common.environment()
    common.print_environment(record)
    dense, chosen = stack_nbytes("dense", m, n, "float64"), plan_stack(m, n, memory_budget=int(BAR_BYTES))
    common.CONSOLE.print(f"N = {n}, M = {m}: dense {format_bytes(dense)}; the plan for 1 GB: {chosen.reason}")
    stages, figures = measure(options.bank, n, m, options.seed)
    frame = pd.DataFrame([asdict(stage) for stage in stages])
    frame["peak"] = [format_bytes(size) for size in frame["peak_bytes"]]
    common.print_table(frame, "peak memory at each stage", FORMATS)
    common.print_table(pd.DataFrame([figures]), "the fit", {"gap": ".1e", "passes": ".2f"})
    common.save(frame, record | figures | {"dense_bytes": dense}, options.output, "memory")
    if not options.check:
        return 0
    peak = float(frame["peak_bytes"].iloc[-1])
    rows = [("peak resident memory, bytes", peak, BAR_BYTES), ("relative duality gap", float(figures["gap"]), TOL)]
    bars = common.verdicts(rows)
    common.print_table(bars, "bars", {"measured": ".3g", "at most": ".3g"})
    return int((bars["verdict"] != "pass").any())


if __name__ == "__main__":
    raise SystemExit(main())
