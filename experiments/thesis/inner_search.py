"""How far the search for one width a feature should climb: GCD-2s (nD) of 6.2.2 and 6.3 of the thesis, cut short.

    python experiments/thesis/inner_search.py --data DIR [--quick] [--repeats N] [--report] [--output DIR]

The thesis searches with one width a feature by MATLAB's ``fmincon`` and does not say with which tolerances or how many
iterations. Here the climb of every inner search ends after 1, 2, 3, 5 or 10 iterations of L-BFGS-B, or at its end; or
it starts from one and from five points; or the number of iterations is chosen, with the cost of the machine, on the
validation rows; or, on the smaller sets, it ends where a step raises the objective by less than a share of its first
value. Everything else is as in ``real_data.py``, whose splits these are. Every result is a row of
``thesis_inner_search_runs.csv`` at once, and not computed again; ``--report`` computes nothing. Then writes
``tables.md``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from _learners import Model, combined, evaluate, machines
from _ranks import ranked, ranks
from _settings import HINGE_COSTS, RIDGE_COSTS, STANDARDIZED, WHOLE, Settings
from _tasks import SETS, Task, load, split
from rich.console import Console
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report
from experiments.program import command_line

from manykernels.discovery import AscentSettings, FamilySearch, SearchSettings, align_family
from manykernels.discovery.families import search as climbs
from manykernels.exceptions import ConvergenceWarning

CONSOLE = Console(width=140)
RUNS = "thesis_inner_search_runs.csv"
KEYS = ("loss", "set", "repeat", "method")
MEASURED = ("misclassified", "squared", "cpu_s", "kernels", "correlation")
TO_ITS_END = "to its end"
STEPS: dict[str, tuple[int | None, int]] = {  # iterations of a climb, and starting points
    "1 step": (1, 1),
    "2 steps": (2, 1),
    "3 steps": (3, 1),
    "5 steps": (5, 1),
    "10 steps": (10, 1),
    TO_ITS_END: (None, 1),
    "5 starts": (None, 5),
}
CHOSEN, ONE_WIDTH = "steps chosen", "one width"
METHODS = (*STEPS, CHOSEN, ONE_WIDTH)
# Of the first objective: least gain of a step. fmincon has 1e-6 of one, 1e-5 of values such as those of the thesis.
TOLERANCES = {f"gain {gain:g}": gain for gain in (0.1, 0.01, 1e-3, 1e-5)}
COMPARED = (*TOLERANCES, TO_ITS_END, CHOSEN, ONE_WIDTH)  # in the table of tolerances
SMALL = ("sonar", "thyroid", "breast cancer", "heart", "ionosphere", "diabetes", "german")
LARGE = ("image seg.", "splice", "banana", "ringnorm", "waveform")
QUICK_SETS, QUICK_CAP = ("heart", "thyroid"), 40


@contextmanager
def climbs_ending(gain: float | None) -> Iterator[None]:
    """Let climbs end with a step that gains less than this share of their first objective; None for the library's."""

    def ended(*positional: Any, options: dict[str, Any], **named: Any) -> Any:
        return minimize(*positional, options=options | {"ftol": gain}, **named)

    with patch.object(climbs, "minimize", minimize if gain is None else ended):
        yield


def kernels_of(task: Task, settings: Settings, wide: bool, steps: int | None, starts: int) -> tuple[list[Any], Any]:
    """Return the kernels of the first stage (Algorithm 8) and their weights."""
    X, y = task.train
    family = settings.family(wide)
    search = FamilySearch(family, X, SearchSettings(n_starts=starts, max_steps=steps))
    found = align_family(
        search, y, np.ones(len(y)), limits=settings.limits(wide), random_state=0, criterion="distance",
        ascent=AscentSettings("published"),
    )  # fmt: skip
    return [family.spec(parameter) for parameter in found.parameters], found.weights


def learn(method: str, task: Task, settings: Settings, loss: str) -> list[Model]:
    """Return the machines on the kernel of a method; those of all numbers of steps where validation is to choose."""
    if method == ONE_WIDTH:
        return machines(task, settings, loss, *kernels_of(task, settings, False, None, 5))
    if method in TOLERANCES:
        with climbs_ending(TOLERANCES[method]):
            return machines(task, settings, loss, *kernels_of(task, settings, True, *STEPS[TO_ITS_END]))
    if method != CHOSEN:
        return machines(task, settings, loss, *kernels_of(task, settings, True, *STEPS[method]))
    lengths = [(steps, starts) for steps, starts in STEPS.values() if starts == 1]
    return [
        model for each in lengths for model in machines(task, settings, loss, *kernels_of(task, settings, True, *each))
    ]


