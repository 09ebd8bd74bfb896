"""Claims of insured cars: counts by exposure and amounts by claim, each with the kernels that matter for it.

The frequency depends on the age of the driver and on the region, the cost of a claim on the power of the car.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLRegressor

rng = np.random.default_rng(0)
n = 600
cars = pd.DataFrame(
    {
        "age": rng.uniform(18, 80, n),
        "power": rng.uniform(40, 200, n),
        "region": rng.normal(size=n),
        "color": rng.normal(size=n),
    }
)
exposure = rng.uniform(0.2, 3.0, n)  # insured years
frequency = np.exp(1.5 * np.exp(-(((cars["age"] - 18) / 12) ** 2)) + 0.4 * cars["region"] - 0.3).to_numpy()
claims = rng.poisson(exposure * frequency)
cost = np.exp(6.0 + ((cars["power"] - 120) / 60) ** 2 / 2).to_numpy() * rng.gamma(3.0, 1 / 3, n)

train, test = train_test_split(np.arange(n), test_size=0.3, random_state=0)
bank = KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True, normalize="mean_diagonal")

# A rate with its exposure as weight: exposure times the loss of the rate is the loss of the count.
rates = MKLRegressor(bank, loss="poisson", alpha=0.03, tol=1e-6)
rates.fit(cars.iloc[train], claims[train] / exposure[train], sample_weight=exposure[train])
print(f"frequency: gap {rates.dual_gap_:.0e}, deviance explained on new cars", end=" ")
print(f"{rates.score(cars.iloc[test], claims[test] / exposure[test], exposure[test]):.2f}")
print(rates.weights_frame()[["name", "norm_share"]].head(4).to_string(index=False))

amounts = MKLRegressor(bank, loss="gamma", alpha=0.03, tol=1e-6).fit(cars.iloc[train], cost[train])
print(f"\ncost of a claim: gap {amounts.dual_gap_:.0e}, deviance explained", end=" ")
print(f"{amounts.score(cars.iloc[test], cost[test]):.2f}")
print(amounts.weights_frame()[["name", "norm_share"]].head(4).to_string(index=False))

premium = rates.predict(cars.iloc[test]) * amounts.predict(cars.iloc[test])
print(f"\npure premium of a year: {premium.min():.0f} to {premium.max():.0f}")
