"""Section 6.2.1 runs from its command and shows what one width a feature is good for, and when it overfits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

SCRIPT = Path(__file__).parents[2] / "experiments" / "thesis" / "greedy.py"


def test_the_command_compares_searches(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--output", str(tmp_path)]
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "summary.csv", "greedy.png"}
    results = pd.read_csv(tmp_path / "results.csv").set_index(["method", "relevance"])
    assert len(results) == 18
    assert results["error"].between(0, 60).all()
    alignment = results["alignment"]
    assert alignment["GCD-2s (nD)", 40] > alignment["GCD-2s (1D)", 40] + 0.1
    assert alignment["GCD-2s (nD)", 0] > alignment["GCD-2s (nD, NoReg)", 0] + 0.1
