"""Kernels of columns whose values repeat, among distinct values and among all rows: unit costs, and fits both ways.

``python benchmarks/distinct.py [--smoke] [--output DIR]``

First the seconds of an entry of a triangle that is read, of one that is spread from a matrix among ``v`` values, and of
a call: those by which it is decided stand beside them. Then one fit of the default
bank on columns of ``v`` values each, as it is decided and on packed triangles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, solve
from manykernels.grams import DistinctStack, PackedStack, build_stack, loops, repeats

ROWS, SMOKE_ROWS = 1000, 200
VALUES = (4, 30, 120, 250, 500)
KERNELS, COLUMNS, REPEATS = 20, 12, 7


def seconds(call: Callable[[], Any]) -> float:
    """Return the median of CPU seconds, after a first call that compiles."""
    call()
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return float(np.median(found))


def units(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return what the operations take, by entry or by call, beside the constants."""
    size = rows * (rows + 1) // 2
    triangles = rng.random((KERNELS, size)).astype(np.float32)
    stack, vector, weights = PackedStack(triangles, rows), rng.normal(size=rows), np.ones(KERNELS)
    total, matrix = np.zeros(size), np.zeros((rows, rows))
    added = seconds(lambda: loops.add_columns(triangles, np.arange(KERNELS), weights, total))
    applied = seconds(lambda: stack.apply_each(vector))
    table = [("entry read", (added + 2 * applied) / 3 / KERNELS / size, repeats.READ)]
    for v in VALUES:
        codes, held = rng.integers(0, v, rows).astype(np.uint32), rng.random((v, v))
        spread = seconds(partial(loops.add_spread, held, codes, 0, rows, matrix))
        predicted = repeats.SPREAD + repeats.SPREAD_ROW * v
        table.append((f"entry spread from {v} values", spread / size, predicted))
    one = PackedStack(triangles[:1], rows)
    unpacked = seconds(partial(one.combine, [1.0])) - added / KERNELS
    table.append(("entry unpacked", unpacked / size, repeats.UNPACKED))
    small = PackedStack(rng.random((4, 10)).astype(np.float32), 4)
    table.append(("call", seconds(lambda: small.apply_each(np.ones(4))), repeats.OPERATION))
    return pd.DataFrame(table, columns=["unit", "measured s", "constant s"])


def fits(rows: int, v: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return seconds and bytes of a fit both ways."""
    X = rng.integers(0, v, (rows, COLUMNS)) / v
    y = np.where(np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.logistic(size=rows) > 0.5, 1.0, -1.0)
    bank, prepared = KernelBank.auto().fit_prepare(X)
    row: dict[str, Any] = {"values of a column": v, "among distinct": 0}
    for name, kind in (("decided", "auto"), ("packed", "packed")):
        start = time.process_time()
        stack = build_stack(bank, prepared, kind=kind, dtype=np.float32)
        found = solve(stack, y, loss="logistic", penalty="l1", alpha="0.03*max", tol=1e-3)
        row |= {f"{name} s": time.process_time() - start, f"{name} MB": stack.nbytes / 1e6}
        row |= {f"{name} gap": found.certificate.relative_gap}
        if isinstance(stack, DistinctStack):
            row["among distinct"] = sum(part.n_kernels for part in stack.stacks if part.n_samples < rows)
    return row


def main() -> None:
    """Measure, print and save both tables."""
    options = common.parser(__doc__.split("\n", maxsplit=1)[0]).parse_args()
    rows, rng = SMOKE_ROWS if options.smoke else ROWS, np.random.default_rng(options.seed)
    record = common.environment()
    common.print_environment(record)
    first = units(rows, rng)
    common.print_table(first, f"Unit costs, {rows} rows", {name: ".1e" for name in first.columns[1:]})
    fits(rows, VALUES[0], rng)  # compiles
    second = pd.DataFrame([fits(rows, v, rng) for v in VALUES if v < rows])
    formats = {name: ".0e" if "gap" in name else ".2f" for name in second.columns[2:]}
    common.print_table(second, f"One fit of the default bank on {rows} rows x {COLUMNS} columns", formats)
    common.save(second, record, options.output, "distinct")


if __name__ == "__main__":
    main()
