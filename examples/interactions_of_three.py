"""What three columns do together and no two of them: found among all subsets of eight columns, under one certificate.

Three of eight measurements of a machine decide together whether it fails early: which of them are above their medians
matters, but no one of them and no two say anything by themselves, so that trees, which take one column at a time, have
nothing to begin with. The bank lists every subset of the columns; the gap says that no other choice among them is
better by more than it.

Run with ``python examples/interactions_of_three.py``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from manykernels import Binned, Gaussian, KernelBank, MKLRegressor
from manykernels.inspection import SurfaceDisplay

rng = np.random.default_rng(0)
names = ["heat", "load", "age", "speed", "damp", "noise", "shift", "site"]
X, X_new = (pd.DataFrame(rng.normal(size=(600, 8)), columns=names) for _ in range(2))


def signal(table: pd.DataFrame) -> np.ndarray:
    """Return what the three columns decide, and what a fourth one adds."""
    return np.asarray(np.sign(table["load"] * table["age"] * table["damp"]) + 0.5 * table["heat"])


y = signal(X) + rng.normal(size=600)
alone = KernelBank.per_feature(Binned(Gaussian(0.1), 32))
banks = {
    "columns and pairs": alone + KernelBank.interactions(),
    "every subset": alone + KernelBank.interactions(order=None),
}
for name, bank in banks.items():
    model = MKLRegressor(bank, alpha="0.4*max", resources={"representation": "factored"}, tol=1e-3).fit(X, y)
    explained = np.corrcoef(model.predict(X_new), signal(X_new))[0, 1] ** 2
    print(f"{name}: {bank.fit(X).n_kernels} kernels, gap {model.dual_gap_:.0e}, explains {explained:.2f}")
print(model.weights_frame()[["name", "norm_share"]].head(3).round(2).to_string(index=False))
trees = HistGradientBoostingRegressor(random_state=0).fit(X, y)
print(f"boosted trees explain {np.corrcoef(trees.predict(X_new), signal(X_new))[0, 1] ** 2:.2f}")

for damp in (-1.0, 1.0):  # the product of three columns, one of them held: its sign turns
    piece = SurfaceDisplay.from_estimator(model, X, columns=("load", "age"), at={"damp": damp}, n_points=5)
    corner = piece.frame().query("x > 0.5 and z > 0.5")["effect"].mean()
    print(f"damp at {damp:+.0f}: high load and high age add {corner:+.1f}")
