"""Labels of many species at the same sites: one selection of kernels for all of them, with a certificate.

``python benchmarks/labels.py [--labels T] [--rows N] [--outputs shared own] [--representation auto]
[--memory SIZE] [--smoke]``

Draws 20 covariates, five of which matter to 69 labels, and fits `MKLClassifier` with a Gaussian kernel on each of them
and no other choice. Prints CPU seconds, peak memory, the relative duality gap, the number of selected kernels, and the
mean area under the ROC curve and log loss of 1,000 other rows beside those of the scores that drew the labels.
"""

from __future__ import annotations

import time
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

from manykernels import Gaussian, KernelBank, MKLClassifier

COVARIATES, RELEVANT, NEW_ROWS = 20, 5, 1_000


def draw(n: int, n_labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels and the probabilities that drew them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COVARIATES))
    curves = np.sin(1.5 * X[:, :RELEVANT]) + 0.5 * X[:, :RELEVANT]
    chances = expit(curves @ rng.normal(size=(RELEVANT, n_labels)) + rng.normal(size=n_labels))
    return X, (rng.random(chances.shape) < chances).astype(float), chances


def run(n: int, n_labels: int, outputs: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return the row of one fit."""
    X, y, chances = draw(n + NEW_ROWS, n_labels)
    bank = KernelBank.per_feature(Gaussian(1.0), standardize=True)
    model = MKLClassifier(bank, outputs=outputs, resources=resources)
    began = time.process_time()
    model.fit(X[:n], y[:n])
    seconds, peak = time.process_time() - began, common.peak_memory_bytes()
    table = model.label_frame(X[n:], y[n:]).loc["mean"]
    told = zip(y[n:].T, chances[n:].T, strict=True)
    best = np.mean([(roc_auc_score(own, p), log_loss(own, p)) for own, p in told], axis=0)
    n_kernels = int((np.atleast_2d(model.kernel_weights_) > 0).any(axis=0).sum())
    return {
        "outputs": outputs, "held": model.representation_, "rows": n, "labels": n_labels, "cpu_s": round(seconds, 1),
        "peak_mb": round(peak / 2**20), "gap": f"{model.dual_gap_:.1e}", "kernels": n_kernels,
        "auc": round(table["roc_auc"], 3), "best_auc": round(best[0], 3),
        "log_loss": round(table["log_loss"], 3), "best_log_loss": round(best[1], 3),
    }  # fmt: skip


def main() -> None:
    """Fit and print a table."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--labels", type=int, default=69)
    parser.add_argument("--rows", type=int, default=2_100, help="training rows")
    parser.add_argument("--outputs", nargs="+", choices=("shared", "own"), default=["shared"])
    parser.add_argument("--representation", choices=("auto", "gram", "factored"), default="auto")
    parser.add_argument("--memory", metavar="SIZE", help="memory budget, such as 18GB; by default half of the memory")
    given = parser.parse_args()
    n, n_labels = (150, 4) if given.smoke else (given.rows, given.labels)
    resources = {"representation": given.representation, "memory_budget": given.memory}
    table = pd.DataFrame([run(n, n_labels, outputs, resources) for outputs in given.outputs])
    print(table.to_string(index=False))
    common.save(table, {"labels": n_labels, "rows": n}, given.output, "labels")


if __name__ == "__main__":
    main()
