"""Files that are damaged, gone or of another kind are answered in words, and a fit keeps its best model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.factored import on_factors

from manykernels import Gaussian, KernelBank, solve
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams.rows.opening import open_rows

pytest.importorskip("pyarrow")
N = 600


def table(folder: Path) -> tuple[Path, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    path = folder / "rows.parquet"
    frame.to_parquet(path, row_group_size=150)
    return path, np.sin(2 * frame["a"].to_numpy()) + 0.1 * rng.normal(size=N)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path, _ = table(tmp_path)
    cut_off(path)
    with pytest.raises(InvalidInputError, match=r"rows\.parquet cannot be read as Parquet: it is cut off, damaged"):
        open_rows(path)
    path.write_bytes(b"")
    with pytest.raises(InvalidInputError, match="cut off, damaged"):
        open_rows(path)
    plain = tmp_path / "rows.csv"
    plain.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"a \.csv file is no Parquet file: read it with pandas"):
        open_rows(plain)
    with pytest.raises(InvalidInputError, match="There is no Parquet file at"):
        open_rows(tmp_path / "nothing.parquet")


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_file_that_vanishes_is_named(tmp_path: Path, n_threads: int) -> None:
    path, _ = table(tmp_path)
    source = open_rows(path, n_threads=n_threads)
    path.unlink()
    with pytest.raises(InvalidInputError, match=r"rows\.parquet cannot be read as Parquet: it is not there any more"):
        list(source.map(len, [0]))


@pytest.mark.parametrize("spoil", [Path.unlink, cut_off])
def test_a_file_that_is_spoiled_in_a_fit_leaves_the_best_model(tmp_path: Path, spoil: Any) -> None:
    path, y = table(tmp_path)

    def spoiling(record: Any) -> None:
        if record.iteration == 1:
            spoil(path)

    source = open_rows(path, chunk_rows=150, n_threads=2)  # which opens the file for every chunk
    bank = KernelBank.per_feature(Gaussian(0.5), standardize=True)
    with pytest.warns(ConvergenceWarning, match=r"numerical_error.*cannot be read as Parquet"):
        found = on_factors(source, y, bank, loss="squared", alpha="0.05*max", tol=1e-10, callback=spoiling)
    assert found.kernel_weights.any()
    assert found.certificate.relative_gap < 1


def test_columns_of_a_file_are_read_under_the_encoding_of_the_fit(tmp_path: Path) -> None:
    """Chunks of another type than those of fit are the same levels, dates and instants, or are rejected."""
    rng = np.random.default_rng(0)
    days, hours = (pd.to_timedelta(rng.integers(0, 300, size=N), unit=unit) for unit in ("D", "h"))
    X = pd.DataFrame({
        "code": rng.choice(list("123A"), size=N),
        "flag": rng.random(N) < 0.5,
        "day": pd.Timestamp("2024-01-01") + days,
        "time": pd.Timestamp("2024-01-01", tz="UTC") + hours,
    })  # fmt: skip
    X.to_parquet(tmp_path / "rows.parquet", row_group_size=150)
    y = X["code"].isin(["1", "A"]).to_numpy() * 2.0 + X["flag"].to_numpy() + X["time"].dt.hour.to_numpy() / 10
    path, bank = str(tmp_path / "rows.parquet"), KernelBank.auto(X)
    fitted = solve(bank, y, X=path, strength=1.0, penalty="l1", loss="squared")
    known = (X["code"] != "A").to_numpy()
    part, expected = X[known], fitted.decision_function(X)[known]
    other = part.assign(
        code=part["code"].astype(int),
        flag=part["flag"].astype(float),
        day=part["day"].dt.strftime("%d.%m.%Y"),
        time=part["time"].dt.tz_convert("Asia/Tokyo"),
    )
    other.to_parquet(tmp_path / "other.parquet", row_group_size=70)
    for rows in (other, str(tmp_path / "other.parquet")):
        np.testing.assert_allclose(fitted.decision_function(rows), expected, rtol=1e-9, atol=1e-9)
    part.assign(day=part["day"].astype("int64")).to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(InvalidInputError, match="Column 'day' cannot be read as dates"):
        fitted.decision_function(str(tmp_path / "wrong.parquet"))


def test_numbers_of_a_file_with_categories_are_read_without_these(tmp_path: Path) -> None:
    """A pass over kernels of numbers reads an array of their columns, in which no category is."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"hour": rng.uniform(0, 24, 400), "station": rng.choice(["coast", "hill"], 400)})
    bank = KernelBank.auto(frame)
    frame["degrees"] = np.sin(frame["hour"] / 4) + (frame["station"] == "hill") + 0.1 * rng.normal(size=400)
    for part in range(2):
        frame[200 * part : 200 * part + 200].to_parquet(tmp_path / f"part{part}.parquet")
    found = solve(bank, "degrees", X=open_rows(tmp_path), loss="squared", penalty="l1", alpha="0.02*max")
    assert found.status == "converged"
    assert np.std(found.decision_function(tmp_path) - frame["degrees"]) < 0.2
