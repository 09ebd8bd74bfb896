"""Kernels of pairs without a matrix among pairs: the explicit Kronecker product at 40 x 30, and 2,000 x 500 members.

``python benchmarks/pairs.py [--case NAME] [--smoke] [--output DIR]``

Two kernels of first and two of second members are multiplied each with each; the target is made of two products.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelStack, MKLClassifier, PairKernels, Pairs
from manykernels.grams import DenseStack, GramStack, PairStack
from manykernels.objective import Problem, get_regularizer
from manykernels.solvers import BlockCoordinate, Solution, WorkingSet

SMALL = (40, 30)
LARGE = (2000, 500)
SMOKE = (60, 70)
TOL = 1e-6
FORMATS = {
    "gap": ".1e",
    "primal": ".8g",
    "cpu_s": ".1f",
    "peak_mb": ".0f",
    "rss_mb": ".0f",
    "accuracy": ".3f",
    "members_mb": ".0f",
    "matrix_gb": ".3g",
}


def members(sizes: tuple[int, int], seed: int) -> list[np.ndarray]:
    """Return Gaussian kernels of two widths on five columns, of first and of second members."""
    rng = np.random.default_rng([seed, 0])
    return [_gaussians(rng.normal(size=(size, 5))) for size in sizes]


def draw(sizes: tuple[int, int], share: float, seed: int) -> tuple[PairStack, np.ndarray]:
    """Return the products of those kernels on some pairs of the table, and a target."""
    rng = np.random.default_rng([seed, 1])
    left, right = members(sizes, seed)
    chosen = np.flatnonzero(rng.random(sizes[0] * sizes[1]) < share)
    stack = PairStack(left, right, np.column_stack(np.unravel_index(chosen, sizes)))
    signal = stack.apply([1.0, 0.0, 0.0, 1.0], rng.normal(size=len(chosen)))
    return stack, signal / signal.std() + rng.normal(size=len(chosen))


def _gaussians(points: np.ndarray) -> np.ndarray:
    squares = (points * points).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2.0 * points @ points.T, 0.0)
    return np.stack([np.exp(-distances / (2.0 * 5 * width**2)) for width in (0.7, 2.0)])


def fitted(stack: GramStack, y: np.ndarray, solver: Any) -> tuple[Solution, float, float]:
    """Return the solution of the block 1-norm at a fifth of the largest strength, CPU seconds and peak megabytes."""
    problem = Problem(stack, y, "squared", get_regularizer("l1", 1.0)).at_fraction(0.2)
    tracemalloc.start()
    started = time.process_time()
    solution = solver.solve(problem)
    seconds, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return solution, seconds, peak


def small(options: Any) -> Iterator[dict[str, Any]]:
    """Yield the explicit Kronecker product at 40 x 30, and the same without it."""
    stack, y = draw(SMALL, 1.0, options.seed)
    left, right = members(SMALL, options.seed)
    explicit = DenseStack(np.stack([np.kron(a, b) for a in left for b in right]))
    yield row("explicit, 40 x 30", explicit, SMALL, fitted(explicit, y, WorkingSet(tol=TOL)))
    yield row("pairs, 40 x 30", stack, SMALL, fitted(stack, y, WorkingSet(tol=TOL)))


def solved(share: float, options: Any) -> Iterator[dict[str, Any]]:
    """Yield the squared loss, by the solver itself."""
    sizes = SMOKE if options.smoke else LARGE
    stack, y = draw(sizes, share, options.seed)
    name = f"squared, {sizes[0]:,} x {sizes[1]:,}, {share:.0%} of the table"
    yield row(name, stack, sizes, fitted(stack, y, BlockCoordinate(tol=TOL)))


def estimated(share: float, options: Any) -> Iterator[dict[str, Any]]:
    """Yield a classifier on `Pairs`: labels by the logistic loss, its default tolerance and strength."""
    sizes = SMOKE if options.smoke else LARGE
    stack, y = draw(sizes, share, options.seed)
    labels, (left, right) = np.where(y > np.median(y), "yes", "no"), members(sizes, options.seed)
    data = Pairs(KernelStack(left), KernelStack(right), stack.pairs)
    model = MKLClassifier(PairKernels(products="products"))
    tracemalloc.start()
    started = time.process_time()
    model.fit(data, labels)
    seconds, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    name = f"MKLClassifier, {sizes[0]:,} x {sizes[1]:,}, {share:.0%} of the table"
    yield row(name, stack, sizes, (model.solution_, seconds, peak)) | {"accuracy": model.score(data, labels)}


CASES: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "small": small,
    "sparse": partial(solved, 0.02),
    "sparse-classifier": partial(estimated, 0.02),
    "full": partial(solved, 1.0),
    "full-classifier": partial(estimated, 1.0),
}


def rows(options: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each fit; the largest resident set is that of the process so far, so that one case tells most."""
    for name, case in CASES.items():
        if options.case in (None, name):
            for found in case(options):
                yield found | {"rss_mb": common.peak_memory_bytes() / 1e6}


def row(name: str, stack: GramStack, sizes: tuple[int, int], found: tuple[Solution, float, float]) -> dict[str, Any]:
    """Return what the table shows of a fit."""
    solution, seconds, peak = found
    return {
        "problem": name, "n_pairs": stack.n_samples, "status": str(solution.status),
        "primal": solution.certificate.primal,
        "gap": solution.certificate.relative_gap, "n_active": len(solution.active), "cpu_s": seconds, "peak_mb": peak,
        "members_mb": 8e-6 * sum(2 * size**2 for size in sizes), "matrix_gb": 8e-9 * stack.n_samples**2,
    }  # fmt: skip


def main() -> None:
    """Measure, print and save."""
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--case", choices=tuple(CASES), help="one of the fits, to see its memory by itself")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    table = pd.DataFrame(list(rows(options)))
    common.print_table(table, "Kernels of pairs", FORMATS)
    common.save(table, record, options.output, "pairs")


if __name__ == "__main__":
    main()
