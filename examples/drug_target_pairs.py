"""Drugs and targets: which products of kernels matter, and what the model says of drugs and targets it never met.

Run with ``python examples/drug_target_pairs.py``.
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_score

from manykernels import ColdStartKFold, KernelBank, Linear, MKLClassifier, MKLRegressor, PairKernels, Pairs

N_DRUGS, N_TARGETS = 120, 60
rng = np.random.default_rng(0)
drugs = pd.DataFrame(rng.normal(size=(N_DRUGS, 6)), columns=["s1", "s2", "s3", "e1", "e2", "e3"])
targets = pd.DataFrame(rng.normal(size=(N_TARGETS, 6)), columns=["q1", "q2", "q3", "t1", "t2", "t3"])
drugs.index, targets.index = "drug " + drugs.index.astype(str), "target " + targets.index.astype(str)
known = np.argwhere(rng.random((N_DRUGS, N_TARGETS)) < 0.7)
truth = np.sin(drugs["s1"].to_numpy()[known[:, 0]]) * targets["q1"].to_numpy()[known[:, 1]]
truth = truth + 0.5 * drugs["e1"].to_numpy()[known[:, 0]]
y = truth + 0.5 * rng.normal(size=len(known))

data = Pairs(drugs, targets, np.column_stack([drugs.index[known[:, 0]], targets.index[known[:, 1]]]))
kernels = PairKernels(
    KernelBank.per_view(Linear(), {"structure": ["s1", "s2", "s3"], "effects": ["e1", "e2", "e3"]}, widths=["median"]),
    KernelBank.per_view(Linear(), {"sequence": ["q1", "q2", "q3"], "tissue": ["t1", "t2", "t3"]}, widths=["median"]),
    sides=("drug", "target"),
)
model = MKLRegressor(kernels, alpha="0.1*max").fit(data, y)
print(f"{data}, {len(model.kernel_names_)} kernels; gap {model.dual_gap_:.0e}")
for name, share in model.weights_frame()[["name", "norm_share"]].head(4).itertuples(index=False):
    print(f"  {name:70} {share:.2f}")

for new in ("left", "right", "both"):
    folds = ColdStartKFold(3, new=new, random_state=0)
    what = {"left": "new drugs", "right": "new targets", "both": "both new"}[new]
    print(f"{what}: R2 {cross_val_score(model, data, y, cv=folds).mean():.2f}")

# A drug that came after the fit, with the targets that are known.
other = pd.DataFrame([drugs.iloc[0] + 0.1], index=["drug x"])
scores = model.predict(Pairs(other, targets, [["drug x", name] for name in targets.index]))
print(f"drug x: best with {targets.index[scores.argmax()]}")

binds = np.where(y > 0.5, "binds", "does not")
classifier = MKLClassifier(kernels, alpha="0.1*max").fit(data, binds)
print(f"does it bind: accuracy {classifier.score(data, binds):.2f}, gap {classifier.dual_gap_:.0e}")
