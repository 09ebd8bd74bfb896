"""Which engines earn their lines: time, memory, score and gap of everyday and large tasks, with each switched off.

``python benchmarks/ablation.py [--tasks TEXT ...] [--switches NAME ...] [--repeats 3] [--data DIR] [--source CHECKOUT]
[--smoke] [--output DIR]``

A switch replaces a function that selects an engine by a constant, so that the engine is never selected. A task is one
fit, path or search. Each task runs in a process of its own: first once to load compiled code and to record which
switches change a selection, then as it is and without, in turn. CPU seconds are the minimum over the repeats, ``ratio``
is without over as it is, and memory is the peak added by the fastest run. A switch that changes no selection of a task
is not measured there, for both runs would be the same. The last table has the largest ratio of each switch, of time and
of memory: an engine whose ratios are below 1.5 on every task is to be deleted (CONTRIBUTING). ``--source`` compares
this checkout with another one instead, in processes that take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import _common as common
import group_path
import many_targets
import numpy as np
import pandas as pd
from everyday import BANDS, resident
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from manykernels import (
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    survival_array,
)
from manykernels.datasets import make_mixed_table
from manykernels.kernels import Gaussian

ROOT = Path(__file__).resolve().parents[1]
EARNED = 1.5  # smallest ratio, on any task, at which an engine is kept
SHORT = 0.02  # CPU seconds below which a ratio is noise
SMALL = 50.0  # megabytes below which a ratio of memory is noise
PEAK = Path("/proc/self/clear_refs")


# --- switches -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Switch:
    """Where an engine is selected (``module:attribute`` below ``manykernels``), and what is returned instead."""

    places: tuple[str, ...]
    value: Any

    def changes(self, result: Any) -> bool:
        """Return whether the constant is another result."""
        return not (result is self.value or (type(result) is type(self.value) and result == self.value))


FACTORED, GRAM, SELECTION = "solvers.factored.", "solvers.gram.", "estimators.selection."
SWITCHES = {
    "kinks": Switch((f"{FACTORED}kinks:takes_interior",), False),
    "libsvm": Switch((f"{GRAM}interior_point:suits_libsvm",), False),
    "smooth_dual": Switch((f"{GRAM}smooth_dual:SmoothDual.preference",), ""),
    "quadratic_rows": Switch((f"{FACTORED}newton:descends", f"{FACTORED}kinks:descends"), False),
    "quadratic_bins": Switch((f"{FACTORED}newton:predict_sweep_cost", f"{FACTORED}kinks:predict_sweep_cost"), np.inf),
    "matrix_first": Switch((f"{FACTORED}working_set:matrix_first", f"{FACTORED}working_matrices:matrix_first"), False),
    "averages": Switch((f"{SELECTION}search:can_average", f"{SELECTION}folds:can_average"), False),
    # Without it a search on landmarks tries no averages: the price is a score, not seconds.
    "features_of_averages": Switch((f"{SELECTION}folds:stands_as_features",), False),
    "fewer_kernels": Switch((f"{SELECTION}targets:averages_fewer_kernels",), False),
    "fewer_rows": Switch((f"{SELECTION}choice:select_short_folds",), []),
    "distinct_points": Switch(("grams.repeats:pays",), False),
    "corrected": Switch((f"{FACTORED}newton:correct", f"{FACTORED}quadratic_rows:correctable"), None),
}
ALL = "all at once"


@contextmanager
def replaced(name: str, counted: dict[str, int] | None = None) -> Iterator[None]:
    """Switch an engine off, or with ``counted`` leave it on and count how often switching it off changes a result."""
    switch = SWITCHES[name]
    with ExitStack() as stack:
        for place in switch.places:
            module, _, path = place.partition(":")
            owner: Any = import_module(f"manykernels.{module}")
            *parents, attribute = path.split(".")
            for parent in parents:
                owner = getattr(owner, parent)
            found = vars(owner)[attribute]
            kind = type(found) if isinstance(found, (property, classmethod, staticmethod)) else None
            original = found.fget if kind is property else found.__func__ if kind else found

            def constant(*_: Any, **__: Any) -> Any:
                return switch.value

            def watched(*args: Any, _original: Callable[..., Any] = original, **named: Any) -> Any:
                result = _original(*args, **named)
                assert counted is not None
                counted[name] = counted.get(name, 0) + switch.changes(result)
                return result

            made: Any = constant if counted is None else watched
            stack.enter_context(patch.object(owner, attribute, kind(made) if kind else made))
        yield


def known_switches(names: list[str]) -> list[str]:
    """Return the switches whose places this checkout has."""
    found = []
    for name in names:
        try:
            with replaced(name):
                found.append(name)
        except (ImportError, AttributeError, KeyError):
            common.CONSOLE.print(f"left out: this checkout has no place of the switch {name!r}")
    return found


# --- tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What is fitted, and what then says how good it is: a held-out score and the largest relative gap."""

    fit: Callable[[], Any]
    judge: Callable[[Any], tuple[float, float]]


