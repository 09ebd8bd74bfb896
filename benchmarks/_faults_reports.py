"""Reported faults of reports, importances, model files and messages."""

from _faults import Case

COMMAND = """
import json, subprocess
def command(*words):
    words = [sys.executable, "-m", "manykernels.cli", *map(str, words), "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr.strip()[-150:]}
folder = tempfile.mkdtemp(); csv, model, page = (os.path.join(folder, name) for name in ("t.csv", "m.mkl", "r.html"))
"""

CASES = (
    Case(
        "1b",
        "1,200 rows of few values: held-out accuracy by fit and by predict, held-out rows of report",
        COMMAND
        + """
table = pd.DataFrame(rng.integers(0, 3, size=(1200, 4)), columns=list("abcd"))
table["y"] = np.where((table["a"] + table["b"] > 2) == (rng.random(1200) < 0.75), "yes", "no")
table.to_csv(csv, index=False)
fit = command("fit", csv, "--target", "y", "-o", model)
predict, report = command("predict", model, csv), command("report", model, csv, "-o", page)
scores = [found["scores"]["accuracy"] for found in (fit, predict)]
print(f"{scores[0]:.3f}, {scores[1]:.3f}, {report['n_held_out']} of {fit['n_test']}")
""",
        "tests/cli/test_models_rows.py",
    ),
    Case(
        "1b",
        "6 levels: report on the file of the fit",
        COMMAND
        + """
table = pd.DataFrame({"a": rng.choice(list("pqrstu"), size=400)})
table["y"] = np.where((table["a"] > "r") == (rng.random(400) < 0.7), "yes", "no")
table.to_csv(csv, index=False)
command("fit", csv, "--target", "y", "-o", model)
found = command("report", model, csv, "-o", page)
print(found.get("error") or f"{found['n_held_out']} rows held out")
""",
        "tests/cli/test_models_rows.py",
    ),
    Case(
        "1l",
        "importance and its 95% interval of a column that decides the class and has one gap (expected: .6 to .9)",
        """
X = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc")); z = 3 * X["a"] + X["b"] + 0.5 * rng.normal(size=80)
X.loc[0, "a"] = np.nan; y = (z > 0).to_numpy().copy(); y[0] = True
frame = made(MKLClassifier, kernels=KernelBank.auto(missing="indicator"), alpha=0.01).fit(X, y).importance_frame()
row = frame.set_index("columns").loc["a"]
print(f"{row['importance']:.2f}, {row['low']:.2f} to {row['high']:.2f}, place {list(frame['columns']).index('a') + 1}")
""",
        "tests/estimators/test_importance.py",
    ),
    Case(
        "1m",
        "importance of a rare level in 60,000 rows, in four orders of the rows (expected: .03 to .05)",
        """
bank = KernelBank([("a", Gaussian(0.7), ["a"]), ("level", Overlap(), ["level"])], standardize=True)
X = pd.DataFrame({"a": rng.normal(size=60_000), "level": rng.choice(list("pqr"), 60_000, p=[0.6, 0.398, 0.002])})
y = np.sin(X["a"]) + 6.0 * (X["level"] == "r") + rng.normal(size=60_000); found = []
for order in [rng.permutation(60_000) for _ in range(4)]:
    frame = made(MKLRegressor, kernels=bank, alpha=1e-3).fit(X.iloc[order], y.iloc[order]).importance_frame()
    found.append(float(frame.set_index("columns")["importance"]["level"]))
print(" ".join(f"{value:.3f}" for value in found), "from", frame.get("n_rows", ["?"])[0], "rows")
""",
        "tests/estimators/test_importance.py",
    ),
    Case(
        "2.4",
        "a model file that declares 1e12 kernels",
        """
import json, zipfile
path = os.path.join(tempfile.mkdtemp(), "model.mkl"); X = rng.normal(size=(30, 2))
save_model(made(MKLRegressor).fit(X, X[:, 0]), path)
with zipfile.ZipFile(path) as old: members = {name: old.read(name) for name in old.namelist()}
document = json.loads(members["model.json"])
document["model"]["MKLRegressor"]["_expansion"]["Expansion"]["n_kernels"] = 10**12
members["model.json"] = json.dumps(document).encode()
with zipfile.ZipFile(path, "w") as new: [new.writestr(*member) for member in members.items()]
load_model(path)
""",
        "tests/inspection/test_model_file.py",
    ),
    Case(
        "2.4",
        "a model file with a member that nothing refers to",
        """
import zipfile
path = os.path.join(tempfile.mkdtemp(), "model.mkl"); X = rng.normal(size=(30, 2)); out = io.BytesIO()
save_model(made(MKLRegressor).fit(X, X[:, 0]), path)
np.lib.format.write_array(out, np.ones(3), version=(1, 0))
with zipfile.ZipFile(path, "a") as file: file.writestr(zipfile.ZipInfo("more.npy"), out.getvalue())
load_model(path); print("loaded")
""",
        "tests/inspection/test_model_file.py",
    ),
    Case(
        "2.5",
        "control and direction characters of names in a report",
        """
X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["do\\x1b[31mse", "ag\\u202ee"]);
path = os.path.join(tempfile.mkdtemp(), "r.html")
y = np.where(X.iloc[:, 0] > 0, "y\\u200bes", "no")
text = open(report(made(MKLClassifier).fit(X, y), X, y, path, cv=2, baselines=False), encoding="utf-8").read()
print(sum(text.count(sign) for sign in "\\x1b\\u202e\\u200b"), "of them")
""",
        "tests/inspection/test_document.py",
    ),
    Case(
        "4",
        "report on a concordance of 1: what to distrust",
        """
X = rng.normal(size=(120, 2)); y = survival_array(np.ones(120, dtype=bool), np.exp(-X[:, 0]))
model = made(MKLSurvival, kernels=KernelBank.per_feature(Linear()), alpha=0.1).fit(X[:60], y[:60])
path = os.path.join(tempfile.mkdtemp(), "r.html"); options = {"n_draws": 20, "baselines": False}
report(model, X[:60], y[:60], path, X_test=X[60:], y_test=y[60:], **options)
print("nearly perfect scores" if "Nearly perfect" in open(path, encoding="utf-8").read() else "no doubt about leakage")
""",
        "tests/inspection/test_scores_perfect.py",
    ),
    Case(
        "4",
        "kernel_penalties of 0",
        """
bank = KernelBank.per_feature(Linear())
made(MKLRegressor, kernels=bank, kernel_penalties=[0.0, 1.0]).fit(rng.normal(size=(9, 2)), np.arange(9.0))
""",
        "tests/estimators/test_bad_inputs.py",
    ),
    Case(
        "4",
        "a class of one row in three folds: the warning",
        """
y = np.array(["a"] * 20 + ["b"] * 19 + ["c"]); X = rng.normal(size=(40, 2))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always"); made(MKLClassifierCV, kernels=KernelBank.per_feature(Linear()), cv=3).fit(X, y)
print(next(str(one.message) for one in caught if "populated" in str(one.message)))
""",
        "tests/estimators/test_bad_inputs.py",
    ),
    Case(
        "4",
        "two folds of two samples",
        "made(MKLRegressorCV, cv=2).fit(rng.normal(size=(2, 2)), [0.0, 1.0])",
        "tests/estimators/test_bad_inputs.py",
    ),
    Case(
        "52.1",
        "a report of a model of views, one of 990 columns",
        COMMAND
        + """
from manykernels import KernelBank, MKLClassifier, report
X = pd.DataFrame(rng.normal(size=(60, 990))).add_prefix("g"); y = np.where(X["g0"] > 0, "yes", "no")
model = MKLClassifier(KernelBank.from_views({"rna": list(X), "clinic": ["g0"]}), alpha=0.01).fit(X, y)
try:
    report(model, X, y, page); print("written")
except RecursionError as error:
    print(f"RecursionError: {error}")
""",
        "tests/inspection/test_kernel_table.py",
    ),
    Case(
        "52.1",
        "an exported Python file on a list of dictionaries, as a server gets them",
        """
from manykernels import KernelBank, MKLRegressor
from manykernels.inspection import export_model
X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=0.001).fit(X, np.sin(X["a"]))
module, path = {}, os.path.join(tempfile.mkdtemp(), "model.py")
export_model(model, path); exec(open(path).read(), module)
try:
    print(f"off by {abs(module['predict'](X.to_dict('records')) - model.predict(X)).max():.0e}")
except TypeError as error:
    print(f"TypeError: {error}")
""",
        "tests/inspection/test_export.py",
    ),
)
