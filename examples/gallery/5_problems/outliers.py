"""
Outliers in y
=============

One value in ten is spoiled, as by a slipped decimal point. The squared loss follows them; the
Huber loss gives them a limited say.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from manykernels import MKLRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y / y.std(), random_state=0)
spoiled = y_train.to_numpy(copy=True)
rng = np.random.default_rng(0)
spoiled[rng.choice(len(spoiled), size=len(spoiled) // 10, replace=False)] *= 10
for loss in ("squared", "huber"):
    for name, target in (("clean", y_train.to_numpy()), ("spoiled", spoiled)):
        model = MKLRegressor(loss=loss, loss_parameters={"delta": 0.5}, alpha=0.03).fit(
            X_train, target
        )
        score = r2_score(y_test, model.predict(X_test))
        print(f"{loss:8} on {name:8} R2 on clean held-out rows {score:6.2f}")

# %%
# ``delta`` is where an error stops counting by its square, in units of y.
