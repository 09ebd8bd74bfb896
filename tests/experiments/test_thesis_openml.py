"""Sets that are not in a folder come from OpenML by name: the whole way, against a server on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.openml import stub_openml
from tests.support.programs import own_modules, run_program

FOLDER = Path(__file__).parents[2] / "experiments" / "thesis"


def drawn_table(labels: str, n_samples: int, seed: int, category: bool = False) -> pd.DataFrame:
    """Return columns of which the first tells the labels apart."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(len(labels), size=n_samples)
    table = pd.DataFrame(rng.normal(size=(n_samples, 3)).round(4), columns=["a", "b", "c"])
    table["a"] += 2.0 * codes
    if category:
        table["d"] = [f"kind{code}" for code in rng.integers(3, size=n_samples)]
    return table.assign(label=[labels[code] for code in codes])


TABLES = {
    "heart-statlog": drawn_table("NP", 140, 0),
    "credit-g": drawn_table("bg", 120, 1, category=True),
    "mnist_784": drawn_table("0123456789", 900, 2),
    "letter": drawn_table("CGDO", 240, 3),
}


def test_tasks_are_fetched_by_name(tmp_path: Path) -> None:
    with stub_openml(TABLES, tmp_path) as stub, own_modules(FOLDER / "_tasks.py"):
        import _tasks

        X, y = _tasks.load("heart", None)
        table = TABLES["heart-statlog"]
        np.testing.assert_allclose(X, table[["a", "b", "c"]], atol=1e-12)
        np.testing.assert_array_equal(y, np.where(table["label"] == "P", 1.0, -1.0))
        assert _tasks.load("german", None)[0].shape == (120, 4)
        digits, classes = _tasks.load("MNIST 3-8", None)
        labels = TABLES["mnist_784"]["label"]
        assert len(digits) == int(labels.isin(["3", "8"]).sum())
        np.testing.assert_array_equal(classes, np.where(labels[labels.isin(["3", "8"])] == "8", 1.0, -1.0))
        assert len(_tasks.load("Letter C-G", None)[1]) == int(TABLES["letter"]["label"].isin(["C", "G"]).sum())
        before = len(stub.asked)
        _tasks.load("MNIST 4-7", None)  # the table is there already
        assert len(stub.asked) == before
        assert any("data_name/heart-statlog/" in path for path in stub.asked)
        assert _tasks.load("thyroid", None) is None  # OpenML's is another set


def test_pairs_come_from_archives_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mnist10k.npz", X=rng.integers(0, 255, (60, 5)).astype(np.uint8), y=np.arange(60) % 10)
    np.savez(tmp_path / "letter.npz", X=rng.normal(size=(40, 4)), y=np.array(list("CGDOXYZA") * 5))
    with own_modules(FOLDER / "_tasks.py"):
        import _tasks

        assert len(_tasks.DIGITS) == 8
        assert len(_tasks.LETTERS) == 12
        for name in ("MNIST 3-8", "Letter C-G"):
            X, y = _tasks.load(name, str(tmp_path))
            assert sorted(set(y)) == [-1.0, 1.0]
            assert X.dtype == np.float64
        assert _tasks.load("Letter C-G", str(tmp_path / "none")) is None
        task = _tasks.split(*_tasks.load("Letter C-G", str(tmp_path)), "Letter C-G", 0, cap=4)
        assert task.train[0].shape == (4, 4)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "methods"), [("MNIST 3-8", 6), ("Letter C-G", 9)])
def test_the_comparison_runs_on_what_openml_sends(tmp_path: Path, name: str, methods: int) -> None:
    with stub_openml(TABLES, tmp_path / "home"):
        printed, _ = run_program(FOLDER / "real_data.py", "--quick", "--sets", name, "--output", str(tmp_path / "out"))
    results = pd.read_csv(tmp_path / "out" / "thesis_real_data_runs.csv")
    assert results["method"].nunique() == methods
    assert set(results["set"]) == {name}
    assert f"| {name} (1) |" in printed


def test_an_unknown_set_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError):
        run_program(FOLDER / "real_data.py", "--sets", "heart,Letter A-A", "--output", str(tmp_path))
    assert "there is no set Letter A-A" in capsys.readouterr().err
