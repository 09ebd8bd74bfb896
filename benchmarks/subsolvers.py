"""Microseconds per call of the two sub-problems of the elastic-net ball, against the number of kernels Q.

``python benchmarks/subsolvers.py [--smoke] [--output DIR]``

The library's own functions (a scalar equation, a sort) beside Citi's published iterations (Algorithm 2 with update (21)
below eta = 0.25, stopped at a relative excess of 1e-9; Algorithm 3).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import _common as common
import numpy as np
import pandas as pd

sys.path.insert(0, str(common.HERE.parent))  # what was published is where its experiment is
from experiments.citi._published import linear_iterations

from manykernels.objective.regularizers.weight_sets import elastic_net_linear, elastic_net_reciprocals, wsr_iterations

SIZES = (1, 10, 100, 1000, 10_000)
ETAS = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0 - 1e-6, 1.0)
EXCESS = 1e-9
AT_LEAST = 0.02  # CPU seconds of one measurement
FORMATS = {name: ".0f" for name in ("reciprocals_us", "wsr_us", "linear_us", "algorithm3_us")}


@dataclass(frozen=True)
class Row:
    """Times of one size and eta, updates of the published iteration, and how far the values differ."""

    kernels: int
    eta: float
    reciprocals_us: float
    wsr_us: float
    wsr_updates: int
    linear_us: float
    algorithm3_us: float
    worst_difference: float


def microseconds(function: Callable[[], Any]) -> float:
    """Return the CPU time of a call, from as many calls as fill the clock's resolution many times over."""
    calls = 1
    while True:
        spent = common.cpu_time(lambda calls=calls: [function() for _ in range(calls)], repeats=1).best
        if spent >= AT_LEAST:
            return 1e6 * spent / calls
        calls *= 2


def measure(size: int, eta: float, rng: np.random.Generator) -> Row:
    """Time all four on one random vector each; compare objective values."""
    beta, u = rng.exponential(size=size) ** 2, rng.exponential(size=size)
    published = wsr_iterations(beta, eta, tol=EXCESS)
    exact, best = elastic_net_reciprocals(beta, eta), elastic_net_linear(u, eta)
    differences = (
        np.sum(beta / published.theta) / np.sum(beta / exact) - 1.0,
        linear_iterations(u, eta) @ u / (best @ u) - 1.0,
    )
    return Row(
        size,
        eta,
        microseconds(lambda: elastic_net_reciprocals(beta, eta)),
        microseconds(lambda: wsr_iterations(beta, eta, tol=EXCESS)),
        published.n_iter,
        microseconds(lambda: elastic_net_linear(u, eta)),
        microseconds(lambda: linear_iterations(u, eta)),
        float(np.abs(differences).max()),
    )


def main() -> int:
    """Measure, print, save; return the exit code."""
    options = common.parser("Time per call of the sub-problems of the elastic-net ball.").parse_args()
    rng = np.random.default_rng(options.seed)
    record = common.environment()
    common.print_environment(record)
    sizes, etas = ((10, 1000), (0.1, 0.9)) if options.smoke else (SIZES, ETAS)
    frame = pd.DataFrame([asdict(measure(size, eta, rng)) for size in sizes for eta in etas])
    common.print_table(frame, "microseconds a call", FORMATS | {"eta": "g", "worst_difference": ".0e"})
    common.save(frame, record, options.output, "subsolvers")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
