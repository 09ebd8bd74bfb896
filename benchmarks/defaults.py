"""Whether untouched estimators are good: the defaults that failed, before and after, and what other strengths would do.

``python benchmarks/defaults.py [--data DIR] [--rows 200 800] [--penalties l1 ridge] [--raised]
[--orders] [--smoke] [--output DIR]``

First table: banks and targets on which untouched estimators failed when ``alpha`` was 0.01 and traces were 1, with
those settings given as numbers (before) and untouched (after). Second table: held-out accuracy or R2 of the default
bank, mean over splits, at ``0.5 / sqrt(n)`` of the strength at which the model is empty, which was the default before,
and at multiples of the strength at which the model of y in random order is; beside each the number of kernels. Weak
effects, noise and many targets are among the sets. Third: what each strength loses, in the mean over the sets, to the
best of each. Sets that are not in the folder of ``--data`` are left out, with a line.

``--raised`` prints another table instead: splits on which most kernels are noise, so that an untouched fit takes more
than 0.2 noise, and the scores of both; of more sets, some of which have columns that say nothing.

``--orders`` prints how much an untouched fit changes with the order of its rows, to which random orders of y are
applied, with ``random_state``, which draws them, ten of each on six sets, at most 600 rows to learn from, and from ten
times 5 % more rows to the next, up to 150, 600 and 2,400.
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
from manykernels.kernels import Gaussian

NOISE = (0.05, 0.1, 0.2, 0.35, 0.5)  # times the strength at which the model of y in random order is empty
CLASSES = (
    *("breast_cancer", "wine", "iris", "ionosphere", "sonar", "pima", "liver", "heart_statlog", "thyroid_ida"),
    *("banana", "titanic", "flare_solar", "breast_cancer_ida", "svmguide1"),
)
NUMBERS = ("diabetes", "autompg", "concrete", "yacht", "energy", "kin8nh", "abalone", "winequality_red", "cpu_small")
MORE_CLASSES = ("german_ida", "image_ida", "splice_ida", "spambase", "twonorm", "waveform", "svmguide3", "adult_a9a")
MORE_NUMBERS = ("puma8nh", "puma32nm", "kin32nh", "cpu_act", "winequality_white")
ORDERED = {name: name in MORE_CLASSES + CLASSES for name in ("diabetes", "breast_cancer", "svmguide3", "pima")}
ORDERED |= {"german_ida": True, "kin8nh": False}
ORDERS, ORDERED_ROWS = 10, 600
MORE_ROWS, GROWING = "5 % more rows", (150, 600, 2400)
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
        "KernelBank.auto()": KernelBank.auto,
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


# --- other strengths ------------------------------------------------------------------------------------------------


def drawn_sets(rows: int) -> Iterator[Data]:
    """Yield targets that hardly depend on X, or not at all, and several of them at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows + 1000, 20))
    weak = rng.uniform(size=len(X)) < 1.0 / (1.0 + np.exp(-0.8 * X[:, 0]))
    yield Data("1 weak column of 20, classes", X, weak.astype(int), classes=True)
    yield Data("1 weak column of 20", X, 0.5 * np.sin(2.0 * X[:, 0]) + rng.normal(size=len(X)), classes=False)
    yield Data("noise", X, rng.normal(size=len(X)), classes=False)
    many = 0.4 * X[:, :4] @ rng.normal(size=(4, 10)) + rng.normal(size=(len(X), 10))
    yield Data("10 targets of 4 columns", X, many, classes=False)


def sweep(data: Data, penalty: str, rows: int, seeds: range) -> dict[str, Any]:
    """Return the mean score of the default bank, and its number of kernels, at each strength."""
    strengths = {"0.5/sqrt(n) max": None} | {f"{factor:g} noise": f"{factor}*noise" for factor in NOISE}
    scores, active = dict.fromkeys(strengths, 0.0), dict.fromkeys(strengths, 0.0)
    for seed in seeds:
        X_train, X_test, y_train, y_test = data.split(rows, seed)
        for name, alpha in strengths.items():
            given = alpha or f"{0.5 / np.sqrt(len(y_train)):.6g}*max"
            kind = MKLClassifier if data.classes else MKLRegressor
            model = _fitted(kind(penalty=penalty, alpha=given, tol=TOL), X_train, y_train)
            scores[name] += model.score(X_test, y_test) / len(seeds)
            active[name] += float((np.atleast_2d(model.kernel_weights_) > 0).sum(axis=1).mean()) / len(seeds)
    row: dict[str, Any] = {"set": data.name, "penalty": penalty, "rows": len(y_train)}
    return row | scores | {f"kernels, {name}": number for name, number in active.items()}


