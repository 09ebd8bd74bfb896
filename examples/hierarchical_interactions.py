"""Which interactions of 30 columns does the response to a drug depend on? 5455 products, and a bound on them all."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LassoCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import HierarchicalMKL

rng = np.random.default_rng(0)
names = ["age", "dose", "weight", "pulse", *(f"marker {j}" for j in range(26))]
table = pd.DataFrame(rng.normal(size=(400, len(names))), columns=names)
response = 2 * table["dose"] - table["age"] * table["dose"] + 0.7 * table["age"] * table["weight"] + table["pulse"] ** 2
response += 0.5 * rng.normal(size=len(table))
X_train, X_test, y_train, y_test = train_test_split(table, response, train_size=250, random_state=0)

# "age x dose" can be selected only together with "age" and "dose": heredity is in the norm, not in a second step.
search = GridSearchCV(HierarchicalMKL(degree=3), {"alpha": [1e-2, 1e-3]}, cv=3).fit(X_train, y_train)
model = search.best_estimator_

print(model.weights_frame()[["name", "norm", "norm_share"]].head(10).round(3).to_string(index=False))
print(
    f"\n{len(model.kernel_names_)} of 5455 products selected, {model.n_visited_} visited; "
    f"relative duality gap over all of them {model.dual_gap_:.1e}."
)
lasso = make_pipeline(StandardScaler(), LassoCV()).fit(X_train, y_train)
print(f"Held-out R2: {model.score(X_test, y_test):.3f}; lasso on the columns alone {lasso.score(X_test, y_test):.3f}.")
