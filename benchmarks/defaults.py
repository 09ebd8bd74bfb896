"""Whether untouched estimators are good: the defaults that failed, before and after, and what other fractions would do.

``python benchmarks/defaults.py [--data DIR] [--rows 200 800] [--penalties l1 ridge] [--smoke] [--output DIR]``

First table: banks and targets on which untouched estimators failed when ``alpha`` was 0.01 and traces were 1, with
those settings given as numbers (before) and untouched (after). Second table: held-out accuracy or R2 of the default
bank at multiples of the default strength, mean over splits. Third: for each multiple what it loses, in the mean over
the sets, to the best multiple of each. Sets that are not in the folder of ``--data`` are left out, with a line.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier, MKLRegressor
from manykernels.estimators.strength import SHARE
from manykernels.kernels import Gaussian

FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # times the default fraction
CLASSES = (
    *("breast_cancer", "wine", "iris", "ionosphere", "sonar", "pima", "liver", "heart_statlog", "thyroid_ida"),
    *("banana", "titanic", "flare_solar", "breast_cancer_ida", "svmguide1"),
)
NUMBERS = ("diabetes", "autompg", "concrete", "yacht", "energy", "kin8nh", "abalone", "winequality_red", "cpu_small")
BUNDLED = ("breast_cancer", "wine", "iris", "digits", "diabetes")
MOST_TEST_ROWS = 1000
TOL = 1e-3  # of the sweep; the first table has the default


@dataclass(frozen=True)
class Data:
    """A table with its target, split once a seed."""

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: bool

    def split(self, rows: int, seed: int) -> list[np.ndarray]:
        """Return training and test rows, at most ``rows`` and 70 % to train on."""
        n_train = min(rows, int(0.7 * len(self.y)))
        return train_test_split(
            self.X,
            self.y,
            train_size=n_train,
            test_size=min(MOST_TEST_ROWS, len(self.y) - n_train),
            stratify=self.y if self.classes else None,
            random_state=seed,
        )


def load(name: str, folder: Path, *, classes: bool) -> Data | None:
    """Return a set of scikit-learn or of the folder; None, with a line, if it is not there."""
    if name in BUNDLED:
        return Data(name, *getattr(datasets, f"load_{name}")(return_X_y=True), classes)
    if not (folder / f"{name}.npz").is_file():
        common.CONSOLE.print(f"left out: there is no {folder / name}.npz")
        return None
    with np.load(folder / f"{name}.npz", allow_pickle=False) as held:
        return Data(name, held["X"].astype(np.float64), held["y"], classes)


# --- before and after -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Untouched settings on a split, and the numbers that they used to be."""

    name: str
    data: Data
    after: Any
    before: Any
    rows: int = 10**6
    unit: float = 1.0


def cases(folder: Path, smoke: bool) -> Iterator[Case]:
    """Yield the defaults that failed."""
    cancer = load("breast_cancer", folder, classes=True)
    banks = {
        "KernelBank.default()": KernelBank.default,
        "KernelBank.simplemkl()": KernelBank.simplemkl,
        "KernelBank.per_feature(Gaussian(1.0))": lambda **options: KernelBank.per_feature(Gaussian(1.0), **options),
    }
    old = {"alpha": 0.01}
    yield Case("breast cancer, no bank", cancer, MKLClassifier(), MKLClassifier(**old))
    for name, bank in banks.items():
        if not (smoke and "simplemkl" in name):
            before = MKLClassifier(bank(normalize="trace"), **old)
            yield Case(f"breast cancer, {name}", cancer, MKLClassifier(bank()), before)
    diabetes = load("diabetes", folder, classes=False)
    for unit, name in ((1.0, "y"), (0.01, "y / 100")):
        yield Case(f"diabetes, {name}", diabetes, MKLRegressor(), MKLRegressor(**old), unit=unit)
    if smoke:
        return
    digits = load("digits", folder, classes=True)
    quadrants = {f"quadrant {k}": np.flatnonzero(_quadrant() == k).tolist() for k in range(4)}
    yield Case("digits, from_views of 4 quadrants", digits, *_of_views(quadrants), rows=900)
    leaves = load("leaves100", folder, classes=True)
    if leaves is not None:
        views = {f"view{v}": list(range(64 * v, 64 * (v + 1))) for v in range(3)}
        before = MKLClassifier(KernelBank.from_views(views), **old)
        yield Case("100 leaves, from_views", leaves, _of_views(views)[0], before, rows=1100)


