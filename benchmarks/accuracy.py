"""Whether untouched estimators predict as well as others' tuned ones, what they cost, and what they select.

``python benchmarks/accuracy.py [--data DIR] [--rows 200] [--splits 3] [--sets NAME,...]
[--pairwise] [--searches] [--resume] [--markdown FILE] [--smoke] [--output DIR]``

On every set, the same random splits for all: `MKLClassifier()` or `MKLRegressor()` and their cross-validated forms, all
untouched; a support vector machine or kernel ridge regression with a Gaussian kernel, scaled and tuned by a grid; the
same machine on the uniform sum of the default bank, tuned; gradient-boosted trees, untouched; and where they are
installed, himalaya's multiple kernel ridge and MKLpy's EasyMKL on the default bank. No set is dropped for its result;
those that are not in the folder of ``--data`` are named. Differences are taken split by split, with their own standard
errors. The last table has many targets on few kernels, himalaya's own ground. ``--pairwise`` adds, on sets of three
classes and more, two rivals that tell what voting among pairs of classes does: ours with a model for each pair, and the
machine on the uniform sum with each class against the rest, like ours. ``--searches`` adds ours with every mixture
followed to its end, without a race, and on classes ours that chooses by accuracy. ``--resume`` keeps what
``accuracy.csv`` has and measures the rest.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV

CLASSES = (
    *("breast_cancer", "wine", "ionosphere", "sonar", "pima", "liver", "heart_statlog", "thyroid_ida", "banana"),
    *("breast_cancer_ida", "ringnorm", "waveform", "svmguide1", "tcga_breast", "nutrimouse", "webkb203"),
)
NUMBERS = ("diabetes", "autompg", "concrete", "yacht", "energy", "kin8nh", "puma8nh", "abalone", "winequality_red")
BUNDLED = ("breast_cancer", "wine", "diabetes")
CONSTANTS, RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0), (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0)  # gamma, times the number of columns
MOST_TEST_ROWS = 1000
OURS = "MKL CV"
PAIRWISE = ("MKL CV, one against one", "uniform sum, one against the rest")
SEARCHES = ("MKL CV without a race", "MKL CV by accuracy")
MARGIN, SHARES = ("EasyMKL", "tuned EasyMKL"), (0.1, 0.5, 0.9)  # of MKLpy; how far its margins are softened
SINGLE = ("tuned SVC, KRR", "uniform sum")  # that the search may not be worse than


@dataclass(frozen=True, eq=False)
class Data:
    """A table with its target, and the bank of its views if it has any."""

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: bool
    bank: KernelBank | None

    def split(self, rows: int, seed: int, most_test: int = MOST_TEST_ROWS) -> list[np.ndarray]:
        """Return training and test rows, at most ``rows`` and 70 % to train on."""
        n_train = min(rows, int(0.7 * len(self.y)))
        n_test = min(most_test, len(self.y) - n_train)
        groups = self.y if self.classes else None
        return train_test_split(
            self.X, self.y, train_size=n_train, test_size=n_test, stratify=groups, random_state=seed
        )


def load(name: str, folder: Path, *, classes: bool) -> Data | None:
    """Return a set of scikit-learn or of the folder, rows with missing values left out; None if it is not there."""
    if name in BUNDLED:
        return Data(name, *getattr(datasets, f"load_{name}")(return_X_y=True), classes, None)
    if not (folder / f"{name}.npz").is_file():
        common.CONSOLE.print(f"left out: there is no {name}.npz in the folder of data sets")
        return None
    with np.load(folder / f"{name}.npz", allow_pickle=False) as held:
        X, y = held["X"].astype(np.float64), held["y"]
        views = (
            {f"view {v}": slice(int(a), int(b)) for v, (a, b) in enumerate(held["views"])} if "views" in held else {}
        )
    whole = np.isfinite(X).all(axis=1)
    return Data(name, X[whole], y[whole], classes, KernelBank.from_views(views) if views else None)


# --- the rivals ------------------------------------------------------------------------------------------------------


class Uniform:
    """A tuned machine on the uniform sum of a bank."""

    def __init__(self, bank: KernelBank, classes: bool, *, rest: bool = False) -> None:
        self.bank, self.classes, self.rest = bank, classes, rest

    def fit(self, X: np.ndarray, y: np.ndarray) -> Uniform:
        """Fit the bank, sum its kernels, tune the machine."""
        self.fitted = self.bank.fit(X)
        self.train, self.shift = self.fitted.prepare(X), 0.0 if self.classes else float(np.mean(y))
        gram = self._sum(self.train)
        if self.classes:
            machine, grid = SVC(kernel="precomputed"), {"C": CONSTANTS}
            if self.rest:
                machine, grid = OneVsRestClassifier(machine), {"estimator__C": CONSTANTS}
            self.machine = GridSearchCV(machine, grid, cv=5).fit(gram, y)
        else:
            ridge = KernelRidge(kernel="precomputed")
            self.machine = GridSearchCV(ridge, {"alpha": RIDGES}, cv=5).fit(gram, y - self.shift)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        found = self.machine.predict(self._sum(self.fitted.prepare(X)))
        return found if self.classes else found + self.shift

    def _sum(self, rows: Any) -> np.ndarray:
        return self.fitted.block(rows, self.train).mean(axis=0)


class Himalaya:
    """Himalaya's multiple kernel ridge by random search, its weights and strengths chosen by its own folds."""

    def __init__(self, bank: KernelBank) -> None:
        self.bank = bank

    def fit(self, X: np.ndarray, y: np.ndarray) -> Himalaya:
        """Fit the bank and himalaya on its matrices."""
        from himalaya.kernel_ridge import MultipleKernelRidgeCV

        self.fitted = self.bank.fit(X)
        self.train, self.shift = self.fitted.prepare(X), np.mean(y, axis=0)
        params = {"n_iter": 100, "alphas": np.logspace(-5, 5, 11), "progress_bar": False}
        self.machine = MultipleKernelRidgeCV(
            kernels="precomputed", solver="random_search", solver_params=params, random_state=0, cv=5
        )
        self.machine.fit(self.fitted.block(self.train, self.train), y - self.shift)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        return self.machine.predict(self.fitted.block(self.fitted.prepare(X), self.train)) + self.shift


