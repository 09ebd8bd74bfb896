"""Four findings that made noise pass for something, before and after: what a new user is told today.

``python benchmarks/findings.py [--positives] [--smoke] [--output DIR]``

1. A target that knows nothing of 200 x 20 columns: kernels that are kept, and whether a word is said.
2. One true number and one category of noise, of 5, 30 and 100 levels, in 700 rows: the share of the category in the
   norms, and in ``feature_importances_``.
3. Few positives, 12 % of 600 rows, of one linear and one curved column among ten: the area under the ROC curve on 2,000
   new rows, where a search chooses by accuracy, as it did before, and by the loss that is minimized.
   With ``--positives`` also 1 and 5 %, the hinge and the squared hinge, two draws each of 300 rows; some minutes.
4. 50 targets on four linear views that share their weights, with much noise: R2 on new rows, beside ``RidgeCV``.

All data are drawn, since the sets of the report are not in this repository; what was measured there stands beside the
answers in benchmarks/records/evidence.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score, roc_auc_score

from manykernels import KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.kernels import Linear

SAID = ("more strongly related", "No kernel was selected", "No kernel predicts")


def fitted(model: Any, X: Any, y: Any) -> tuple[Any, bool]:
    """Return a fitted model, and whether it said that there may be nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return model, any(word in str(one.message) for one in caught for word in SAID)


def of_noise(rng: np.random.Generator, n: int) -> list[tuple[str, str]]:
    """Return what is said of a target that knows nothing."""
    X, y = rng.normal(size=(n, 20)), rng.uniform(size=n) < 0.5
    rows = []
    for model in (MKLClassifier(), MKLClassifierCV()):
        found, said = fitted(model, X, y)
        kept = int(np.count_nonzero(found.kernel_weights_))
        text = f"{kept} kernels, training accuracy {found.score(X, y):.2f}, {'says so' if said else 'says nothing'}"
        rows.append((f"noise, {type(model).__name__}", text))
    return rows


def of_categories(rng: np.random.Generator, n: int) -> list[tuple[str, str]]:
    """Return shares of a category of noise beside a true number."""
    rows = []
    for levels in (5, 30, 100):
        number = rng.normal(size=n)
        X = pd.DataFrame({"number": number, "category": pd.Categorical(rng.integers(0, levels, n))})
        model, _ = fitted(MKLClassifier(), X, number + rng.normal(size=n) > 0)
        norms = model.weights_frame().groupby("columns")["norm_share"].sum().reindex(["category"]).fillna(0.0)
        text = f"{norms.iloc[0]:.2f} of the norms, {model.feature_importances_[1]:.2f} of the importances"
        rows.append((f"noise category of {levels} levels", text))
    return rows


def of_few_positives(
    rng: np.random.Generator, n: int, share: float = 0.12, loss: str = "logistic"
) -> list[tuple[str, str]]:
    """Return areas under the curve of what is chosen by accuracy and by the loss."""
    X = rng.normal(size=(n + 2000, 10))
    score = X[:, 0] + np.sin(2.0 * X[:, 1]) + rng.normal(size=len(X))
    y = score > np.quantile(score[:n], 1.0 - share)  # as many among the rows of the fit
    rows = []
    for name, scoring in (("accuracy", "accuracy"), ("the loss", None)):
        model, _ = fitted(MKLClassifierCV(loss=loss, scoring=scoring), X[:n], y[:n])
        area = roc_auc_score(y[n:], model.decision_function(X[n:]))
        kept = "" if np.any(model.kernel_weights_) else ", the constant"
        rows.append((f"{share:.0%} positives, {loss}, chosen by {name}", f"AUC {area:.3f}{kept}"))
    return rows


def of_all_positives(seed: int, n: int) -> list[tuple[str, str]]:
    """Return the same of fewer positives and other losses, two draws of each."""
    return [
        row
        for share in (0.01, 0.05, 0.12)
        for loss in ("logistic", "squared_hinge", "hinge")
        for draw in range(2)
        for row in of_few_positives(np.random.default_rng([seed, draw]), n, share, loss)
    ]


def of_targets(rng: np.random.Generator, n: int, n_targets: int) -> list[tuple[str, str]]:
    """Return R2 of many noisy targets on linear views."""
    X = rng.normal(size=(2 * n, 80))
    views = {f"view {k}": list(range(20 * k, 20 * k + 20)) for k in range(4)}
    Y = X[:, :20] @ rng.normal(size=(20, n_targets)) * 0.15 + rng.normal(size=(2 * n, n_targets))
    bank = KernelBank.per_view(Linear(), views, widths=[])
    given: dict[str, Any] = {"outputs": "shared"}
    models: dict[str, Any] = {"default": MKLRegressor(bank, **given), "CV": MKLRegressorCV(bank, **given)}
    models["RidgeCV"] = RidgeCV(np.logspace(-1, 4, 12))
    rows = []
    for name, model in models.items():
        found, _ = fitted(model, X[:n], Y[:n])
        rows.append((f"{n_targets} targets, {name}", f"R2 {r2_score(Y[n:], found.predict(X[n:])):.3f}"))
    return rows


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("What noise passes for.")
    parser.add_argument("--positives", action="store_true", help="few positives of other shares and losses only")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    rng = np.random.default_rng(options.seed)
    n, n_targets = (100, 3) if options.smoke else (700, 50)
    if options.positives:
        found = of_all_positives(options.seed, min(n, 300))
    else:
        found = of_noise(rng, min(n, 200)) + of_categories(rng, n)
        found += of_few_positives(rng, min(n, 600)) + of_targets(rng, min(n, 200), n_targets)
    frame = pd.DataFrame(found, columns=["finding", "now"])
    common.print_table(frame, "What noise passes for", {})
    common.save(frame, record, options.output, "findings_positives" if options.positives else "findings")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
