"""Rows in chunks given to `solve`: the solution of the same table in memory, or of chunks where it does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from manykernels import KernelBank, open_rows, solve
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError
from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.opening import ParquetRows
from manykernels.kernels import Gaussian, PrecomputedBank
from manykernels.solvers.solution import Status

OPTIONS: dict[str, Any] = {"loss": "squared", "penalty": "l1", "alpha": 0.05}
N = 2500
SMALL = 12 * N * 8  # bytes: three times the four columns, so that they stay in chunks


@pytest.fixture(scope="module")
def table() -> tuple[NDArray[Any], NDArray[Any]]:
    """Sorted rows: the first ones are unlike the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    X = X[np.argsort(X[:, 0])]
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=N)
    return X, y


@pytest.fixture(scope="module")
def whole(table: tuple[NDArray[Any], NDArray[Any]]) -> Any:
    X, y = table
    return solve(KernelBank.auto(), y, X=X, **OPTIONS)


def as_parquet(X: NDArray[Any], folder: Path) -> Path:
    path = folder / "rows.parquet"
    if not path.exists():
        pd.DataFrame(X, columns=list("abcd")).to_parquet(path, row_group_size=400)
    return path


def as_map(X: NDArray[Any], folder: Path) -> Any:
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


def as_dask(X: NDArray[Any], folder: Path) -> Any:
    pytest.importorskip("dask").config.set(scheduler="synchronous")
    return pytest.importorskip("dask.dataframe").read_parquet(as_parquet(X, folder), split_row_groups=True)


def as_dask_array(X: NDArray[Any], folder: Path) -> Any:
    pytest.importorskip("dask").config.set(scheduler="synchronous")
    return pytest.importorskip("dask.array").from_array(X, chunks=(400, 2))


FORMS = {
    "pandas": lambda X, folder: pd.DataFrame(X, columns=list("abcd")),
    "chunks of an array": lambda X, folder: open_rows(X, chunk_rows=400),
    "Parquet": as_parquet,
    "memory map": as_map,
    "Dask frame": as_dask,
    "Dask array": as_dask_array,
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_fit_are_solved_as_the_table(form: str, table: Any, whole: Any, tmp_path: Path) -> None:
    """At 6,000 sorted rows functions differed by 0.58 from those of the table, whose kernels are others."""
    X, y = table
    rows = FORMS[form](X, tmp_path)
    found = solve(KernelBank.auto(), y, X=rows, **OPTIONS)
    assert found.status is whole.status is Status.CONVERGED
    assert [name.split(":")[1] for name in found.functions.names] == [
        name.split(":")[1] for name in whole.functions.names
    ]
    assert found.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-8)
    np.testing.assert_allclose(found.decision_function(rows), whole.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(found.decompose(rows), whole.decompose(X), atol=1e-6)
    assert isinstance(found.dual_coef, np.ndarray)


def mixed() -> pd.DataFrame:
    """Columns whose first thousand rows would give them another type."""
    rng = np.random.default_rng(1)
    late = np.arange(N) >= 1200
    frame = pd.DataFrame({
        "x": rng.normal(size=N),
        "note": np.where(late, rng.choice(["low", "high"], N), None),
        "code": np.where(late, rng.choice(["7", "9"], N), [f"{k:05d}" for k in range(N)]),
        "site": pd.Categorical(np.where(late, "north", rng.choice(["south", "west"], N))),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.where(late, rng.integers(0, 300, N), 0), unit="D"),
    })  # fmt: skip
    frame["code"] = frame["code"].where(late, "7")
    frame["target"] = np.sin(2 * frame["x"]) + (frame["note"] == "high") + (frame["code"] == "9") + rng.normal(size=N)
    return frame


@pytest.mark.parametrize("form", ["Parquet", "Dask"])
def test_text_categories_dates_and_gaps_are_those_of_the_table(form: str, tmp_path: Path) -> None:
    frame = mixed()
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    rows: Any = tmp_path / "rows.parquet"
    if form == "Dask":
        pytest.importorskip("dask").config.set(scheduler="synchronous")
        rows = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)
    bank, X = KernelBank.auto(missing="indicator"), frame.drop(columns="target")
    whole = solve(bank, frame["target"], X=X, **OPTIONS)
    found = solve(bank, "target", X=rows, **OPTIONS)
    assert found.functions.names == whole.functions.names
    assert found.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-8)
    np.testing.assert_allclose(found.decision_function(rows), whole.decision_function(X), atol=1e-6)


def test_rows_that_do_not_fit_stay_in_chunks_and_converge(
    table: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default Gaussians of all columns had exact bounds, which need all pairs of rows: a gap of .88 after 100 s."""
    X, y = table
    monkeypatch.setattr(RowSource, "whole", lambda self, used: pytest.fail("the rows were read whole"))
    found = solve(KernelBank.auto(), y, X=as_parquet(X, tmp_path), memory_budget=SMALL, **OPTIONS)
    assert found.status is Status.CONVERGED
    assert any("landmarks" in name for name in found.functions.names)
    errors = [np.mean((y - own.decision_function(X)) ** 2) for own in (found, whole)]
    assert errors[0] < 1.02 * errors[1]


def test_rows_whose_fit_exceeds_the_budget_stay_in_chunks(table: Any) -> None:
    X, y = table
    bank = KernelBank.per_feature(widths=[0.5, 1.0])
    whole = solve(bank, y, X=X, representation="factored", **OPTIONS)
    found = solve(bank, y, X=open_rows(X, chunk_rows=400), memory_budget=20 * N * 8, **OPTIONS)
    assert found.functions.stack.table.chunked
    assert found.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-3)


def test_columns_that_kernels_do_not_read_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"key": [f"row {k}" for k in range(300)], "a": rng.normal(size=300), "b": np.nan})
    frame["c"] = rng.normal(size=300)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    read: list[int] = []
    column = ParquetRows.whole_column
    monkeypatch.setattr(ParquetRows, "whole_column", lambda self, j: (read.append(j), column(self, j))[1])
    y = frame["a"].to_numpy() + frame["c"].to_numpy() ** 2
    for columns in (["c", "a"], [3, 1]):
        read.clear()
        bank = KernelBank.per_feature(Gaussian(1.0), columns=columns)
        found = solve(bank, y, X=tmp_path / "rows.parquet", **OPTIONS)
        assert sorted(read) == [1, 3]
        np.testing.assert_allclose(found.decision_function(tmp_path / "rows.parquet"), found.decision_function(frame))


def test_requests_that_chunks_cannot_meet_are_rejected(table: Any) -> None:
    X, y = table
    rows = open_rows(X, chunk_rows=400)
    with pytest.raises(IncompatibleError, match=r"needs a table in memory.*Raise memory_budget"):
        solve(KernelBank.auto(), y, X=rows, representation="gram", memory_budget=SMALL, **OPTIONS)
    with pytest.raises(InvalidInputError, match="need a KernelBank, not a PrecomputedBank"):
        solve(PrecomputedBank(), y, X=rows, memory_budget=SMALL, **OPTIONS)


def test_kernels_without_exact_factors_that_do_not_converge_name_landmarks(table: Any) -> None:
    X, y = table
    bank = KernelBank.joint(Gaussian(0.5))
    with pytest.warns(ConvergenceWarning) as caught:
        solve(bank, y, X=open_rows(X, chunk_rows=400), memory_budget=SMALL, max_iter=1, **OPTIONS)
    assert any("need all pairs of 2500 rows" in str(one.message) for one in caught)
