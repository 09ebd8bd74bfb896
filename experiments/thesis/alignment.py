"""Figure 6.11 of the thesis: how well the kernel of each method is aligned with the labels of the letters' test rows.

    python experiments/thesis/alignment.py --data DIR [--quick] [--repeats N] [--report] [--output DIR] [--page PAGE]

The pairs, sizes and methods of ``real_data.py``. The kernel is that of the model that is best on the validation rows;
the alignment is the centered one, on the first 500 test rows. Every result is a row of ``thesis_alignment_runs.csv`` at
once, and not computed again; ``--report`` computes nothing.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _learners import HINGE, combined, misclassified
from _settings import HINGE_COSTS, LETTER_WIDTHS, STRENGTHS, Settings
from _tasks import LETTERS, Task, load, split
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, cpu_seconds, markdown, report
from experiments.program import command_line

from manykernels.discovery import TargetSpace
from manykernels.exceptions import ConvergenceWarning

CONSOLE = Console(width=140)
RUNS = "thesis_alignment_runs.csv"
KEYS, MEASURED = ("set", "repeat", "method"), ("alignment", "misclassified", "kernels", "cpu_s")
N_ALIGNED = 500
QUICK_SETS, QUICK_CAP = ("Letter C-G", "Letter D-O"), 40
QUICK = {"strengths": (1.0,), "shrinkages": (1e-2,), "kernels": 3, "wide_kernels": 2, "seconds": 0.5}


def measure(method: str, task: Task, settings: Settings) -> dict[str, Any]:
    """Return the alignment of a method's kernel on test rows, and the share of wrong signs of its machine."""
    with cpu_seconds() as spent:
        models = HINGE[method](task, settings, "hinge")
    train = task.train[0]
    wrong = [misclassified(model.scores(task.valid[0], train), task.valid[1]) for model in models]
    best = models[int(np.argmin(wrong))]
    X, y = task.test[0][:N_ALIGNED], task.test[1][:N_ALIGNED]
    close = TargetSpace(y, np.ones(len(y))).alignment(combined(best.specs, best.weights, X)) if best.specs else 0.0
    errors = misclassified(best.scores(task.test[0], train), task.test[1])
    return {"alignment": float(close), "misclassified": errors, "kernels": len(best.specs)} | spent


def compare(ledger: Ledger, arguments: Any) -> None:
    """Compute what the run table lacks."""
    settings = Settings(LETTER_WIDTHS, HINGE_COSTS, **(QUICK if arguments.quick else {"strengths": STRENGTHS}))
    for repeat in range(arguments.repeats):
        for name in QUICK_SETS if arguments.quick else LETTERS:
            data = load(name, arguments.data)
            if data is None:
                continue
            task = split(*data, name, repeat, QUICK_CAP if arguments.quick else None)
            for method in HINGE:
                if (name, repeat, method) not in ledger:
                    ledger.add({"set": name, "repeat": repeat, "method": method} | measure(method, task, settings))
            CONSOLE.log(f"{name}, split {repeat}")


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return alignments, a row a pair of letters with its largest marked, and how often that is of which method."""
    whole = runs.groupby(["set", "repeat"])["method"].transform("nunique") == len(HINGE)
    wide = runs[whole].pivot_table(index="set", columns="method", values="alignment", sort=False)[list(HINGE)]
    rows = [
        [str(name), *(f"{value:.2f}" + "*" * bool(value == row.max()) for value in row)]
        for name, row in wide.iterrows()
    ]
    largest = wide.idxmax(axis=1).value_counts()
    rows.append(["**pairs in which it is the largest**", *(str(largest.get(method, 0)) for method in HINGE)])
    seconds = runs.groupby("method")["cpu_s"].median()
    rows.append(["CPU s, median", *(f"{seconds[method]:.2g}" for method in HINGE)])
    return {"alignments": markdown(["alignment on test rows", *HINGE], rows)}


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(__doc__, "thesis/alignment", quick="two pairs, 40 samples, for a check that everything runs")
    parser.add_argument("--report", action="store_true", help="only write the tables of what is there")
    parser.add_argument("--repeats", type=int, default=1, help="random splits")
    arguments = parser.parse_args()
    output = arguments.output
    ledger = Ledger(output / RUNS, KEYS, MEASURED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # searches that are cut short are part of the comparison
        if not arguments.report:
            compare(ledger, arguments)
    if not ledger.frame().empty:
        CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
