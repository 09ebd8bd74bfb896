"""False discoveries and power of knockoffs, beside stability selection at as many errors.

``python benchmarks/knockoffs.py [--draws 200] [--smoke] [--output DIR]``

150 samples of 20 Gaussian columns with correlations ``0.5^|i - j|``; 8 columns drawn at random have an effect, half of
them linear, half a wave. The kernels are a linear and a Gaussian one a column. Stability selection is asked for as many
false selections as knockoffs made at ``q = 0.2``, in the mean, in fewer draws.
"""

from __future__ import annotations

import argparse
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLRegressor
from manykernels.inspection import knockoff_selection, stability_selection
from manykernels.kernels import Gaussian, Linear

N_SAMPLES, N_COLUMNS, N_TRUE = 150, 20, 8
LEVELS = (0.1, 0.2)
SHARE = 10  # of the draws that stability selection, which fits a hundred halves each, is tried on


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, set[str]]:
    """Return columns, targets and the names of the columns that matter."""
    rng = np.random.default_rng(seed)
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(N_COLUMNS), np.arange(N_COLUMNS)))
    X = rng.normal(size=(N_SAMPLES, N_COLUMNS)) @ np.linalg.cholesky(covariance).T
    true = rng.permutation(N_COLUMNS)[:N_TRUE]
    effects = [X[:, j] if place % 2 else 1.5 * np.sin(2 * X[:, j]) for place, j in enumerate(true)]
    return X, np.sum(effects, axis=0) + 1.5 * rng.normal(size=N_SAMPLES), {f"x{j}" for j in true}


def judged(selected: list[str], true: set[str]) -> dict[str, Any]:
    """Return the share of false ones, their number, and the share of true ones that were found."""
    false = len(set(selected) - true)
    return {"false share": false / max(len(selected), 1), "false": false, "power": len(set(selected) & true) / N_TRUE}


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("False discoveries and power of knockoffs.")
    parser.add_argument("--draws", type=int, default=200, help="draws of the data")
    options: argparse.Namespace = parser.parse_args()
    n_draws = 3 if options.smoke else options.draws
    record = common.environment()
    common.print_environment(record)
    model = MKLRegressor(KernelBank.per_feature([Linear(), Gaussian(1.0)], standardize=True), tol=1e-2)
    rows = []
    for seed in range(options.seed, options.seed + n_draws):
        X, y, true = drawn(seed)
        for copies in ("mvr", "equicorrelated"):
            for q in LEVELS:
                found = knockoff_selection(model, X, y, q=q, copies=copies, random_state=seed)
                rows.append({"method": f"knockoffs, {copies}, q={q}", "draw": seed} | judged(found.selected_, true))
    frame = pd.DataFrame(rows)
    errors = float(frame.loc[frame["method"] == "knockoffs, mvr, q=0.2", "false"].mean())
    for seed in range(options.seed, options.seed + max(n_draws // SHARE, 1)):
        X, y, true = drawn(seed)
        stable = stability_selection(model, X, y, expected_false=max(errors, 0.1), random_state=seed)
        rows.append({"method": f"stability, {errors:.2f} expected", "draw": seed} | judged(stable.selected, true))
    frame = pd.DataFrame(rows)
    table = frame.groupby("method", sort=False).agg(
        draws=("draw", "size"), fdr=("false share", "mean"), false=("false", "mean"), power=("power", "mean")
    )
    shown = {"fdr": ".3f", "false": ".2f", "power": ".2f"}
    common.print_table(table.reset_index(), "False discovery rate and power", shown)
    common.save(frame, record, options.output, "knockoffs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