class EasyMKL:
    """MKLpy's EasyMKL on a bank: as it comes, or with a support vector machine and both tuned by MKLpy's own folds."""

    def __init__(self, bank: KernelBank, *, tuned: bool = False) -> None:
        self.bank, self.tuned = bank, tuned

    def fit(self, X: np.ndarray, y: np.ndarray) -> EasyMKL:
        """Fit the bank and EasyMKL on its matrices."""
        from MKLpy.algorithms import EasyMKL as Machine
        from MKLpy.model_selection import cross_val_score

        self.fitted = self.bank.fit(X)
        self.train = self.fitted.prepare(X)
        grams = list(self.fitted.block(self.train, self.train))
        settings: list[dict[str, Any]] = [{}]
        if self.tuned:
            settings = [{"lam": share, "learner": SVC(C=C)} for share in SHARES for C in CONSTANTS]
            scores = [np.mean(cross_val_score(grams, y, Machine(**one), n_folds=5)) for one in settings]
            settings = [settings[int(np.argmax(scores))]]
        self.machine = Machine(**settings[0]).fit(grams, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        return np.asarray(self.machine.predict(list(self.fitted.block(self.fitted.prepare(X), self.train))))


class Centered:
    """Kernel ridge regression with a Gaussian kernel, scaled and tuned; it has no intercept of its own."""

    def __init__(self, n_columns: int) -> None:
        grid = {"kernelridge__alpha": RIDGES, "kernelridge__gamma": [width / n_columns for width in WIDTHS]}
        self.machine = GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=5)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Centered:
        """Tune on the deviations from the mean."""
        self.shift = float(np.mean(y))
        self.machine.fit(X, y - self.shift)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        return self.machine.predict(X) + self.shift


def pairwise(data: Data, bank: KernelBank) -> dict[str, Callable[[], Any]]:
    """Return ours with a model for each pair of classes, and the uniform sum with each class against the rest."""
    if len(np.unique(data.y)) < 3:
        return {}
    return {
        PAIRWISE[0]: lambda: OneVsOneClassifier(MKLClassifierCV(data.bank)),
        PAIRWISE[1]: lambda: Uniform(bank, True, rest=True),
    }


