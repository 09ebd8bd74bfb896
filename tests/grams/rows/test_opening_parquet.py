"""Files that are damaged, gone or of another kind are answered in words, and a fit keeps its best model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.factored import on_factors

from manykernels import Gaussian, KernelBank
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
        found = on_factors(source, y, bank, loss="squared", relative_strength=0.05, tol=1e-10, callback=spoiling)
    assert found.kernel_weights.any()
    assert found.certificate.relative_gap < 1