def _quadrant() -> np.ndarray:
    row, column = np.divmod(np.arange(64), 8)
    return 2 * (row // 4) + column // 4


def _of_views(views: dict[str, list[int]]) -> tuple[Any, Any]:
    before = MKLClassifier(KernelBank.from_views(views, normalize="trace"), alpha=0.01)
    return MKLClassifier(KernelBank.from_views(views)), before


def before_and_after(folder: Path, seeds: range, smoke: bool) -> pd.DataFrame:
    """Return the scores of both on the same splits, and how many kernels an average class or target has."""
    rows = []
    for case in cases(folder, smoke):
        row: dict[str, Any] = {"case": case.name}
        for when, model in (("before", case.before), ("after", case.after)):
            scores, empty = [], 0
            for seed in seeds:
                X_train, X_test, y_train, y_test = case.data.split(case.rows, seed)
                if case.unit != 1.0:
                    y_train, y_test = case.unit * y_train, case.unit * y_test
                scores.append(_fitted(model, X_train, y_train).score(X_test, y_test))
                empty += int((np.atleast_2d(model.kernel_weights_).max(axis=1) == 0).sum())
            row |= {when: float(np.mean(scores)), f"empty {when}": empty / len(seeds)}
        rows.append(row)
    return pd.DataFrame(rows)


def _fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the table says how many are empty
        return model.fit(X, y)


# --- other fractions ------------------------------------------------------------------------------------------------


def sweep(data: Data, penalty: str, rows: int, seeds: range) -> dict[str, Any]:
    """Return the mean score of the default bank at each multiple of the default strength."""
    scores = np.zeros(len(FACTORS))
    for seed in seeds:
        X_train, X_test, y_train, y_test = data.split(rows, seed)
        for place, factor in enumerate(FACTORS):
            alpha = f"{factor * SHARE / np.sqrt(len(y_train)):.6g}*max"
            kind = MKLClassifier if data.classes else MKLRegressor
            model = _fitted(kind(penalty=penalty, alpha=alpha, tol=TOL), X_train, y_train)
            scores[place] += model.score(X_test, y_test) / len(seeds)
    found = {f"x {factor:g}": score for factor, score in zip(FACTORS, scores, strict=True)}
    return {"set": data.name, "penalty": penalty, "rows": len(y_train), **found}


def losses(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what each multiple loses to the best of each set, in the mean over the sets of a row."""
    multiples = [name for name in frame if name.startswith("x ")]
    lost = frame[multiples].rsub(frame[multiples].max(axis=1), axis=0)
    kind = np.where(frame["set"].isin(CLASSES), "accuracy", "R2")
    groups = [frame["penalty"], pd.Series(kind, name="score", index=frame.index)]
    return lost.groupby([*groups, frame["asked"].rename("at most rows")], sort=False).mean().reset_index()


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Untouched estimators, before and after, and other strengths.")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 800], help="most training rows")
    parser.add_argument("--penalties", nargs="+", default=["l1", "ridge"], help="penalties of the sweep")
    parser.add_argument("--splits", type=int, default=2, help="random splits a set")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    seeds = range(options.seed, options.seed + (1 if options.smoke else options.splits))
    failed = before_and_after(options.data, seeds, options.smoke)
    common.print_table(failed, "Untouched", {"before": ".3f", "after": ".3f"})
    common.save(failed, record, options.output, "defaults_failed")
    named = [(name, True) for name in CLASSES] + [(name, False) for name in NUMBERS]
    if options.smoke:
        named, options.rows, options.penalties = [("wine", True), ("diabetes", False)], [60], ["l1"]
    sets = [found for name, classes in named if (found := load(name, options.data, classes=classes)) is not None]
    rows = [
        sweep(data, penalty, most, seeds) | {"asked": most}
        for penalty in options.penalties
        for most in options.rows
        for data in sets
        if most == min(options.rows) or 0.7 * len(data.y) > min(options.rows)
    ]
    frame = pd.DataFrame(rows)
    shown = {name: ".3f" for name in frame if name.startswith("x ")}
    common.print_table(frame.drop(columns="asked"), "Scores at multiples of the default strength", shown)
    common.print_table(losses(frame), "Lost to the best multiple of each set, in the mean", shown)
    common.save(frame, record, options.output, "defaults_sweep")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