def searches(data: Data) -> dict[str, Callable[[], Any]]:
    """Return ours without a race, and of classes by accuracy."""
    ours: Any = MKLClassifierCV if data.classes else MKLRegressorCV
    found = {SEARCHES[0]: lambda: ours(data.bank, l1_ratios=(1.0, 0.5, 0.0))}
    return found | ({SEARCHES[1]: lambda: ours(data.bank, scoring="accuracy")} if data.classes else {})


def rivals(data: Data, *, pairs: bool = False, ways: bool = False) -> dict[str, Callable[[], Any]]:
    """Return who takes part on a set: names and makers of fresh models."""
    bank = KernelBank.auto(normalize="mean_diagonal") if data.bank is None else data.bank
    if data.classes:
        grid = {"svc__C": CONSTANTS, "svc__gamma": [width / data.X.shape[1] for width in WIDTHS]}
        more = (pairwise(data, bank) if pairs else {}) | (searches(data) if ways else {})
        if find_spec("MKLpy"):
            more |= {MARGIN[0]: lambda: EasyMKL(bank), MARGIN[1]: lambda: EasyMKL(bank, tuned=True)}
        return more | {
            "MKL": lambda: MKLClassifier(data.bank),
            OURS: lambda: MKLClassifierCV(data.bank),
            "tuned SVC, KRR": lambda: GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=5),
            "uniform sum": lambda: Uniform(bank, True),
            "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
        }
    found: dict[str, Callable[[], Any]] = {
        "MKL": lambda: MKLRegressor(data.bank),
        OURS: lambda: MKLRegressorCV(data.bank),
        "tuned SVC, KRR": lambda: Centered(data.X.shape[1]),
        "uniform sum": lambda: Uniform(bank, False),
        "boosting": lambda: HistGradientBoostingRegressor(random_state=0),
    }
    found |= searches(data) if ways else {}
    return found | ({"himalaya": lambda: Himalaya(bank)} if find_spec("himalaya") else {})


# --- measuring -------------------------------------------------------------------------------------------------------


def measured(
    data: Data,
    rows: int,
    seeds: range,
    known: set[tuple[str, int, str]],
    *,
    pairs: bool = False,
    ways: bool = False,
    methods: str = "",
) -> list[dict[str, Any]]:
    """Return a row for each rival and split that is not known: score, CPU seconds of fitting, kernels with a weight."""
    found = []
    for seed in seeds:
        X_train, X_test, y_train, y_test = data.split(rows, seed)
        for name, make in rivals(data, pairs=pairs, ways=ways).items():
            if (data.name, seed, name) in known or (methods and name not in methods.split(",")):
                continue
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the scores tell
                model = make().fit(X_train, y_train)
            seconds = time.process_time() - started
            score = (accuracy_score if data.classes else r2_score)(y_test, model.predict(X_test))
            weights = np.atleast_2d(getattr(model, "kernel_weights_", np.zeros((1, 0))))
            active = int(weights.any(axis=0).sum()) if weights.size else np.nan
            row = {"set": data.name, "rows": len(y_train), "test_rows": len(y_test), "seed": seed, "method": name}
            found.append(row | {"score": score, "cpu_s": seconds, "kernels": active, "of": weights.shape[1] or np.nan})
    return found


