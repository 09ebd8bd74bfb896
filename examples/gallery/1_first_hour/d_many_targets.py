"""
Many targets
============

The lower half of a digit from its upper half: 32 targets, one model each, on the same kernels.
The four rows of pixels are views; every target chooses which of them it looks at.
"""

from sklearn.datasets import load_digits
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLRegressor
from manykernels.inspection import WeightMapDisplay

X, Y = load_digits(n_class=3).data[:, :32], load_digits(n_class=3).data[:, 32:]
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, random_state=0)
rows = {f"row {i}": slice(8 * i, 8 * i + 8) for i in range(4)}
model = MKLRegressor(KernelBank.from_views(rows, normalize="mean_diagonal")).fit(X_train, Y_train)
explained = r2_score(Y_test, model.predict(X_test), multioutput="variance_weighted")
print(f"{Y.shape[1]} targets, explained variance {explained:.2f}")
WeightMapDisplay.from_estimator(model, across="target").plot()

# %%
# Each target is a column of the map. Corners of the image never have ink: their models are
# constant, and say so by weights of zero.
