"""Cross-validation of the squared loss on factors: folds that share their sums over rows, and folds that do not.

``python benchmarks/shared_folds.py [--rows 100000] [--columns 20] [--search] [--smoke] [--output DIR]``

Five folds, eight strengths down to 0.1 of the largest, Gaussians of five widths on every column, three of which matter.
``grid`` is `MKLRegressorCV` on factors with these strengths, its last fit on all rows included: with ``own kernels``
folds learn scales of their own and open their kernels anew, with ``shared`` they have those of all rows. ``search`` is
the same without a grid (``--search``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLRegressorCV

WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
FOLDS, STRENGTHS, RATIO, TOL = 5, 8, 0.1, 1e-3
GRID: dict[str, Any] = {"penalty": "l1", "n_alphas": STRENGTHS}
ESTIMATORS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("grid, own kernels", "own", GRID),
    ("grid, shared", "shared", GRID),
    ("search, own kernels", "own", {}),
    ("search, shared", "shared", {}),
)
FORMATS = {"CPU s": ".1f", "best error": ".5f"}


def drawn(n: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and a target of three of their columns."""
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.normal(size=(n, columns)))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + np.abs(X[:, 2]) + rng.normal(size=n)


def measured(X: np.ndarray, y: np.ndarray, *, search: bool) -> list[dict[str, Any]]:
    """Return a row a way."""
    bank = KernelBank.per_feature(widths=WIDTHS, standardize=True)
    ways = ESTIMATORS if search else ESTIMATORS[:2]
    return [{"folds": name} | fitted(X, y, bank, wish, **grid) for name, wish, grid in ways]


def fitted(X: np.ndarray, y: np.ndarray, bank: KernelBank, wish: str, **options: Any) -> dict[str, Any]:
    """Return what an estimator takes, and the best mean error over its folds."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = {"fold_kernels": wish, "alpha_min_ratio": RATIO if options else None}
        resources = {"representation": "factored"}
        model = MKLRegressorCV(bank, cv=FOLDS, tol=TOL, search=search, resources=resources, **options).fit(X, y)
    return {"CPU s": time.process_time() - started, "best error": -model.best_score_}


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Folds that share their sums over rows, and folds that do not.")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--search", action="store_true", help="measure searches without a grid as well")
    options: argparse.Namespace = parser.parse_args()
    X, y = drawn(300 if options.smoke else options.rows, 3 if options.smoke else options.columns, options.seed)
    record = common.environment()
    common.print_environment(record)
    frame = pd.DataFrame(measured(X, y, search=options.search or options.smoke))
    common.print_table(frame, f"{FOLDS} folds, {STRENGTHS} strengths, {len(y):,} rows", FORMATS)
    common.save(frame, record, options.output, "shared_folds_smoke" if options.smoke else "shared_folds")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
