"""Run tables: a CSV file that grows a row a run and says where each row comes from, and pages made from its rows.

A program of an experiment names its run tables in ``LEDGERS``: file, and what makes the tables of the page from its
rows. `report` writes them; a test makes them again from the files that are kept beside the pages.
"""

from __future__ import annotations

import csv
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

ORIGIN = ("revision", "machine", "numeric")
NUMERIC_REVISION = 2
"""Number of the numeric revision: raised when reruns differ from kept runs in a number that no clock touches.

`tests/experiments/test_ledger_rerun.py` makes reruns; run tables without this column are of revision 1.
"""
DIGITS = 6  # of a number in a file; the tables of pages have four at most
Tables = Mapping[str, Callable[[pd.DataFrame], dict[str, str]]]


class Ledger:
    """A CSV file of runs: what is in it is not run again.

    Parameters
    ----------
    path : Path
        File, made with the first row.
    keys : tuple of str
        Columns that name a run. ``repeat`` is the seed of what is drawn.
    measured : tuple of str
        Columns of what a run gave, ``cpu_s`` among them.
    """

    def __init__(self, path: Path, keys: Sequence[str], measured: Sequence[str]) -> None:
        self._path, self.keys, self.columns = path, tuple(keys), (*keys, *measured, *ORIGIN)
        if not {"repeat", "cpu_s"} <= set(self.columns):
            raise ValueError(f"runs of {path.name} tell no repeat or no CPU seconds: {', '.join(self.columns)}")
        self._rows: list[dict[str, Any]] = []
        if path.exists():
            self._rows = [{str(name): value for name, value in row.items()} for row in read(path).to_dict("records")]
            self._complete_columns()
        self._done = {self._name(row) for row in self._rows}

    def _complete_columns(self) -> None:
        """Write a table of runs of numeric revision 1 anew, with the column for it."""
        with self._path.open() as file:
            if "numeric" not in file.readline().strip().split(","):
                self.frame().to_csv(self._path, index=False)

    def frame(self) -> pd.DataFrame:
        """Return all runs."""
        return pd.DataFrame(self._rows, columns=list(self.columns))

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        """Return whether there is a run of these values of the key columns."""
        return self._name(dict(zip(self.keys, key, strict=True))) in self._done

    def find(self, **values: Any) -> list[dict[str, Any]]:
        """Return the runs with these values."""
        return [row for row in self._rows if all(row[key] == value for key, value in values.items())]

    def drop(self, **values: Any) -> None:
        """Forget the runs with these values; None forgets nothing."""
        if None in values.values() or not self._path.exists():
            return
        gone = self.find(**values)
        self._rows = [row for row in self._rows if row not in gone]
        self._done = {self._name(row) for row in self._rows}
        self.frame().to_csv(self._path, index=False)

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a run and write it at once."""
        known = dict(row) | origin()
        kept = {column: shortened(known.get(column, "")) for column in self.columns}
        fresh = not self._path.exists()
        with self._path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(kept)
        self._rows.append(kept)
        self._done.add(self._name(kept))

    def _name(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the values of the key columns as they are written."""
        return tuple(_written(row[key]) for key in self.keys)


def read(path: Path) -> pd.DataFrame:
    """Return the rows of a run table; a revision may have digits only."""
    runs = pd.read_csv(path, dtype={"revision": str})
    return runs if "numeric" in runs else runs.assign(numeric=1)


def shortened(value: Any) -> Any:
    """Return a number with the digits that are kept."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _written(value: Any) -> str:
    return f"{float(value):.{DIGITS}g}" if isinstance(value, int | float) else str(value)


@contextmanager
def cpu_seconds() -> Iterator[dict[str, float]]:
    """Give a dict in which ``cpu_s`` stands after the block: the CPU seconds that it took."""
    spent: dict[str, float] = {}
    started = time.process_time()
    yield spent
    spent["cpu_s"] = time.process_time() - started


# --- pages ----------------------------------------------------------------------------------------------------------


STALE = "numeric revision"  # mark of the note on a page


def note_of_age(runs: Mapping[str, pd.DataFrame]) -> str:
    """Return what a page has to say of runs of older numeric revisions; empty where there are none.

    Parameters
    ----------
    runs : mapping of str to DataFrame
        Run tables of the page, by the names of their files.
    """
    old = {name: int((table["numeric"] < NUMERIC_REVISION).sum()) for name, table in runs.items()}
    counts = [f"{count} of {len(runs[name])} in [{name}]({name})" for name, count in old.items() if count]
    if not counts:
        return ""
    return (
        f"> Runs of an older numeric revision than {NUMERIC_REVISION}: {', '.join(counts)}. The solvers have changed "
        "since, so that numbers of iterations, kernels and errors may differ from those below. `make reproduction` "
        "makes all runs anew."
    )


def report(ledgers: Tables, output: Path, page: Path | None = None) -> str:
    """Write the tables of all runs so far to ``tables.md`` and return them; put them into a page, with the runs beside.

    Tables whose mark the page does not have are written beside the others only.
    """
    texts: dict[str, str] = {}
    for name, make in ledgers.items():
        path = output / name
        if not path.exists():
            continue
        texts |= make(read(path))
        if page is not None and page.parent.resolve() != output.resolve():
            shutil.copyfile(path, page.with_name(name))
    written = "\n\n".join(f"{mark}\n\n{text}" for mark, text in texts.items()) + "\n"
    (output / "tables.md").write_text(written)
    if page is not None:
        for mark, text in texts.items():
            fill(page, mark, text)
        others = [path for path in page.parent.glob("*_runs.csv") if f"({path.name})" in page.read_text()]
        fill(page, STALE, note_of_age({path.name: read(path) for path in sorted(others)}))
    return written


def fill(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the comments ``mark`` and ``end of mark`` of a page, if it has them."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    whole = page.read_text()
    if begin in whole:
        before, rest = whole.split(begin)
        page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end)[1]}")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of a page."""
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


# --- where a row comes from ------------------------------------------------------------------------------------------


@cache
def origin() -> dict[str, Any]:
    """Return the revision of this library, the machine and the numeric revision, as columns of a run table."""
    return {"revision": _revision(), "machine": _machine(), "numeric": NUMERIC_REVISION}


def _revision() -> str:
    """Return the commit, with a plus where files differ from it; "unknown" outside a checkout."""
    git = ("git", "-C", str(Path(__file__).parent))
    try:
        commit = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
        changed = subprocess.run((*git, "status", "--porcelain", "-uno"), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _machine() -> str:
    """Return the processor by its name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
