"""Categories of many levels: CPU seconds, certified gap and error of the function.

``python benchmarks/levels.py`` draws 10,000 rows of a group and two numbers, with y = sin(2a) + group + noise / 2, for
400, 600 and 2,000 groups, and prints the figures of a bank whose groups are always in, and of an untouched
``MKLRegressor()``; then those of random slopes beside random intercepts, of two crossed groupings of the size of lme4's
InstEval, and of the logistic loss with 30 curves on 100,000 rows and 10,000 groups (``--rows 1000000 --groups 100000``
for the whole). ``--smoke`` draws few.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor, Overlap
from manykernels.kernels import Interactions, PerFeature
from manykernels.objective import Ridge

CURVES = [Gaussian(0.3), Gaussian(1.0)]


def groups_of(codes: np.ndarray) -> pd.Categorical:
    """Return a column of groups."""
    return pd.Categorical([f"s{code:06d}" for code in codes])


def timed(model: Any, X: pd.DataFrame, y: np.ndarray, target: np.ndarray | None = None) -> str:
    """Return CPU seconds of the faster of two fits, the gap, and the error of the function if it is given."""
    seconds = []
    for _ in range(2 if len(X) <= 20_000 else 1):
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)
    found = f"| {min(seconds):.2f} | {model.dual_gap_:.0e} |"
    return found if target is None else f"{found} {np.sqrt(np.mean((model.predict(X) - target) ** 2)):.3f} |"


def table(n: int, n_groups: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.random.Generator]:
    """Return the columns, the function, the target, and the generator."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_groups, n)
    X = pd.DataFrame({"group": groups_of(codes), "a": rng.normal(size=n), "b": rng.normal(size=n)})
    f = np.sin(2.0 * X["a"].to_numpy()) + rng.normal(size=n_groups)[codes]
    return X, f, f + 0.5 * rng.normal(size=n), rng


def intercepts(n: int, counts: list[int]) -> None:
    """Print the figures of random intercepts."""
    print(f"{n:,} rows\n\n| groups | bank | CPU s | gap | rmse |\n| --- | --- | --- | --- | --- |")
    always = KernelBank([("group", Overlap(), ["group"]), PerFeature(CURVES, ["a", "b"])])
    for n_groups in counts:
        X, f, y, _ = table(n, n_groups)
        ridge = MKLRegressor(always, penalty={"group": "ridge", "*": "l1"})
        print(f"| {n_groups:,} | groups always in {timed(ridge, X, y, f)}", flush=True)
        print(f"| {n_groups:,} | MKLRegressor() {timed(MKLRegressor(), X, y, f)}", flush=True)


def slopes(n: int, counts: list[int]) -> None:
    """Print the figures of random slopes."""
    print("\nIntercepts and slopes\n\n| groups | CPU s | gap | rmse |\n| --- | --- | --- | --- |")
    kernels = [("group", Overlap(), ["group"]), Interactions([Linear()], ["group", "b"]), PerFeature(CURVES, ["a"])]
    for n_groups in counts:
        X, f, _, rng = table(n, n_groups)
        f += 0.5 * rng.normal(size=n_groups)[X["group"].cat.codes] * X["b"].to_numpy()
        model = MKLRegressor(KernelBank(kernels), penalty={("group", "group x*"): "ridge", "*": "l1"})
        print(f"| {n_groups:,} {timed(model, X, f + 0.5 * rng.normal(size=n), f)}", flush=True)


def crossed(n: int, counts: tuple[int, int]) -> None:
    """Print the figures of two crossed groupings, as of students and lecturers."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, count, n) for count in counts]
    X = pd.DataFrame({name: groups_of(own) for name, own in zip(("student", "lecturer"), codes, strict=True)})
    f = 0.33 * rng.normal(size=counts[0])[codes[0]] + 0.52 * rng.normal(size=counts[1])[codes[1]]
    bank = KernelBank([(name, Overlap(), [name]) for name in X], normalize=None)
    penalty = {"student": Ridge((1.18 / 0.33) ** 2), "lecturer": Ridge((1.18 / 0.52) ** 2)}
    model = MKLRegressor(bank, penalty=penalty, alpha=1 / n, tol=1e-6)
    print("\nCrossed groupings\n\n| rows | levels | CPU s | gap | rmse |\n| --- | --- | --- | --- | --- |")
    print(f"| {n:,} | {counts[0]:,} + {counts[1]:,} {timed(model, X, f + 1.18 * rng.normal(size=n), f)}", flush=True)


def logistic(n: int, n_groups: int, n_curves: int) -> None:
    """Print the figures of a large table with classes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_groups, n)
    X = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(n_curves)})
    score = np.sin(2.0 * X["x0"]) + np.cos(X["x1"]) + rng.normal(size=n_groups)[codes]
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-score.to_numpy()))
    bank = KernelBank([("group", Overlap(), ["group"]), PerFeature([Gaussian(1.0)], list(X))])
    X["group"] = groups_of(codes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = MKLClassifier(bank, penalty={"group": "ridge", "*": "l1"}, tol=1e-4)
    found = timed(model, X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("\nLogistic loss\n\n| rows | groups | curves | CPU s | gap | peak memory, GB | of it before |")
    print(f"| --- | --- | --- | --- | --- | --- | --- |\n| {n:,} | {n_groups:,} | {n_curves} {found} ", end="")
    print(f"{peak / 2**20:.2f} | {before / 2**20:.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="of the logistic loss")
    parser.add_argument("--groups", type=int, default=10_000, help="of the logistic loss")
    parser.add_argument("--part", choices=["intercepts", "slopes", "crossed", "logistic"], help="a single table")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    small = options.smoke
    counts = [30, 80] if small else [400, 600, 2_000]
    if options.part in (None, "intercepts"):
        intercepts(400 if small else 10_000, counts)
    if options.part in (None, "slopes"):
        slopes(400 if small else 10_000, counts)
    if options.part in (None, "crossed"):
        crossed(*(500, (80, 40)) if small else (73_421, (2_972, 1_128)))
    if options.part in (None, "logistic"):
        logistic(*(500, 80, 3) if small else (options.rows, options.groups, 30))


if __name__ == "__main__":
    main()
