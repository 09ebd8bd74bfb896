"""Reported faults of exported files: numbers, names, and models of several columns."""

from __future__ import annotations

from _faults import Case

EXPORT = """
from pathlib import Path
from manykernels.inspection import export_model
folder = Path(tempfile.mkdtemp())
def scores(model, rows, ending=".py", **options):
    told = export_model(model, folder / f"model{ending}", **options); module = {}
    exec(told.path.read_text(), module)
    return told, module["scores"](rows)[:, 0]
"""
SQL = (
    EXPORT
    + """
import sqlite3
def selected(model, X, **options):
    told, base = export_model(model, folder / "model.sql", **options), sqlite3.connect(":memory:")
    X.to_sql("data", base, index_label="nr")
    cursor = base.execute(told.path.read_text()); rows = sorted(cursor.fetchall())
    return told, rows, [part[0] for part in cursor.description], base
"""
)

CASES = (
    Case(
        "1d", "linear and polynomial kernels on a boolean column, exported: difference, beside max_error",
        EXPORT + """
X = pd.DataFrame({"ok": rng.random(80) < 0.3, "x": rng.normal(size=80)})
bank = KernelBank([("a", Linear(), ["ok"]), ("b", Polynomial(2), ["ok"]), ("c", Gaussian(1.0), ["x"])])
model = made(MKLRegressor, kernels=bank, alpha=1e-3).fit(X, 2 * X["ok"] + np.sin(X["x"]))
told, found = scores(model, X.astype(float))
print(f"{abs(found - model.predict(X)).max():.0e} beside {told.max_error:.0e}")
""",
        "tests/inspection/test_export_agreement.py",
    ),
    Case(
        "1i", "a curve on [0, 1] exported, at 1e6 and at 1e12: difference from the model",
        EXPORT + """
X = rng.uniform(size=(150, 1))
model = made(MKLRegressor, kernels=KernelBank.per_feature(widths=[0.2]), alpha=1e-3).fit(X, np.sin(4 * X[:, 0]))
far = np.array([[1e6], [1e12]]); _, found = scores(model, {"x0": far[:, 0]})
print(" and ".join(f"{each:.0e}" for each in abs(found - model.predict(far))))
""",
        "tests/inspection/test_export_agreement.py",
    ),
    Case(
        "1j", "SQL on a table with a column `score`: share of wrong classes",
        SQL + """
X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["x", "score"])
bank = KernelBank.per_feature(widths=[1.0])
model = made(MKLClassifier, kernels=bank, alpha=1e-3).fit(X, np.where(np.sin(2 * X["x"]) + X["score"] > 0, "a", "b"))
told, rows, names, _ = selected(model, X); at = names.index("prediction")
print(f"{100 * np.mean([row[at] != label for row, label in zip(rows, model.predict(X))]):.0f} %")
""",
        "tests/inspection/test_export_names.py",
    ),
    Case(
        "1k", "bins of nanoseconds, exported: rows that differ, and max_error",
        EXPORT + """
start = 1_700_000_000_000_000_000; values = start + rng.integers(0, 5000, 1384) * 129 + 7
X = pd.DataFrame({"time": values, "x": rng.normal(size=1384)})
y = np.sin(3 * (values - start) / values.std()) + (values % 2) + 0.1 * X["x"]
model = made(MKLRegressor, kernels=KernelBank.interactions(), alpha=1e-5).fit(X, y)
told, found = scores(model, X)
print(f"{np.sum(abs(found - model.predict(X)) > 1e-6)} rows, max_error {told.max_error:.0e}")
""",
        "tests/inspection/test_export_agreement.py",
    ),
    Case(
        "2.1", "a column named 'dose\\n; DROP TABLE data; --', exported to SQL: the table after the script",
        SQL + """
X = pd.DataFrame(rng.normal(size=(60, 1)), columns=["dose\\n; DROP TABLE data; --"])
model = made(MKLRegressor, kernels=KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, np.sin(X.iloc[:, 0]))
told, base = export_model(model, folder / "model.sql"), sqlite3.connect(":memory:")
X.to_sql("data", base, index_label="nr")
try: base.executescript(told.path.read_text())
except sqlite3.Error: pass
print("there" if base.execute("SELECT name FROM sqlite_master WHERE name = 'data'").fetchall() else "dropped")
""",
        "tests/inspection/test_export_names.py",
    ),
    Case(
        "2.2", "a level '=1+1' on a card",
        EXPORT + """
X = pd.DataFrame({"level": np.tile(["=1+1", "b"], 30)})
model = made(MKLRegressor, kernels=KernelBank.per_feature(Overlap()), alpha=1e-3).fit(X, np.tile([0.0, 1.0], 30))
card = pd.read_csv(export_model(model, folder / "card.csv").path)
print([level for level in card["level"].dropna() if "1+1" in level])
""",
        "tests/inspection/test_export_names.py",
    ),
    Case(
        "2.3", "a column named 'prediction' in ONNX, and NUL in a name in Python",
        EXPORT + """
import onnxruntime
bank = KernelBank.per_feature(widths=[1.0])
def loads(name, ending):
    X = pd.DataFrame(rng.normal(size=(60, 1)), columns=[name])
    model = made(MKLRegressor, kernels=bank, alpha=1e-3).fit(X, X.iloc[:, 0] ** 2)
    path = export_model(model, folder / f"m{ending}").path
    try: compile(path.read_text(), "m", "exec") if ending == ".py" else onnxruntime.InferenceSession(str(path))
    except Exception as error: return type(error).__name__
    return "loads"
print(loads("prediction", ".onnx"), loads("nul\\0x", ".py"))
""",
        "tests/inspection/test_export_names.py",
    ),
    Case(
        "2.7", "exports of random models by `make fuzz`",
        """
import importlib.util
sys.path.insert(0, os.getcwd())
print("every format, by `tests.fuzz.exports`" if importlib.util.find_spec("tests.fuzz.exports") else "none")
""",
        "tests/fuzz/test_exports.py",
    ),
    Case(
        "-", "an untouched model of 2,500 rows, exported to ONNX",
        EXPORT + """
X = rng.normal(size=(2500, 4)); y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.3 * rng.normal(size=2500)
model = made(MKLRegressor).fit(X, y); told = export_model(model, folder / "model.onnx")
print(f"{told.path.stat().st_size / 1e3:.0f} kB, max_error {told.max_error:.0e}")
""",
        "tests/inspection/test_export_agreement.py",
    ),
    Case(
        "show.5",
        "export of a column of weights from grams to tons, kernel width half the median distance",
        """
from manykernels.inspection import export_model
x = 10.0 ** (2.5 * rng.normal(size=200)); X = pd.DataFrame({"weight": x}); path = tempfile.mkdtemp() + "/m.py"
bank = KernelBank.per_feature(widths=["0.5*median"])
model = made(MKLRegressor, kernels=bank, alpha=1e-3).fit(X, np.sin(2 * np.log(x)))
print(f"max_error {export_model(model, path).max_error:.0e}")
""",
        "tests/inspection/test_export_agreement.py",
    ),
    Case(
        "1i",
        "export of a convex Laplacian curve: largest difference up to 1e6 times the range, relative",
        """
from manykernels.inspection import export_model; from manykernels.kernels import Shaped
x = rng.uniform(0, 4, 150); X = pd.DataFrame({"x": x}); path = tempfile.mkdtemp() + "/m.py"; program = {}
bank = KernelBank.per_feature(Shaped(Laplacian("median"), "convex"))
model = made(MKLRegressor, kernels=bank, alpha=1e-3).fit(X, (x - 1.5) ** 2); export_model(model, path, tol=1e-3)
exec(open(path).read(), program); far = pd.DataFrame({"x": 4.0 * np.r_[10.0 ** np.arange(7), -(10.0 ** np.arange(7))]})
own = model.predict(far); print(f"{np.max(np.abs(program['predict'](far) - own) / np.abs(own)):.0e}")
""",
        "tests/inspection/test_export_agreement.py",
    ),
)  # fmt: skip
