"""What became of faults that were once reported: each case is run in a process of its own, on this checkout or another.

``python benchmarks/faults.py`` prints one table; ``--source CHECKOUT``, once or more often, runs the same cases
on the sources of other checkouts, such as one from before they were mended. The last column says which test holds each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LIMIT = 60  # seconds of wall-clock time for one case
PRELUDE = """
import inspect, io, os, sys, tempfile, time, warnings
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

rng = np.random.default_rng(0)
"""


@dataclass(frozen=True)
class Case:
    """One fault: its number, what is tried, the program that prints what happened, and the test that holds it."""

    number: str
    tried: str
    program: str
    test: str


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
from manykernels.estimators.survival.scores import brier_score
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
found = solve(K, F[1, :, 0], loss="squared", regularizer="l1", strength=0.1)
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
        "tests/validation/test_names.py",
    ),
    Case(
        "15", "solve(C=1.0)",
        "solve(np.eye(4)[None], np.arange(4.0), loss='squared', C=1.0)",
        "tests/validation/test_names.py",
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


def happened(case: Case, source: Path) -> str:
    """Run one case on the sources of a checkout; return the line that it printed, or what it raised."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + case.program],
            capture_output=True, text=True, timeout=LIMIT, env=environment, cwd=source,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not through after {LIMIT} s"
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
    parser.add_argument("--smoke", action="store_true", help="the first cases only")
    options = parser.parse_args()
    sources = options.source or [HERE]
    print("| point | tried | " + " | ".join(f"at {revision(source)}" for source in sources) + " | test |")
    print("|" + " --- |" * (len(sources) + 3))
    for case in CASES[: 2 if options.smoke else None]:
        found = " | ".join(happened(case, source.resolve()) for source in sources)
        print(f"| {case.number} | {case.tried} | {found} | `{case.test}` |", flush=True)


if __name__ == "__main__":
    main()
