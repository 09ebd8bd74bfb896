"""Why SGD-1s with one width a feature is behind on thyroid (6.1.5 and 6.3 of the thesis): how its draws are weighed.

    python experiments/thesis/sampled_widths.py --data DIR [--quick] [--sets NAMES] [--repeats N] [--output DIR]

Algorithm 4 draws a width a feature and divides the gradient of the kernel by the density of all of them, a product with
as many factors as features. Compares SGD-1s with few and many draws, with another seed, with densities of the logarithm
of a width, and with weights that are optimal on the kernels drawn; tells how much of all weight the largest one has.
Every fit is a row of ``thesis_sampled_widths_runs.csv``; ``--report`` computes nothing.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from _learners import Model, best_of, misclassified, model_of, squared_error
from _settings import RIDGE_COSTS, STRENGTHS, WHOLE, Settings
from _tasks import SETS, Task, load, split
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report
from experiments.program import command_line

from manykernels.discovery import Limits, SearchProblem, SearchSettings, discover_by_sampling
from manykernels.discovery.one_stage import discovery
from manykernels.exceptions import ConvergenceWarning

CONSOLE = Console(width=140)
RUNS, KEYS = "thesis_sampled_widths_runs.csv", ("set", "repeat", "method")
MEASURED = ("squared", "misclassified", "cpu_s", "kernels", "share", "effective")
QUICK_CAP = 40


@dataclass(frozen=True)
class Method:
    """SGD-1s: widths a kernel has, draws, seed, whether weights are found anew, densities of the width or its log."""

    wide: bool
    draws: int
    seed: int = 0
    corrective: bool = False
    logarithms: bool = False

    def models(self, task: Task, strengths: Sequence[float], most: int) -> list[Model]:
        """Return a model a strength."""
        family = Settings(WHOLE, RIDGE_COSTS, STRENGTHS).family(self.wide)
        common: dict[str, Any] = {"settings": SearchSettings(n_starts=1 if self.wide else 5), "limits": Limits(1e-4)}
        common |= {"n_draws": min(self.draws, most), "corrective": self.corrective, "random_state": self.seed}
        drawn = logarithmic if self.logarithms else discovery.draw_widths
        with patch.object(discovery, "draw_widths", drawn):
            return [
                model_of(discover_by_sampling(SearchProblem(*task.train, "squared", strength=s), family, **common))
                for s in strengths
            ]


ORIGINAL_DRAWS = discovery.draw_widths


def logarithmic(*given: Any) -> discovery.Draw:
    """Draw widths as SGD-1s does, and tell the density of their logarithms: wide widths are not rare there."""
    drawn = ORIGINAL_DRAWS(*given)
    return discovery.Draw(drawn.parameter, drawn.log_density + float(np.sum(np.log(drawn.parameter))))


METHODS = {
    "one width": Method(False, 50),
    "one a feature": Method(True, 20),
    "2 draws": Method(True, 2),
    "100 draws": Method(True, 100),
    "another seed": Method(True, 20, seed=1),
    "densities of logarithms": Method(True, 20, logarithms=True),
    "optimal weights": Method(True, 20, corrective=True),
}


def measure(method: Method, task: Task, strengths: Sequence[float], most: int) -> dict[str, float]:
    """Return errors of the model that is best on the validation set, and how its weights are spread."""
    started = time.process_time()
    best = best_of(method.models(task, strengths, most), task, squared_error)
    seconds = time.process_time() - started
    scores, y = best.scores(task.test[0], task.train[0]), task.test[1]
    shares = best.weights / max(float(np.sum(best.weights)), np.finfo(float).tiny)
    return {
        "squared": squared_error(scores, y),
        "misclassified": misclassified(scores, y),
        "cpu_s": seconds,
        "kernels": len(best.specs),
        "share": float(shares.max(initial=0.0)),
        "effective": 1.0 / max(float(shares @ shares), np.finfo(float).tiny),
    }


def compare(names: list[str], arguments: Any, ledger: Ledger) -> None:
    """Compute what the run table lacks."""
    strengths, most = ((1.0,), 2) if arguments.quick else (STRENGTHS, sys.maxsize)
    for repeat in range(arguments.repeats):
        for name in names:
            data = load(name, arguments.data)
            if data is None:
                continue
            task = split(*data, name, repeat, QUICK_CAP if arguments.quick else None)
            for label, method in METHODS.items():
                if (name, repeat, label) not in ledger:
                    place = {"set": name, "repeat": repeat, "method": label}
                    ledger.add(place | measure(method, task, strengths, most))
            CONSOLE.log(f"{name}, split {repeat}")


def tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return, for each set, errors and the spread of weights, a row a method."""
    made = {}
    for name, own in runs.groupby("set", sort=False):
        rows = []
        for method, part in own.groupby("method", sort=False):
            errors = part["squared"]
            cells = [f"{errors.mean():.3f}", f"{errors.min():.3f} to {errors.max():.3f}"]
            cells += [f"{100 * part['misclassified'].mean():.1f}", f"{part['share'].median():.3g}"]
            rows.append([str(method), *cells, f"{part['effective'].median():.2g}", f"{part['cpu_s'].median():.2g}"])
        head = ["squared error", "range", "misclassified, %", "share of the largest weight", "effective kernels"]
        splits = f"SGD-1s on {name} ({own['repeat'].nunique()} splits)"
        made[f"sampled widths, {name}"] = markdown([splits, *head, "CPU s"], rows)
    return made


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run the comparison from the command line."""
    parser = command_line(__doc__, "thesis/sampled_widths", quick="one split, 40 samples, two draws")
    parser.add_argument("--report", action="store_true", help="only write the tables of what is there")
    parser.add_argument("--repeats", type=int, default=5, help="random splits")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=["thyroid"], help="with commas between")
    arguments = parser.parse_args()
    arguments.repeats = 1 if arguments.quick else arguments.repeats
    if unknown := sorted(set(arguments.sets) - set(SETS)):
        parser.error(f"there is no set {', '.join(unknown)}; there are {', '.join(SETS)}")
    output = arguments.output
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # searches that are cut short are what is compared
        if not arguments.report:
            compare(arguments.sets, arguments, Ledger(output / RUNS, KEYS, MEASURED))
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
