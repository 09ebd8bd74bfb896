"""Bands of what was learned, and intervals for new rows: the posterior at the learned weights, and conformal ones.

Bands say how sure the curve of a column is. They are plug-in: a Gaussian process with the kernel weights that were
learned, as if these had been known. Intervals for new targets need no model of the noise: MAPIE refits the estimator on
folds, and covers a share of the new targets whatever the distribution is (``pip install "manykernels[intervals]"``).
A search has run its folds already, and what they said of held-out rows makes intervals without another fit.
"""

from __future__ import annotations

import numpy as np
from mapie.classification import CrossConformalClassifier
from mapie.regression import CrossConformalRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLRegressorCV, PairKernels, Pairs
from manykernels.inspection import ShapeDisplay, conformal_intervals
from manykernels.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(450, 3))
y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.4 * rng.normal(size=450)
train, test = slice(150), slice(150, None)

bank = KernelBank.per_feature([Linear(), Gaussian(0.7)])
model = MKLRegressor(bank, resources={"representation": "gram"}).fit(X[train], y[train])
mean, deviation = model.predict(X[test], return_std=True)
truth = np.sin(2.0 * X[test, 0]) + 0.5 * X[test, 1]
inside = float(np.mean(np.abs(mean - truth) <= 1.96 * deviation))
print(f"the true function is inside the 95 % bands at {100 * inside:.0f} % of new rows")

shapes = ShapeDisplay.from_estimator(model, X[train], bands=True)
print(shapes.frame().groupby("column", sort=False)["std"].mean().round(3).to_string())

conformal = CrossConformalRegressor(MKLRegressor(bank), confidence_level=0.9, random_state=0)
_, intervals = conformal.fit_conformalize(X[train], y[train]).predict_interval(X[test])
low, high = intervals[:, :, 0].T
covered = float(np.mean((low <= y[test]) & (y[test] <= high)))
print(f"90 % intervals cover {100 * covered:.0f} % of new targets")
assert covered > 0.85

labels = np.where(y > 0.0, "high", "low")
sets = CrossConformalClassifier(MKLClassifier(bank, loss="logistic"), confidence_level=0.9, random_state=0)
_, chosen = sets.fit_conformalize(X[train], labels[train]).predict_set(X[test])
held = chosen[np.arange(300), (labels[test] == "low").astype(int), 0]
print(f"90 % sets hold {100 * held.mean():.0f} % of new labels, {chosen[:, :, 0].sum(axis=1).mean():.2f} classes each")
assert held.mean() > 0.85

search = MKLRegressorCV(bank, penalty="ridge").fit(X[train], y[train])
frame = conformal_intervals(search, y[train], X[test], confidence=0.9)
covered = float(np.mean((frame["low"] <= y[test]) & (y[test] <= frame["high"])))
print(f"90 % intervals from the folds of a search cover {100 * covered:.0f} %")
assert covered > 0.85

# Pairs of members are rows of two positions to MAPIE, and become pairs in a step before the estimator.
users, items = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
places = np.column_stack([rng.integers(0, 40, 500), rng.integers(0, 30, 500)])
rating = np.sin(users[places[:, 0], 0]) * items[places[:, 1], 0] + 0.3 * rng.normal(size=500)
kernels = PairKernels(KernelBank.per_feature([Linear(), Gaussian(1.0)]), KernelBank.per_feature([Linear()]))
as_pairs = FunctionTransformer(lambda rows: Pairs(users, items, np.asarray(rows, dtype=int)))
conformal = CrossConformalRegressor(
    make_pipeline(as_pairs, MKLRegressor(kernels)), confidence_level=0.9, random_state=0
)
_, intervals = conformal.fit_conformalize(places[:250], rating[:250]).predict_interval(places[250:])
low, high = intervals[:, :, 0].T
covered = float(np.mean((low <= rating[250:]) & (rating[250:] <= high)))
print(f"90 % intervals of pairs cover {100 * covered:.0f} %, {np.mean(high - low) / np.std(rating):.2f} std wide")
assert covered > 0.85
