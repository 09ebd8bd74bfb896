"""A study with censoring: which measurements drive the hazard, how well, and what are the chances of a new patient?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLSurvivalCV, survival_array
from manykernels.estimators import brier_score, concordance_index

rng = np.random.default_rng(1)
n = 300
patients = pd.DataFrame(rng.normal(size=(n, 5)), columns=["age", "marker", "pressure", "noise 1", "noise 2"])
# The marker is bad when it is low and when it is high; age adds to it.
log_hazard = 0.8 * patients["age"] + 1.2 * (np.abs(patients["marker"]) - 0.8)
event_time, leaves = rng.exponential(np.exp(-log_hazard)), rng.exponential(3.0, n)
y = survival_array(event_time <= leaves, np.minimum(event_time, leaves))
train, test = slice(0, 200), slice(200, n)

bank = KernelBank.per_feature(widths=[0.5, 2.0], standardize=True, normalize="mean_diagonal")
model = MKLSurvivalCV(bank, cv=3, n_alphas=8, search={"alpha_min_ratio": 0.05}).fit(patients[train], y[train])
print(f"{y['event'].mean():.0%} of {n} patients had the event; alpha {model.alpha_:.3f}, gap {model.dual_gap_:.0e}")
print(model.weights_frame()[["name", "norm_share"]].to_string(index=False))
print(f"\nconcordance on new patients  {model.score(patients[test], y[test]):.3f}")
print(f"of the true hazards          {concordance_index(y[test], log_hazard[test]):.3f}")

times = np.quantile(y["time"][train], [0.25, 0.5, 0.75])
curves = model.predict_survival_function(patients[test], times)
constant = np.full_like(curves, 1.0) * [(y["time"][train] > t).mean() for t in times]
told = {"model": curves, "share of those left": constant}
scores = pd.DataFrame({name: brier_score(y[train], y[test], curve, times) for name, curve in told.items()}, times)
print("\nBrier scores at three times (0.25 is a coin)")
print(scores.round(3).to_string())

new = pd.DataFrame({"age": [1.0, 1.0], "marker": [0.0, 2.0], "pressure": 0.0, "noise 1": 0.0, "noise 2": 0.0})
print(f"\nchance to be free of the event until {times[1]:.2f}, marker 0 and 2:", end=" ")
print(model.predict_survival_function(new, times[1:2])[:, 0].round(2))
