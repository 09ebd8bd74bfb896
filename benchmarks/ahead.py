"""Learning curves of the untouched estimators beside tuned machines and trees, from 250 to 10,000 training rows.

``python benchmarks/ahead.py [--data DIR] [--rows 250,1000,4000,10000] [--splits 3] [--tables NAME,...]
[--methods NAME;...] [--limit 900] [--source CHECKOUT] [--summary] [--markdown FILE] [--smoke] [--output DIR]``

Every cell (table, rows, split, method) runs in a process of its own, so that its peak memory is known, and appends a
line to ``ahead.csv`` in the output folder; a cell that is there already is not run again. All methods of a split see
the same rows. Scores are accuracy for classes and R2 for numbers, on at most 2,000 held-out rows. ``--source`` runs the
manykernels methods of another checkout as well, under names that end in its revision. ``--summary`` prints the tables
of the runs that are there and starts none.

Rivals: a Gaussian support vector machine or kernel ridge regression on standardized columns (35 settings, 5 folds;
kernel ridge up to 4,000 rows), histogram-based gradient boosting as it comes and tuned (12 settings, 5 folds), a random
forest, and a linear model on one-hot columns tuned by 5 folds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd

OURS, FIT = "MKL CV", "MKL"
TUNED, BOOSTED = "tuned SVC, KRR", "tuned boosting"
RIVALS = (TUNED, "boosting", BOOSTED, "forest", "linear")
ROWS = (250, 1000, 4000, 10_000)
MOST_TEST_ROWS = 2000
MOST_ROWS_KRR = 4000  # a kernel ridge grid of 35 settings in 5 folds takes minutes there, and hours at 10,000
CLASS_SETS = (
    *(
        "adult_a9a",
        "banana",
        "covtype15k",
        "covtype_2",
        "flare_solar",
        "german_ida",
        "image_ida",
        "leaves100",
        "letter",
    ),
    *("mnist10k", "ringnorm", "spambase", "splice_ida", "svmguide1", "svmguide3", "titanic", "twonorm", "waveform"),
)
NUMBER_SETS = (
    *("abalone", "concrete", "cpu_act", "cpu_small", "kin32nh", "kin8nh", "puma32nm", "puma8nh"),
    *("winequality_red", "winequality_white"),
)
MADE = ("smooth8", "classes5", "friedman1", "friedman2", "noise10", "mixed", "levels")
BUNDLED = ("digits", "breast_cancer", "diabetes")


# --- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Data:
    """A table with its target."""

    X: pd.DataFrame | np.ndarray
    y: np.ndarray
    classes: bool


def load(name: str, folder: Path) -> Data | None:
    """Return a table by name; None where its file is missing."""
    if name in MADE:
        return made(name)
    if name in BUNDLED:
        from sklearn import datasets

        return Data(*getattr(datasets, f"load_{name}")(return_X_y=True), name != "diabetes")
    path = folder / f"{'covtype15k' if name == 'covtype_2' else name}.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as held:
        X, y = held["X"].astype(np.float64), held["y"]
    y = (y == 2).astype(int) if name == "covtype_2" else y
    whole = np.isfinite(X).all(axis=1)
    return Data(X[whole], y[whole], name not in NUMBER_SETS)


def made(name: str, n: int = 14_000) -> Data:
    """Return a generated table whose best possible score is known to its author."""
    rng = np.random.default_rng(sum(map(ord, name)))
    X = rng.normal(size=(n, {"smooth8": 8, "classes5": 5, "friedman2": 4}.get(name, 10)))
    noise = rng.normal(size=n)
    if name == "smooth8":
        f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3] + X[:, 4]) + 0.5 * X[:, 5]
        return Data(X, f + 0.3 * f.std() * noise, False)
    if name == "classes5":
        f = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(2 * X[:, 3]) * X[:, 4]
        return Data(X, (f + 0.3 * f.std() * noise > 0).astype(int), True)
    if name == "noise10":
        return Data(X, noise, False)
    U = rng.uniform(size=(n, 10))
    if name == "friedman1":
        f = 10 * np.sin(np.pi * U[:, 0] * U[:, 1]) + 20 * (U[:, 2] - 0.5) ** 2 + 10 * U[:, 3] + 5 * U[:, 4]
        return Data(U, f + noise, False)
    if name == "friedman2":
        low, width = np.array([0, 40 * np.pi, 0, 1]), np.array([100, 520 * np.pi, 1, 10])
        V = low + width * U[:, :4]
        f = np.sqrt(V[:, 0] ** 2 + (V[:, 1] * V[:, 2] - 1 / (V[:, 1] * V[:, 3])) ** 2)
        return Data(V, f + 0.3 * f.std() * noise, False)
    if name == "mixed":
        columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(6)}
        job, town = rng.integers(8, size=n), rng.integers(30, size=n)
        effect, slope = rng.normal(size=8), rng.normal(size=30)
        columns |= {"job": np.array([f"job {k}" for k in job]), "town": np.array([f"town {k}" for k in town])}
        columns["income"] = np.exp(2 * X[:, 6])  # heavy tail
        f = np.sin(2 * X[:, 0]) + effect[job] + slope[town] * X[:, 1] + 0.5 * X[:, 6]
        frame = pd.DataFrame(columns)
        frame.loc[rng.random(n) < 0.1, "x1"] = np.nan
        return Data(frame, (f + 0.7 * noise > 0).astype(int), True)
    group = rng.integers(400, size=n)
    f = np.sin(2 * X[:, 0]) + rng.normal(size=400)[group]
    names = pd.Categorical([f"g{k}" for k in group])
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "group": names})
    return Data(frame, f + 0.5 * noise, False)


def split(data: Data, rows: int, seed: int) -> list[Any] | None:
    """Return training and held-out rows and targets; None where the table has too few rows."""
    from sklearn.model_selection import train_test_split

    n_test = min(MOST_TEST_ROWS, len(data.y) - rows)
    if n_test < min(200, rows // 4):
        return None
    strata = data.y if data.classes else None
    return train_test_split(data.X, data.y, train_size=rows, test_size=n_test, stratify=strata, random_state=seed)


# --- methods ---------------------------------------------------------------------------------------------------------


class Shifted:
    """A regressor without an intercept, fitted to deviations from the mean."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine

    def fit(self, X: Any, y: np.ndarray) -> Shifted:
        """Fit."""
        self.shift = float(np.mean(y))
        self.machine.fit(X, y - self.shift)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict."""
        return self.machine.predict(X) + self.shift


def method(name: str, data: Data) -> Any:
    """Return a fresh model."""
    if name in (OURS, FIT):
        import manykernels

        task = "MKLClassifier" if data.classes else "MKLRegressor"
        gaps = isinstance(data.X, pd.DataFrame) and bool(data.X.isna().any(axis=None))
        bank = manykernels.KernelBank.auto(missing="mask") if gaps else None  # which untouched estimators ask for
        return getattr(manykernels, task + name.removeprefix(FIT).strip())(bank)
    from sklearn import ensemble, kernel_ridge, linear_model, svm
    from sklearn.model_selection import GridSearchCV

    kind = "Classifier" if data.classes else "Regressor"
    if name == "boosting":
        return _pipeline(getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=0), data, scaled=False)
    if name == BOOSTED:
        model = _pipeline(getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=0), data, scaled=False)
        grid = {"learning_rate": (0.03, 0.1), "max_leaf_nodes": (7, 31), "l2_regularization": (0.0, 1.0, 10.0)}
        return GridSearchCV(model, {f"machine__{key}": values for key, values in grid.items()}, cv=5)
    if name == "forest":
        return _pipeline(getattr(ensemble, f"RandomForest{kind}")(300, random_state=0), data, scaled=False)
    if name == "linear":
        strengths = np.logspace(-3, 3, 7)
        linear = linear_model.LogisticRegressionCV(Cs=strengths, cv=5, max_iter=300) if data.classes else None
        return _pipeline(linear or linear_model.RidgeCV(strengths), data, scaled=True)
    columns = np.shape(data.X)[1]
    gammas = [width / columns for width in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)]
    machine = svm.SVC() if data.classes else kernel_ridge.KernelRidge(kernel="rbf")
    values = {"C": np.logspace(-1, 3, 5)} if data.classes else {"alpha": np.logspace(-4, 0, 5)}
    grid = {f"machine__{key}": own for key, own in (values | {"gamma": gammas}).items()}
    tuned = GridSearchCV(_pipeline(machine, data, scaled=True), grid, cv=5)
    return tuned if data.classes else Shifted(tuned)


def _pipeline(machine: Any, data: Data, *, scaled: bool) -> Any:
    """Return a model on standardized numbers and one-hot or ordinal categories, gaps filled by medians where needed."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    if not isinstance(data.X, pd.DataFrame):
        return Pipeline([("columns", StandardScaler() if scaled else "passthrough"), ("machine", machine)])
    numbers = list(data.X.select_dtypes("number"))
    others = [name for name in data.X if name not in numbers]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    ranks = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    filled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    both = make_column_transformer((filled, numbers), (one_hot if scaled else ranks, others))
    return Pipeline([("columns", both), ("machine", machine)])


