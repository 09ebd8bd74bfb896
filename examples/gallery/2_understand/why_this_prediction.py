"""
Why this prediction?
====================

The score of a sample is a sum of one number a kernel. Drawn from the intercept to the score, they
say what spoke for and against the class of this tumor.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier
from manykernels.inspection import ContributionsDisplay, WaterfallDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

bank = KernelBank.per_feature(widths=["median"], standardize=True, normalize="mean_diagonal")
model = MKLClassifier(bank, alpha=0.02).fit(X_train, y_train)
print(f"held-out accuracy {model.score(X_test, y_test):.3f}")
print(f"{len(model.weights_frame())} of 30 columns")

# %%
# The tumor of which the model is least sure:
unsure = int(abs(model.decision_function(X_test)).argmin())
WaterfallDisplay.from_estimator(model, X_test, sample=unsure).plot()

# %%
# All held-out tumors: what decides in general.
ContributionsDisplay.from_estimator(model, X_test, top=8).plot()
