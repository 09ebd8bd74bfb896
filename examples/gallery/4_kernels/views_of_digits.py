"""
Three views of a digit
======================

Pixels, their profile (sums of rows and columns) and their spectrum, each with kernels of its own.
With several classes, each class has its own weights: the map shows which digit is recognized by
what.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier
from manykernels.inspection import WeightMapDisplay

images, y = load_digits(n_class=6, return_X_y=True)
square = images.reshape(-1, 8, 8)
blocks = {
    "pixels": images,
    "profile": np.hstack([square.sum(axis=1), square.sum(axis=2)]),
    "spectrum": abs(np.fft.rfft2(square)).reshape(len(images), -1),
}
X = pd.concat({name: pd.DataFrame(block) for name, block in blocks.items()}, axis=1)
views = {name: np.flatnonzero(X.columns.get_level_values(0) == name) for name in blocks}
X_train, X_test, y_train, y_test = train_test_split(
    X.to_numpy(), y, train_size=300, stratify=y, random_state=0
)

bank = KernelBank.from_views(views, normalize="mean_diagonal", standardize=True)
model = MKLClassifier(bank, alpha=0.003, class_weight="balanced").fit(X_train, y_train)
print(f"held-out accuracy {model.score(X_test, y_test):.3f}")
WeightMapDisplay.from_estimator(model, across="target").plot()

# %%
# A column of the map is a digit, a row a view with its kernels.
