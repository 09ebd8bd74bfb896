"""Thirty cheap cells of Table 4 are run anew and compared with kept ones in numbers that no clock touches.

Where they differ, solvers have changed: raise ``NUMERIC_REVISION`` in ``experiments/ledger.py``, make the notes on
pages anew, and write the cells anew with ``python -m tests.experiments.test_ledger_rerun``.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from experiments.ledger import NUMERIC_REVISION
from sklearn.datasets import load_breast_cancer, load_wine
from tests.support.programs import EXPERIMENTS, own_modules

from manykernels.solvers.gram import working_set

KEPT = Path(__file__).with_name("rerun_cells.csv")
CONSTANTS = (0.005, 0.05, 0.5)
ENTRANTS = (
    ("hinge", "working_set"),
    ("hinge", "spicymkl, gamma x 2"),
    ("logistic", "working_set"),
    ("logistic", "spicymkl, gamma x 2"),
    ("elastic logistic", "smooth_dual"),
)
KEYS = ["data", "constant", "problem", "solver"]
COUNTS = ["status", "n_iter", "newton_steps", "active", "accuracy"]
MOST_DIFFERENT = 3  # cells that another processor may round to another iteration


def sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield two sets that come with scikit-learn, with few columns: 81 kernels."""
    X, labels = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X[:150, :2], 2.0 * labels[:150] - 1
    X, labels = load_wine(return_X_y=True)
    yield "wine", X[labels < 2][:, :2], 2.0 * labels[labels < 2] - 1


def cells(n_constants: int = len(CONSTANTS)) -> pd.DataFrame:
    """Run all cells by the functions of the program of Table 4."""
    script, rows = EXPERIMENTS / "spicymkl" / "table4.py", []
    with own_modules(script):
        own = runpy.run_path(str(script))
        chosen = [each for each in own["ENTRANTS"] if (each.problem, each.label) in ENTRANTS]
        for name, X, y in sets():
            split = own["make_split"](X, y, 0)
            for constant in CONSTANTS[:n_constants]:
                for entrant in chosen:
                    problem = own["pose"](entrant.problem, constant, 0.0).problem(split.stack, split.y[split.train])
                    measured, solution = own["race"](entrant, problem, 60.0)
                    key = {"data": name, "constant": constant, "problem": entrant.problem, "solver": entrant.label}
                    row: dict[str, Any] = key | measured | {"accuracy": round(split.accuracy(solution), 4)}
                    rows.append({column: row[column] for column in (*KEYS, *COUNTS)})
    return pd.DataFrame(rows)


def different(found: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that differ in a count, with both values."""
    both = found.merge(kept, on=KEYS, suffixes=("", "_kept"))
    changed = np.zeros(len(both), dtype=bool)
    for column in COUNTS:
        changed |= (both[column] != both[f"{column}_kept"]).to_numpy()
    return both[changed]


@pytest.mark.nightly
def test_cheap_cells_give_the_numbers_that_are_kept() -> None:
    kept = pd.read_csv(KEPT)
    assert set(kept.pop("numeric")) == {NUMERIC_REVISION}
    found = cells()
    assert len(found) == len(kept) == 30
    changed = different(found, kept)
    assert len(changed) <= MOST_DIFFERENT, f"raise NUMERIC_REVISION:\n{changed.to_string()}"


def test_kept_cells_are_of_the_current_numeric_revision() -> None:
    assert set(pd.read_csv(KEPT)["numeric"]) == {NUMERIC_REVISION}


@pytest.mark.nightly
def test_a_changed_solver_is_noticed() -> None:
    """A default solver that removes no weights at the end keeps more kernels, at the same gap."""
    kept = pd.read_csv(KEPT)
    with patch.object(working_set, "PRUNING_TOLERANCE", 0.0):
        changed = different(cells(), kept)
    assert len(changed) > MOST_DIFFERENT


if __name__ == "__main__":
    cells().assign(numeric=NUMERIC_REVISION).to_csv(KEPT, index=False)
