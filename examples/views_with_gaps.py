"""Three views, aligned by label, that not every sample has: who has what, a masked fit, and samples with one view.

Run with ``python examples/views_with_gaps.py``.
"""

import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLClassifierCV, Views, predictive_importance
from manykernels.datasets import make_multiview

data = make_multiview(240, (6, 6, 6), n_informative=2, effect="linear", random_state=1)
labels = [f"sample {i}" for i in range(240)]
tables = {name: data.X[columns].set_axis(labels) for name, columns in data.views.items()}
y = pd.Series(data.y, labels)

rng = np.random.default_rng(0)
lost = rng.integers(0, 6, 240)  # half of the samples lose one of the three views
views = Views({name: table[lost != v] for v, (name, table) in enumerate(tables.items())})
print(views.summary().to_string(index=False))

views, new = views[:160], views[160:]
model = MKLClassifierCV(KernelBank.from_views(), cv=4, n_alphas=8).fit(views, views.align(y))
truth = new.align(y)
print(f"informative: {', '.join(data.informative)}; gap {model.dual_gap_:.0e}")
importance = predictive_importance(model, new, truth, random_state=0)
print(importance[["name", "importance", "p_value"]].round(3).to_string(index=False))
whole = new.present.all(axis=1).to_numpy()
print(f"accuracy with all views {model.score(new[whole], truth[whole]):.2f}, ", end="")
print(f"without one {model.score(new[~whole], truth[~whole]):.2f}")

only = Views({data.informative[0]: tables[data.informative[0]].iloc[-20:]})
print(f"from one view alone {model.score(only, only.align(y)):.2f}")
