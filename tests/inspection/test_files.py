"""Every file that the library writes appears whole, or the old one stays as it was, with the reason in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from manykernels import InvalidInputError, report, save_model
from manykernels.cli.tables import write_table
from manykernels.inspection import KernelWeightsDisplay
from manykernels.inspection.files import save_figure, write_file
from manykernels.inspection.model_file.archive import write_archive


class FullDisk:
    """A file on which there is no place."""

    def __init__(self, handle: int, mode: str) -> None:
        self.handle = handle

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *error: Any) -> None:
        os.close(self.handle)

    def write(self, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    def tell(self) -> int:
        return 0

    seek = flush = write
    writable = seekable = readable = lambda self: True
    closed = False


def _figure(path: Path, model: Any, rows: Any) -> None:
    save_figure(KernelWeightsDisplay.from_estimator(model).plot().figure_, path)


def _report(path: Path, model: Any, rows: Any) -> None:
    report(model, rows, ["yes", "no"] * (len(rows) // 2), path, cv=None, baselines=False, n_draws=10)


WRITERS: dict[str, Callable[[Path, Any, Any], Any]] = {
    "text.txt": lambda path, model, rows: write_file(path, "text", "text"),
    "picture.png": _figure,
    "picture.svg": _figure,
    "report.html": _report,
    "model.mkl": lambda path, model, rows: save_model(model, path),
    "archive.zip": lambda path, model, rows: write_archive(path, {}, {}),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_a_full_disk_leaves_the_old_file(
    name: str, named: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows = named("binary")
    path = tmp_path / name
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fdopen", FullDisk)
    with pytest.raises(InvalidInputError, match=r"cannot be written to .*No space left on device"):
        WRITERS[name](path, model, rows)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", list(WRITERS))
def test_a_folder_that_is_not_there_is_named(name: str, named: Any, tmp_path: Path) -> None:
    model, rows = named("binary")
    with pytest.raises(InvalidInputError, match=f"{name}'?.*No such file"):
        WRITERS[name](tmp_path / "missing" / name, model, rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_tables_of_the_command_stay_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fdopen", FullDisk)
    with pytest.raises((OSError, InvalidInputError), match="No space left on device"):
        write_table(pd.DataFrame({"a": [1.0, 2.0]}), path)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_of_an_unknown_format_is_refused(named: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"xyz.*not supported"):
        _figure(tmp_path / "picture.xyz", *named("binary"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_there(named: Any, tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name, *named("binary"))
        assert (tmp_path / name).stat().st_size > 0
