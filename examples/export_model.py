"""A model that leaves: SQL for the database, Python for a server without this library, a card for a sheet of paper.

Curves of single columns become polynomials on pieces, missed by no more than the file says; bins and categories become
tables. The scores are those of the model, to a millionth of what they vary by. ``.onnx`` works the same way, with
``pip install "manykernels[onnx]"``.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLClassifier
from manykernels.inspection import export_model
from manykernels.kernels import Overlap

rng = np.random.default_rng(0)
n = 400
patients = pd.DataFrame(
    {
        "age": rng.uniform(20, 80, n),
        "pressure": rng.normal(130, 15, n),
        "smoker": rng.choice(["never", "former", "current"], n, p=[0.5, 0.3, 0.2]),
    }
)
risk = (
    0.002 * (patients["age"] - 40) ** 2 + 0.05 * (patients["pressure"] - 130) + 2.0 * (patients["smoker"] == "current")
)
ill = np.where(risk + rng.logistic(size=n) > 1.5, "ill", "well")
curves = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], columns=["age", "pressure"], standardize=True)
model = MKLClassifier(curves + KernelBank.per_feature(Overlap(), columns=["smoker"], standardize=True)).fit(
    patients, ill
)

with tempfile.TemporaryDirectory() as folder:
    told = export_model(model, Path(folder) / "model.sql", table="patients")
    with sqlite3.connect(":memory:") as base:
        patients.to_sql("patients", base, index_label="number")
        found = pd.read_sql_query(told.path.read_text(), base).sort_values("number")
    print(found.head(3)[["age", "smoker", "score", "prediction"]].round(3).to_string(index=False))
    difference = np.abs(found["score"] - model.decision_function(patients)).max()
    print(f"SQLite and the model differ by {difference:.1e}; the file says at most {told.max_error:.1e}")
    assert difference <= told.max_error + 1e-9

    program: dict = {}
    exec(export_model(model, Path(folder) / "model.py").path.read_text(), program)
    one = {"age": [67.0], "pressure": [150.0], "smoker": ["current"]}
    print("Python with NumPy alone:", program["predict"](one)[0], program["probabilities"](one).round(3))
    assert program["predict"](one)[0] == model.predict(pd.DataFrame(one))[0]

    card = pd.read_csv(export_model(model, Path(folder) / "card.csv").path)
    print(card[card["column"] == "smoker"][["column", "level", "points"]].round(2).to_string(index=False))
