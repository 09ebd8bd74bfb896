"""
Many targets
============

The lower half of a digit from its upper half: 32 targets, one model each, on the same kernels. The four rows of
pixels are views; every target chooses which of them it looks at.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLRegressor
from manykernels.inspection import WeightMapDisplay

digits = load_digits(n_class=5).data
upper, lower = digits[:, :32], digits[:, 32:]
X_train, X_test, Y_train, Y_test = train_test_split(upper, lower, train_size=300, random_state=0)

bank = KernelBank.from_views({f"row {i}": slice(8 * i, 8 * i + 8) for i in range(4)}, normalize="mean_diagonal")
model = MKLRegressor(bank).fit(X_train, Y_train)
errors = ((model.predict(X_test) - Y_test) ** 2).mean(axis=0)
print(f"{Y_train.shape[1]} targets, explained variance {1 - errors.sum() / Y_test.var(axis=0).sum():.2f}")
print("kernels of each target:", (np.asarray(model.kernel_weights_) > 0).sum(axis=1))
WeightMapDisplay.from_estimator(model, across="target").plot()

# %%
# Each target is a column of the map. Corners of the image never have ink: their models are constant, and say so by
# weights of zero.
