"""Every file that the library writes appears whole, or the old one stays as it was, with the reason in words."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.support.processes import python

from manykernels import InvalidInputError, load_model, report, save_model
from manykernels.cli import models
from manykernels.cli.console import Outcome
from manykernels.cli.models import PredictOptions, features_of, run_predict
from manykernels.cli.tables import write_table
from manykernels.inspection import KernelWeightsDisplay
from manykernels.inspection.files import replacing, save_figure, write_file
from manykernels.inspection.model_file.file import write_archive


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


# A process of its own, and a copy of it for each case, in which what the case says is done first.
WRITING = """
import os, resource, signal, sys, warnings
from pathlib import Path
import pandas as pd
warnings.simplefilter("ignore")
from tests.inspection.test_files import LARGE, SPOILED, WRITERS
from manykernels import load_model
from manykernels.exceptions import InvalidInputError
import manykernels.inspection.files, matplotlib.pyplot
from manykernels.inspection.reports import pictures
pictures.draw_picture = lambda *told, **options: pictures.Picture("<svg></svg>")  # which take long
parent = Path(sys.argv[1])
model, rows = load_model(parent / "fitted.mkl"), pd.read_csv(parent / "rows.csv")
for name in ("report.html", "predicted.csv"):  # what copies find loaded, they need not load each
    (WRITERS | LARGE)[name](parent / "once" / name, model, rows)
for case in sys.argv[2:]:
    how, name = case.split()
    copy = os.fork()
    if not copy:
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        exec(SPOILED[how])
        try:
            (WRITERS | LARGE)[name](parent / case / name, model, rows)
        except (InvalidInputError, OSError) as error:
            resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))  # what is said goes to a file too
            print(type(error).__name__, str(error).replace(os.linesep, " "), end=" ")
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
"""
SPOILED = {
    "killed": "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)",
    "full": "resource.setrlimit(resource.RLIMIT_FSIZE, (3, unlimited))",
}
WRITTEN = ["model.mkl", "picture.png", "report.html", "table.csv", "predicted.csv"]
LARGE: dict[str, Callable[[Path, Any, Any], Any]] = {
    "table.csv": lambda path, model, rows: write_table(pd.DataFrame({"a": range(1000)}), path),
    "predicted.csv": lambda path, model, rows: _predicted(path, model, rows),
}
posix = pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX")


def _predicted(path: Path, model: Any, rows: Any) -> None:
    """Write predictions a few rows at a time, by the command."""
    model, data = path.parent.parent / "fitted.mkl", path.parent.parent / "rows.csv"
    run_predict(PredictOptions(model, data, path, chunk_rows=4, force=True), Outcome("predict", as_json=True))


def _prepared(parent: Path, names: dict[str, str], named: Any) -> None:
    """Make folders with an old file each, beside a model and rows that processes can read."""
    model, rows = named("binary")
    save_model(model, parent / "fitted.mkl")
    rows.to_csv(parent / "rows.csv", index=False)
    for folder, name in names.items():
        (parent / folder).mkdir()
        (parent / folder / name).write_bytes(b"old")


@pytest.fixture(scope="module")
def spoiled(named: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a folder with one for each case of a writer that was killed, or had no place, and what each has said."""
    parent = tmp_path_factory.mktemp("spoiled")
    cases = {f"{how} {name}": name for how in SPOILED for name in WRITTEN}
    _prepared(parent, cases | {"once": "model.mkl"}, named)
    done = python(WRITING, parent, *cases, folder=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return parent, dict(zip(cases, done.stdout.splitlines(), strict=True))


@posix
@pytest.mark.parametrize("name", WRITTEN)
def test_a_writer_that_is_killed_leaves_the_old_file_and_the_next_one_cleans_up(
    name: str, named: Any, spoiled: Any
) -> None:
    parent, said = spoiled
    folder = parent / f"killed {name}"
    assert said[folder.name] == str(-signal.SIGKILL)
    assert (folder / name).read_bytes() == b"old"
    assert len(list(folder.iterdir())) == 2  # what was being written
    (folder / ".manykernels-link").symlink_to(parent / "fitted.mkl")
    with replacing(folder / "another") as file:
        file.write(b"new")
        save_model(named("binary")[0], folder / "model.mkl")  # a writer beside, which leaves the other's file alone
    left = {path.name for path in folder.iterdir()}
    assert left == {name, "another", "model.mkl", ".manykernels-link"}  # links are none of ours


@posix
@pytest.mark.parametrize("name", WRITTEN)
def test_a_disk_that_is_full_in_earnest_is_told(name: str, spoiled: Any) -> None:
    """The system refuses to write, as on a full disk, wherever that happens to be."""
    parent, said = spoiled
    folder = parent / f"full {name}"
    assert "File too large" in said[folder.name]
    assert said[folder.name].endswith(" 0")
    assert (folder / name).read_bytes() == b"old"
    assert list(folder.iterdir()) == [folder / name]


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
@pytest.mark.parametrize("spoil", [_cut_off, Path.unlink])
def test_rows_that_are_spoiled_before_or_amid_predictions_leave_the_old_file(
    kind: str, spoil: Callable[[Path], None], named: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepared(tmp_path, {"folder": "predicted.csv"}, named)
    folder, rows = tmp_path / "folder", tmp_path / f"rows.{kind}"
    table = pd.concat([pd.read_csv(tmp_path / "rows.csv")] * 50, ignore_index=True)
    table.to_parquet(rows, row_group_size=40) if kind == "parquet" else table.to_csv(rows, index=False)
    options = PredictOptions(tmp_path / "fitted.mkl", rows, folder / "predicted.csv", chunk_rows=40, force=True)

    def part(chunk: pd.DataFrame, *given: Any) -> Any:
        if rows.exists() and len(seen) == 1:
            spoil(rows)
        seen.append(len(chunk))
        return features_of(model, chunk)

    seen: list[int] = []
    model = load_model(tmp_path / "fitted.mkl")
    monkeypatch.setattr(models, "features_of", lambda _, chunk, *orders: part(chunk))
    with suppress(InvalidInputError):  # what was opened may go on to be read to its end
        run_predict(options, Outcome("predict", as_json=True))
    written = (folder / "predicted.csv").read_bytes()
    assert written == b"old" or written.count(b"\n") == len(table) + 1
    assert len(seen) >= 2
    assert list(folder.iterdir()) == [folder / "predicted.csv"]
    with pytest.raises(InvalidInputError, match=r"cannot be read as|There is no file"):
        run_predict(options, Outcome("predict", as_json=True))


def test_a_picture_of_an_unknown_format_is_refused(named: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"xyz.*not supported"):
        _figure(tmp_path / "picture.xyz", *named("binary"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_there(named: Any, tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name, *named("binary"))
        assert (tmp_path / name).stat().st_size > 0