# --- one cell --------------------------------------------------------------------------------------------------------


def measure(table: str, rows: int, seed: int, name: str, folder: Path) -> dict[str, Any]:
    """Fit one method on one split; return its score, CPU seconds and peak memory."""
    data = load(table, folder)
    parts = None if data is None else split(data, rows, seed)
    if data is None or parts is None:
        return {"status": "no data"}
    X_train, X_test, y_train, y_test = parts
    if name == TUNED and not data.classes and rows > MOST_ROWS_KRR:
        return {"status": "too large"}
    from sklearn.metrics import accuracy_score, r2_score

    model = method(name, data)
    before, started = common.peak_memory_bytes(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores tell
        model.fit(X_train, y_train)
        seconds = time.process_time() - started
        predicted = model.predict(X_test)
    score = (accuracy_score if data.classes else r2_score)(y_test, predicted)
    found = {"status": "fitted", "score": float(score), "cpu_s": seconds, "test_rows": len(y_test)}
    gap = getattr(model, "dual_gap_", np.nan)
    peak = common.peak_memory_bytes()
    return found | {"peak_mb": peak / 1e6, "fit_mb": (peak - before) / 1e6, "gap": float(np.max(gap))}


def run_cell(cell: tuple[str, int, int, str], options: argparse.Namespace, source: Path | None) -> dict[str, Any]:
    """Measure one cell in a process of its own."""
    arguments = [*map(str, cell), "--data", str(options.data), "--cell"]
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve() / "src")
    try:
        done = subprocess.run(
            [sys.executable, __file__, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=options.limit,
        )
    except subprocess.TimeoutExpired:
        return {"status": f"over {options.limit} s"}
    if done.returncode:
        return {"status": (done.stderr.strip().splitlines() or ["ended"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


# --- what the runs say -----------------------------------------------------------------------------------------------


def scores_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with a column for each method and a row for each table, size and split."""
    fitted = runs[runs["status"] == "fitted"]
    return fitted.pivot_table(index=["table", "rows", "seed"], columns="method", values="score")


def overview(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean score, CPU seconds and peak memory (MB) of every method, a row for each table and size."""
    fitted = runs[runs["status"] == "fitted"]
    mean = fitted.groupby(["table", "rows", "method"])[["score", "cpu_s", "peak_mb"]].mean()
    cells = mean.apply(lambda row: f"{row['score']:.3f} / {row['cpu_s']:.1f} / {row['peak_mb']:.0f}", axis=1)
    return cells.unstack("method").fillna("-").reset_index()


def verdicts(runs: pd.DataFrame, ours: str) -> pd.DataFrame:
    """Return wins, ties and losses against the better of the tuned machine and tuned boosting, for each size.

    A tie is a mean difference within half a standard error, ``s sqrt(1/J + n_test/n_train)`` for J splits (Nadeau and
    Bengio, 2003), and at least .002.
    """
    table, lines = scores_of(runs), []
    tests = runs[runs["status"] == "fitted"].groupby(["table", "rows"])["test_rows"].first()
    rivals = [name for name in (TUNED, BOOSTED) if name in table]
    ranked = [name for name in (ours, *RIVALS) if name in table]
    for rows, part in table.groupby("rows"):
        counts, ahead = {"wins": 0, "ties": 0, "losses": 0}, []
        lost = []
        for name, own in part.groupby("table"):
            best = own[rivals].mean().idxmax() if rivals and own[rivals].notna().any().any() else None
            if best is None or own[ours].isna().all():
                continue
            difference = (own[ours] - own[best]).dropna()
            spread = difference.std(ddof=1) if len(difference) > 1 else 0.0
            error = spread * np.sqrt(1 / len(difference) + tests[name, rows] / rows)
            bar = max(0.5 * error, 0.002)
            verdict = "wins" if difference.mean() > bar else "losses" if difference.mean() < -bar else "ties"
            counts[verdict] += 1
            ahead.append(difference.mean())
            lost += [name] if verdict == "losses" else []
        ranks = part.groupby("table")[ranked].mean().rank(axis=1, ascending=False).mean()
        lines.append(
            {"rows": rows, **counts, "mean difference": np.mean(ahead) if ahead else np.nan,
             "mean rank": ranks.get(ours, np.nan), "best other rank": ranks.drop(ours, errors="ignore").min(),
             "behind on": ", ".join(lost) or "-"}
        )  # fmt: skip
    return pd.DataFrame(lines)


def falls(runs: pd.DataFrame, ours: str) -> list[str]:
    """Return where a learning curve falls by more than one standard error of the difference."""
    fitted = runs[(runs["status"] == "fitted") & (runs["method"] == ours)]
    found = []
    for name, own in fitted.groupby("table"):
        curve = own.groupby("rows")["score"].agg(["mean", "sem"]).fillna(0.0)
        for (few, a), (many, b) in zip(curve.iloc[:-1].iterrows(), curve.iloc[1:].iterrows(), strict=True):
            if b["mean"] < a["mean"] - np.hypot(a["sem"], b["sem"]) - 0.002:
                found.append(f"{name}: {a['mean']:.3f} at {few}, {b['mean']:.3f} at {many} rows")
    return found


def costs(runs: pd.DataFrame, ours: str) -> pd.DataFrame:
    """Return CPU seconds relative to the tuned machine, and peak memory, for each size."""
    fitted = runs[runs["status"] == "fitted"]
    seconds = fitted.pivot_table(index=["table", "rows", "seed"], columns="method", values="cpu_s")
    memory = fitted[fitted["method"] == ours].groupby("rows")["peak_mb"].max()
    if TUNED not in seconds or ours not in seconds:
        return pd.DataFrame({"peak MB": memory}).reset_index()
    ratio = (seconds[ours] / seconds[TUNED]).dropna().groupby("rows")
    return pd.DataFrame({"median ratio": ratio.median(), "largest ratio": ratio.max(), "peak MB": memory}).reset_index()


def draw(runs: pd.DataFrame, ours: str, path: Path) -> None:
    """Draw every learning curve, and the score above the best rival against seconds relative to the tuned machine."""
    import matplotlib.pyplot as plt

    fitted = runs[runs["status"] == "fitted"]
    names = sorted(fitted["table"].unique())
    across = min(6, len(names))
    figure, axes = plt.subplots(-(-len(names) // across), across, figsize=(3 * across, 2.4 * -(-len(names) // across)))
    for ax, name in zip(np.ravel(axes), names, strict=False):
        for who, own in fitted[fitted["table"] == name].groupby("method"):
            curve = own.groupby("rows")["score"].mean()
            ax.plot(curve.index, curve, marker="o", markersize=3, label=who, linewidth=2 if who == ours else 1)
        ax.set(title=name, xscale="log")
    np.ravel(axes)[0].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def report(runs: pd.DataFrame, output: Path, markdown: Path | None) -> None:
    """Print the tables of all runs and draw them."""
    names = [name for name in runs["method"].unique() if str(name).startswith(OURS)]
    common.print_table(overview(runs), "score / CPU seconds / peak MB")
    for ours in names:
        common.print_table(verdicts(runs, ours), f"{ours} against the better of {TUNED} and {BOOSTED}")
        common.print_table(costs(runs, ours), f"{ours}: CPU seconds relative to {TUNED}")
        common.CONSOLE.print(f"{ours}: falling curves: " + ("; ".join(falls(runs, ours)) or "none"))
    failed = runs[~runs["status"].isin(["fitted", "no data", "too large"])]
    for row in failed.itertuples():
        common.CONSOLE.print(f"{row.table}, {row.rows} rows, split {row.seed}, {row.method}: {row.status}")
    if markdown is not None:
        from accuracy import markdown as as_markdown

        markdown.write_text(
            "\n".join(as_markdown(own) for own in (overview(runs), *(verdicts(runs, n) for n in names)))
        )
    try:
        for ours in names[:1]:
            draw(runs, ours, output / "ahead.png")
    except ImportError:
        common.CONSOLE.print("no picture: matplotlib is not installed")


def parse(description: str) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = common.parser(description)
    made.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of tables")
    made.add_argument("--rows", default=",".join(map(str, ROWS)), help="training rows, separated by commas")
    made.add_argument("--splits", type=int, default=3, help="random splits of each table and size")
    made.add_argument("--tables", default="", help="names of tables; all by default")
    made.add_argument("--methods", default="", help="names of methods, separated by ';'; all by default")
    made.add_argument("--limit", type=float, default=900.0, help="most wall-clock seconds of a cell")
    made.add_argument("--source", type=Path, action="append", default=[], help="another checkout of manykernels")
    made.add_argument("--summary", action="store_true", help="print the runs that are there, start none")
    made.add_argument("--markdown", type=Path, help="file for the tables in Markdown")
    return made


def main() -> int:
    """Run the cells that are missing; print all."""
    if "--cell" in sys.argv:
        table, rows, seed, name = sys.argv[1:5]
        folder = Path(sys.argv[sys.argv.index("--data") + 1])
        print(json.dumps(measure(table, int(rows), int(seed), name, folder)))
        return 0
    options = parse("Learning curves beside tuned machines and trees.").parse_args()
    if options.smoke:
        options.rows, options.splits, options.tables, options.methods = "60", 1, "levels", f"{OURS};boosting"
        options.output = options.output / "smoke"
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "ahead.csv"
    runs = pd.read_csv(path) if path.exists() and not options.smoke else pd.DataFrame()
    known = set() if runs.empty else set(zip(runs["table"], runs["rows"], runs["seed"], runs["method"], strict=True))
    tables = options.tables.split(",") if options.tables else [*BUNDLED, *MADE, *CLASS_SETS, *NUMBER_SETS]
    methods = options.methods.split(";") if options.methods else [OURS, FIT, *RIVALS]
    shown: list[tuple[str, str, Path | None]] = [(name, name, None) for name in methods]
    for source in options.source:
        revision = subprocess.run(
            ["git", "-C", str(source), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        shown += [(f"{name} at {revision}", name, source) for name in methods if name in (OURS, FIT)]
    lines = runs.to_dict("records")
    for rows in [] if options.summary else map(int, options.rows.split(",")):
        for table in tables:
            for seed in range(options.splits):
                for label, name, source in shown:
                    if (table, rows, seed, label) in known:
                        continue
                    found = run_cell((table, rows, seed, name), options, source)
                    if found["status"] == "no data":
                        continue
                    lines.append({"table": table, "rows": rows, "seed": seed, "method": label} | found)
                    pd.DataFrame(lines).to_csv(path, index=False)
                    score = f"{found['score']:.3f}, {found['cpu_s']:.1f} s" if "score" in found else found["status"]
                    common.CONSOLE.print(f"{table}, {rows} rows, split {seed}, {label}: {score}")
    if lines:
        report(pd.DataFrame(lines), options.output, options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