def overview(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row a set: ``score ± standard error`` and CPU seconds of every method, kernels selected."""
    lines = []
    for name, part in frame.groupby("set", sort=False):
        line: dict[str, Any] = {"set": name, "rows": int(part["rows"].iloc[0])}
        for method in frame["method"].unique():
            own = part[part["method"] == method]
            error = own["score"].std() / np.sqrt(len(own)) if len(own) > 1 else 0.0
            line[method] = f"{own['score'].mean():.3f} ± {error:.3f}, {own['cpu_s'].mean():.1f} s" if len(own) else "-"
        ours = part[part["method"] == OURS]
        line["kernels"] = f"{ours['kernels'].mean():.0f} of {ours['of'].iloc[0]:.0f}" if len(ours) else "-"
        lines.append(line)
    return pd.DataFrame(lines)


def gaps(frame: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return for each set how far the untouched cross-validated estimator is ahead of a rival on the same splits.

    ``error`` is the standard error of the mean difference. Splits of one set share rows, which it does not know of:
    ``corrected`` does, ``s sqrt(1/J + n_test/n_train)`` for J splits (Nadeau and Bengio, "Inference for the
    generalization error", Machine Learning 52, 2003), and is large where few rows train and many test.
    """
    table = frame.pivot_table(index=["set", "seed"], columns="method", values="score", sort=False)
    ahead = (table[OURS] - table[method]).dropna().round(9)  # equal scores differ in their last digits once saved
    groups = ahead.groupby("set", sort=False)
    spread, splits = groups.std(ddof=1).fillna(0.0), groups.size()
    sizes = frame.groupby("set", sort=False)[["rows", "test_rows"]].first().loc[splits.index]
    corrected = spread * np.sqrt(1.0 / splits + sizes["test_rows"] / sizes["rows"])
    found = {"mean": groups.mean(), "error": spread / np.sqrt(splits), "corrected": corrected, "splits": splits}
    return pd.DataFrame(found).round(9)


def differences(frame: pd.DataFrame, methods: Sequence[str] = SINGLE) -> pd.DataFrame:
    """Return a row a set: paired differences to other methods, with their standard error and the corrected one."""
    found: dict[str, pd.Series] = {}
    for method in methods:
        own = gaps(frame, method)
        found.setdefault("splits", own["splits"])
        texts = [f"{g.mean:+.3f} ± {g.error:.3f} ({g.corrected:.3f})" for g in own.itertuples(index=False)]
        found[method] = pd.Series(texts, index=own.index)
        found[f"{method}: verdict"] = own["mean"].gt(own["error"]).map({True: "win", False: "tie"})
        found[f"{method}: verdict"][own["mean"] < -own["error"]] = "loss"
    return pd.DataFrame(found).fillna("-").reset_index(names="set")


def duels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return wins, ties and losses of the untouched cross-validated estimator against each rival, and their means.

    A tie is a mean difference on the same splits within its standard error; ``corrected`` counts the wins and losses
    beyond the corrected one.
    """
    lines = []
    for method in [name for name in frame["method"].unique() if name != OURS]:
        own = gaps(frame, method)
        mean, error, corrected = own["mean"], own["error"], own["corrected"]
        lost = mean.index[mean < -error].tolist()
        wins, losses = int((mean > corrected).sum()), int((mean < -corrected).sum())
        over_sets = mean.std(ddof=1) / np.sqrt(len(mean)) if len(mean) > 1 else 0.0
        lines.append(
            {
                "against": method, "wins": int((mean > error).sum()), "ties": int((mean.abs() <= error).sum()),
                "losses": len(lost), "corrected": f"{wins} / {len(mean) - wins - losses} / {losses}",
                "mean difference": f"{mean.mean():+.4f} ± {over_sets:.4f}", "lost on": ", ".join(lost) or "-",
            }
        )  # fmt: skip
    return pd.DataFrame(lines)


def many_targets(n_targets: int, n_samples: int, seed: int) -> pd.DataFrame:
    """Return scores and CPU seconds on targets that each depend on some of three groups of columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples + 200, 30))
    parts = [np.tanh(X[:, 10 * v : 10 * v + 10] @ rng.normal(size=(10, n_targets)) / 3) for v in range(3)]
    shares = rng.dirichlet([0.3] * 3, n_targets).T
    Y = sum(share * part for share, part in zip(np.sqrt(shares), parts, strict=True))
    Y = Y + 0.5 * rng.normal(size=Y.shape)
    views = {f"view {v}": slice(10 * v, 10 * v + 10) for v in range(3)}
    bank = KernelBank.from_views(views, specs=[common.Gaussian(4.0)], normalize="mean_diagonal")
    makers: dict[str, Callable[[], Any]] = {OURS: lambda: MKLRegressorCV(bank)}
    makers |= {"himalaya": lambda: Himalaya(bank)} if find_spec("himalaya") else {}
    rows = []
    for name, make in makers.items():
        started = time.process_time()
        model = make().fit(X[:n_samples], Y[:n_samples])
        seconds = time.process_time() - started
        score = r2_score(Y[n_samples:], model.predict(X[n_samples:]))
        rows.append({"method": name, "targets": n_targets, "rows": n_samples, "R2": score, "cpu_s": seconds})
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> str:
    """Return a frame as a table in Markdown."""
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row] for row in frame.to_numpy()]
    lines = [list(map(str, frame.columns)), ["---"] * frame.shape[1], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def kept(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of an earlier run with as many training rows; none if there was none."""
    path = options.output / "accuracy.json"
    if not path.is_file():
        return []
    held = json.loads(path.read_text())
    before = held["environment"].get("training_rows")
    if before != options.rows:
        parser.error(f"--resume found results of --rows {before} in {path}, not of --rows {options.rows}")
    return list(held["rows"])


def in_order(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return the rows of these sets, in the order of the sets and of the methods, however many runs they took."""
    methods = [OURS, *SINGLE, "MKL", "boosting", "himalaya", *MARGIN, *PAIRWISE, *SEARCHES]
    places = {"set": {name: k for k, name in enumerate(names)}, "method": {name: k for k, name in enumerate(methods)}}
    mine = frame[frame["set"].isin(names)]
    return mine.sort_values(
        ["set", "seed", "method"], key=lambda c: c.map(places.get(c.name)) if c.name in places else c
    )


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Untouched estimators beside tuned machines, trees and sums of kernels.")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, default=200, help="most training rows")
    parser.add_argument("--splits", type=int, default=3, help="random splits a set")
    parser.add_argument("--sets", default="", help="names of sets, separated by commas; all by default")
    parser.add_argument("--methods", default="", help="names of methods, separated by commas; all by default")
    parser.add_argument("--pairwise", action="store_true", help="also a model for each pair of classes")
    parser.add_argument("--searches", action="store_true", help="also ours without a race, and by accuracy")
    parser.add_argument("--resume", action="store_true", help="keep what the folder of results has, measure the rest")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    absent = [name for name in ("himalaya", "MKLpy") if not find_spec(name)]
    if absent:
        common.CONSOLE.print(f"not installed, so not measured: {', '.join(absent)}")
    named = [(name, True) for name in CLASSES] + [(name, False) for name in NUMBERS]
    if options.sets:
        wanted = options.sets.split(",")
        unknown = set(wanted) - {name for name, _ in named}
        if unknown:
            parser.error(f"--sets knows no {', '.join(sorted(unknown))}")
        named = [pair for pair in named if pair[0] in wanted]
    if options.smoke:
        named, options.rows, options.splits = [("wine", True), ("diabetes", False)], 40, 1
    seeds = range(options.seed, options.seed + options.splits)
    record["training_rows"] = options.rows
    rows = kept(parser, options) if options.resume else []
    known = {(row["set"], row["seed"], row["method"]) for row in rows}
    for name, classes in named:
        data = load(name, options.data, classes=classes)
        if data is not None:
            asked = {"pairs": options.pairwise, "ways": options.searches, "methods": options.methods}
            rows += measured(data, options.rows, seeds, known, **asked)
            common.save(pd.DataFrame(rows), record, options.output, "accuracy")
    frame = in_order(pd.DataFrame(rows), [name for name, _ in named])
    tables = {"Scores (accuracy, R2) and CPU seconds": overview(frame)}
    if not options.methods:
        tables["Untouched MKL CV minus a tuned machine: mean ± standard error (corrected for shared rows)"] = (
            differences(frame)
        )
    if OURS in set(frame["method"]):
        tables["Untouched MKL CV"] = duels(frame)
    if options.searches:
        ways = [name for name in SEARCHES if name in set(frame["method"])]
        tables["Untouched MKL CV minus other searches"] = differences(frame, ways)
    if not options.sets and not options.methods:
        targets = many_targets(*((12, 40) if options.smoke else (200, 300)), options.seed)
        common.save(targets, record, options.output, "accuracy_targets")
        tables["Many targets"] = targets
    for title, table in tables.items():
        common.print_table(table, title, {"mean difference": ".4f", "R2": ".3f", "cpu_s": ".1f"})
    if options.markdown is not None:
        options.markdown.write_text("\n".join(markdown(table) for table in tables.values()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