def raised(data: Data, rows: int, seeds: range) -> Iterator[dict[str, Any]]:
    """Yield the scores and numbers of kernels at 0.2 noise and untouched where these are not the same."""
    for seed in seeds:
        X_train, X_test, y_train, y_test = data.split(rows, seed)
        kind = MKLClassifier if data.classes else MKLRegressor
        model = _fitted(kind(tol=TOL), X_train, y_train)
        ratio = float(np.max(model.noise_ratio_))
        if ratio <= 0.2 * (1.0 + 1e-9):
            continue
        fifth = _fitted(kind(alpha="0.2*noise", tol=TOL), X_train, y_train)
        row: dict[str, Any] = {"set": data.name, "rows": len(y_train), "split": seed, "of noise": ratio}
        for name, fit in (("0.2 noise", fifth), ("untouched", model)):
            row |= {name: fit.score(X_test, y_test), f"kernels, {name}": int((fit.kernel_weights_ > 0).sum())}
        yield row


def raised_table(options: argparse.Namespace, record: Any) -> int:
    """Measure, print and save where the default is above 0.2 noise."""
    seeds = range(options.seed, options.seed + (1 if options.smoke else options.splits))
    named = [(name, True) for name in (*CLASSES, *MORE_CLASSES)] + [(name, False) for name in (*NUMBERS, *MORE_NUMBERS)]
    if options.smoke:
        named, options.rows = [("wine", True)], [60]
    sets = [found for name, classes in named if (found := load(name, options.data, classes=classes)) is not None]
    rows = [row for most in options.rows for data in [*sets, *drawn_sets(most)] for row in raised(data, most, seeds)]
    frame = pd.DataFrame(rows)
    formats = {name: ".3f" for name in ("0.2 noise", "untouched")} | {"of noise": ".2f"}
    common.print_table(frame, f"Raised, of {len(sets) + 4} sets x {len(seeds)} splits", formats)
    common.save(frame, record, options.output, "defaults_raised")
    return 0


def ordered(data: Data, rows: int, changed: str, seed: int) -> dict[str, Any]:
    """Return what ten orders of the rows change, ten random states, or ten times 5 % more rows up to all of these.

    It is strength, predictions, scores and kernels. Strengths are times the root of the number of rows, with which
    noise falls; the change is the root mean square of the logarithm from one to the next.
    """
    X_train, X_test, y_train, y_test = data.split(rows, seed)
    kind, n = MKLClassifier if data.classes else MKLRegressor, len(y_train)
    alphas, scores, predicted, kernels = [], [], [], []
    for k in range(ORDERS):
        order = np.random.default_rng(k).permutation(n) if changed == "order of rows" else np.arange(n)
        if changed == MORE_ROWS:  # the first ones of those that follow
            order = order[: int(n / 1.05 ** (ORDERS - 1 - k))]
        model = _fitted(kind(random_state=k if changed == "random_state" else 0), X_train[order], y_train[order])
        alphas.append(float(np.max(model.alpha_)) * np.sqrt(len(order) / n))
        scores.append(model.score(X_test, y_test))
        predicted.append(model.decision_function(X_test) if data.classes else model.predict(X_test))
        kernels.append(int((model.kernel_weights_ > 0).sum()))
    spread = np.sqrt(np.var(predicted, axis=0).mean() / np.mean(predicted, axis=0).var())
    row: dict[str, Any] = {"set": data.name, "rows": n, "changed": changed, "alpha": np.mean(alphas)}
    row |= {"change of alpha": np.sqrt(np.mean(np.diff(np.log(alphas)) ** 2))}
    row |= {"std of alpha": np.std(alphas) / np.mean(alphas), "std of predictions": spread}
    row |= {"lowest score": min(scores), "highest score": max(scores)}
    return row | {"fewest kernels": min(kernels), "most kernels": max(kernels)}


