"""What the scale of rare values changes: words of texts, indicators of levels and pixels, beside standard deviations.

``python benchmarks/rare_values.py [--data DIR] [--splits 2] [--sets NAME,...] [--smoke] [--output DIR]``

Kernel ridge regression of class indicators, its strength by leave-one-out errors, with a linear kernel and with the
best of three Gaussians (by the same errors), on each view or on all columns, from banks with ``standardize="robust"``,
with and without larger scales of columns that are mostly at one end of their range. Accuracy on at most 1,000 new rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import _common as common
import numpy as np
import pandas as pd
from accuracy import load
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from manykernels import KernelBank
from manykernels.kernels import Gaussian, Linear
from manykernels.kernels.bank.normalization import scales_of_columns

SETS = {
    **{"webkb203": 120, "bbcsport": 300, "three_sources": 110, "adult_a9a": 600, "covtype15k": 600, "mnist10k": 400},
    **{"digits": 300, "spambase": 600, "flare_solar": 300, "german_ida": 400, "titanic": 150, "image_ida": 300},
}
WIDTHS = ("0.5*median", "median", "2*median")
STRENGTHS = np.logspace(-5, 2, 12)  # times the mean eigenvalue


def ridge(gram: np.ndarray, cross: np.ndarray, y: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the smallest leave-one-out error, and the accuracy on new rows."""
    n, means = len(gram), gram.mean(axis=0)
    values, vectors = np.linalg.eigh(gram - means - means[:, None] + means.mean())
    values, classes = np.maximum(values, 0.0), np.unique(y)
    targets = 2.0 * (y[:, None] == classes) - 1.0
    shift = targets.mean(axis=0)
    projected, found = vectors.T @ (targets - shift), []
    for strength in STRENGTHS * np.trace(gram) / n:
        kept = values / (values + strength)
        left = 1.0 - np.square(vectors) @ kept - 1.0 / n
        residuals = (targets - shift - vectors @ (kept[:, None] * projected)) / left[:, None]
        found.append((float(np.square(residuals).mean()), strength))
    error, strength = min(found)
    coefficients = vectors @ (projected / (values + strength)[:, None])
    scores = (cross - cross.mean(axis=1)[:, None] - means + means.mean()) @ coefficients + shift
    return error, float((classes[scores.argmax(axis=1)] == truth).mean())


def accuracies(X: Any, y: Any, new: Any, truth: Any, views: Any, *, rare: bool) -> tuple[float, float]:
    """Return the accuracy of linear kernels and of the best Gaussians."""
    found = []
    for spec in (Linear(), *(Gaussian(width) for width in WIDTHS)):
        bank = KernelBank.from_views(views, spec, standardize="robust")
        scales = scales_of_columns if rare else _deviations
        with patch("manykernels.kernels.bank.bank.scales_of_columns", scales):
            fitted = bank.fit(X)
        rows = fitted.prepare(X)
        found.append(ridge(fitted.block(rows, rows).sum(0), fitted.block(fitted.prepare(new), rows).sum(0), y, truth))
    return found[0][1], min(found[1:])[1]


def _deviations(low: Any, high: Any, means: Any, deviations: Any) -> Any:
    """Return the scales of columns without a look at rare values."""
    return deviations


def main() -> int:
    """Measure, print, save."""
    parser = common.parser(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets (.npz with X and y)")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", default=",".join(SETS), help="names, with commas")
    options = parser.parse_args()
    names, splits = (["digits"], 1) if options.smoke else (options.sets.split(","), options.splits)
    record = common.environment()
    common.print_environment(record)
    table = []
    for name in names:
        if name == "digits":
            X, y = load_digits(return_X_y=True)
            bank = None
        else:
            data = load(name, options.data, classes=True)
            if data is None:
                continue
            X, y, bank = data.X, data.y, data.bank
        views = {"all": slice(None)} if bank is None else dict(bank.kernels[0].views)
        rows = 60 if options.smoke else SETS[name]
        found = []
        for seed in range(splits):
            n_test = min(1000, len(y) - rows)
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, train_size=rows, test_size=n_test, stratify=y, random_state=seed
            )
            each = [accuracies(X_train, y_train, X_test, y_test, views, rare=rare) for rare in (False, True)]
            found.append(np.ravel(each))
        columns = ("linear, deviations", "Gaussian, deviations", "linear", "Gaussian")
        means = np.mean(found, axis=0).round(3).tolist()
        table.append({"set": name, "rows": rows} | dict(zip(columns, means, strict=True)))
    frame = pd.DataFrame(table)
    common.print_table(frame, "Accuracy with scales by deviations, and with larger scales of rare values", {})
    common.save(frame, record, options.output, "rare_values")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
