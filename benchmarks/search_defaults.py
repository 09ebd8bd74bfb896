"""Whether untouched searches for kernels are good: beside the defaults that they had before, and a tuned machine.

``python benchmarks/search_defaults.py [--products] [--data DIR] [--rows 300] [--splits 2] [--smoke] [--output DIR]``

Accuracy or R2 on rows held out, mean over splits, with CPU seconds of a fit. ``(0.05, 50)`` is the same estimator with
every width from 0.05 to 50; the tuned machine is a support vector classifier, or Gaussian ridge regression, chosen
over a grid by cross-validation with three parts. ``--products`` compares searches over products of columns instead,
untouched, at other strengths, and at ``p=2`` and ``alpha=0.01``, their first defaults. Sets that are not in the folder
are left out, with a line.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import _common as common
import pandas as pd
from defaults import Data, load
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import GaussianMKL, NonlinearMKL, PolynomialMKL

CLASSES = ("breast_cancer", "heart_statlog", "pima", "banana", "svmguide1", "ionosphere", "sonar")
NUMBERS = ("diabetes", "kin8nh", "concrete", "abalone", "autompg", "yacht")
WIDTHS = {"gamma": [0.01, 0.03, 0.1, 0.3, 1.0]}


def models(classes: bool, products: bool) -> dict[str, Any]:
    """Return what is compared."""
    loss = "hinge" if classes else "squared"
    if products:
        return {
            "products": PolynomialMKL(loss=loss),
            "0.03*noise": PolynomialMKL(loss=loss, alpha="0.03*noise"),
            "0.3*noise": PolynomialMKL(loss=loss, alpha="0.3*noise"),
            "p=2": PolynomialMKL(loss=loss, p=2.0),
            "p=2, 0.01": PolynomialMKL(loss=loss, p=2.0, alpha=0.01),
            "power": NonlinearMKL(loss),
            "power, 0.01": NonlinearMKL(loss, alpha=0.01),
        }
    machine = GridSearchCV(SVC(), {"C": [0.1, 1.0, 10.0, 100.0], **WIDTHS}, cv=3)
    ridge = GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": [0.01, 0.1, 1.0], **WIDTHS}, cv=3)
    tuned = machine if classes else TransformedTargetRegressor(ridge, transformer=StandardScaler())
    return {
        "untouched": GaussianMKL(loss),
        "(0.05, 50)": GaussianMKL(loss, width_range=(0.05, 50.0)),
        "tuned machine": make_pipeline(StandardScaler(), tuned),
    }


def measure(data: Data, rows: int, seed: int, products: bool) -> list[dict[str, Any]]:
    """Return score and CPU seconds of every model on a split."""
    X, X_test, y, y_test = data.split(rows, seed)
    found = []
    for name, model in models(data.classes, products).items():
        started = time.process_time()
        model.fit(X, y)
        spent = time.process_time() - started
        found.append({"set": data.name, "model": name, "score": model.score(X_test, y_test), "cpu_s": spent})
    return found


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=Path("data"), help="folder of archives")
    options.add_argument("--rows", type=int, default=300, help="training rows")
    options.add_argument("--splits", type=int, default=2)
    options.add_argument("--products", action="store_true", help="searches over products of columns")
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    names = [("diabetes", False)] if chosen.smoke else [(n, True) for n in CLASSES] + [(n, False) for n in NUMBERS]
    rows, splits = (60, 1) if chosen.smoke else (chosen.rows, chosen.splits)
    sets = [data for name, classes in names if (data := load(name, chosen.data, classes=classes)) is not None]
    runs = pd.DataFrame(
        [row for data in sets for seed in range(splits) for row in measure(data, rows, seed, chosen.products)]
    )
    table = runs.pivot_table("score", "set", "model", sort=False)
    seconds = runs.groupby("model")["cpu_s"].mean().rename("CPU seconds of a fit")
    shown = pd.concat([table, seconds.to_frame().T]).rename_axis("set").reset_index()
    common.print_table(shown, f"at most {rows} training rows, means over {splits} splits", dict.fromkeys(table, ".3f"))
    common.save(runs, record, chosen.output, "search_defaults")


if __name__ == "__main__":
    main()
