"""
Probabilities one can use
=========================

The logistic loss gives probabilities. Are they right? Of the tumors that get 80 %, eight of ten
should be benign. The penalty pulls all of them toward the middle; scikit-learn's calibration
mends that, since the estimators are scikit-learn's.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[["mean texture", "mean smoothness", "mean symmetry"]]  # a hard problem: no sizes
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.5, stratify=y, random_state=0
)
plain = MKLClassifier(KernelBank.auto(normalize="mean_diagonal"), alpha=0.03)
figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
for name, model in (("plain", plain), ("calibrated", CalibratedClassifierCV(plain, cv=4))):
    probability = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    score, low, high = brier_score_loss(y_test, probability), probability.min(), probability.max()
    print(f"{name:11} Brier score {score:.4f}, from {low:.2f} to {high:.2f}")
    CalibrationDisplay.from_predictions(y_test, probability, n_bins=6, name=name, ax=axis)

# %%
# A calibrated model lies on the diagonal.
