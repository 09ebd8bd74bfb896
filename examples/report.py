"""A page for a colleague: what tells three wines apart, how sure is that, and what should one distrust?"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

from manykernels import KernelBank, MKLClassifierCV, report

X, y = load_wine(return_X_y=True, as_frame=True)
y = y.map({0: "Barolo", 1: "Grignolino", 2: "Barbera"}).rename("wine")

# Views are groups of columns that were measured together.
phenols = ["total_phenols", "flavanoids", "nonflavanoid_phenols", "proanthocyanins"]
color = ["color_intensity", "hue", "od280/od315_of_diluted_wines"]
views = {"phenols": phenols, "color": color, "other": [name for name in X if name not in phenols + color]}
model = MKLClassifierCV(KernelBank.from_views(views), cv=3, n_alphas=8)
model.fit(X, y)

# Every row is scored by a model that did not see it: three refits, each with its own choice of the strength.
question = "Which chemistry tells the wines apart?"
path = report(model, X, y, Path(tempfile.gettempdir()) / "wine_report.html", question=question, cv=3)
print(f"strengths chosen        {', '.join(f'{alpha:.2g}' for alpha in model.alpha_)}, one a class")
print(f"mean score of the folds {model.best_score_:.3f}")
print(f"selected           {(model.kernel_weights_ > 0).any(axis=0).sum()} of {len(model.kernel_names_)} kernels")
print(f"report             {path.name}, {path.stat().st_size / 1000:.0f} kB; open it in a browser")