def fitted(model: Any, X: Any, y: Any, test: int, classes: bool = False) -> Task:
    """Return an estimator on some rows, judged on the others."""
    groups = y if classes else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=test, stratify=groups, random_state=0)

    def judge(found: Any) -> tuple[float, float]:
        return float(found.score(X_test, y_test)), float(found.dual_gap_)

    return Task(lambda: model.fit(X, y), judge)


def bundled(model: Any, load: Callable[..., Any], classes: bool, most: int = 10_000, small: bool = False) -> Task:
    """Return an estimator on data of scikit-learn."""
    X, y = load(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[: 150 if small else most]
    return fitted(model, X[rows], y[rows], len(rows) // 3, classes)


def drawn(model: Any, n: int, columns: int, kind: str = "number", test: int = 1000) -> Task:
    """Return an estimator on normal columns, of which three make a number, two or five classes, or times."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(n + test, columns)))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + np.abs(X[:, 2])
    y: Any = f + rng.normal(size=len(f))
    if kind == "two":
        y = (f + 0.5 * rng.logistic(size=len(f)) > np.median(f)).astype(int)
    elif kind == "five":
        y = np.digitize(f + 0.3 * rng.normal(size=len(f)), np.quantile(f, [0.2, 0.4, 0.6, 0.8]))
    elif kind == "times":
        times, ends = rng.exponential(np.exp(-f)), rng.exponential(np.median(np.exp(-f)) * 2.0, size=len(f))
        y = survival_array(times <= ends, np.minimum(times, ends))
    return fitted(model, X, y, test)


def path(n: int, groups: int, size: int, loss: str) -> Task:
    """Return thirty strengths of the group lasso, judged by R2 or accuracy of the best strength on other rows."""
    X, y = group_path.data(2 * n, groups, size, loss)

    def judge(found: Any) -> tuple[float, float]:
        scores = [own.decision_function(X[n:]) for own in found.solutions]
        right = [np.mean((z > 0) == (y[n:] > 0)) if loss == "logistic" else r2_score(y[n:], z) for z in scores]
        return float(max(right)), float(max(own.certificate.relative_gap for own in found.solutions))

    kind = "squared" if loss == "correlated" else loss
    return Task(lambda: group_path.ours(np.asfortranarray(X[:n]), y[:n], size, kind), judge)


def targets(n: int, count: int) -> Task:
    """Return a search for targets that see one of three feature spaces, judged by the mean R2 on other rows."""
    X, Y = many_targets.draw("sparse", n + many_targets.NEW_ROWS, count)
    return fitted(MKLRegressorCV(many_targets.bank_of()), X, Y, many_targets.NEW_ROWS)


def digits(n: int, kind: type = MKLClassifierCV, **parameters: Any) -> Task:
    """Return a classifier of pictures of ten digits in three bands of rows."""
    X, y = load_digits(return_X_y=True)
    bank = KernelBank.from_views({name: list(range(64)[band]) for name, band in BANDS.items()})
    return fitted(kind(bank, **parameters), X[: n + 400], y[: n + 400], 400, classes=True)


def mixed(n: int) -> Task:
    """Return a search on a table of numbers, categories, dates and gaps."""
    table = make_mixed_table(n + 500, random_state=0)
    return fitted(MKLClassifierCV(KernelBank.auto(missing="mask")), table.X, table.y, 500, classes=True)


def additive(count: int = 5) -> KernelBank:
    """Return Gaussian kernels of each column."""
    return KernelBank.per_feature(widths=np.geomspace(0.3, 3.0, count).tolist(), standardize=True)


def categories(n: int, test: int = 500) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a census-like table: six columns of categories and six of few-valued numbers, with a class."""
    rng = np.random.default_rng(0)
    sizes = [2, 5, 7, 9, 15, 40]
    codes = {f"kind_{size}": rng.integers(size, size=n + test) for size in sizes}
    counts = {f"count_{top}": np.round(rng.gamma(2.0, top / 4.0, size=n + test)) for top in (8, 12, 16, 40, 60, 90)}
    effects = sum(rng.normal(size=40)[own] for own in codes.values()) + sum(
        np.sin(4.0 * own / own.max()) for own in counts.values()
    )
    table = pd.DataFrame({name: pd.Categorical(own) for name, own in codes.items()} | counts)
    return table, (effects + rng.logistic(size=n + test) > np.median(effects)).astype(int)


def many_classes(classes: int) -> Task:
    """Return a search with the hinge loss among classes of nine rows each, thirteen columns."""
    rng = np.random.default_rng(0)
    y = np.arange(13 * classes) % classes
    X = rng.normal(size=(classes, 13))[y] + rng.normal(size=(len(y), 13))
    return fitted(MKLClassifierCV(loss="hinge"), X, y, 4 * classes, classes=True)


def widths_of_all(n: int, loss: str = "squared") -> Task:
    """Return a fit with five Gaussian widths of all columns together, on matrices."""
    bank = KernelBank([(f"width {own:g}", Gaussian(own), list(range(8))) for own in (0.5, 1.0, 2.0, 4.0, 8.0)])
    return drawn(MKLRegressor(bank, loss=loss, resources=MATRICES), n, 8)


FACTORS, MATRICES = {"representation": "factored"}, {"representation": "gram"}
TASKS: dict[str, Callable[[bool], Task]] = {
    # everyday
    "diabetes, fit": lambda small: bundled(MKLRegressor(), load_diabetes, False, small=small),
    "diabetes, search": lambda small: bundled(MKLRegressorCV(), load_diabetes, False, small=small),
    "breast cancer, hinge, fit": lambda small: bundled(
        MKLClassifier(loss="hinge"), load_breast_cancer, True, small=small
    ),
    "breast cancer, search": lambda small: bundled(MKLClassifierCV(), load_breast_cancer, True, small=small),
    "wine, shared weights, search": lambda small: bundled(MKLClassifierCV(outputs="shared"), load_wine, True),
    "digits in three views, search": lambda small: digits(150 if small else 600),
    "mixed table, search": lambda small: mixed(150 if small else 600),
    "elastic net, search": lambda small: bundled(
        MKLClassifierCV(penalty="elasticnet"), load_breast_cancer, True, small=small
    ),
    "quantiles, fit": lambda small: bundled(MKLRegressor(loss="quantile"), load_diabetes, False, small=small),
    "times until events, fit": lambda small: drawn(MKLSurvival(), 100 if small else 400, 4, "times", 100),
    "2,000 rows, grid of strengths": lambda small: drawn(
        MKLRegressorCV(additive(), penalty="l1", n_alphas=8), 200 if small else 2_000, 6
    ),
    "200 x 20 groups, path": lambda small: path(100 if small else 200, 20, 10, "squared"),
    "digits in three views, logistic, shared weights, fit": lambda small: digits(
        150 if small else 1_300, MKLClassifier, loss="logistic", outputs="shared", resources=MATRICES
    ),
    "1,000 rows, logistic, on matrices, fit": lambda small: drawn(
        MKLClassifier(additive(), loss="logistic", resources=MATRICES), 200 if small else 1_000, 10, "two"
    ),
    "1,000 rows, hinge, on matrices, fit": lambda small: drawn(
        MKLClassifier(additive(), loss="hinge", resources=MATRICES), 200 if small else 1_000, 10, "two"
    ),
    "eight classes of few rows, hinge, search": lambda small: many_classes(3 if small else 8),
    "1,500 rows of categories and counts, on matrices, fit": lambda small: fitted(
        MKLClassifier(loss="logistic", resources=MATRICES), *categories(200 if small else 1_500), 500, classes=True
    ),
    "3,000 rows, five widths of all columns, fit": lambda small: widths_of_all(200 if small else 3_000),
    "200 targets of 300 rows, three spaces, search": lambda small: targets(100 if small else 300, 20 if small else 200),
    # large
    "3,000 rows, landmarks of all columns, search": lambda small: drawn(
        MKLRegressorCV(KernelBank.landmarks(count=20 if small else 100), resources=FACTORS),
        300 if small else 3_000,
        5,
    ),
    "20,000 rows, logistic, fit": lambda small: drawn(
        MKLClassifier(additive(), loss="logistic", resources=FACTORS), 400 if small else 20_000, 10, "two"
    ),
    "20,000 rows, hinge, fit": lambda small: drawn(
        MKLClassifier(additive(), loss="hinge", resources=FACTORS), 300 if small else 20_000, 10, "two"
    ),
    "20,000 x 20, grid of strengths": lambda small: drawn(
        MKLRegressorCV(additive(), penalty="l1", n_alphas=8, resources=FACTORS), 300 if small else 20_000, 20
    ),
    "10,000 rows, search": lambda small: drawn(
        MKLRegressorCV(additive(), resources=FACTORS), 300 if small else 10_000, 10
    ),
    "10,000 rows, five classes, hinge, shared": lambda small: drawn(
        MKLClassifier(additive(4), loss="hinge", outputs="shared", resources=FACTORS),
        300 if small else 10_000,
        10,
        "five",
    ),
    "20,000 x 100, fit": lambda small: drawn(
        MKLRegressor(additive(2), alpha="0.05*max", resources=FACTORS), 300 if small else 20_000, 100
    ),
    "3,000 rows, kernels of all columns, fit": lambda small: drawn(
        MKLRegressor(KernelBank.auto()), 200 if small else 3_000, 8
    ),
    "2,000 x 500 groups, correlated, path": lambda small: path(
        *((100, 20) if small else (2_000, 500)), 10, "correlated"
    ),
    "20,000 x 100 groups, logistic, path": lambda small: path(*((100, 20) if small else (20_000, 100)), 10, "logistic"),
    "200 x 2,000 groups of five, path": lambda small: path(*((60, 40) if small else (200, 2_000)), 5, "squared"),
}
SMOKE = ("200 x 20 groups, path",)


# --- measurements -------------------------------------------------------------------------------------------------


def run(task: Task, off: list[str]) -> tuple[float, float, Any]:
    """Fit with some engines switched off; return CPU seconds, megabytes added, and the model."""
    with ExitStack() as stack:
        for name in off:
            stack.enter_context(replaced(name))
        if PEAK.exists():
            PEAK.write_text("5")  # Linux forgets the peak of the run before
        before, started = resident("VmRSS"), time.process_time()
        with common.quiet():
            found = task.fit()
        return time.process_time() - started, (resident("VmHWM") - before) / 2**20, found


def measured(name: str, switches: list[str], repeats: int, small: bool) -> list[dict[str, Any]]:
    """Return a row as it is, and one for each switch that changes a selection."""
    task, counted = TASKS[name](small), dict[str, int]()
    with ExitStack() as stack, common.quiet():
        for switch in switches:
            stack.enter_context(replaced(switch, counted))
        task.fit()
    taken = [switch for switch in switches if counted.get(switch)]
    ways = {switch: [switch] for switch in taken} | ({ALL: taken} if len(taken) > 1 else {})
    rows = []
    for way, off in (ways or {"": []}).items():
        runs: dict[bool, list[tuple[float, float, Any]]] = {False: [], True: []}
        for turn in range(2 * repeats if off else repeats):
            without = bool(off) and turn % 2 == 1
            if without and turn == 1:
                run(task, off)  # loads what is compiled
            seconds, memory, found = run(task, off if without else [])
            runs[without].append((seconds, memory, task.judge(found)))
        best = {which: min(own, key=lambda each: each[0]) for which, own in runs.items() if own}
        is_, other = best[False], best.get(True, (np.nan, np.nan, (np.nan, np.nan)))
        rows.append(
            {"task": name, "without": way, "s": is_[0], "s without": other[0], "ratio": other[0] / is_[0]}
            | {"MB": is_[1], "MB without": other[1], "score": is_[2][0], "score without": other[2][0]}
            | {"gap": is_[2][1], "gap without": other[2][1]}
        )
    return rows


def in_process(name: str, options: argparse.Namespace, source: Path, switches: list[str]) -> list[dict[str, Any]]:
    """Return what a process of its own measures of a task, on the library of some checkout."""
    command = [sys.executable, __file__, "--child", name, "--repeats", str(options.repeats)]
    command += ["--switches", *switches] + (["--smoke"] if options.smoke else [])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source / "src"), str(ROOT / "benchmarks")])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{name} failed on {source}:\n{ended.stderr}")
    rows: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return rows


