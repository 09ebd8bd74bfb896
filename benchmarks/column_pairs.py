"""Pairs of columns beside boosted trees, of all columns, of pairs and of single ones: forest cover types.

``python benchmarks/column_pairs.py --data DIR [--strengths 0.03 0.02 0.013] [--smoke]``

``DIR`` holds ``covtype15k.npz`` (``X``, ``y``): the second type against the rest, 10,000 rows to learn from and the
others to judge. The additive model has two kernels of ranks on every column that varies, the other one also the sharp
product of every pair of these. Trees have 300 rounds, and may join all columns, two, or one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from manykernels import Binned, Gaussian, KernelBank, Laplacian, solve_factored

NUMERIC, TRAINING, ROUNDS = 10, 10_000, 300
FORMATS = {"accuracy": ".4f", "cpu_s": ".1f", "gap": ".1e", "strength": "g"}


def load(folder: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in random order, or drawn ones where there is no folder."""
    rng = np.random.default_rng(seed)
    if folder is None:
        X = rng.normal(size=(900, NUMERIC + 2))
        return X, np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, 1.0, -1.0)
    with np.load(folder / "covtype15k.npz", allow_pickle=False) as stored:
        X, y = stored["X"].astype(float), np.where(stored["y"] == 2, 1.0, -1.0)
    order = rng.permutation(len(y))
    return X[order], y[order]


def measure(name: str, strength: float, fit: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit and judge one model."""
    started = time.process_time()
    with common.quiet():
        model = fit()
    cpu = time.process_time() - started
    record = {"model": name, "strength": strength, "accuracy": float(np.mean(model.predict(X) == y)), "cpu_s": cpu}
    if hasattr(model, "dual_gap"):
        record |= {"gap": model.dual_gap, "active": len(model.active), "rank": model.history[-1].rank}
    return record


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Additive models, models with pairs of columns, and boosted trees.")
    parser.add_argument("--data", type=Path, default=None, help="folder of covtype15k.npz; drawn rows if not given")
    parser.add_argument(
        "--strengths", type=float, nargs="+", default=[0.03, 0.02, 0.013], help="parts of the largest one"
    )
    options = parser.parse_args()
    X, y = load(None if options.smoke else options.data, options.seed)
    n = min(TRAINING, 2 * len(y) // 3)
    rows = []
    for allowed, name in ((None, "boosted trees"), ("pairwise", "trees of pairs"), ("no_interactions", "trees of one")):
        trees: Any = HistGradientBoostingClassifier(max_iter=ROUNDS, interaction_cst=allowed, random_state=0)
        rows.append(measure(name, np.nan, lambda trees=trees: trees.fit(X[:n], y[:n]), X[n:], y[n:]))
    varied = [j for j, column in enumerate(X[:n].T) if len(np.unique(column)) > 1]
    additive = KernelBank.per_feature([Binned(Laplacian(0.3), 32), Binned(Gaussian(0.1), 32)], columns=varied)
    banks = {"additive": additive, "with pairs": additive + KernelBank.interactions(widths=[0.08], columns=varied)}
    for strength in [0.1] if options.smoke else options.strengths:
        given: dict[str, Any] = {"relative_strength": strength, "tol": 1e-2}
        fits = {
            name: lambda bank=bank, given=given: solve_factored(X[:n], y[:n], bank, **given)
            for name, bank in banks.items()
        }
        rows += [measure(name, strength, fit, X[n:], y[n:]) for name, fit in fits.items()]
    record, frame = common.environment(), pd.DataFrame(rows)
    common.print_environment(record)
    common.print_table(frame, "pairs of columns", FORMATS)
    common.save(frame, record, options.output, "column_pairs_smoke" if options.smoke else "column_pairs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
