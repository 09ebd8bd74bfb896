"""Subjects that are always in: random intercepts and slopes beside kernels that are selected.

Days of 18 subjects, each with a level and a rate of its own, and eight measurements, of which one has a curved effect.
Ridge on the overlap kernel of subjects is a random intercept, ridge on its product with a linear kernel a random slope;
the trend over all subjects has no penalty, the block 1-norm selects among the rest, and folds choose how strong both
are. The first part checks the random intercept against MixedLM of statsmodels, where that is installed.

Run with ``python examples/mixed_models.py``.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor, MKLRegressorCV, Overlap
from manykernels.kernels import Interactions, PerFeature
from manykernels.objective import Ridge

rng = np.random.default_rng(0)
subject, days = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
table = pd.DataFrame(rng.normal(size=(180, 8)), columns=[f"m{j}" for j in range(8)])
table.insert(0, "days", days)
table.insert(0, "subject", pd.Categorical([f"s{number:02d}" for number in subject]))
level, rate = rng.normal(0, 25, 18)[subject], rng.normal(0, 6, 18)[subject]
y = 250 + level + (10 + rate) * days + 20 * np.sin(2 * table["m0"].to_numpy()) + rng.normal(0, 15, 180)

if importlib.util.find_spec("statsmodels"):
    from statsmodels.formula.api import mixedlm

    reference = mixedlm("y ~ 1", table.assign(y=y), groups="subject").fit(reml=False)
    ratio = reference.scale / float(reference.cov_re.iloc[0, 0])
    bank = KernelBank([("subject", Overlap(), ["subject"])], normalize=None)
    alone = MKLRegressor(bank, penalty={"subject": Ridge(ratio)}, alpha=1 / len(y), tol=1e-9).fit(table, y)
    away = np.abs(alone.predict(table) - reference.fittedvalues).max()
    print(f"random intercepts: as MixedLM has them, to {'1e-6' if away < 1e-6 else away}")

slopes = Interactions([Linear()], ["subject", "days"])
curves = PerFeature([Gaussian("median"), Linear()], [f"m{j}" for j in range(8)])
bank = KernelBank([("subject", Overlap(), ["subject"]), ("days", Linear(), ["days"]), slopes, curves])
penalty = {"subject*": "ridge", "days": None, "*": "l1"}
tried = [{"subject*": factor} for factor in (0.03, 0.1, 0.3)]  # of norms: squares of it are factors of the ridge
model = MKLRegressorCV(bank, penalty=penalty, kernel_penalties=tried, cv=5, n_alphas=12, search={"rule": "1se"})
model.fit(table, y)
chosen = [name for name, d in zip(model.kernel_names_, model.kernel_weights_, strict=True) if d > 0]
print("always in:", ", ".join(chosen[:3]), f"at {model.kernel_penalties_}")
print("selected: ", ", ".join(chosen[3:]))
print(f"relative duality gap {model.dual_gap_:.0e}, R2 {model.score(table, y):.2f}")