def compared(names: list[str], options: argparse.Namespace) -> pd.DataFrame:
    """Return both checkouts' CPU seconds, memory, score and gap, in processes that take turns."""
    rows = []
    for name in names:
        runs: dict[str, list[dict[str, Any]]] = {"now": [], "before": []}
        for side, source in 2 * [("now", ROOT), ("before", options.source.resolve())]:
            runs[side] += in_process(name, options, source, [])
        now, before = (min(own, key=lambda row: row["s"]) for own in runs.values())
        rows.append(
            {"task": name, "s before": before["s"], "s now": now["s"], "ratio": now["s"] / before["s"]}
            | {f"{key} before": before[key] for key in ("MB", "score", "gap")}
            | {f"{key} now": now[key] for key in ("MB", "score", "gap")}
        )
        common.CONSOLE.print(f"{name}: {rows[-1]['s before']:.3f} -> {rows[-1]['s now']:.3f} s")
    return pd.DataFrame(rows)


def verdicts(frame: pd.DataFrame, switches: list[str]) -> pd.DataFrame:
    """Return the largest ratios of time and memory of each switch, and whether one of them is enough."""
    rows = []
    for name in switches:
        own = frame[(frame["without"] == name) & (frame["s"] >= SHORT)]
        top = own.loc[own["ratio"].idxmax()] if len(own) else None
        ratio, task = (np.nan, "no task selects it") if top is None else (top["ratio"], top["task"])
        lowest = own["ratio"].min() if len(own) else np.nan
        large = own[own["MB without"] >= SMALL]
        memory = (large["MB without"] / large["MB"].clip(lower=SMALL)).max() if len(large) else np.nan
        rows.append({"switch": name, "tasks": len(own), "lowest": lowest, "highest": ratio, "on": task, "MB": memory})
    found = pd.DataFrame(rows)
    earned = found[["highest", "MB"]].max(axis=1) >= EARNED
    return found.assign(earned=np.where(earned, "yes", "no")).sort_values("highest")


