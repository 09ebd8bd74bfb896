"""
How sure is the selection?
==========================

Would other patients have selected the same columns? Stability selection fits halves of the rows,
again and again, and counts. With the promise of at most one false column, it keeps those that
nearly all halves agree on. What the model loses without a column is another question, and has a
p-value.
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLRegressor, predictive_importance, stability_selection
from manykernels.inspection import StabilityDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
y = (y - y.mean()) / y.std()
bank = KernelBank.per_feature(
    widths=["0.5*median", "2*median"], standardize=True, normalize="mean_diagonal"
)
found = stability_selection(
    MKLRegressor(bank), X, y, by="view", n_pairs=15, expected_false=1.0, random_state=0
)
print(found.frame().to_string(index=False))
StabilityDisplay.from_selection(found).plot()

# %%
# What is each worth, on rows that the model has not seen?
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = MKLRegressor(bank, alpha=0.03).fit(X_train, y_train)
print(predictive_importance(model, X_test, y_test, random_state=0).to_string(index=False))

# %%
# What both say, and what else there is, is explained in :doc:`selection one can believe
# </evidence>`.
