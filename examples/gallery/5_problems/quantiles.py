"""
Quantiles instead of a mean
===========================

Three models with the quantile loss: between the first and the last lie eight of ten new patients,
if the model is right. The band is as wide as the data there ask for; check its coverage on rows
that were held out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from manykernels import MKLRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X[["bmi", "s5", "bp"]], y, random_state=0)
fits = [
    MKLRegressor(loss="quantile", loss_parameters={"tau": tau}, tol=1e-3).fit(X_train, y_train)
    for tau in (0.1, 0.5, 0.9)
]
low, middle, high = (model.predict(X_test) for model in fits)
inside = np.mean((low <= y_test) & (y_test <= high))
print(f"inside the band: {inside:.0%} of held-out patients (80% promised)")
errors = [np.median(abs(y_test - guess)) for guess in (middle, y_train.median())]
print(f"median absolute error {errors[0]:.0f}; of the constant {errors[1]:.0f}")

order = np.argsort(middle)
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
axis.fill_between(range(len(order)), low[order], high[order], alpha=0.25, label="10 % to 90 %")
axis.plot(range(len(order)), middle[order], label="median")
axis.plot(range(len(order)), y_test.to_numpy()[order], ".", label="observed")
axis.set(xlabel="held-out patients, by predicted median", ylabel="progression")
axis.legend()

# %%
# How to choose the strength for a quantile:
# ``MKLRegressorCV(loss="quantile", loss_parameters={"tau": 0.9})``.
