"""Widths that are found, not listed: one width, or one width a feature, with a certificate. Writes a picture."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from manykernels import GaussianMKL

# A slow and a fast wave of the first column; three more columns are noise.
rng = np.random.default_rng(0)
X = np.column_stack([rng.uniform(-3, 3, 200), rng.normal(size=(200, 3))])
y = np.sin(X[:, 0]) + 0.5 * np.sin(9 * X[:, 0]) * (X[:, 0] > 0) + 0.1 * rng.normal(size=200)
train, test = np.arange(150), np.arange(150, 200)

one = GaussianMKL(alpha=1e-3, tol=1e-2).fit(X[train], y[train])
each = GaussianMKL(alpha=1e-3, tol=2e-2, per_feature=True, random_state=0).fit(X[train], y[train])
for name, model in (("one width", one), ("one width a feature", each)):
    r2 = model.score(X[test], y[test])
    print(f"{name}: held-out R2 {r2:.2f}, {len(model.found_)} kernels, gap {model.dual_gap_:.1e}")

heaviest = each.found_[int(np.argmax(each.kernel_weights_))]
print("widths of the heaviest kernel:", ", ".join(f"{width:.2g}" for width in heaviest.widths))

grid = np.column_stack([np.linspace(-3, 3, 400), np.zeros((400, 3))])
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.scatter(X[train, 0], y[train], s=8, color="0.6", label="training samples")
axis.plot(grid[:, 0], one.predict(grid), label="one width")
axis.plot(grid[:, 0], each.predict(grid), label="one width a feature")
axis.set(xlabel="first column (the others at zero)", ylabel="prediction")
axis.legend()
output = Path("demo_output")
output.mkdir(exist_ok=True)
figure.savefig(output / "continuous_widths.png", dpi=120)
