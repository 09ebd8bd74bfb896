"""Two stages in one pipeline: align 60 kernels with the labels, then tune an SVC on the one kernel that comes out."""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from manykernels import Gaussian, KernelAligner, KernelBank, MKLClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=200, stratify=y, random_state=0)

# A narrow and a wide Gaussian kernel on each of 30 measurements, in standard deviations.
kernels = [(f"{name}, width {width:g}", Gaussian(width), [name]) for name in X.columns for width in (0.5, 2.0)]
bank = KernelBank(kernels, standardize=True)

print("method                       alignment   kernels   held-out accuracy")
for method in ("uniform", "independent", "joint"):
    pipeline = make_pipeline(KernelAligner(bank, method), SVC(kernel="precomputed"))
    search = GridSearchCV(pipeline, {"svc__C": [0.1, 1.0, 10.0, 100.0]}, cv=3).fit(X_train, y_train)
    aligner, accuracy = search.best_estimator_[0], search.score(X_test, y_test)
    n_active = len(aligner.weights_frame())
    print(f"{method:<12} then SVC        {aligner.alignment_:9.3f} {n_active:9d} {accuracy:19.3f}")

one_stage = MKLClassifier(bank, loss="hinge", alpha=0.01).fit(X_train, y_train)
accuracy = one_stage.score(X_test, y_test)
print(f"one stage (MKLClassifier)            {len(one_stage.weights_frame()):9d} {accuracy:19.3f}")

print(
    f"\nThe joint weights are optimal: alignment {aligner.alignment_:.6f}, at most {aligner.result_.upper_bound:.6f}."
)
print(aligner.weights_frame()[["name", "weight", "alignment"]].head(6).round(3).to_string(index=False))
