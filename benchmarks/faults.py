"""What became of faults that were once reported: each case is run in a process of its own, on this checkout or another.

``python benchmarks/faults.py`` prints one table; ``--source CHECKOUT``, once or more often, runs the same cases
on the sources of other checkouts, such as one from before they were mended. The last column says which test holds each.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from _faults import Case

HERE = Path(__file__).resolve().parents[1]
LIMIT = 60  # CPU seconds for one case, whatever else the machine does
PRELUDE = (
    f"""
import inspect, io, os, resource, sys, tempfile, time, warnings
resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT}, {LIMIT}))
"""
    + """
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
from manykernels import *
from manykernels.solvers.registry import SOLVERS

def made(kind, **given):
    known = inspect.signature(kind).parameters
    late = {"representation", "time_limit", "max_iter", "memory_budget"}
    if "representation" in given and "representation" not in known and "resources" not in known:
        given["kernels_as" if "kernels_as" in known else "computation"] = given.pop("representation")
    if "resources" in known:
        given["resources"] = {name: given.pop(name) for name in sorted(late & set(given))}
    return kind(**given)

solve_there = solve

def solve(*parts, **given):  # under the names that the checkout has for penalties and relative strengths
    right = "penalty" if "penalty" in inspect.signature(solve_there).parameters else "regularizer"
    for word in {"penalty", "regularizer"} & set(given): given[right] = given.pop(word)
    if right == "regularizer" and isinstance(given.get("alpha"), str):
        given["relative_strength"] = float(given.pop("alpha").removesuffix("*max"))
    return solve_there(*parts, **given)

rng = np.random.default_rng(0)
"""
)


CASES = (
    Case(
        "0", "cross-validate a table in which a level occurs once",
        """
X = pd.DataFrame({"a": rng.normal(size=60), "level": ["p"] * 30 + ["q"] * 29 + ["once"]})
X.loc[3, "a"] = np.nan
y = np.where(np.arange(60) % 2 == 0, "yes", "no")
model = made(MKLClassifierCV, kernels=KernelBank.auto(missing="indicator"), cv=3).fit(X, y)
print("fitted")
""",
        "tests/fuzz/test_tables.py",
    ),
    Case(
        "1", "Brier score where T and C are uniform on 1..5; expected are 0.24, 0.24, 0.16 at 2, 3, 4",
        """
from manykernels.estimators.survival import brier_score
T, C = (np.repeat(np.arange(1.0, 6), 5), np.tile(np.arange(1.0, 6), 5))
y = survival_array(T <= C, np.minimum(T, C))
true = np.tile(1 - np.arange(2, 5) / 5, (25, 1))
times = np.array([2.0, 3.0, 4.0])
print([round(float(v), 4) for v in np.atleast_1d(brier_score(y, y, true, times)).ravel()])
""",
        "tests/estimators/test_survival.py",
    ),
    Case(
        "6", "a column without information, alpha='auto'",
        """
X, y = np.ones((40, 1)), rng.normal(size=40)
model = made(MKLRegressor, kernels=KernelBank.per_feature(widths=[1.0]), alpha="auto").fit(X, y)
print(f"{model.solution_.status}, gap {model.dual_gap_:.1e}")
""",
        "tests/estimators/test_strength.py",
    ),
    Case(
        "7", "Cox on factors, products on one column, tol=1e-7",
        """
rng = np.random.default_rng(26)
X = rng.standard_normal((60, 3))
t = np.round(rng.exponential(size=60) * np.exp(-np.sin(2 * X[:, 0])) * 100) + 1
bank = KernelBank([("a", Gaussian(0.21) * Laplacian(2.2), [0]), ("b", Laplacian(3.4) * Laplacian(0.12), [0, 1, 2]),
    ("c", Laplacian(0.13) * Periodic(4.0, 0.26), [1, 2]), ("d", Gaussian(0.2) * Laplacian(1.0), [1])], standardize=True)
model = made(MKLSurvival, kernels=bank, alpha="0.3*max", tol=1e-7, representation="factored")
model.fit(X, survival_array(rng.random(60) < 0.7, t))
print(f"{model.solution_.status}, gap {model.dual_gap_:.1e}")
""",
        "tests/solvers/factored/test_survival.py",
    ),
    Case(
        "7", "a kernel negative by 3e-9 of its largest eigenvalue: what the result says",
        """
