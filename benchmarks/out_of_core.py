"""Rows that are never in memory at once: ten million of them from a Parquet file, and Dask workers that may die.

``python benchmarks/out_of_core.py [--problem parquet|dask|vectors] [--rows N] [--folder DIR] [--smoke]``

The data have the size of HIGGS: 28 standard normal columns, float32, ten of which matter, and a label. ``parquet``
writes them into ``--folder`` (1.2 GB at ten million rows; removed at the end) a row group at a time, fits 27 Gaussian
widths on every column, and predicts from the file. ``dask`` fits a file of a quarter of the rows and one of all of
them, in as many partitions, on one and on two local workers, and on two of which one is killed during the fit; it
compares the objectives with those of one process, and counts the bytes that move between processes in a pass.
``vectors`` takes sums of vectors that stay beside rows on two workers, and by `dask.array` in their place: bytes, CPU
time of client and scheduler, and transitions of tasks, a pass.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import solve
from manykernels.grams.factored import FourierStack
from manykernels.grams.rows.opening import open_rows
from manykernels.grams.rows.vectors import sums

COLUMNS, TRUE_COLUMNS = 28, 10
WIDTHS = np.geomspace(0.1, 10.0, 27).tolist()
GROUP = 250_000  # rows of a row group
PARTITIONS = 8  # of both tables on Dask
FORMATS = {
    "gap": ".1e",
    "cpu_s": ".0f",
    "wall_s": ".0f",
    "peak_gb": ".2f",
    "difference": ".1e",
    "accuracy": ".4f",
    "predict_s": ".0f",
    "objective": ".2f",
    "mb_a_pass": ".1f",
    "data_mb": ".0f",
    "kb_a_pass": ".0f",
    "transitions": ".0f",
    "cpu_ms": ".0f",
}


def write(path: Path, rows: int, seed: int, group: int = GROUP) -> None:
    """Write a table with a label, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(seed)
    names = [f"x{j}" for j in range(COLUMNS)] + ["label"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, group):
            n = min(group, rows - start)
            columns = rng.standard_normal((COLUMNS, n), dtype=np.float32)
            score = sum(np.sin((1 + j / 3) * columns[j] + j) for j in range(TRUE_COLUMNS))
            label = np.where(score + rng.logistic(size=n) > 0, 1.0, -1.0).astype(np.float32)
            writer.write_table(pa.table([*columns, label], schema=schema), row_group_size=group)


def fit(rows: Any, y: Any, tol: float) -> tuple[Any, float, float]:
    """Fit all widths on all columns; return the model, wall and CPU seconds of this process."""
    started, clock = time.perf_counter(), time.process_time()
    with common.quiet():
        stack = FourierStack.grid(rows, WIDTHS)
        model = solve(stack, y, loss="logistic", penalty="l1", alpha="0.05*max", tol=tol)
    return model, time.perf_counter() - started, time.process_time() - clock


