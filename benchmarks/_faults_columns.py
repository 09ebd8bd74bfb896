"""Reported faults in how columns of tables are read: in Python and by the command."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "1a",
        "codes 1, 2, 3, A in training, integers in a new table; accuracy as text and as integers",
        """
codes = rng.choice(list("123A"), size=400)
X = pd.DataFrame({"code": pd.Series(codes, dtype=object), "x": rng.normal(size=400)})
y = np.isin(codes, ["1", "A"])
model = MKLClassifier().fit(X, y)
new = X["code"] != "A"
text, whole = X[new], X[new].assign(code=X.loc[new, "code"].astype(int))
print([round(float(np.mean(model.predict(table) == y[new])), 2) for table in (text, whole)])
""",
        "tests/kernels/test_tables_types.py",
    ),
    Case(
        "1a",
        "a column of dates as integers 20240131 in a new table",
        """
days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, size=300), unit="D")
X = pd.DataFrame({"day": days})
model = MKLRegressor().fit(X, np.asarray(days.month, dtype=float))
compact = pd.DataFrame({"day": days.strftime("%Y%m%d").astype(int)})
try:
    print(f"off by {np.abs(model.predict(compact) - model.predict(X)).max():.1f}")
except InvalidInputError as error:
    print(str(error)[:60])
""",
        "tests/kernels/test_tables_types.py",
    ),
    Case(
        "1c",
        "the same instants with another offset; the largest difference of predictions",
        """
stamps = pd.Series(pd.date_range("2024-03-01", periods=400, freq="97min", tz="UTC"))
X = pd.DataFrame({"t": stamps})
model = MKLRegressor().fit(X, ((stamps.dt.hour > 8) & (stamps.dt.hour < 17)).astype(float))
there = pd.DataFrame({"t": stamps.dt.tz_convert("America/Los_Angeles")})
print(f"{np.abs(model.predict(there) - model.predict(X)).max():.2f}")
""",
        "tests/kernels/test_tables_types.py",
    ),
    Case(
        "1e",
        "03/04/2024 in a column of dates, which fit rejects",
        """
days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, size=300), unit="D")
model = MKLRegressor().fit(pd.DataFrame({"day": days}), np.asarray(days.month, dtype=float))
try:
    print(model.predict(pd.DataFrame({"day": ["03/04/2024", "05/06/2024"]})).round(1))
except InvalidInputError as error:
    print(str(error)[:100])
""",
        "tests/kernels/test_tables_types.py",
    ),
    Case(
        "4",
        "booleans of a frame, then the same table as an array of floats",
        """
X = pd.DataFrame({"flag": rng.random(60) < 0.5, "x": rng.normal(size=60)})
model = MKLRegressor().fit(X, X["flag"] + 0.1 * X["x"])
try:
    print(f"{np.abs(model.predict(X.to_numpy(dtype=float)) - model.predict(X)).max():.0e}")
except InvalidInputError as error:
    print(str(error)[:60])
""",
        "tests/kernels/test_tables_types.py",
    ),
    Case(
        "4",
        "a survival target with the field 'censored'",
        """
from manykernels.objective.losses.survival import check_survival
y = np.array([(True, 1.0), (False, 2.0)], dtype=[("censored", bool), ("time", float)])
try:
    print("events:", check_survival(y)["event"].tolist())
except InvalidInputError as error:
    print(str(error)[:75])
""",
        "tests/estimators/test_survival.py",
    ),
)
