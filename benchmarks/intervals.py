"""Whether bands and intervals hold what they say: coverage on drawn functions and on real sets.

``python benchmarks/intervals.py [--data DIR] [--draws 20] [--rows 150] [--smoke] [--output DIR]``

First table: share of the values of the true function inside 95 % bands of ``predict(X, return_std=True)`` and of
`ShapeDisplay` curves, by draws of 150 rows; with ``--rows`` of more, whose kernels are held as factors, and no other
table. Second: the same of bootstrap bands, for curves of the median and of logarithms of hazards, with a tenth of the
times censored, in fewer draws (``--bootstrap``). Third: share of held-out targets inside 90 % intervals (sets, for
classes) of MAPIE's CV+ around an untouched estimator, with their mean width in standard deviations of y (mean number of
classes), inside those that a search makes of its own folds (``conformal_intervals``, ``conformal_sets``), of the models
of these folds too (``keep_folds``, CV+), and inside 90 % intervals of ``return_std`` and the variance of the noise.
Sets that are not in the folder of ``--data`` are left out, with a line.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
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
from manykernels.estimators.supervised.posterior import posterior_of
from manykernels.inspection import ShapeDisplay, bootstrap_refits, conformal_intervals, conformal_sets
from manykernels.kernels import Gaussian, Linear

NUMBERS = (
    "concrete",
    "yacht",
    "energy",
    "abalone",
    "winequality_red",
    "autompg",
    "kin8nh",
    "puma8nh",
    "cpu_small",
    "cpu_act",
)
CLASSES = (
    "pima",
    "heart_statlog",
    "sonar",
    "ionosphere",
    "liver",
    "thyroid_ida",
    "german_ida",
    "banana",
    "ringnorm",
    "waveform",
)
TRAIN, TEST, LEVEL, NORMAL = 150, 500, 0.9, 1.6449
CURVES = {
    "wave": lambda x: np.sin(2.0 * x),
    "line": lambda x: 0.7 * x,
    "bump": lambda x: 2.0 * np.exp(-4.0 * x**2),
}


def bands(name: str, seed: int, n: int = TRAIN) -> dict[str, Any]:
    """Return how much of a function of the first of three columns is inside 95 % bands."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 3))
    truth = CURVES[name]
    bank = KernelBank.per_feature([Linear(), Gaussian(0.3), Gaussian(1.0)])
    model = _fitted(MKLRegressor(bank), X, truth(X[:, 0]) + 0.5 * rng.normal(size=n))
    new = rng.uniform(-2.0, 2.0, size=(200, 3))
    mean, deviation = model.predict(new, return_std=True)
    shape = ShapeDisplay.from_estimator(model, X, columns=["x0"], bands=True).frame()
    curve = truth(shape["x"]) - shape["density"] @ truth(shape["x"])
    return {
        "function": name,
        "predictions": float(np.mean(np.abs(mean - truth(new[:, 0])) <= 1.96 * deviation)),
        "curve": float(np.mean(np.abs(shape["effect"] - curve) <= 1.96 * shape["std"])),
    }


def refitted(name: str, seed: int) -> dict[str, Any]:
    """Return how much of a curve of the median, and of logarithms of hazards, is inside bootstrap bands."""
    rng = np.random.default_rng(seed)
    X, truth = rng.uniform(-2.0, 2.0, size=(TRAIN, 3)), CURVES[name]
    bank = KernelBank.per_feature([Linear(), Gaussian(0.3), Gaussian(1.0)])
    risk = truth(X[:, 0])
    times = rng.exponential(size=TRAIN) * np.exp(-risk)
    found: dict[str, Any] = {"function": name}
    for kind, model, y in (
        ("median", MKLRegressor(bank, loss="quantile", tol=1e-2), risk + 0.5 * rng.normal(size=TRAIN)),
        ("hazard", MKLSurvival(bank, tol=1e-2), survival_array(rng.uniform(size=TRAIN) < 0.9, times)),
    ):
        refits = bootstrap_refits(_fitted(model, X, y), X, y, n_refits=20, random_state=seed)
        shape = ShapeDisplay.from_estimator(model, X, columns=["x0"], bands=refits).frame()
        curve = truth(shape["x"]) - shape["density"] @ truth(shape["x"])
        found[kind] = float(np.mean(np.abs(shape["effect"] - curve) <= 1.96 * shape["std"]))
    return found


