"""Curves that must rise, fall or level off: what a table says, and what is known of it before.

Claims of 400 contracts: the rate rises with mileage and falls with the years of driving, which levels off; a region has
an effect, and two measurements have none. Kernels of mileage and years are told so, and folds choose the strength. The
model that is not told has curves with bumps, which nobody could explain to a customer, and predicts worse.

Run with ``python examples/shapes.py``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from manykernels import Gaussian, KernelBank, MKLRegressorCV, Overlap
from manykernels.kernels import PerFeature

rng = np.random.default_rng(3)


def drawn(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return contracts, and the logarithm of the rate of each."""
    contracts = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["engine", "month"])
    contracts["mileage"], contracts["years"] = rng.gamma(3.0, 5.0, n_rows), rng.uniform(0, 50, n_rows)
    contracts["region"] = pd.Categorical(rng.choice(["north", "south", "west"], n_rows))
    rate = np.sqrt(contracts["mileage"]) / 2 + 2 * np.exp(-contracts["years"] / 8) + (contracts["region"] == "west")
    return contracts, np.asarray(rate, dtype=np.float64)


contracts, rate = drawn(400)
observed = rate + rng.normal(size=400)
new, truth = drawn(5000)
curves = PerFeature([Gaussian("0.5*median"), Gaussian("2*median")], ["mileage", "years", "engine", "month"])
kernels = [curves, ("region", Overlap(), ["region"])]
known = {"mileage": ("increasing", "concave"), "years": ("decreasing", "convex")}
errors = {}
for name, shape in (("told", known), ("not told", None)):
    model = MKLRegressorCV(KernelBank(kernels, standardize=True, shape=shape), cv=5).fit(contracts, observed)
    errors[name] = float(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    steps = []
    for column, sign in (("mileage", 1), ("years", -1)):
        values = np.linspace(contracts[column].min(), contracts[column].max() + 20, 400)
        steps.append(sign * np.diff(model.predict(contracts.iloc[[0] * 400].assign(**{column: values}))))
    wrong = "nowhere" if min(map(np.min, steps)) >= -1e-9 else "somewhere"
    print(f"{name}: goes the wrong way {wrong}, error {errors[name]:.3f}, gap {model.dual_gap_:.0e}")
print(f"what is known is worth {1 - errors['told'] / errors['not told']:.0%} of the error")
