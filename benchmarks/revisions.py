"""Whether anything small became slower: other benchmarks by two checkouts in turn, and the ratios of CPU seconds.

``python benchmarks/revisions.py --source BEFORE [--cells NAME ...] [--rounds 3] [--repeats 2] [--smoke]``

``BEFORE`` is another checkout, as ``git archive REVISION | tar x -C BEFORE`` leaves it. Each checkout runs benchmark
scripts of its own, so that names may differ, in processes that take turns; every process runs its script ``--repeats``
times, the first of which pays for what is loaded. The best time of a row counts; sums are over the rows that both have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import _common as common
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
SETS = "heart_statlog,sonar,ionosphere,pima,concrete,energy"
CELLS = {
    "solvers": "solvers.py --kernels 50 --constants 0.05 --gaps 1e-4",
    "breast_cancer": "breast_cancer.py --smoke",
    "factored": "factored.py --problem table --smoke",
    "shared_weights": "shared_weights.py --smoke",
    "survival": "survival.py --smoke",
    "pairs": "pairs.py --smoke",
    "accuracy": f"accuracy.py --rows 100 --splits 1 --sets {SETS}",  # rivals run too: the older one has no --methods
}
# What says which row this is, in the tables of the benchmarks above.
KEYS = ["problem", "storage", "loss", "penalty", "rows", "columns", "method", "data", "alpha", "weights", "set"]
OURS = "MKL"  # rows of methods that other libraries fit are left out
# Runs a script again and again in one process, and notes CPU seconds of its fits where it writes no table of them.
CHILD = """
import importlib, json, sys, time, warnings
warnings.simplefilter("ignore")
script, repeats, notes = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sys.argv = [script, *sys.argv[4:]]
import manykernels
fit, seconds = manykernels.MKLSurvival.fit, []
def timed(*args, **named):
    start = time.process_time()
    try:
        return fit(*args, **named)
    finally:
        seconds.append(time.process_time() - start)
manykernels.MKLSurvival.fit = timed
found, module = [], importlib.import_module(script.removesuffix(".py"))
from pathlib import Path
for _ in range(repeats):
    seconds.clear()
    module.main()
    tables = sorted(Path(notes).glob("*.json"))
    found.append({table.stem: json.loads(table.read_text())["rows"] for table in tables if table.stem != "found"})
    if seconds:
        found[-1]["survival"] = [{"problem": f"fit {k}", "cpu_s": value} for k, value in enumerate(seconds, 1)]
(Path(notes) / "found.json").write_text(json.dumps(found))
"""


def measured(source: Path, cell: str, repeats: int, data: Path) -> pd.DataFrame:
    """Return CPU seconds of every row of a cell, by a process on this checkout: the best of some runs."""
    script, *options = CELLS[cell].split()
    options += ["--data", str(data)] if cell == "accuracy" else []
    with tempfile.TemporaryDirectory() as folder:
        options += [] if cell == "survival" else ["--output", folder]
        paths = os.pathsep.join([str(source / "src"), str(source / "benchmarks")])
        command = [sys.executable, "-c", CHILD, script, str(repeats), folder, *options]
        ended = subprocess.run(
            command, cwd=source, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
        )
        found = Path(folder) / "found.json"
        if not found.exists():
            raise SystemExit(f"{script} failed in {source}:\n{ended.stderr}")
        runs = json.loads(found.read_text())
    rows = [
        {"cell": cell, "row": named(table, row, number), "cpu_s": row["cpu_s"]}
        for run in runs
        for table, listed in run.items()
        for number, row in enumerate(listed)
        if row.get("cpu_s") is not None and str(row.get("method", OURS)).lower().startswith(("mkl", "manykernels"))
    ]
    return pd.DataFrame(rows).groupby(["cell", "row"], sort=False, as_index=False).min()


def named(table: str, row: dict[str, object], number: int) -> str:
    """Return what a row of a table is called."""
    parts = [f"{row[key]}" for key in KEYS if row.get(key) is not None]
    return f"{table} {number}: {', '.join(parts)}"


def compared(before: Path, cells: list[str], rounds: int, repeats: int, data: Path) -> pd.DataFrame:
    """Return the best CPU seconds of both checkouts and their ratio, a row for each row of the cells."""
    sides: dict[str, list[pd.DataFrame]] = {"before": [], "now": []}
    for cell in cells:
        for turn in range(rounds):
            for side, source in (("before", before), ("now", ROOT)):
                sides[side].append(measured(source, cell, repeats, data))
            common.CONSOLE.print(f"{cell}: round {turn + 1} of {rounds}")
    best = {
        side: pd.concat(parts).groupby(["cell", "row"], sort=False)["cpu_s"].min().rename(side)
        for side, parts in sides.items()
    }
    frame = pd.concat(list(best.values()), axis=1).reset_index()
    return frame.assign(ratio=frame["now"] / frame["before"])


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of every cell over the rows that both checkouts have, with how many only one of them has."""
    both = frame["ratio"].notna()
    cells = frame["cell"].unique()
    sums = frame[both].groupby("cell")[["before", "now"]].sum().reindex(cells)
    alone = frame[~both].groupby("cell").size().reindex(cells, fill_value=0)
    return sums.assign(ratio=sums["now"] / sums["before"], rows_of_one=alone).reset_index()


def main() -> int:
    """Measure, print and save; return 1 if a cell is more than 5 % slower in sum."""
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, help="the checkout to compare with; this one if left out")
    parser.add_argument("--cells", nargs="+", choices=tuple(CELLS), default=list(CELLS), help="which benchmarks")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each checkout")
    parser.add_argument("--repeats", type=int, default=2, help="runs in each process")
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of sets, of accuracy"
    )
    options = parser.parse_args()
    cells, rounds = (["survival"], 1) if options.smoke else (options.cells, options.rounds)
    record = common.environment()
    common.print_environment(record)
    before = (options.source or ROOT).resolve()
    frame = compared(before, cells, rounds, options.repeats, options.data)
    formats = {"before": ".4f", "now": ".4f", "ratio": ".2f"}
    common.print_table(frame, "CPU seconds, best of all runs", formats)
    sums = totals(frame)
    common.print_table(sums, "Sums", formats)
    common.save(frame, record, options.output, "revisions")
    return 0 if options.smoke else int((sums["ratio"] > 1.05).any())


if __name__ == "__main__":
    raise SystemExit(main())
