"""Pairs of columns, and all columns together, beside boosted trees of all columns, of pairs and of single ones.

``python benchmarks/column_pairs.py --data DIR [--splits 3] [--models NAME,...] [--resume] [--smoke]``

``DIR`` holds ``covtype15k.npz`` (``X``, ``y``): the second type of forest against the rest, 10,000 rows to learn from
and the others to judge. The additive model has two kernels of ranks on every column that varies; ``pairs`` has also the
sharp product of every pair of these, and ``triples`` the products of every three of the columns of numbers, too. Their
strength is that of five with the most correct labels among a quarter of the rows to learn from, or the part of the
largest one that a name like ``pairs at 0.02`` says. ``all columns`` is one kernel of these on 2,000 landmarks instead,
sharper in the column with the largest function of an additive model, by squared loss on the labels -1 and 1; its
strength is that of six with the least such loss on a quarter of the rows.
``no landmarks`` is the same kernel as an N x N matrix, of full rank, with the ridge penalty and strengths of its own.
Searches, and that additive model, are in the times. Trees have 300 rounds, and may join all columns, two, or one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline

from manykernels import (
    Binned,
    Gaussian,
    KernelBank,
    Landmarks,
    Laplacian,
    Matern,
    MKLClassifierCV,
    MKLRegressorCV,
    solve,
)
from manykernels.kernels.specs.landmarks import column_units

NUMERIC, TRAINING, ROUNDS, WIDTH = 10, 10_000, 300, 6.0
TREES = {"boosted trees": None, "trees of pairs": "pairwise", "trees of one": "no_interactions"}
GRIDS = {  # strengths, parts of the largest one; penalties as weak as those of few landmarks let every pair enter
    "additive": {"n_alphas": 5, "search": {"alpha_min_ratio": 0.005}},
    "pairs": {"n_alphas": 5, "search": {"alpha_min_ratio": 0.013}},
    "triples": {"n_alphas": 5, "search": {"alpha_min_ratio": 0.013}},
    "all columns": {"n_alphas": 6, "search": {"alpha_min_ratio": 0.0003}},
    "no landmarks": {
        "alphas": [1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5],
        "penalty": "ridge",
        "resources": {"representation": "gram"},
    },
}
STRETCH = 4.0
TOL, FIRST_STRENGTH = 1e-2, 0.05
FACTORED: dict[str, Any] = {"loss": "logistic", "penalty": "l1", "tol": TOL, "representation": "factored"}


def load(folder: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in random order, or drawn ones where there is no folder."""
    rng = np.random.default_rng(seed)
    if folder is None:
        X = rng.normal(size=(600, NUMERIC - 4))
        return X, np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, 1.0, -1.0)
    with np.load(folder / "covtype15k.npz", allow_pickle=False) as stored:
        X, y = stored["X"].astype(float), np.where(stored["y"] == 2, 1.0, -1.0)
    order = rng.permutation(len(y))
    return X[order], y[order]


def leading_column(X: np.ndarray, y: np.ndarray, bank: KernelBank) -> int:
    """Return the column with the largest function in an additive model."""
    model = solve(bank, y, X=X, alpha=f"{FIRST_STRENGTH}*max", **FACTORED)
    norms = np.zeros(X.shape[1])
    for kernel in model.active.tolist():
        norms[list(model.functions.stack.columns_of(kernel))] += model.kernel_norms[kernel]
    return int(np.argmax(norms))


