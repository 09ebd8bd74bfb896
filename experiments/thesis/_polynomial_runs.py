"""What the polynomial experiments share: strengths chosen on a validation part, tables that grow a row a run."""

from __future__ import annotations

import _polynomial_threads  # noqa: F401 - before NumPy

# isort: split
import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tasks import Task
from numpy.typing import NDArray

Array = NDArray[Any]
Maker = Callable[[float], Any]

MEASURED = ("error", "valid", "cpu_s", "slowest_s", "all_s", "alpha", "gap", "kernels")


class Runs:
    """A CSV file of runs, written row by row: what is in it is not run again.

    Parameters
    ----------
    path : Path
        File, made if it is not there.
    keys : tuple of str
        Columns that name a run.
    others : tuple of str
        The other columns.
    """

    def __init__(self, path: Path, keys: tuple[str, ...], others: tuple[str, ...] = MEASURED) -> None:
        self._path, self._keys, self._columns = path, keys, (*keys, *others)
        if not path.exists():
            path.write_text(",".join(self._columns) + "\n")

    def frame(self) -> pd.DataFrame:
        """Return all runs."""
        return pd.read_csv(self._path)

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        """Return whether there is a run of these values of the key columns."""
        known = self.frame()[list(self._keys)].astype(str)
        return bool((known == [str(value) for value in key]).all(axis=1).any())

    def add(self, key: tuple[Any, ...], measured: dict[str, Any]) -> None:
        """Append a run and write it at once."""
        row = dict(zip(self._keys, key, strict=True)) | measured
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, lineterminator="\n").writerow(row)


def squared_error(values: Array, y: Array) -> float:
    """Return the mean squared error."""
    return float(np.mean((values - y) ** 2))


def misclassified(scores: Array, y: Array) -> float:
    """Return the share of wrong signs."""
    return float(np.mean(np.where(scores > 0, 1.0, -1.0) != y))


def tuned(make: Maker, alphas: Sequence[float], task: Task, measure: Callable[[Array, Array], float]) -> dict[str, Any]:
    """Return the test error of the strength that is best on the validation part, and CPU seconds.

    Of equally good strengths the largest is taken.
    """
    fits = []
    for alpha in sorted(alphas, reverse=True):
        started = time.process_time()
        model = make(alpha).fit(*task.train)
        spent = time.process_time() - started
        fits.append((measure(model.predict(task.valid[0]), task.valid[1]), spent, alpha, model))
    valid, spent, alpha, model = min(fits, key=lambda fit: fit[0])
    return {
        "error": measure(model.predict(task.test[0]), task.test[1]),
        "valid": valid,
        "cpu_s": spent,
        "slowest_s": max(fit[1] for fit in fits),
        "all_s": sum(fit[1] for fit in fits),
        "alpha": alpha,
        "gap": model.dual_gap_,
        "kernels": len(model.kernel_names_),
    }


def fill_page(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the comments ``mark`` and ``end of mark`` of a page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end)[1]}")


def markdown(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """Return a table for a page."""
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