def ordered_table(options: argparse.Namespace, record: Any) -> int:
    """Measure, print and save what orders of rows, random states and more rows change."""
    chosen = {"diabetes": False} if options.smoke else ORDERED
    sets = [found for name, classes in chosen.items() if (found := load(name, options.data, classes=classes))]
    asked = [(ORDERED_ROWS, "order of rows"), (ORDERED_ROWS, "random_state")]
    asked += [(rows, MORE_ROWS) for rows in GROWING]
    frame = pd.DataFrame([ordered(data, rows, changed, options.seed) for data in sets for rows, changed in asked])
    frame = frame.drop_duplicates(["set", "rows", "changed"])
    formats = {"alpha": ".3g"} | {name: ".3f" for name in frame if "of " in name or "score" in name}
    common.print_table(frame, "Parts of alpha, and of the spread of scores over rows held out", formats)
    together = frame.groupby("changed", sort=False)[["change of alpha", "std of alpha", "std of predictions"]]
    common.print_table(together.mean().reset_index(), "In the mean", {name: ".3f" for name in frame if "of " in name})
    common.save(frame, record, options.output, "defaults_orders")
    return 0


def losses(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what each strength loses to the best strength of each set, in the mean over the sets of a row."""
    multiples = [name for name in frame if name.endswith((" max", " noise")) and not name.startswith("kernels")]
    lost = frame[multiples].rsub(frame[multiples].max(axis=1), axis=0)
    drawn = frame["set"].isin([data.name for data in drawn_sets(10)])
    kind = np.where(drawn, "drawn", np.where(frame["set"].isin(CLASSES), "accuracy", "R2"))
    groups = [frame["penalty"], pd.Series(kind, name="score", index=frame.index)]
    return lost.groupby([*groups, frame["asked"].rename("at most rows")], sort=False).mean().reset_index()


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Untouched estimators, before and after, and other strengths.")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 800], help="most training rows")
    parser.add_argument("--penalties", nargs="+", default=["l1", "ridge"], help="penalties of the sweep")
    parser.add_argument("--splits", type=int, default=2, help="random splits a set")
    parser.add_argument("--sweep-only", action="store_true", help="leave out the defaults that failed")
    parser.add_argument("--raised", action="store_true", help="only splits on which the default is above 0.2 noise")
    parser.add_argument("--orders", action="store_true", help="only what orders of rows and random states change")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    if options.orders:
        return ordered_table(options, record)
    if options.raised:
        return raised_table(options, record)
    seeds = range(options.seed, options.seed + (1 if options.smoke else options.splits))
    if not options.sweep_only:
        failed = before_and_after(options.data, seeds, options.smoke)
        common.print_table(failed, "Untouched", {"before": ".3f", "after": ".3f"})
        common.save(failed, record, options.output, "defaults_failed")
    named = [(name, True) for name in CLASSES] + [(name, False) for name in NUMBERS]
    if options.smoke:
        named, options.rows, options.penalties = [("wine", True), ("diabetes", False)], [60], ["l1"]
    sets = [found for name, classes in named if (found := load(name, options.data, classes=classes)) is not None]
    if not options.smoke:
        sets += list(drawn_sets(150))
    rows = [
        sweep(data, penalty, most, seeds) | {"asked": most}
        for penalty in options.penalties
        for most in options.rows
        for data in sets
        if most == min(options.rows) or 0.7 * len(data.y) > min(options.rows)
    ]
    frame = pd.DataFrame(rows)
    lost = losses(frame)
    shown = {name: ".3f" for name in lost if name.endswith((" max", " noise"))}
    kernels = {name: ".0f" for name in frame if name.startswith("kernels")}
    common.print_table(
        frame[["set", "penalty", "rows", *shown]], "Scores at the old default and in units of noise", shown
    )
    common.print_table(frame[["set", "penalty", "rows", *kernels]], "Kernels selected", kernels)
    common.print_table(lost, "Lost to the best strength of each set, in the mean", shown)
    common.save(frame, record, options.output, "defaults_sweep")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
