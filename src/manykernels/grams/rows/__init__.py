"""Rows in chunks: arrays, memory maps, Parquet files and Dask collections behind one map over chunks."""

from __future__ import annotations

from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.dask import DaskRows
from manykernels.grams.rows.opening import ArrayRows, is_chunked, open_rows, with_target
from manykernels.grams.rows.parquet import ParquetRows
from manykernels.grams.rows.vectors import Held, RowVector, held, here, on_rows, sums

__all__ = [
    "ArrayRows",
    "DaskRows",
    "Held",
    "ParquetRows",
    "RowSource",
    "RowVector",
    "held",
    "here",
    "is_chunked",
    "on_rows",
    "open_rows",
    "sums",
    "with_target",
]
