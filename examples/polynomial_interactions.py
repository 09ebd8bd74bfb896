"""Which interactions of 30 columns drive a response? 5,456 products of up to three columns, none of them listed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from manykernels import PolynomialMKL

rng = np.random.default_rng(0)
names = ["age", "dose", "height", "weight", "pulse", *(f"marker {j}" for j in range(25))]
X = pd.DataFrame(rng.normal(size=(400, 30)), columns=names)
signal = 1.5 * X["age"] * X["dose"] ** 2 - X["height"] + X["weight"] * X["pulse"] * X["marker 3"]
y = signal + 0.5 * rng.normal(size=400)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

for p in (1.0, 1.1):
    model = PolynomialMKL(degree=3, p=p, alpha=0.03, n_steps=30, random_state=0).fit(X_train, y_train)
    print(
        f"p = {p}: {len(model.kernel_names_)} of {model.n_family_kernels_} products, "
        f"held-out R2 {model.score(X_test, y_test):.3f}, "
        f"relative gap over all of them {model.dual_gap_:.1e} ({model.certificate_method_})"
    )
    print(model.weights_frame()[["name", "weight", "norm_share"]].head(4).round(3).to_string(index=False))
