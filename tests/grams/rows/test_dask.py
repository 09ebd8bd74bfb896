"""Rows from Dask: what cannot be read any more is told in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import open_rows
from manykernels.exceptions import InvalidInputError

dask = pytest.importorskip("dask")
frames = pytest.importorskip("dask.dataframe")


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("spoil", [Path.unlink, cut_off])
def test_partitions_of_files_that_vanish_or_are_cut_off_are_named(tmp_path: Path, spoil: Any) -> None:
    values = np.random.default_rng(0).normal(size=(60, 2))
    for k in range(3):
        pd.DataFrame(values[20 * k : 20 * k + 20], columns=["a", "b"]).to_parquet(tmp_path / f"{k}.parquet")
    with dask.config.set(scheduler="synchronous"):
        source = open_rows(frames.read_parquet(tmp_path))
        assert list(source.map(len, [0])) == [20, 20, 20]
        spoil(tmp_path / "1.parquet")
        with pytest.raises(InvalidInputError, match=r"partition of the Dask rows cannot be read.*Open the collection"):
            list(source.map(len, [0]))
        with pytest.raises(InvalidInputError, match="partition of the Dask rows cannot be read"):
            source.reduce(len, [0])
