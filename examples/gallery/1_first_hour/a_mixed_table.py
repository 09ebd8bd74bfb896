"""
A mixed table
=============

Numbers and text in one table: how does diabetes progress within a year? Each column gets kernels
that suit its type, without encoding. Cross-validation chooses how many of them stay.
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from manykernels import MKLRegressorCV
from manykernels.inspection import IntervalDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X["sex"] = X["sex"].map({1: "male", 2: "female"})  # text, as most tables have it
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = MKLRegressorCV(penalty="l1", cv=4, n_alphas=8).fit(X_train, y_train)
print(f"held-out R2 {model.score(X_test, y_test):.2f}, relative duality gap {model.dual_gap_:.0e}")
importance = model.importance_frame()[["name", "importance", "low", "high"]]
print(importance.head(4).to_string(index=False))
IntervalDisplay.from_frame(importance, label="increase of the held-out loss").plot()

# %%
# Importance is the increase of the loss on rows that the folds held out, when a column is removed.
# Norms and weights of kernels do not measure it.
