"""Fit rows that are never in memory at once, and predict from the file.

A Parquet file is written a part at a time, fitted by the name of its target, and read again for predictions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from manykernels import KernelBank, open_rows, solve

ROWS, PART = 40_000, 10_000


def write(folder: Path, seed: int = 0) -> None:
    """Write parts of a table: temperature by hour and day, with a category and gaps."""
    rng = np.random.default_rng(seed)
    for part in range(ROWS // PART):
        table = pd.DataFrame(
            {
                "hour": rng.uniform(0, 24, PART),
                "humidity": np.where(rng.uniform(size=PART) < 0.1, np.nan, rng.uniform(0, 1, PART)),
                "station": rng.choice(["coast", "hill", "town"], PART),
            }
        )
        wave = 5 * np.sin(2 * np.pi * (table["hour"] - 9) / 24)
        place = table["station"].map({"coast": 2.0, "hill": -4.0, "town": 1.0})
        table["degrees"] = 12 + wave + place - 3 * table["humidity"].fillna(0.5) + rng.normal(size=PART)
        table.to_parquet(folder / f"part{part}.parquet")


def main() -> None:
    """Write, fit, predict."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        rows = open_rows(folder)
        bank = KernelBank.auto(pd.read_parquet(folder / "part0.parquet").drop(columns="degrees"), missing="mask")
        model = solve(bank, "degrees", X=rows, loss="squared", penalty="l1", alpha="0.02*max", tol=1e-3)
        print(rows)
        print(model.weights_frame().round(3).to_string(index=False))
        truth = pd.read_parquet(folder)["degrees"].to_numpy()
        error = np.sqrt(np.mean((model.decision_function(folder) - truth) ** 2))
        print(f"gap {model.dual_gap:.0e}; predictions from the file are off by {error:.2f} degrees")


if __name__ == "__main__":
    main()
