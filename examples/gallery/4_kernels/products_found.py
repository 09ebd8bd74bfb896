"""
Products of columns that matter
===============================

Does the effect of one measurement depend on another? ``PolynomialMKL`` weighs all 66 products of
up to two columns without forming their kernels one by one. ``HierarchicalMKL`` selects, and takes
a product only along with its factors.
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from manykernels import HierarchicalMKL, PolynomialMKL

X, y = load_diabetes(return_X_y=True, as_frame=True)
y = (y - y.mean()) / y.std()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
for model in (PolynomialMKL(degree=2, alpha=0.3), HierarchicalMKL(degree=2, alpha=0.01)):
    model.fit(X_train, y_train)
    frame = model.weights_frame()
    score = model.score(X_test, y_test)
    print(f"{type(model).__name__}: held-out R2 {score:.2f}, {len(frame)} products")
    print(frame[["name", "norm_share"]].head(6).to_string(index=False))

# %%
# Both agree on the columns that lead. The products are worth little here, which is a result as
# well.
