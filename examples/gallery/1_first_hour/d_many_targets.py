"""
Many targets
============

The lower half of a digit from its upper half: each pixel is a target with a model of its own, on
the same kernels. The four rows of pixels are views; every target chooses which of them it looks
at.
"""

from sklearn.datasets import load_digits
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLRegressor
from manykernels.inspection import WeightMapDisplay

digits = load_digits(n_class=3).data
X, Y = digits[:, :32], digits[:, 32:][:, digits[:, 32:].std(axis=0) > 1]
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, random_state=0)
rows = {f"row {i}": slice(8 * i, 8 * i + 8) for i in range(4)}
model = MKLRegressor(KernelBank.from_views(rows, normalize="mean_diagonal")).fit(X_train, Y_train)
explained = r2_score(Y_test, model.predict(X_test), multioutput="variance_weighted")
print(f"{Y.shape[1]} targets, explained variance {explained:.2f}")
WeightMapDisplay.from_estimator(model, across="target").plot()

# %%
# Each target is a column of the map, and each row a view. Pixels that are always white are left
# out: there is nothing to learn.
