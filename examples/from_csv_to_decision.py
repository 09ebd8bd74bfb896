"""From a CSV to a decision: how good, what matters, curves with bands; the picture of the first page (answer.png)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from manykernels import MKLRegressor
from manykernels.inspection import IntervalDisplay, ShapeDisplay

# A table as it comes: ten measurements of 442 patients, and how far their diabetes went in the year after.
NAMES = {"bp": "blood pressure", "s1": "cholesterol", "s2": "LDL", "s3": "HDL", "s4": "cholesterol/HDL"}
NAMES |= {"s5": "log triglycerides", "s6": "glucose", "target": "progression"}
table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns=NAMES)
table["sex"] = table["sex"].map({1.0: "a", 2.0: "b"})
table.to_csv("diabetes.csv", index=False)

table = pd.read_csv("diabetes.csv")
X, y = table.drop(columns="progression"), table["progression"]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
model = MKLRegressor().fit(X_train, y_train)
# What predictions of patients lose without a column when these are left out one by one, in parts of the variance.
lost = model.importance_frame()
lost[["importance", "low", "high"]] /= y_train.var() / 2  # the loss is half a squared error
lost["name"] = ["all numbers together" if "," in columns else columns for columns in lost["columns"]]

prepared = make_column_transformer((OneHotEncoder(), ["sex"]), remainder=StandardScaler())
rivals = {
    "manykernels, untouched": MKLRegressor(),
    "linear (ridge, tuned)": make_pipeline(prepared, RidgeCV()),
    "gradient boosting": make_pipeline(prepared, HistGradientBoostingRegressor(random_state=0)),
}
folds = KFold(10, shuffle=True, random_state=0)
scores = pd.DataFrame({name: cross_val_score(rival, X, y, cv=folds) for name, rival in rivals.items()})
told = pd.DataFrame({"name": scores.columns, "score": scores.mean(), "standard_error": scores.sem()})
print(told.round(3).to_string(index=False))
print(lost[["name", "importance", "low", "high", "share"]].round(3).to_string(index=False))


def picture(size: tuple[float, float], n_columns: int) -> Figure:
    """Draw what matters, the score beside rivals, and the curves of the four columns that matter most."""
    figure = Figure(figsize=size, layout="constrained")
    beside = n_columns > 2
    above, below = figure.subfigures(2, 1, height_ratios=[1.0, 0.9] if beside else [1.0, 1.1])
    left, right = above.subplots(1, 2) if beside else above.subplots(2, 1)
    IntervalDisplay.from_frame(
        lost, top=8, label="R2 of patients left out falls by", title="What predictions need"
    ).plot(left)
    IntervalDisplay.from_frame(told, label="R2 in ten folds", title="How good, beside rivals").plot(right)
    columns = [name for name in lost["name"] if name in X][:4]
    ShapeDisplay.from_estimator(model, X_train, columns=columns, bands=True).plot(below, n_columns=n_columns)
    return figure


with rc_context({"font.size": 10, "axes.titlesize": 11}):
    picture((11.0, 6.2), 4).savefig("answer.png", dpi=100)
    picture((4.6, 9.6), 2).savefig("answer_narrow.png", dpi=100)
print("written to", Path("answer.png").resolve().name)
