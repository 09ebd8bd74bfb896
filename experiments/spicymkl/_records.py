"""A table that grows by one row a run, survives an interrupt, and says on what machine it was made."""

from __future__ import annotations

import csv
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_info

PACKAGES = ("manykernels", "numpy", "scipy", "scikit-learn", "numba", "clarabel")


class Ledger:
    """A CSV file of runs: what is in it is not run again.

    Parameters
    ----------
    path : Path
        File, made if it is not there.
    keys : tuple of str
        Columns that name a run.
    columns : tuple of str
        All columns, keys included.
    """

    def __init__(self, path: Path, keys: tuple[str, ...], columns: tuple[str, ...]) -> None:
        self._path, self._keys, self._columns = path, keys, columns
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(",".join(columns) + "\n")
        self._rows: list[dict[Any, Any]] = self.frame().to_dict("records")

    def frame(self) -> pd.DataFrame:
        """Return all runs."""
        return pd.read_csv(self._path, comment="#")

    def find(self, **values: Any) -> list[dict[Any, Any]]:
        """Return the runs with these values."""
        return [row for row in self._rows if all(row[key] == value for key, value in values.items())]

    def drop(self, **values: Any) -> None:
        """Forget the runs with these values; None forgets nothing."""
        if None in values.values():
            return
        gone = self.find(**values)
        kept = [row for row in self._rows if row not in gone]
        pd.DataFrame(kept, columns=list(self._columns)).to_csv(self._path, index=False)
        self._rows = kept

    def add(self, row: dict[str, Any]) -> None:
        """Append a run and write it at once."""
        kept = {column: row.get(column, "") for column in self._columns}
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, lineterminator="\n").writerow(kept)
        self._rows.append(kept)


def fill_page(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the comments ``mark`` and ``end of mark`` of a page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{rest.split(end)[1]}")


def described(record: dict[str, Any]) -> str:
    """Return an environment in words."""
    packages = ", ".join(f"{name} {number}" for name, number in record["packages"].items())
    return (
        f"{record['cpu']}, {record['cores']} cores, load average {record['load_average']} at the start, "
        f"{record['date']}; Python {record['python']}, {packages}; revision {record['revision']}."
    )


def environment() -> dict[str, Any]:
    """Return what a reader needs in order to judge CPU seconds."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "revision": _revision(),
        "blas_threads": max(
            (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1
        ),
    }


def _revision() -> str:
    """Return the commit of the checkout, with a plus sign if its library has uncommitted changes."""
    root = Path(__file__).parents[2]
    git = ("git", "-C", str(root))
    try:
        commit = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
        changes = subprocess.run(
            (*git, "status", "--porcelain", "--", "src"), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changes.stdout else "")


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
