"""
A mixed table
=============

Numbers and text in one table: how does diabetes progress within a year? Every column gets kernels
by what it holds, so that nothing has to be encoded; cross-validation chooses how many of them
stay.
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from manykernels import MKLRegressorCV
from manykernels.inspection import KernelWeightsDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X["sex"] = X["sex"].map({1: "male", 2: "female"})  # text, as most tables have it
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = MKLRegressorCV(penalty="l1", cv=4, n_alphas=8).fit(X_train, y_train)
print(f"held-out R2 {model.score(X_test, y_test):.2f}, relative duality gap {model.dual_gap_:.0e}")
lost = model.importance_frame()[["columns", "importance", "low", "high"]]
print(lost.head(4).to_string(index=False))
display = KernelWeightsDisplay.from_estimator(model, by="feature", value="norm_share").plot()

# %%
# The table is what predictions of rows that folds held out lose without a column, which is what
# matters. The bars are norms: how far the kernels of a column bend the function, which noise can do
# too; kernels on all columns count for each of them in equal parts.
