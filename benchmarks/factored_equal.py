"""Factors and Gram matrices have one optimum: the objectives of both at 2,000 rows, for every loss and every penalty.

``python benchmarks/factored_equal.py [--rows 2000] [--smoke] [--output DIR]``

Two Gaussians and a linear kernel on each of two columns, weights of samples and of kernels, a tenth of the strength at
which next to nothing is left. ``difference`` is that of the two primal values relative to the one of the Gram matrices,
which are solved to 1e-9, the factors to 1e-8; ``gap`` is what was certified for the exact kernels.
What is in the table of an earlier run in the same folder is not computed again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank
from manykernels.estimators.supervised.problems import resolve_solver
from manykernels.grams import as_stack
from manykernels.grams.factored import factored_stack
from manykernels.kernels import Gaussian, Linear
from manykernels.objective import get_loss, get_regularizer
from manykernels.objective.losses import COUPLED_LOSSES, LOSSES, survival_target
from manykernels.solvers import Solution
from manykernels.solvers.registry import problem_of

PENALTIES: dict[str, dict[str, float]] = {
    "l1": {}, "elasticnet": {"l1_ratio": 0.7}, "lq": {"q": 1.5}, "ridge": {}, "simplex": {}, "lp_ball": {"p": 2.0},
}  # fmt: skip
FRACTION, TOL, REFERENCE_TOL = 0.1, 1e-8, 1e-9
FORMATS = {"difference": ".0e", "gap": ".0e", "gram gap": ".0e", "CPU s": ".2f", "gram CPU s": ".2f"}


def target(name: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return what a loss asks for, from the function behind it and noise."""
    noisy = f + 0.3 * rng.normal(size=len(f))
    if name == "cox":
        return np.asarray(survival_target(rng.random(len(f)) < 0.7, rng.exponential(np.exp(-f))))
    if get_loss(name).task == "classification":
        return np.where(noisy > 0.4, 1.0, -1.0)
    if name == "poisson":
        return rng.poisson(np.exp(0.5 * f)).astype(np.float64)
    return rng.gamma(2.0, 0.5 * np.exp(0.5 * f)) if name == "gamma" else noisy


def timed(problem: Any, tol: float) -> tuple[Solution, float]:
    """Return a solution and the CPU seconds that it took."""
    started = time.process_time()
    with common.quiet():
        found = resolve_solver("auto", problem, None, tol=tol, max_iter=500).solve(problem)
    return found, time.process_time() - started


def compared(rows: int, seed: int, known: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield a row for every loss and penalty that is not known yet."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    bank = KernelBank.per_feature([Gaussian(0.5), Gaussian(2.0), Linear()], standardize=True)
    fitted, prepared = bank.fit_prepare(X)
    stacks = (factored_stack(X, bank), as_stack(fitted.block(prepared, prepared)))
    given: dict[str, Any] = {"sample_weight": rng.uniform(0.5, 2.0, rows)}
    given["kernel_penalties"] = rng.uniform(0.8, 1.25, fitted.n_kernels)
    for name in (*LOSSES, *COUPLED_LOSSES):
        loss: Any = COUPLED_LOSSES[name]() if name in COUPLED_LOSSES else get_loss(name)
        y = target(name, f, np.random.default_rng(seed + 1))
        own = given | {"fit_intercept": name not in COUPLED_LOSSES}
        for penalty, shape in PENALTIES.items():
            if (name, penalty) in known:
                continue
            first = get_regularizer(penalty, 1.0, **shape)
            matrices = problem_of(stacks[1], y, loss, first, **own).at_fraction(FRACTION)
            factors = problem_of(stacks[0], y, loss, matrices.regularizer, **own)
            yield {"loss": name, "penalty": penalty} | _difference(factors, matrices)


def _difference(factors: Any, matrices: Any) -> dict[str, Any]:
    """Return how far two objectives are apart, what was certified, and the time it took."""
    (found, seconds), (exact, exact_seconds) = timed(factors, TOL), timed(matrices, REFERENCE_TOL)
    best = exact.certificate.primal
    return {
        "difference": abs(found.certificate.primal - best) / abs(best),
        "gap": found.certificate.relative_gap,
        "gram gap": exact.certificate.relative_gap,
        "CPU s": seconds,
        "gram CPU s": exact_seconds,
        "status": str(found.status),
    }


def main() -> int:
    """Compare, print, save after every row."""
    parser = common.parser("Factors and Gram matrices have one optimum.")
    parser.add_argument("--rows", type=int, default=2000)
    options: argparse.Namespace = parser.parse_args()
    name = "factored_equal_smoke" if options.smoke else "factored_equal"
    stored = options.output / f"{name}.csv"
    record = common.environment()
    common.print_environment(record)
    rows: list[Any] = pd.read_csv(stored).to_dict("records") if stored.exists() and not options.smoke else []
    known = {(row["loss"], row["penalty"]) for row in rows}
    n_rows = 60 if options.smoke else options.rows
    for row in compared(n_rows, options.seed, known):
        rows.append(row)
        if not options.smoke:
            common.save(pd.DataFrame(rows), record, options.output, name)
    frame = pd.DataFrame(rows)
    worst = f"worst difference {frame['difference'].max():.1e}"
    common.print_table(frame, f"{len(frame)} problems, {n_rows:,} rows: {worst}", FORMATS)
    common.save(frame, record, options.output, name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