class Units(TransformerMixin, BaseEstimator):
    """Columns in the units of `Landmarks`: deviations, or the difference of two values; one column is stretched."""

    def __init__(self, leading: int) -> None:
        self.leading = leading

    def fit(self, X: np.ndarray, y: Any = None) -> Units:
        """Learn the units."""
        self.scale_ = column_units(X)
        self.scale_[self.leading] *= STRETCH
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the columns in these units."""
        return np.asarray(X * self.scale_)


def machine(name: str, X: np.ndarray, y: np.ndarray, count: int) -> Any:
    """Return the fitted estimator of one of the banks, its strength chosen on a quarter of the rows."""
    varied = [j for j, column in enumerate(X.T) if len(np.unique(column)) > 1]
    additive = KernelBank.per_feature([Binned(Laplacian(0.3), 32), Binned(Gaussian(0.1), 32)], columns=varied)
    bank = additive
    if "pairs" in name or "triples" in name:
        bank += KernelBank.interactions(widths=[0.08], columns=varied)
    if "triples" in name:
        bank += KernelBank.interactions(order=3, columns=[j for j in varied if j < NUMERIC])
    if " at " in name:
        return solve(bank, y, X=X, alpha=f"{float(name.split(' at ')[1])}*max", **FACTORED)
    given: dict[str, Any] = {"penalty": "l1", "resources": {"representation": "factored"}, "tol": TOL} | GRIDS[name]
    given["cv"] = list(StratifiedShuffleSplit(1, test_size=0.25, random_state=0).split(X, y))
    if name in ("additive", "pairs", "triples"):
        return MKLClassifierCV(bank, **given).fit(X, y)
    leading = leading_column(X, y, additive)
    if name == "no landmarks":
        return make_pipeline(Units(leading), MKLRegressorCV(KernelBank.joint(Matern(WIDTH, 0.5)), **given)).fit(X, y)
    sharp = Landmarks(Matern(WIDTH, 0.5), count, stretched=varied.index(leading), stretch=STRETCH)
    return MKLRegressorCV(KernelBank.joint(sharp, columns=varied), **given).fit(X, y)


def trees(name: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Return fitted trees."""
    allowed: Any = TREES[name]
    return HistGradientBoostingClassifier(max_iter=ROUNDS, interaction_cst=allowed, random_state=0).fit(X, y)


def measure(fit: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit and judge one model."""
    started = time.process_time()
    with common.quiet():
        model = fit()
    record = {"cpu_s": time.process_time() - started}
    scores = model.predict(X) if hasattr(model, "predict") else model.decision_function(X)
    record["accuracy"] = float(np.mean(np.sign(scores) == y))
    model = model[-1] if isinstance(model, Pipeline) else model
    if hasattr(model, "dual_gap"):
        record |= {"gap": model.dual_gap, "active": len(model.active)}
    if hasattr(model, "dual_gap_"):
        largest = model.cv_results_["alpha"].max() if model.alphas is None else np.nan
        record |= {"strength": model.alpha_ / largest, "alpha": model.alpha_, "gap": float(model.dual_gap_)}
        record |= {"active": len(model.weights_frame())}
    return record


def overview(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row a model: the mean over splits and its standard error, also of the difference from boosted trees."""
    names = dict.fromkeys([*TREES, *frame["model"]])
    wide = frame.pivot_table(index="seed", columns="model", values="accuracy").reindex(columns=list(names))
    lines = []
    for name, part in frame.groupby("model", sort=False):
        line = {"model": name, "splits": len(part), "accuracy": part["accuracy"].mean()}
        line["error"] = part["accuracy"].sem() if len(part) > 1 else np.nan
        behind = (wide[next(iter(TREES))] - wide[name]).dropna()
        line |= {"behind": behind.mean(), "its error": behind.sem() if len(behind) > 1 else np.nan}
        lines.append(line | {"cpu_s": part["cpu_s"].mean()})
    return pd.DataFrame(lines)


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Additive models, with pairs and with all columns together, and boosted trees.")
    parser.add_argument("--data", type=Path, default=None, help="folder of covtype15k.npz; drawn rows if not given")
    parser.add_argument("--splits", type=int, default=3, help="random splits")
    parser.add_argument("--models", default=",".join([*TREES, *GRIDS]), help="names, separated by commas")
    parser.add_argument("--resume", action="store_true", help="leave out what the output folder already has")
    options = parser.parse_args()
    name = "column_pairs_smoke" if options.smoke else "column_pairs"
    record, saved = common.environment(), options.output / f"{name}.csv"
    rows: list[dict[str, Any]] = (
        pd.read_csv(saved).to_dict("records") if options.resume and saved.exists() else []  # type: ignore[assignment]
    )
    known = {(row["seed"], row["model"]) for row in rows}
    for seed in range(options.seed, options.seed + (1 if options.smoke else options.splits)):
        X, y = load(None if options.smoke else options.data, seed)
        n = min(TRAINING, 2 * len(y) // 3)
        for model in [own for own in options.models.split(",") if (seed, own) not in known]:
            fit = (
                (lambda model=model, X=X[:n], y=y[:n]: trees(model, X, y))
                if model in TREES
                else (lambda model=model, X=X[:n], y=y[:n]: machine(model, X, y, 30 if options.smoke else 2000))
            )
            rows.append({"model": model, "seed": seed} | measure(fit, X[n:], y[n:]))
            common.save(pd.DataFrame(rows), record, options.output, name)
    common.print_environment(record)
    frame = overview(pd.DataFrame(rows))
    common.print_table(frame, "interactions of columns", dict.fromkeys(frame.columns[2:-1], ".4f") | {"cpu_s": ".0f"})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
