"""How far the search for one width a feature should climb: GCD-2s (nD) of 6.2.2 and 6.3 of the thesis, cut short.

    python experiments/thesis/inner_search.py --data DIR [--quick] [--repeats N] [--report] [--output DIR]

The thesis searches with one width a feature by MATLAB's ``fmincon`` and does not say with which tolerances or how many
iterations. Here the climb of every inner search ends after 1, 2, 3, 5 or 10 iterations of L-BFGS-B, or at its end; or
it starts from one and from five points; or the number of iterations is chosen, with the cost of the machine, on the
validation rows. Everything else is as in ``real_data.py``, whose splits these are. Every result is a row of
``thesis_inner_search_runs.csv`` at once, and not computed again; ``--report`` computes nothing. Then writes
``tables.md``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _learners import Model, combined, evaluate, machines
from _ranks import ranked, ranks
from _settings import HINGE_COSTS, RIDGE_COSTS, STANDARDIZED, WHOLE, Settings
from _tasks import SETS, Task, load, split
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report

from manykernels.discovery import AscentSettings, FamilySearch, SearchSettings, align_family
from manykernels.exceptions import ConvergenceWarning

CONSOLE = Console(width=140)
RUNS = "thesis_inner_search_runs.csv"
KEYS = ("loss", "set", "repeat", "method")
MEASURED = ("misclassified", "squared", "cpu_s", "kernels", "correlation")
STEPS: dict[str, tuple[int | None, int]] = {  # iterations of a climb, and starting points
    "1 step": (1, 1),
    "2 steps": (2, 1),
    "3 steps": (3, 1),
    "5 steps": (5, 1),
    "10 steps": (10, 1),
    "to its end": (None, 1),
    "5 starts": (None, 5),
}
CHOSEN, ONE_WIDTH = "steps chosen", "one width"
METHODS = (*STEPS, CHOSEN, ONE_WIDTH)
SMALL = ("sonar", "thyroid", "breast cancer", "heart", "ionosphere", "diabetes", "german")
LARGE = ("image seg.", "splice", "banana", "ringnorm", "waveform")
QUICK_SETS, QUICK_CAP = ("heart", "thyroid"), 40


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
    if method != CHOSEN:
        return machines(task, settings, loss, *kernels_of(task, settings, True, *STEPS[method]))
    lengths = [(steps, starts) for steps, starts in STEPS.values() if starts == 1]
    return [
        model for each in lengths for model in machines(task, settings, loss, *kernels_of(task, settings, True, *each))
    ]


def alignment_of(task: Task, settings: Settings, method: str) -> float:
    """Return the cosine of the learned kernel and the labels' on the training rows: how closely the search fits."""
    wide, effort = method != ONE_WIDTH, STEPS.get(method, (None, 5))
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
                for method in METHODS:
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
    for loss, error in (("hinge", "misclassified"), ("squared", "squared")):
        own = results[results["loss"] == loss]
        wide = own.pivot_table(index=["set", "repeat"], columns="method", values=error, sort=False)
        wide = wide.reindex(columns=list(METHODS)).dropna()
        if len(wide):
            seconds = own.groupby("method")["cpu_s"].median()
            texts[f"inner search, {loss}"] = ranked(wide, ranks(wide), seconds, error == "misclassified")
    close = results[results["method"] != CHOSEN].groupby(["loss", "method"])["correlation"].median().unstack()
    close = close.reindex(columns=[method for method in METHODS if method != CHOSEN])
    lines = [[str(loss), *(f"{value:.2f}" for value in row)] for loss, row in close.iterrows()]
    return texts | {"alignment": markdown(["median alignment on the training rows", *close.columns], lines)}


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of archives; without it sets are fetched from OpenML")
    parser.add_argument("--quick", action="store_true", help="two sets, 40 samples, for a check that everything runs")
    parser.add_argument("--report", action="store_true", help="only write the tables of what is there")
    parser.add_argument("--repeats", type=int, default=10, help="random splits of the smaller sets")
    parser.add_argument("--large-repeats", type=int, default=2, help="of those with 500 samples to train")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these, with commas between")
    parser.add_argument("--output", default="experiments/results/thesis/inner_search", help="folder for results")
    parser.add_argument("--page", type=Path, help="page whose tables, between two comments, are replaced")
    arguments = parser.parse_args()
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
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