F = rng.normal(size=(2, 40, 2)); K = F @ F.transpose(0, 2, 1)
values, vectors = np.linalg.eigh(K[1])
K[1] -= 3e-9 * values[-1] * np.outer(vectors[:, 0], vectors[:, 0]); K = (K + K.transpose(0, 2, 1)) / 2
found = solve(K, F[1, :, 0], loss="squared", penalty="l1", strength=0.1)
print({m: f"{size:.0e}" for m, size in getattr(found, "replaced_kernels", {}).items()} or "nothing")
""",
        "tests/grams/test_dense_definite.py",
    ),
    Case(
        "8", "regressor CV, weights of zero on all rows of a fold",
        """
X = rng.normal(size=(30, 2)); w = np.ones(30); w[:10] = 0.0
print("fitted" if made(MKLRegressorCV, cv=3).fit(X, X[:, 0], sample_weight=w) else "")
""",
        "tests/estimators/test_cross_validation.py",
    ),
    Case(
        "12", "times of an event that are complex",
        "print(survival_array([True, False], np.array([1 + 2j, 2.0])))",
        "tests/estimators/test_survival.py",
    ),
    Case(
        "13", "more folds than samples",
        "made(MKLRegressorCV, cv=50).fit(rng.normal(size=(30, 2)), np.arange(30.0))",
        "tests/estimators/test_bad_inputs.py",
    ),
    Case(
        "13", "a timestamp in an object array",
        "made(MKLRegressor).fit(np.array([[pd.Timestamp('2020-01-01')], [1.0]], dtype=object), [1.0, 2.0])",
        "tests/estimators/test_bad_inputs.py",
    ),
    Case(
        "14", "56 kernels on 79 rows in 40 MB",
        """
X = rng.normal(size=(79, 8))
bank = KernelBank.per_feature(widths=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
print(f"fitted, gap {made(MKLRegressor, kernels=bank, memory_budget='40 MB').fit(X, X[:, 0]).dual_gap_:.0e}")
""",
        "tests/grams/test_plan.py",
    ),
    Case(
        "15", "penalty='l2'",
        "made(MKLClassifier, penalty='l2').fit(np.eye(4), [0, 1, 0, 1])",
        "tests/validation/test_parameters_names.py",
    ),
    Case(
        "15", "solve(C=1.0)",
        "solve(np.eye(4)[None], np.arange(4.0), loss='squared', C=1.0)",
        "tests/validation/test_parameters_names.py",
    ),
    Case(
        "17", "an elastic net with a relative strength: by which numbers to fit it again",
        """
X = rng.normal(size=(60, 3))
model = made(MKLRegressor, penalty="elasticnet", alpha="0.1*max").fit(X, X[:, 0])
print([name for name in ("alpha_", "l1_ratio_") if hasattr(model, name)])
""",
        "tests/estimators/test_mixtures.py",
    ),
    Case(
        "18", "PolynomialMKL twice: largest difference of predictions",
        """
X = rng.normal(size=(60, 4)); y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60)
one, two = (PolynomialMKL().fit(X, y).predict(X) for _ in range(2))
print(f"{abs(one - two).max():.1e}")
""",
        "tests/estimators/test_parameters_seeds.py",
    ),
    Case(
        "2", "SimpleMKL, N = 42, M = 3, a quantile loss at 3e-8 of the mean: seconds and status without a time limit",
        """
rng = np.random.default_rng(37); X = rng.normal(size=(42, 3)); K = np.exp(-(X.T[:, :, None] - X.T[:, None]) ** 2 / 0.02)
started = time.process_time()
y = X[:, 0] + rng.normal(size=42)
found = solve(K, y, loss="quantile", penalty="simplex", strength=1e-6, solver="simplemkl")
print(f"{found.status}, {'under' if time.process_time() - started < 22 else 'over'} 22 CPU s")
""",
        "tests/solvers/test_simplemkl.py",
    ),
    Case(
        "3", "hinge, 1,001 rows, one Gaussian of width 0.3 on four columns",
        """
X = rng.normal(size=(1001, 4)); y = np.where(np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=1001) > 0, 1, -1)
model = made(MKLClassifier, kernels=KernelBank.joint(widths=[0.3]), loss="hinge", alpha=1 / 1001).fit(X, y)
print(f"{model.solution_.status}, gap {model.dual_gap_:.0e}")
""",
        "tests/solvers/factored/test_solver.py",
    ),
    Case(
        "4", "the untouched classifier, 8,000 rows of 6 numbers",
        """
