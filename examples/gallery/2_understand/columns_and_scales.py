"""
Which columns, at which scale?
==============================

837 kernels on 30 measurements of tumors: 24 Gaussian widths and three polynomial degrees on each
column, and on all columns together. The penalty leaves a few of them, and the map says which
measurement is looked at how closely: a wide Gaussian is a smooth trend, a narrow one a local
pattern.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from manykernels import KernelBank, MKLClassifier
from manykernels.inspection import KernelWeightsDisplay, WeightMapDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
bank = KernelBank.simplemkl(normalize="mean_diagonal")
model = MKLClassifier(bank, loss="logistic", alpha=0.02).fit(X, y)
n_kernels = len(model.kernel_names_)
print(f"{len(model.weights_frame())} of {n_kernels} kernels, duality gap {model.dual_gap_:.1e}")
figure, axes = plt.subplots(1, 2, figsize=(13, 7), width_ratios=[1, 2], layout="constrained")
KernelWeightsDisplay.from_estimator(model, value="norm_share").plot(axes[0])
WeightMapDisplay.from_estimator(model).plot(axes[1])

# %%
# Norms and weights show what the model uses, not what matters: see :doc:`how_sure`. The command
# ``manykernels inspect model.mkl --plot model.png`` draws a similar picture of a model file.
