"""
Save, load and report
=====================

A model file that runs no code when it is opened, and a page for a colleague: one HTML file that
loads nothing from elsewhere.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

from manykernels import MKLClassifier, load_model, report, save_model

X, y = load_wine(return_X_y=True, as_frame=True)
model = MKLClassifier().fit(X, y)
folder = Path(tempfile.mkdtemp())

save_model(model, folder / "wine.mkl", metadata={"target": "wine"})
same = load_model(folder / "wine.mkl")
print("the loaded model predicts the same:", (same.predict(X) == model.predict(X)).all())
page = report(
    model, X, y, folder / "wine.html", cv=3, question="Which chemistry tells the wines apart?"
)
print(f"{page.name}: {page.stat().st_size / 1000:.0f} kB")

# %%
# What such a page contains is described in :doc:`the report </report>`.
