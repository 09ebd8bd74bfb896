"""
One curve a column
==================

With kernels on single columns the model is additive: a curve for each selected column, as users
of pyGAM and of explainable boosting know it. Here every curve has its width chosen among 135
kernels at once, columns can drop out, and the gap says how far any other choice could be better.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from manykernels import KernelBank, solve

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
bank = KernelBank.per_feature(widths=[0.3, 0.5, 1.0, 2.0, 4.0], standardize=True)
target, strength = (y - y.mean()) / y.std(), 0.15
model = solve(
    bank,
    target,
    X=X,
    loss="squared",
    penalty="l1",
    alpha=f"{strength}*max",
    representation="factored",
)
print(model.weights_frame()[["name", "weight"]].to_string(index=False))
print(f"relative duality gap of the exact kernels: {model.dual_gap:.0e}")

columns = list(dict.fromkeys(name.split(":")[0] for name in model.weights_frame()["name"]))
figure, axes = plt.subplots(2, 4, figsize=(9, 4.5), sharey=True, layout="constrained")
for axis, column in zip(axes.flat, columns, strict=False):
    curve = model.functions.shape_functions(X.columns.get_loc(column))
    axis.plot(curve["x"], curve["effect"])
    axis.fill_between(curve["x"], -1, -1 + curve["density"] / curve["density"].max() / 4, alpha=0.3)
    axis.set(title=column)
for axis in axes.flat[len(columns) :]:
    axis.set_axis_off()
axes[0, 0].set_ylabel("effect, in deviations of y")

# %%
# The shaded bottom of each panel shows where the data are: where there are none, a curve means
# nothing.