def row(name: str, model: Any, wall: float, cpu: float) -> dict[str, Any]:
    """Return what a fit cost and found."""
    found = {int(m) // len(WIDTHS) for m in model.active}
    return {
        "rows": name,
        "gap": model.dual_gap,
        "passes": len(model.history),
        "steps": model.history[-1].newton_steps,
        "true_columns": len(found & set(range(TRUE_COLUMNS))),
        "other_columns": len(found - set(range(TRUE_COLUMNS))),
        "objective": model.certificate.primal,
        "wall_s": wall,
        "cpu_s": cpu,
        "peak_gb": common.peak_memory_bytes() / 1e9,
        "status": str(model.status),
    }


def from_parquet(path: Path, tol: float) -> list[dict[str, Any]]:
    """Fit and predict from a file."""
    source = open_rows(path)
    y = labels(source)
    source = source.drop_column("label")
    model, wall, cpu = fit(source, y, tol)
    record = row(f"{len(y):,} from Parquet", model, wall, cpu)
    started = time.perf_counter()
    record["accuracy"] = float(np.mean(np.sign(model.decision_function(source)) == y))
    return [record | {"predict_s": time.perf_counter() - started, "peak_gb": common.peak_memory_bytes() / 1e9}]


def labels(source: Any) -> np.ndarray:
    """Return the last column."""
    parts = source.map(lambda data: np.asarray(data)[:, 0], [COLUMNS])
    return np.concatenate(list(parts)).astype(np.float64)


def on_dask(path: Path, tol: float) -> list[dict[str, Any]]:
    """Fit on one worker, on two, and on two of which one is killed; compare with one process."""
    from dask.dataframe import read_parquet
    from dask.distributed import Client, LocalCluster, wait

    source = open_rows(path)
    model, wall, cpu = fit(source.drop_column("label"), labels(source), tol)
    size = f"{len(source):,} in "
    records = [row(size + "one process", model, wall, cpu)]
    for workers, kill in ((1, False), (2, False), (2, True)):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            rows = read_parquet(path, split_row_groups=True).persist()
            wait(rows)
            timer = threading.Timer(0.5 * wall, kill_a_worker, [client]) if kill else None
            if timer is not None:
                timer.start()
            before = moved()
            other, wall_of_this, cpu = fit(rows.drop(columns="label"), rows["label"], tol)
            record = row(f"{size}{workers} workers" + (", one killed" if kill else ""), other, wall_of_this, cpu)
            record |= {"mb_a_pass": (moved() - before) / 1e6 / len(other.history), "data_mb": path.stat().st_size / 1e6}
            if timer is not None:
                timer.join()
        best = model.certificate.primal
        records.append(record | {"difference": abs(other.certificate.primal - best) / abs(best)})
        print({name: records[-1][name] for name in ("rows", "wall_s", "mb_a_pass", "difference")}, flush=True)
    return records


def vectors_beside_rows(rows: int, passes: int) -> list[dict[str, Any]]:
    """Sum a logistic loss and its derivatives by vectors beside rows, and by `dask.array` in their place."""
    import dask
    from dask import array
    from dask.distributed import Client, LocalCluster

    rng, chunk = np.random.default_rng(0), -(-rows // (2 * PARTITIONS))
    labels, scores = rng.choice([-1.0, 1.0], rows), rng.normal(size=rows)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        source = open_rows(array.from_array(np.zeros((rows, 1)), chunks=(chunk, 1)).persist())
        terms = source.vector(labels), source.vector(scores)
        blocks = tuple(array.from_array(part, chunks=chunk).persist() for part in (labels, scores))

        def by_terms(step: float) -> list[float]:
            y, z = terms
            e = np.exp(-y * (z + step))
            gradient = (-y * e / (1 + e)).compute()
            return sums(np.log1p(e), e / (1 + e) ** 2, gradient * gradient)

        def by_blocks(step: float) -> list[float]:
            y, z = blocks
            e = array.exp(-y * (z + step))
            gradient = (-y * e / (1 + e)).persist()
            totals = (array.log1p(e).sum(), (e / (1 + e) ** 2).sum(), (gradient * gradient).sum())
            return [float(total) for total in dask.compute(*totals)]

        records = []
        for name, total in (("vectors beside rows", by_terms), ("dask.array", by_blocks)):
            total(0.0)
            tasks, before, cpu = cluster.scheduler.transition_counter, moved(), time.process_time()
            value = [total(0.01 * k) for k in range(passes)][-1][0]
            record = {"rows": name, "objective": value, "status": "converged", "kb_a_pass": (moved() - before) / 1e3}
            record |= {"transitions": cluster.scheduler.transition_counter - tasks, "cpu_ms": time.process_time() - cpu}
            records.append(record)
    for record in records:
        record |= {"kb_a_pass": record["kb_a_pass"] / passes, "transitions": record["transitions"] / passes}
        record |= {"cpu_ms": 1e3 * record["cpu_ms"] / passes}
    return records


def moved() -> int:
    """Return the bytes that processes of this machine have sent each other so far, over the loopback device."""
    import psutil

    return sum(found.bytes_sent for name, found in psutil.net_io_counters(pernic=True).items() if name.startswith("lo"))


def kill_a_worker(client: Any) -> None:
    """End one worker as a machine that fails would; its nanny starts another one."""
    victims = client.run(os.getpid)
    os.kill(next(iter(victims.values())), signal.SIGKILL)


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Rows that are never in memory at once.")
    parser.add_argument("--problem", choices=["parquet", "dask", "vectors"], default="parquet", help="what is tried")
    parser.add_argument("--rows", type=int, default=10**7, help="how many")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the file is written; a temporary folder if not given"
    )
    options = parser.parse_args()
    rows, tol = (5000, 1e-3) if options.smoke else (options.rows, 1e-4)
    name = "smoke" if options.smoke else options.problem
    record = common.environment()
    common.print_environment(record)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.parquet"
        if options.problem == "vectors":
            records = vectors_beside_rows(rows, 20)
        elif options.problem == "dask":
            records = []
            for size in (rows // 4, rows):
                write(path, size, options.seed, -(-size // PARTITIONS))
                records += on_dask(path, tol)
        else:
            write(path, rows, options.seed)
            records = from_parquet(path, tol)
        frame = pd.DataFrame(records)
    common.print_table(frame, f"rows out of core: {name}", FORMATS)
    common.save(frame, record, options.output, f"out_of_core_{name}")
    worst = float(frame["difference"].max()) if "difference" in frame else 0.0
    return int((frame["status"] != "converged").any() or worst > 1e-10)


if __name__ == "__main__":
    raise SystemExit(main())
