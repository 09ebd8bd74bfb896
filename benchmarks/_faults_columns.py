"""Reported faults in how columns of tables are read: in Python and by the command."""

from __future__ import annotations

from _faults import Case

# Runs a command in a folder of its own.
COMMAND = """
from typer.testing import CliRunner
from manykernels.cli import app
os.chdir(tempfile.mkdtemp())
def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
"""

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
    Case(
        "2.6",
        "predict -o TABLE --force, and -o MODEL --force; what is left of table and model",
        COMMAND
        + """
table = pd.DataFrame({"x": rng.normal(size=60), "y": ["a", "b"] * 30})
for written in ("data.csv", "m.mkl"):
    table.to_csv("data.csv", index=False)
    run("fit", "data.csv", "--target", "y", "-o", "m.mkl", "--force")
    before = open(written, "rb").read()
    run("predict", "m.mkl", "data.csv", "-o", written, "--force")
    print("kept" if open(written, "rb").read() == before else "replaced", end=" ")
""",
        "tests/cli/test_commands.py",
    ),
    Case(
        "3.9",
        "a kernel file with values nested 5,000 deep",
        """
with open("deep.toml", "w") as file:
    file.write("a = " + "[" * 5000 + "]" * 5000)
try:
    KernelBank.from_toml("deep.toml")
except Exception as error:
    print(type(error).__name__)
finally:
    os.remove("deep.toml")
""",
        "tests/cli/test_commands.py",
    ),
    Case(
        "4",
        "names of penalties and losses in the help of fit at 80 columns that are cut",
        COMMAND
        + """
from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS
text = run("fit", "--help").output
print([name for name in (*LOSSES, *REGULARIZERS) if name not in text])
""",
        "tests/cli/test_commands.py",
    ),
    Case(
        "1a",
        "predict of the file of the fit, codes 1, 2, 3, A; accuracy whole and with --chunk-rows 3",
        COMMAND
        + """
codes = rng.choice(list("123A"), size=300, p=[0.32, 0.32, 0.32, 0.04])
y = np.where(np.isin(codes, ["1", "A"]), "yes", "no")
pd.DataFrame({"code": codes, "x": rng.normal(size=300), "y": y}).to_csv("data.csv", index=False)
run("fit", "data.csv", "--target", "y", "-o", "m.mkl", "--test-size", "0")
for words in ((), ("--chunk-rows", "3")):
    run("predict", "m.mkl", "data.csv", "-o", "out.csv", "--force", *words)
    print(round(float(np.mean(pd.read_csv("out.csv")["prediction"] == y)), 2), end=" ")
""",
        "tests/cli/test_words.py",
    ),
    Case(
        "1c",
        "office hours by dates with UTC offsets; accuracy of written predictions for the file of the fit",
        COMMAND
        + """
hours = pd.Timestamp("2024-03-01", tz="America/Los_Angeles") + pd.to_timedelta(rng.integers(0, 900, size=400), unit="h")
y = np.where((hours.hour >= 8) & (hours.hour < 17), "yes", "no")
pd.DataFrame({"t": [str(hour) for hour in hours], "y": y}).to_csv("data.csv", index=False)
run("fit", "data.csv", "--target", "y", "-o", "m.mkl")
run("predict", "m.mkl", "data.csv", "-o", "out.csv")
print(round(float(np.mean(pd.read_csv("out.csv")["prediction"] == y)), 2))
""",
        "tests/cli/test_words.py",
    ),
    Case(
        "1f",
        "classes None, mild, severe in a CSV",
        COMMAND
        + """
y = rng.choice(["None", "mild", "severe"], size=150)
pd.DataFrame({"x": rng.normal(size=150), "y": y}).to_csv("data.csv", index=False)
run("fit", "data.csv", "--target", "y", "-o", "m.mkl")
print(load_model("m.mkl").classes_.tolist())
""",
        "tests/cli/test_words.py",
    ),
    Case(
        "4",
        "dates 2012/01/01 and 17-08-1984, and an unnamed first column of row numbers",
        COMMAND
        + """
days = pd.Timestamp("1984-01-01") + pd.to_timedelta(rng.integers(0, 9000, size=200), unit="D")
for form in ("%Y/%m/%d", "%d-%m-%Y"):
    frame = pd.DataFrame({"day": days.strftime(form), "y": np.sort(rng.choice(["a", "b"], size=200))})
    frame.to_csv("data.csv")
    done = run("fit", "data.csv", "--target", "y", "-o", "m.mkl", "--force", "--json")
    import json
    found = json.loads(done.stdout)
    print(found.get("features", found.get("error", "")[:70]), end=" ")
""",
        "tests/cli/test_words.py",
    ),
    Case(
        "3.9",
        "fit of a column named größe with PYTHONIOENCODING=ascii: how it ends",
        COMMAND
        + """
import subprocess
pd.DataFrame(rng.normal(size=(60, 2)), columns=["größe", "y"]).to_csv("data.csv", index=False)
words = [sys.executable, "-m", "manykernels.cli", "fit", "data.csv", "--target", "y", "-o", "m.mkl"]
done = subprocess.run(words, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
print("a traceback" if b"Traceback" in done.stderr else f"exit code {done.returncode}")
""",
        "tests/cli/test_commands.py",
    ),
    Case(
        "4",
        "a text column that names rows: the note of fit",
        COMMAND
        + """
who = pd.Series([f"place {number}" for number in range(160)]).sample(200, replace=True, random_state=0).to_numpy()
pd.DataFrame({"who": who, "x": rng.normal(size=200), "y": rng.normal(size=200)}).to_csv("data.csv", index=False)
lines = run("fit", "data.csv", "--target", "y", "-o", "m.mkl").output.splitlines()
print(next((line for line in lines if "who" in line and ("--id" in line or "names rows" in line)), "none"))
""",
        "tests/cli/test_words.py",
    ),
)
