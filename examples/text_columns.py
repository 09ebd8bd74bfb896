"""Free text in a table: skrub turns it into numbers, this library says which columns matter, in one pipeline.

Run with ``python examples/text_columns.py``; needs ``python -m pip install 'manykernels[text]'``.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from manykernels import InvalidInputError, KernelBank, Linear, MKLClassifier

if importlib.util.find_spec("skrub") is None:
    print("This example needs skrub: python -m pip install 'manykernels[text]'.")
    sys.exit(0)
from skrub import StringEncoder, TableVectorizer

rng = np.random.default_rng(0)
n = 160
again = rng.random(n) < 0.5  # whether a guest will come again
words = {True: ["kind", "quick", "friendly", "clean"], False: ["rude", "slow", "dirty", "late"]}
anything = ["the", "staff", "room", "we", "breakfast", "night", "street", "window", "garden", "train"]
reviews = [" ".join([*rng.choice(anything, 5), *rng.choice(words[bool(one)], 2)]) for one in again]
guests = pd.DataFrame(
    {
        "price": rng.normal(80, 20, n),
        "city": rng.choice(["Oslo", "Bern", "Lyon"], n),
        "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        "review": reviews,
    }
)

try:
    MKLClassifier().fit(guests, again)
except InvalidInputError as error:
    print(f"without help: {error}\n")

encoder = TableVectorizer(high_cardinality=StringEncoder(n_components=10, random_state=0))
bank = KernelBank.per_feature([Linear()], widths=[1.0], standardize=True)
model = make_pipeline(encoder, MKLClassifier(bank))
print(f"accuracy in folds: {cross_val_score(model, guests, again, cv=3).mean():.2f}")
model.fit(guests, again)
importance = model[-1].importance_frame().assign(column=lambda frame: frame["columns"].str.split("_").str[0])
print(importance.groupby("column")["importance"].sum().sort_values(ascending=False).round(3).to_string())
