"""
Dense or sparse?
================

The same 124 kernels under four penalties, from the sparsest to the plain sum. Where a few columns
carry the signal, a sparse penalty says which; where all carry a little, an even one predicts
better. Measure on your data: accuracies over folds with their standard errors, and how
many kernels are left.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, cross_validate

from manykernels import KernelBank, MKLClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
bank = KernelBank.auto(normalize="mean_diagonal")
folds = StratifiedKFold(3, shuffle=True, random_state=0)
models = {
    "l1": {"penalty": "l1"},
    "elasticnet, half": {"penalty": "elasticnet"},
    "lq, q = 1.5": {"penalty": "lq"},
    "ridge (plain sum)": {"penalty": "ridge"},
}
rows = []
for name, choice in models.items():
    result = cross_validate(
        MKLClassifier(bank, alpha=0.01, tol=1e-3, **choice), X, y, cv=folds, return_estimator=True
    )
    kernels = np.mean([len(model.weights_frame()) for model in result["estimator"]])
    rows.append(
        (name, result["test_score"].mean(), result["test_score"].std(ddof=1) / 3**0.5, kernels)
    )
    print(f"{name:20} accuracy {rows[-1][1]:.3f} +- {rows[-1][2]:.3f}, {kernels:.0f} kernels")

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.errorbar([row[1] for row in rows], range(len(rows)), xerr=[row[2] for row in rows], fmt="o")
axis.set_yticks(range(len(rows)), [f"{row[0]}\n{row[3]:.0f} kernels" for row in rows])
axis.set_xlabel("accuracy, with its standard error over folds")

# %%
# The scores differ by about their standard errors, the numbers of kernels by a factor of ten:
# here the sparse model loses little.
