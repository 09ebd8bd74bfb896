"""
What enters when the penalty weakens?
=====================================

The path of models from the empty one on: each line is a kernel's part in the function. Kernels
that enter early matter at every strength; those that enter late, together, are noise or copies of
one another.
"""

from sklearn.datasets import load_diabetes

from manykernels import KernelBank, regularization_path
from manykernels.inspection import PathDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
bank = KernelBank.per_feature(
    widths=["0.5*median", "2*median"], standardize=True, normalize="mean_diagonal"
)
path = regularization_path(
    X, (y - y.mean()) / y.std(), kernels=bank, n_alphas=12, alpha_min_ratio=0.05
)
print(
    path.frame()
    .groupby("alpha", sort=False)["kernel"]
    .agg(["size", "first"])
    .rename(columns={"size": "kernels"})
)
PathDisplay.from_path(path, top=6).plot()

# %%
# The strength is chosen by folds: :doc:`/gallery/3_choose/strength_by_folds`.
