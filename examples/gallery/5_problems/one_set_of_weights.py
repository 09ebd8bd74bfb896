"""
One set of weights for all targets
==================================

Which rows of pixels does one need to draw the lower half of a digit? With weights of their own,
each target selects by itself. Shared weights ask once for all: a kernel is in or out for every
target.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLRegressor

digits = load_digits(n_class=3).data / 16
X, Y = digits[:, :32], digits[:, 32:][:, digits[:, 32:].std(axis=0) > 0.1]
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, train_size=250, random_state=0)
rows = {f"row {i}": slice(8 * i, 8 * i + 8) for i in range(4)}
bank = KernelBank.from_views(rows, normalize="mean_diagonal")
for weights in ("own", "shared"):
    model = MKLRegressor(bank, outputs=weights, tol=1e-3).fit(X_train, Y_train)
    left = ((model.predict(X_test) - Y_test) ** 2).mean(axis=0).sum() / Y_test.var(axis=0).sum()
    active = np.atleast_2d(model.kernel_weights_) > 0
    used = f"kernels in any model {active.any(axis=0).sum()} of {active.shape[1]}"
    print(f"{weights:7} explained {1 - left:.2f}, {used}")

# %%
# One selection is easier to tell, and predicts for rare targets what they could not learn alone.
# Targets that need other kernels than the rest are better off with weights of their own.
