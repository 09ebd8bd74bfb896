"""Six views of 120 samples, two of which matter: find them, and split the prediction among them. Writes a picture."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split

from manykernels import KernelBank, MKLRegressor, predictive_importance
from manykernels.datasets import make_multiview

data = make_multiview(300, (4, 6, 3, 8, 5, 4), n_informative=2, task="regression", noise=0.3, random_state=1)
X_train, X_test, y_train, y_test, _, effects = train_test_split(data.X, data.y, data.effects, random_state=0)

# Gaussian kernels of three widths and a linear kernel on each view: 24 kernels.
bank = KernelBank.from_views(data.views)
search = GridSearchCV(MKLRegressor(bank), {"alpha": [0.01, 0.03, 0.1]}, cv=4).fit(X_train, y_train)
model = search.best_estimator_

view_of = np.array([name.split(":")[0] for name in model.kernel_names_])
importance = predictive_importance(model, X_test, y_test, random_state=0)
dropped = importance.set_index("name")["importance"].round(2).to_dict()
print(f"informative views {', '.join(data.informative)}; drop in held-out R2 without each: {dropped}")
print(
    f"held-out R2 {model.score(X_test, y_test):.2f} (the truth itself: {data.best_r2:.2f}), alpha {search.best_params_}"
)

parts = model.decompose(X_test)
figure, axes = plt.subplots(1, len(data.informative), figsize=(8, 3.6), layout="constrained", sharey=True)
for axis, view in zip(axes, data.informative, strict=True):
    learned = parts[view_of == view].sum(axis=0)
    print(f"correlation of the learned with the true effect of {view}: {np.corrcoef(learned, effects[view])[0, 1]:.2f}")
    axis.scatter(effects[view], learned - learned.mean(), s=12)
    axis.axline((0, 0), slope=1, color="gray", linewidth=1)
    axis.set(xlabel=f"true effect of {view}", title=view)
axes[0].set_ylabel("learned effect, centered")
output = Path("demo_output")
output.mkdir(exist_ok=True)
figure.savefig(output / "multiview_regression.png", dpi=120)
print(f"picture: {output / 'multiview_regression.png'}")
