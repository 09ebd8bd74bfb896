"""What the benchmarks share: one thread, CPU clocks, the problem of the papers, tables and records.

Import this module before NumPy: the numerical libraries read the number of threads when they are first loaded.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from datetime import UTC, datetime  # noqa: E402
from importlib.metadata import version  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from rich import box  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from threadpoolctl import threadpool_info  # noqa: E402

from manykernels.exceptions import ConvergenceWarning  # noqa: E402
from manykernels.kernels import Gaussian, KernelBank  # noqa: E402

HERE = Path(__file__).parent
PACKAGES = ("manykernels", "numpy", "scipy", "scikit-learn", "numba", "pandas")
PASS_SECONDS = 0.1  # CPU time spent on one measurement of the dense pass, at least
SHORTEST = 1e-4  # CPU seconds; systems that count in ticks say 0 for less, which has no logarithm

CONSOLE = Console()
CONSOLE.width = max(CONSOLE.width, 150)  # a narrow terminal wraps lines rather than hiding figures


# --- the command line ----------------------------------------------------------------------------------------------


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--smoke", action="store_true", help="the smallest problem, in seconds, to see that it runs")
    made.add_argument("--output", type=Path, default=HERE / "results", help="folder for tables, records and pictures")
    made.add_argument("--seed", type=int, default=0, help="seed of the data")
    return made


# --- clocks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """CPU seconds of the best and of the median run, and what the last run returned."""

    best: float
    median: float
    result: Any


def cpu_time(function: Callable[[], Any], repeats: int = 3) -> Timing:
    """Run ``function`` several times by the CPU clock, which a busy machine disturbs less than the wall clock."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        result = function()
        seconds.append(max(time.process_time() - started, SHORTEST))
    return Timing(min(seconds), float(np.median(seconds)), result)


@contextmanager
def quiet() -> Iterator[None]:
    """Let a solver stop short without a warning on the screen; the table shows its status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def dense_pass_seconds(kernels: np.ndarray, vector: np.ndarray) -> float:
    """Return the median CPU seconds of ``a' K_m a`` for all kernels by BLAS, the yardstick of the figures."""
    seconds: list[float] = []
    while len(seconds) < 3 or sum(seconds) < PASS_SECONDS:
        started = time.process_time()
        (kernels @ vector) @ vector
        seconds.append(time.process_time() - started)
    return float(np.median(seconds))


def peak_memory_bytes() -> int:
    """Return the largest resident set of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak_memory() -> None:
    """Let the largest resident set begin anew at the present one, on Linux."""
    if (switch := Path("/proc/self/clear_refs")).exists():
        switch.write_text("5")


# --- the ringnorm kernels of the papers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class RandomGaussian:
    """A Gaussian kernel on a random half of the columns."""

    columns: np.ndarray
    width: float

    def gram(self, X: np.ndarray) -> np.ndarray:
        """Return its Gram matrix, scaled to unit trace."""
        Z = X[:, self.columns]
        squares = (Z * Z).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2.0 * Z @ Z.T, 0.0)
        np.fill_diagonal(distances, 0.0)
        gram = np.exp(distances / (-2.0 * self.width**2)) / len(X)
        return (gram + gram.T) / 2.0


def random_gaussians(n_kernels: int, n_features: int, rng: np.random.Generator) -> list[RandomGaussian]:
    """Draw kernels on random column subsets with width ``5 chi2(2) + 0.1`` (Suzuki and Tomioka 2011, section 6.1)."""
    drawn = []
    for _ in range(n_kernels):
        chosen = rng.random(n_features) < 0.5
        if not chosen.any():
            chosen[rng.integers(n_features)] = True
        drawn.append(RandomGaussian(np.flatnonzero(chosen), 5.0 * rng.chisquare(2) + 0.1))
    return drawn


def dense_kernels(kernels: list[RandomGaussian], X: np.ndarray) -> np.ndarray:
    """Return all Gram matrices, (M, N, N) float64, by NumPy alone."""
    stack = np.empty((len(kernels), len(X), len(X)))
    for m, kernel in enumerate(kernels):
        stack[m] = kernel.gram(X)
    return stack


def bank_of(kernels: list[RandomGaussian]) -> KernelBank:
    """Return the same kernels as a bank, for stacks that are never dense."""
    return KernelBank(
        [(f"k{m}", Gaussian(kernel.width), kernel.columns) for m, kernel in enumerate(kernels)], normalize="trace"
    )


# --- tables and records --------------------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """Return what a reader needs in order to judge the figures."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "threads": [
            {key: pool[key] for key in ("user_api", "internal_api", "num_threads")} for pool in threadpool_info()
        ],
        "revision": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src", "benchmarks")),
    }


def print_environment(record: dict[str, Any]) -> None:
    """Print the record in two lines."""
    packages = ", ".join(f"{name} {number}" for name, number in record["packages"].items())
    CONSOLE.print(f"{record['cpu']}, {record['cores']} cores, load {record['load_average'][0]:.2f}; {packages}")
    changed = " with uncommitted changes" if record["uncommitted_changes"] else ""
    threads = ", ".join(f"{pool['internal_api']} {pool['num_threads']}" for pool in record["threads"])
    CONSOLE.print(f"revision {record['revision']}{changed}; threads: {threads}")


def print_table(frame: pd.DataFrame, title: str, formats: dict[str, str] | None = None) -> None:
    """Print a frame; ``formats`` maps columns to format specifications."""
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1))
    for column in frame:
        numeric = pd.api.types.is_numeric_dtype(frame[column]) and frame[column].dtype != bool
        table.add_column(str(column), justify="right" if numeric else "left", no_wrap=True)
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell(value, (formats or {}).get(c, "")) for c, value in zip(frame, row, strict=True)))
    CONSOLE.print(table)


def save(frame: pd.DataFrame, record: dict[str, Any], folder: Path, name: str) -> None:
    """Write ``name.csv`` and ``name.json`` (rows and environment)."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_csv(folder / f"{name}.csv", index=False)
    rows = json.loads(frame.to_json(orient="records"))
    (folder / f"{name}.json").write_text(json.dumps({"environment": record, "rows": rows}, indent=2) + "\n")
    CONSOLE.print(f"wrote {name}.csv and {name}.json to {folder}")


def measured_before(record: dict[str, Any], folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows that an earlier run of the same revision saved, so that a run can go on where it was ended."""
    path = folder / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {"environment": {}, "rows": []}
    keys = "revision", "uncommitted_changes", "cpu"
    if any(found["environment"].get(key) != record[key] for key in keys):
        return []
    return [{key: np.nan if value is None else value for key, value in row.items()} for row in found["rows"]]


def verdicts(rows: list[tuple[str, float, float]]) -> pd.DataFrame:
    """Return (what, measured, bar) with a verdict each; the bar is an upper bound."""
    frame = pd.DataFrame(rows, columns=["bar", "measured", "at most"])
    frame["verdict"] = np.where(frame["measured"] <= frame["at most"], "pass", "FAIL")
    return frame


def _cell(value: Any, specification: str) -> str:
    return str(value) if isinstance(value, str) or not specification else format(value, specification)


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(HERE.parent), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
