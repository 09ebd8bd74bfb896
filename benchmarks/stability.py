"""False and true selections of stability selection beside what it promises.

    python benchmarks/stability.py [--smoke] [--draws N]

Columns of noise, of which five make the target or none does. Each row is a setting: the bound that was asked for, the
mean number of false selections with its standard error, the share of true columns found, CPU seconds a draw.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from _common import environment, parser, print_environment, print_table

from manykernels import KernelBank, Linear, MKLRegressor, stability_selection

N_SAMPLES, N_COLUMNS, TRUE = 120, 60, 5


def draw(seed: int, signal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return correlated columns and a target that five of them make, or none."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_SAMPLES, N_COLUMNS)) + 0.5 * rng.normal(size=(N_SAMPLES, 1))
    y = X[:, :TRUE].sum(axis=1) if signal else np.zeros(N_SAMPLES)
    return X, y + 2.0 * rng.normal(size=N_SAMPLES)


def judge(signal: bool, expected: float, draws: int, pairs: int) -> dict[str, object]:
    """Return a row of the table."""
    model = MKLRegressor(KernelBank.per_feature(Linear(), standardize=True, normalize="mean_diagonal"))
    false, found, start = [], [], time.process_time()
    for seed in range(draws):
        X, y = draw(seed, signal)
        limits = {"n_pairs": pairs, "expected_false": expected, "threshold": 0.7}
        chosen = stability_selection(model, X, y, random_state=seed, **limits).selected
        true = sum(name in chosen for name in (f"x{j}" for j in range(TRUE))) if signal else 0
        false.append(len(chosen) - true)
        found.append(true / TRUE)
    return {
        "target": f"of {TRUE} columns" if signal else "noise",
        "asked": expected,
        "false": np.mean(false),
        "standard error": np.std(false, ddof=1) / np.sqrt(draws),
        "true found": np.mean(found) if signal else np.nan,
        "CPU s a draw": (time.process_time() - start) / draws,
    }


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--draws", type=int, default=20)
    given = arguments.parse_args()
    draws, pairs = (2, 3) if given.smoke else (given.draws, 25)
    print_environment(environment())
    rows = [judge(signal, expected, draws, pairs) for signal in (False, True) for expected in (0.5, 1.0, 3.0)]
    title = f"{N_SAMPLES} rows, {N_COLUMNS} columns (pairwise correlation 0.2), {pairs} pairs, {draws} draws"
    formats = {"false": ".2f", "standard error": ".2f", "true found": ".2f", "CPU s a draw": ".1f"}
    print_table(pd.DataFrame(rows), title, formats)


if __name__ == "__main__":
    main()