def alignment_of(task: Task, settings: Settings, method: str) -> float:
    """Return the cosine of the learned kernel and the labels' on the training rows: how closely the search fits."""
    wide, effort = method != ONE_WIDTH, STEPS[TO_ITS_END] if method in TOLERANCES else STEPS.get(method, (None, 5))
    with climbs_ending(TOLERANCES.get(method)):
        specs, weights = kernels_of(task, settings, wide, *effort)
    X, y = task.train
    gram = combined(specs, weights, X)
    centered = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    labels = y - y.mean()
    return float(labels @ centered @ labels / (np.linalg.norm(centered) * (labels @ labels)))


def compare(names: list[str], arguments: Any, ledger: Ledger) -> None:
    """Compute what the run table lacks."""
    cap = QUICK_CAP if arguments.quick else None
    changes: dict[str, Any] = {"kernels": 3, "wide_kernels": 2, "seconds": 0.5} if arguments.quick else {}
    for repeat in range(arguments.repeats):
        for name in names:
            data = load(name, arguments.data)
            if data is None or (name in LARGE and repeat >= arguments.large_repeats):
                continue
            task = split(*data, name, repeat, cap)
            for loss, widths, costs in (("hinge", STANDARDIZED, HINGE_COSTS), ("squared", WHOLE, RIDGE_COSTS)):
                settings = Settings(widths, costs, (1.0,), **changes)
                for method in (*METHODS, *(() if name in LARGE else TOLERANCES)):
                    if (loss, name, repeat, method) in ledger:
                        continue
                    row = {"loss": loss, "set": name, "repeat": repeat, "method": method}
                    errors = evaluate(partial(learn, method), task, settings, loss)
                    close = np.nan if method == CHOSEN else alignment_of(task, settings, method)
                    ledger.add(row | errors | {"correlation": close})
            CONSOLE.log(f"{name}, split {repeat}")


def tables(results: pd.DataFrame) -> dict[str, str]:
    """Return the tables of the page: wrong signs of 6.2.2, squared errors of 6.3, and how closely the searches fit."""
    texts = {}
    for name, methods in {"": METHODS, ", tolerances": COMPARED}.items():
        close, kept = {}, [method for method in methods if method != CHOSEN]
        for loss, error in (("hinge", "misclassified"), ("squared", "squared")):
            own = results[results["loss"] == loss].set_index(["set", "repeat"])
            wide = own.pivot_table(index=["set", "repeat"], columns="method", values=error, sort=False)
            wide = wide.reindex(columns=list(methods)).dropna()
            if wide.empty:
                continue
            by_method = own.loc[own.index.isin(wide.index)].groupby("method")
            table = ranked(wide, ranks(wide), by_method["cpu_s"].median(), error == "misclassified")
            texts[f"inner search{name}, {loss}"] = table
            close[loss] = by_method["correlation"].median()[kept]
        lines = [[loss, *(f"{value:.2f}" for value in row)] for loss, row in close.items()]
        if lines:
            texts[f"alignment{name}"] = markdown(["median alignment on the training rows", *kept], lines)
    return texts


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(
        __doc__, "thesis/inner_search", quick="two sets, 40 samples, for a check that everything runs"
    )
    parser.add_argument("--report", action="store_true", help="only write the tables of what is there")
    parser.add_argument("--repeats", type=int, default=10, help="random splits of the smaller sets")
    parser.add_argument("--large-repeats", type=int, default=2, help="of those with 500 samples to train")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these, with commas between")
    arguments = parser.parse_args()
    output = arguments.output
    arguments.repeats = 1 if arguments.quick else arguments.repeats
    names = arguments.sets or list(QUICK_SETS if arguments.quick else (*SMALL, *LARGE))
    unknown = sorted(set(names) - set(SETS))
    if unknown:
        parser.error(f"there is no set {', '.join(unknown)}; there are {', '.join(SETS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # searches that are cut short are what is compared
        if not arguments.report:
            compare(names, arguments, Ledger(output / RUNS, KEYS, MEASURED))
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
