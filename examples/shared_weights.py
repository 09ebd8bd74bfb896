"""Digits in four views: one set of kernel weights for all ten classes, beside weights for each class of its own."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, Linear, MKLClassifier

X, y = (part[:500] for part in load_digits(return_X_y=True))
pictures = X.reshape(-1, 8, 8)
parts = {
    "pixels": X,
    "quarters": pictures.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(X), -1),
    "profiles": np.hstack([pictures.sum(axis=1), pictures.sum(axis=2)]),
    "fourier": np.abs(np.fft.rfft2(pictures)).reshape(len(X), -1),
}
ends = np.cumsum([0, *(part.shape[1] for part in parts.values())])
views = {name: list(range(*ends[i : i + 2])) for i, name in enumerate(parts)}
bank = KernelBank.per_view(
    Linear(), views, widths=("0.5*median", "median", "2*median"), standardize=True, normalize="mean_diagonal"
)
X_train, X_test, y_train, y_test = train_test_split(
    np.hstack(list(parts.values())), y, test_size=0.5, stratify=y, random_state=0
)

for weights in ("own", "shared"):
    model = MKLClassifier(bank, outputs=weights, alpha=0.003).fit(X_train, y_train)
    active = np.atleast_2d(model.kernel_weights_) > 0
    print(
        f"{weights}: accuracy {model.score(X_test, y_test):.3f}, {active.any(axis=0).sum()} of "
        f"{active.shape[1]} kernels for any class, {active.sum(axis=1).mean():.1f} a class, gap {model.dual_gap_:.0e}"
    )

# One table for all classes, and what each view adds to the score of each class for the first new picture.
print(model.weights_frame()[["name", "weight", "norm_share"]].round(3).to_string(index=False))
added = model.decompose(X_test[:1])[:, 0]
for view in views:
    chosen = [name.startswith(view) for name in model.kernel_names_]
    print(f"{view:9}", added[chosen].sum(axis=0).round(2))
print(f"predicted {model.predict(X_test[:1])[0]}, with probability {model.predict_proba(X_test[:1]).max():.2f}")
