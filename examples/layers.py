"""Patients that differ by layer: everyone has clinical values, and three in four lack one of three assays.

Views overlap in part. Kernels are zero where a view is missing (``missing="mask"``), the sparse group lasso over views
and columns (a tree of penalties) weighs both, and two targets share one set of kernels. Beside it early fusion: all
columns as one table, gaps filled by means, ridge regression. Learning curves show what both make of few and of many
patients.

Run with ``python examples/layers.py``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import KernelBank, Linear, MKLRegressor, Views
from manykernels.kernels import PerFeature
from manykernels.objective import Tree

rng = np.random.default_rng(0)
SIZES = {"clinical": 4, "rna": 20, "protein": 20, "methylation": 20}
N, TEST = 640, 240
labels = [f"patient {i}" for i in range(N)]
tables = {
    view: pd.DataFrame(rng.normal(size=(N, size)), labels, [f"{view} {j}" for j in range(size)])
    for view, size in SIZES.items()
}
clinical, rna, protein = (tables[view].to_numpy() for view in ("clinical", "rna", "protein"))
responses = np.column_stack(
    [clinical[:, 0] + rna[:, :3].sum(axis=1) + protein[:, 0], rna[:, :3].sum(axis=1) - protein[:, 0] + protein[:, 1]]
)
targets = pd.DataFrame(responses + rng.normal(size=(N, 2)), labels, ["growth", "dose"])
lacking = rng.choice(["rna", "protein", "methylation", "none"], N)
overlapping = {view: table[lacking != view] for view, table in tables.items()}

views = Views(overlapping)
print(views.summary().to_string(index=False))
known = views.align(targets)
tree = Tree(1.0, {view: f"*{view} *" for view in SIZES}, l1_ratio=0.5)
bank = KernelBank([PerFeature([Linear()])], missing="mask", standardize=True)
early = make_pipeline(SimpleImputer(), StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
whole = pd.concat(overlapping.values(), axis=1).loc[known.index]
for n in (50, 100, 200, 400):
    model = MKLRegressor(bank, penalty={"*": tree}, outputs="shared", tol=1e-3)
    model.fit(views[:n], known[:n])
    early.fit(whole[:n], known[:n])
    scores = model.score(views[-TEST:], known[-TEST:]), early.score(whole[-TEST:], known[-TEST:])
    active = [name for name, weight in zip(model.kernel_names_, model.kernel_weights_, strict=True) if weight > 0]
    kept = ", ".join(f"{view} {sum(f'{view} ' in name for name in active)}" for view in SIZES)
    scores = ", early fusion ".join(f"{score:.2f}" for score in scores)
    print(f"{n} patients: R2 {scores}; columns kept: {kept}; gap {model.dual_gap_:.0e}")
