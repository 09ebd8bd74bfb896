"""Was it worth learning the weights? Once where two columns of thirty matter, once where all of them do."""

from __future__ import annotations

import numpy as np

from manykernels import Gaussian, KernelBank, MKLClassifier, compare

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 30))
bank = KernelBank.per_feature(Gaussian(1.0), standardize=True)
TRUTHS = {
    "two columns matter": X[:, 3] ** 2 + X[:, 7],
    "all columns matter": X.sum(axis=1) / np.sqrt(30),
}

for title, score in TRUTHS.items():
    y = np.where(score + 0.2 * rng.normal(size=len(X)) > np.median(score), "yes", "no")
    table = compare(MKLClassifier(bank), X, y, cv=3)
    print(f"{title}\n{table.round(3).to_string(index=False)}\n")
    best = table["method"][table["score"].idxmax()]
    print(f"best here: {best}\n")