def intervals(name: str, folder: Path, seed: int) -> dict[str, Any] | None:
    """Return the coverage of conformal intervals or sets on a set; None, with a line, if it is not there."""
    from mapie.classification import CrossConformalClassifier
    from mapie.regression import CrossConformalRegressor

    path = folder / f"{name}.npz"
    if not path.is_file():
        common.CONSOLE.print(f"left out: there is no {path}")
        return None
    with np.load(path, allow_pickle=False) as held:
        X, y = held["X"].astype(np.float64), held["y"]
    y = y[:, 0] if y.ndim > 1 else y
    classes = name in CLASSES
    n_test = min(TEST, len(y) - min(TRAIN, len(y) // 2))
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=min(TRAIN, len(y) // 2), test_size=n_test, stratify=y if classes else None, random_state=seed
    )
    row: dict[str, Any] = {"set": name, "rows": len(y_train)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if classes:
            sets = CrossConformalClassifier(MKLClassifier(loss="logistic"), confidence_level=LEVEL, random_state=seed)
            chosen = sets.fit_conformalize(X_train, y_train).predict_set(X_test)[1][:, :, 0]
            places = np.searchsorted(np.unique(y_train), y_test)
            search = MKLClassifierCV(search={"keep_folds": True}).fit(X_train, y_train)
            plus = conformal_sets(search, y_train, X_test, confidence=LEVEL).to_numpy()
            del search._fold_models
            own = conformal_sets(search, y_train, X_test, confidence=LEVEL).to_numpy()
            return row | {
                "conformal": chosen[np.arange(len(y_test)), places].mean(),
                "size": chosen.sum(axis=1).mean(),
                "own folds": own[np.arange(len(y_test)), places].mean(),
                "own size": own.sum(axis=1).mean(),
                "own CV+": plus[np.arange(len(y_test)), places].mean(),
                "CV+ size": plus.sum(axis=1).mean(),
            }
        around = CrossConformalRegressor(MKLRegressor(), confidence_level=LEVEL, random_state=seed)
        low, high = around.fit_conformalize(X_train, y_train).predict_interval(X_test)[1][:, :, 0].T
        search = MKLRegressorCV(search={"keep_folds": True}).fit(X_train, y_train)
        plus = conformal_intervals(search, y_train, X_test, confidence=LEVEL)
        del search._fold_models
        own = conformal_intervals(search, y_train, X_test, confidence=LEVEL)
    model = _fitted(MKLRegressor(resources={"representation": "gram"}), X_train, y_train)
    mean, deviation = model.predict(X_test, return_std=True)
    reach = NORMAL * np.sqrt(deviation**2 + posterior_of(model).kept.dispersion)
    return row | {
        "conformal": np.mean((low <= y_test) & (y_test <= high)),
        "size": np.mean(high - low) / y_train.std(),
        "own folds": np.mean((own["low"] <= y_test) & (y_test <= own["high"])),
        "own size": np.mean(own["high"] - own["low"]) / y_train.std(),
        "own CV+": np.mean((plus["low"] <= y_test) & (y_test <= plus["high"])),
        "CV+ size": np.mean(plus["high"] - plus["low"]) / y_train.std(),
        "gaussian": np.mean(np.abs(y_test - mean) <= reach),
        "gaussian size": 2.0 * reach.mean() / y_train.std(),
    }


def _fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X, y)


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Coverage of bands and intervals.")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--draws", type=int, default=10, help="draws of each function")
    parser.add_argument("--rows", type=int, default=TRAIN, help="of the draws of the first table; others end with it")
    parser.add_argument("--bootstrap", type=int, default=5, help="draws of each function for bootstrap bands")
    parser.add_argument("--splits", type=int, default=1, help="random splits of each set")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    draws = range(options.seed, options.seed + (1 if options.smoke else options.draws))
    frame = pd.DataFrame([bands(name, seed, options.rows) for name in CURVES for seed in draws])
    table = frame.groupby("function", sort=False).mean().reset_index()
    common.print_table(table, "Inside 95 % bands", {"predictions": ".3f", "curve": ".3f"})
    common.save(frame, record, options.output, "bands")
    if options.rows != TRAIN:
        return 0
    several = range(options.seed, options.seed + (1 if options.smoke else options.bootstrap))
    frame = pd.DataFrame(
        [refitted(name, seed) for name in list(CURVES)[: 1 if options.smoke else None] for seed in several]
    )
    table = frame.groupby("function", sort=False).mean().reset_index()
    common.print_table(table, "Inside 95 % bootstrap bands of the curve", {"median": ".3f", "hazard": ".3f"})
    common.save(frame, record, options.output, "bootstrap_bands")
    if options.smoke:
        return 0
    named = [
        (name, seed) for name in (*NUMBERS, *CLASSES) for seed in range(options.seed, options.seed + options.splits)
    ]
    rows = [row for name, seed in named if (row := intervals(name, options.data, seed)) is not None]
    frame = pd.DataFrame(rows)
    table = frame.groupby("set", sort=False).mean().reset_index()
    shown = dict.fromkeys(
        ["conformal", "size", "own folds", "own size", "own CV+", "CV+ size", "gaussian", "gaussian size"], ".3f"
    ) | {"rows": ".0f"}
    common.print_table(table, "Inside 90 % intervals or sets", shown)
    common.save(frame, record, options.output, "intervals")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