def main() -> int:
    """Measure, print, save."""
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", help="only tasks with one of these texts in their names")
    parser.add_argument("--switches", nargs="*", help="only these switches")
    parser.add_argument("--repeats", type=int, default=3, help="runs as it is, and without")
    parser.add_argument("--source", type=Path, help="another checkout, which this one is compared with")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    switches = list(SWITCHES) if options.switches is None else options.switches
    if options.child:
        print(json.dumps(measured(options.child, switches, options.repeats, options.smoke)))
        return 0
    names = [own for own in TASKS if not options.tasks or any(text in own for text in options.tasks)]
    if options.smoke:
        names, options.repeats = list(SMOKE), 1
    record = common.environment()
    common.print_environment(record)
    formats = {column: ".3g" for column in ("s", "s without", "s before", "s now", "gap", "gap without", "gap now")}
    formats |= {"gap before": ".2g", "lowest": ".2f", "highest": ".2f", "ratio": ".2f"}
    formats |= {f"{key}{side}": ".4g" for key in ("MB", "score") for side in ("", " without", " now", " before")}
    if options.source:
        frame = compared(names, options)
        common.print_table(frame, "Before and now", formats)
        common.save(frame, record, options.output, "ablation_revisions")
        return 0
    switches, rows = known_switches(switches), []
    for name in names:
        rows += in_process(name, options, ROOT, switches)
        told = [f"{row['without']} {row['ratio']:.2f}" for row in rows if row["task"] == name]
        common.CONSOLE.print(f"{name}: {rows[-1]['s']:.3f} s; without {', '.join(told)}")
        common.save(pd.DataFrame(rows), record, options.output, "ablation_smoke" if options.smoke else "ablation")
    frame = pd.DataFrame(rows)
    common.print_table(frame, "As is and without", formats)
    common.print_table(verdicts(frame, [*switches, ALL]), f"Largest ratio; {EARNED} earns the lines", formats)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