X = rng.normal(size=(8000, 6)); y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=8000) > 0
model = made(MKLClassifier, time_limit=40.0).fit(X, y)
print(f"{model.solution_.status}, accuracy {model.score(X, y):.2f}")
""",
        "tests/estimators/test_estimators.py",
    ),
    Case(
        "5", "factors of a column at 1e9, not standardized: value told, and what its predictions lose",
        """
X = rng.normal(size=(107, 2)) + 1e9; y = np.where(X[:, 0] > 1e9, 1, -1)
bank = KernelBank([("a", Polynomial(2), [0]), ("b", Polynomial(2), [1])], standardize=False)
model = made(MKLClassifier, kernels=bank, loss="squared_hinge", alpha=0.01, representation="factored").fit(X, y)
own = float(np.maximum(0, 1 - y * model.decision_function(X)) @ np.maximum(0, 1 - y * model.decision_function(X))) / 2
told = model.solution_.certificate.primal
print(f"{model.solution_.status}, told {told:.3g}, its predictions lose {own:.3g}")
""",
        "tests/solvers/factored/test_solver.py",
    ),
    Case(
        "9", "a model file with a bracket in the header of an array",
        """
import zipfile
path = os.path.join(tempfile.mkdtemp(), "model.mkl"); X = rng.normal(size=(30, 2))
save_model(made(MKLRegressor).fit(X, X[:, 0]), path)
with zipfile.ZipFile(path) as old: members = {name: old.read(name) for name in old.namelist()}
name = next(name for name in members if name.endswith(".npy"))
members[name] = members[name].replace(b")", b"(", 1)
with zipfile.ZipFile(path, "w") as new: [new.writestr(*member) for member in members.items()]
load_model(path)
""",
        "tests/inspection/test_model_file_mutations.py",
    ),
    Case(
        "10", "a report onto a full disk: what is raised, and what is left of the old one",
        """
import resource, matplotlib.pyplot
path = os.path.join(tempfile.mkdtemp(), "report.html"); X = rng.normal(size=(40, 2))
model = made(MKLRegressor).fit(X, X[:, 0]); report(model, X, X[:, 0], path); size = os.path.getsize(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (999, 999))
try: report(model, X, X[:, 0], path)
except Exception as error: print(f"{type(error).__name__}, {'whole' if os.path.getsize(path) == size else 'in part'}")
""",
        "tests/inspection/test_files.py",
    ),
    Case(
        "11", "rows from a Parquet file that is cut off",
        """
path = os.path.join(tempfile.mkdtemp(), "rows.parquet"); pd.DataFrame({"a": range(9)}).to_parquet(path)
with open(path, "rb") as file: half = file.read()[:-20]
with open(path, "wb") as file: file.write(half)
open_rows(path)
""",
        "tests/grams/rows/test_opening_parquet.py",
    ),
    Case(
        "16", "Ctrl-C in the first evaluation of a search for widths",
        """
import manykernels.discovery.families.search as search
pressed = []
def press(self, *given, real=search.FamilySearch.maximize, **named):
    pressed.append(1)
    if len(pressed) == 1: raise KeyboardInterrupt
    return real(self, *given, **named)
search.FamilySearch.maximize = press
X = rng.normal(size=(40, 2)); model = made(GaussianMKL).fit(X, X[:, 0])
print(f"{model.solution_.status}, gap {model.dual_gap_:.2g}")
""",
        "tests/estimators/test_interrupts.py",
    ),
    Case(
        "19", "rows in another order: largest difference of predictions on landmarks",
        """
X = rng.normal(size=(1500, 3)); y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]; other = rng.permutation(1500)
bank = KernelBank.joint(widths=[1.0], standardize=True)
fit = lambda at: made(MKLRegressor, kernels=bank, alpha=1e-3, representation="factored").fit(X[at], y[at]).predict(X)
print(f"{abs(fit(np.arange(1500)) - fit(other)).max():.0e}")
""",
        "tests/grams/factored/test_landmarks.py",
    ),
    Case(
        "20", "first columns of the table of weights",
        """
X = rng.normal(size=(40, 2)); print(list(made(MKLRegressor).fit(X, X[:, 0]).weights_frame().columns[:3]))
""",
        "tests/estimators/test_estimators.py",
    ),
    Case(
        "21", "manykernels warm",
        """
