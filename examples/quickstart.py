"""Which measurements tell malignant from benign tumors? 837 kernels on 30 columns, beside one cross-validated SVC."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import KernelBank, MKLClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)

# 27 kernels (Gaussians of 24 widths, polynomials of degree 1 to 3) on each column, and 27 on all columns together.
model = MKLClassifier(KernelBank.simplemkl(), loss="hinge")
model.fit(X_train, y_train)

svc = make_pipeline(StandardScaler(), SVC())
grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [0.001, 0.01, 0.1]}
svc = GridSearchCV(svc, grid, cv=3).fit(X_train, y_train)

solution, frame = model.solution_, model.weights_frame()
print(f"held-out accuracy      {model.score(X_test, y_test):.3f}")
print(f"one kernel (SVC)       {svc.score(X_test, y_test):.3f}, width and C cross-validated")
print(f"relative duality gap   {model.dual_gap_:.1e} after {solution.passes:.1f} passes and {solution.elapsed_s:.2f} s")
print(f"selected               {len(frame)} of {len(model.kernel_names_)} kernels")
print(f"support                {len(model.support_)} of {len(X_train)} samples")
print(f"\n{frame[['name', 'weight', 'norm_share']].head(8).to_string(index=False)}")

# Why is the first test tumor judged as it is? The contributions of the kernels add up to the score.
first = X_test[:1]
parts = model.decompose(first)[:, 0]
print(f"\nfirst held-out tumor: score {model.decision_function(first)[0]:+.2f}, predicted {model.predict(first)[0]}")
for m in np.argsort(-np.abs(parts))[:4]:
    print(f"  {parts[m]:+.2f}  {model.kernel_names_[m]}")
