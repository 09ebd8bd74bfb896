"""Views of gene sets of kernels: a tree of penalties for survival, and how often each view and gene set is selected.

Three views, each with five gene sets of four genes, and a kernel for each gene. Hazards depend on one gene set of two
of the views. The sparse group lasso over both levels leaves out views, gene sets and genes; cross-validation chooses
the strength and how far single genes count, and fits on random halves tell how steady the selection is.

Run with ``python examples/omics_tree.py``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from manykernels import KernelBank, Linear, MKLSurvival, MKLSurvivalCV, survival_array
from manykernels.inspection import stability_selection
from manykernels.kernels import PerFeature
from manykernels.objective import Tree

rng = np.random.default_rng(1)
views, sets = ("rna", "methylation", "protein"), ("apoptosis", "repair", "cycle", "immune", "growth")
names = [f"{view} {pathway} g{gene}" for view in views for pathway in sets for gene in range(4)]
table = pd.DataFrame(rng.normal(size=(300, len(names))), columns=names)
signal = table.filter(like="rna apoptosis").sum(axis=1) - table.filter(like="protein cycle").sum(axis=1)
time = rng.exponential(size=300) * np.exp(-0.6 * signal.to_numpy())
end = rng.exponential(1.5, size=300)
target = survival_array(time <= end, np.minimum(time, end))
train, test = np.arange(200), np.arange(200, 300)

groups = {view: {pathway: f"{view} {pathway} *" for pathway in sets} for view in views}
bank = KernelBank([PerFeature([Linear()])])
found = MKLSurvivalCV(bank, penalty={"*": Tree(1.0, groups)}, l1_ratios=[0.1, 0.5], n_alphas=10, cv=3)
found.fit(table.iloc[train], target[train])
active = [name for name, d in zip(found.kernel_names_, found.kernel_weights_, strict=True) if d > 0]
print(f"{len(active)} of {len(names)} genes at l1_ratio {found.l1_ratio_}; relative duality gap {found.dual_gap_:.0e}")
for view in views:
    of_sets = {pathway: sum(f"{view} {pathway} " in name for name in active) for pathway in sets}
    kept = ", ".join(f"{pathway} ({count} genes)" for pathway, count in of_sets.items() if count)
    print(f"  {view:12s} {kept or 'left out'}")
print(f"held-out concordance {found.score(table.iloc[test], target[test]):.2f}")

model = MKLSurvival(bank, penalty={"*": Tree(1.0, groups, l1_ratio=found.l1_ratio_)})
steady = stability_selection(model, table.iloc[train], target[train], n_pairs=10, random_state=0)
frequencies = steady.frame().sort_values("frequency", ascending=False)
print(frequencies.head(8).to_string(index=False))