import subprocess
done = subprocess.run([sys.executable, "-m", "manykernels.cli", "warm", "--help"], capture_output=True, text=True)
print("there" if done.returncode == 0 else "no such command")
""",
        "tests/cli/test_commands_warm.py",
    ),
    Case(
        "22", "100,000 columns x 12 rows, in Python",
        """
X = rng.normal(size=(12, 100_000)); started = time.process_time()
model = made(MKLRegressor).fit(X, X[:, 0])
print(f"{model.solution_.status}, {'under' if time.process_time() - started < 25 else 'over'} 25 CPU s")
""",
        "tests/grams/test_plan.py",
    ),
    Case(
        "23", "1 : 99 classes, 1,000 rows",
        """
X = rng.normal(size=(1000, 6)); s = X[:, 0] + X[:, 1] * X[:, 2]; y = s > np.quantile(s, 0.99)
made(MKLClassifier).fit(X, s > np.median(s)); clock = [time.process_time()]
for target in (s > np.median(s), y):
    model = made(MKLClassifier).fit(X, target); clock.append(time.process_time())
halves, rare = np.diff(clock)
print(f"{model.solution_.status}, {'at most' if rare < 3 * halves else 'more than'} three times that of 1 : 1")
""",
        "tests/estimators/test_strength.py",
    ),
    Case(
        "-", "survival CV of a penalty that keeps every kernel (found by the fuzzer)",
        """
X = rng.normal(size=(40, 3)); y = survival_array(rng.random(40) < 0.7, rng.exponential(size=40))
model = made(MKLSurvivalCV, kernels=KernelBank.joint(Linear()), penalty="ridge", cv=2, n_alphas=3).fit(X, y)
print("fitted")
""",
        "tests/estimators/test_survival.py",
    ),
    Case(
        "-", "Cox's conjugate at scores of which some are 1e5 below the others: its error (found by the fuzzer)",
        """
from manykernels.objective import CoxPartial, survival_target
event = rng.random(200) < 0.6
joint = CoxPartial().bind(survival_target(event, np.ceil(rng.exponential(size=200) * 50)), np.ones(200))
z = 3 * rng.normal(size=200); z[~event & (rng.random(200) < 0.3)] = -1e5
slopes = joint.gradient(z)
print(f"{abs(joint.conjugate_along(z, 1.0) - float(slopes @ z) + joint.value(z)):.0e}")
""",
        "tests/solvers/factored/test_survival.py",
    ),
)  # fmt: skip


def all_cases() -> list[Case]:
    """Return the cases of this file, then those of each ``_faults_AREA.py`` beside it."""
    areas = [import_module(path.stem).CASES for path in sorted(Path(__file__).parent.glob("_faults_*.py"))]
    return [*CASES, *(case for area in areas for case in area)]


def happened(case: Case, source: Path) -> str:
    """Run one case on the sources of a checkout; return the line that it printed, or what it raised."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + case.program], capture_output=True, text=True, env=environment, cwd=source
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):  # a KeyboardInterrupt ends as a signal too
        return f"not through after {LIMIT} CPU s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return lines[-1][:160].replace("|", "\\|").replace("manykernels.exceptions.", "") if lines else "nothing"


def revision(source: Path) -> str:
    """Return the commit that a checkout is at."""
    told = subprocess.run(["git", "log", "-1", "--format=%h"], capture_output=True, text=True, cwd=source, check=True)
    return told.stdout.strip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, action="append", help="checkout to run on; may be given twice")
    parser.add_argument("--points", type=lambda text: text.split(","), help="these points only: 2,16,1a,3.5")
    parser.add_argument("--smoke", action="store_true", help="the first cases only")
    options = parser.parse_args()
    sources = options.source or [HERE]
    print("| point | tried | " + " | ".join(f"at {revision(source)}" for source in sources) + " | test |")
    print("|" + " --- |" * (len(sources) + 3))
    chosen = [case for case in all_cases() if options.points is None or case.number in options.points]
    for case in chosen[: 2 if options.smoke else None]:
        found = " | ".join(happened(case, source.resolve()) for source in sources)
        print(f"| {case.number} | {case.tried} | {found} | `{case.test}` |", flush=True)


if __name__ == "__main__":
    main()
