"""Figure 6.11 runs from its command; an alignment is that of the kernel of the best machine with unseen labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import own_modules, run_program

SCRIPT = Path(__file__).parents[2] / "experiments" / "thesis" / "alignment.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four letters whose sixth column tells the first of a pair from the second."""
    made = tmp_path_factory.mktemp("alignment")
    rng = np.random.default_rng(0)
    y = np.repeat([2, 6, 3, 14], 60)
    X = rng.integers(0, 16, (len(y), 5)).astype(float)
    X = np.column_stack([X, np.where(np.isin(y, [2, 3]), 3.0, 12.0) + rng.normal(size=len(y))])
    np.savez(made / "letter.npz", X=X, y=y, target_names=np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")))
    return made


@pytest.mark.nightly
def test_every_method_is_aligned_and_nothing_is_run_twice(folder: Path) -> None:
    given = ("--quick", "--data", str(folder), "--output", str(folder / "out"))
    printed, _ = run_program(SCRIPT, *given)
    before = (folder / "out" / "thesis_alignment_runs.csv").read_text()
    again, _ = run_program(SCRIPT, *given, "--report")
    assert (folder / "out" / "thesis_alignment_runs.csv").read_text() == before
    assert again.strip().splitlines()[-1] in printed
    runs = pd.read_csv(folder / "out" / "thesis_alignment_runs.csv")
    assert runs.groupby("set").size().to_dict() == {"Letter C-G": 9, "Letter D-O": 9}
    wide = runs.pivot_table("alignment", "set", "method")
    assert (wide["GCD-2s (nD)"] > wide["UNIFORM"]).all()  # one width a feature finds the one that tells


def test_an_alignment_is_the_centered_cosine_on_test_rows() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(90, 2)), np.where(rng.random(90) < 0.5, -1.0, 1.0)
    X[:, 0] += y
    with own_modules(SCRIPT):
        import alignment
        from _learners import HINGE
        from _settings import LETTER_WIDTHS, Settings
        from _tasks import Task

        task = Task((X[:30], y[:30]), (X[30:60], y[30:60]), (X[60:], y[60:]))
        settings = Settings(LETTER_WIDTHS, (1.0,), (1.0,))
        found = alignment.measure("UNIFORM", task, settings)
        (model,) = HINGE["UNIFORM"](task, settings, "hinge")
    test = X[60:]
    gram = sum(w * spec(test) for spec, w in zip(model.specs, model.weights, strict=True))
    center = np.eye(30) - 1 / 30
    gram, labels = center @ gram @ center, center @ y[60:]
    expected = labels @ gram @ labels / (np.linalg.norm(gram) * (labels @ labels))
    assert found["alignment"] == pytest.approx(expected)
