"""Time and visited kernels of hierarchical kernel learning against the number of columns, the interactions being fixed.

``python benchmarks/hierarchical.py [--smoke] [--output DIR]``

The target is a sum of products of the first five columns; all others are noise. Beside it, sparse multiple kernel
learning on the listed monomials, where there are at most 300.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import comb, nan
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin

from manykernels import HierarchicalMKL, Interaction, KernelBank, Linear, MKLRegressor

N_TRAIN, N_TEST, DEGREE = 300, 1000, 3
COLUMNS = (5, 10, 20, 50, 100, 200)
GROWTHS = (3.0, 5.0)
TRUE = ((0,), (0, 1), (2, 3), (2, 3, 4))
STRENGTHS = {"hierarchical": (1e-3, 1e-4), "listed": (0.3, 0.1, 0.03)}
NOISE = 0.3  # of the standard deviation of the signal
MOST_LISTED = 300
TIME_LIMIT = 60.0
FORMATS = {name: ".2f" for name in ("seconds", "test_r2")} | {"gap": ".1e", "alpha": "g", "growth": "g"}


@dataclass(frozen=True)
class Row:
    """One method at one number of columns: the strength of the best test error."""

    columns: int
    family: int
    method: str
    growth: float
    alpha: float
    visited: int
    selected: int
    true_found: int
    seconds: float
    gap: float
    test_r2: float


def draw(r: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of normal numbers, and sums of products with noise."""
    X = rng.normal(size=(n, r))
    signal = sum(np.prod(X[:, list(columns)], axis=1) for columns in TRUE)
    return X, signal / 2.0 + NOISE * rng.normal(size=n)  # the products are uncorrelated, each of unit variance


def monomials(r: int) -> list[tuple[str, Interaction, list[int]]]:
    """List all monomials without the constant."""
    indices: list[tuple[int, ...]] = [()]
    entries = []
    for _ in range(DEGREE):
        indices = [(*index, j) for index in indices for j in range(index[-1] if index else 0, r)]
        for index in indices:
            columns = sorted(set(index))
            parts = tuple((Linear(), (columns.index(j),)) for j in index)
            entries.append((" x ".join(f"x{j}" for j in index), Interaction(parts), columns))
    return entries


def hierarchical(growth: float) -> Callable[[float], RegressorMixin]:
    """Return how to make the estimator from a strength."""
    return lambda alpha: HierarchicalMKL(
        degree=DEGREE, alpha=alpha, growth=growth, resources={"time_limit": TIME_LIMIT}
    )


def listed(r: int) -> Callable[[float], RegressorMixin]:
    """Return how to make the estimator on all monomials from a strength."""
    entries = monomials(r)
    bank = KernelBank(entries, standardize=True, normalize="mean_diagonal")
    return lambda alpha: MKLRegressor(bank, alpha=alpha, tol=1e-3)


def measure(
    r: int, method: str, growth: float, make: Callable[[float], Any], rng: np.random.Generator, strengths: Any
) -> Row:
    """Fit at every strength and report the one of the best test error, with its own time."""
    train, test = draw(r, N_TRAIN, rng), draw(r, N_TEST, rng)
    rows = []
    for alpha in strengths:
        with common.quiet():
            timing = common.cpu_time(lambda alpha=alpha: make(alpha).fit(*train), repeats=1)
        model = timing.result
        names = set(model.weights_frame()["name"])
        found = sum(" x ".join(f"x{j}" for j in index) in names for index in TRUE)
        family = comb(r + DEGREE, DEGREE)
        visited = getattr(model, "n_visited_", family - 1)
        score = model.score(*test)
        rows.append(
            Row(r, family, method, growth, alpha, visited, len(names), found, timing.best, model.dual_gap_, score)
        )
    return max(rows, key=lambda row: row.test_r2)


def main() -> int:
    """Measure, print, save; return the exit code."""
    options = common.parser("Hierarchical kernel learning against the number of columns.").parse_args()
    record = common.environment()
    common.print_environment(record)
    rows = []
    for r in COLUMNS[:2] if options.smoke else COLUMNS:
        for growth in GROWTHS[-1:] if options.smoke else GROWTHS:
            rng = np.random.default_rng(options.seed)
            strengths = STRENGTHS["hierarchical"][:1] if options.smoke else STRENGTHS["hierarchical"]
            rows.append(measure(r, "hierarchical", growth, hierarchical(growth), rng, strengths))
        if comb(r + DEGREE, DEGREE) <= MOST_LISTED and not (options.smoke and r > COLUMNS[0]):
            rng = np.random.default_rng(options.seed)
            rows.append(measure(r, "listed", nan, listed(r), rng, STRENGTHS["listed"]))
        common.CONSOLE.print(f"r = {r}: done")
    frame = pd.DataFrame([asdict(row) for row in rows])
    common.print_table(frame, f"{N_TRAIN} samples, products of at most {DEGREE} columns", FORMATS)
    common.save(frame, record, options.output, "hierarchical")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
