"""Whether noise passes for a finding: how often untouched fits and searches say so, of noise and of weak effects.

``python benchmarks/noise.py [--searches] [--draws 100] [--entries 40000] [--small] [--smoke] [--output DIR]``
``python benchmarks/noise.py --searches --draws 60 --entries 8000``, some minutes: a search is some hundred fits
``python benchmarks/noise.py --searches --draws 40 --small``, tables of 100 to 300 rows and 5 to 40 columns alone

Each draw of noise has its own number of samples and columns, with a category of many levels in every third, and a
target that depends on none of them, of numbers or of two classes. A fit counts as honest if it warns that noise would
select as many kernels, or if its model is a constant. The weak effects are one column of ten, linear or a wave, or
eight columns of ten, linear, of 150 samples.

With ``--searches`` the estimators with built-in cross-validation are asked, whose model should be the constant
where there is nothing, and not where there is something; groups of samples that are alike are given as such.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV

SIZES, COLUMNS = (100, 200, 400, 1000), (5, 20, 80, 500)
PLAIN, SEARCHES = (MKLClassifier, MKLRegressor), (MKLClassifierCV, MKLRegressorCV)
TOL = 1e-2
EFFECTS = (0.0, 0.2, 0.35, 0.5, 0.7)
OF_EIGHT = (0.1, 0.15, 0.2)  # effects of each of eight columns


def noise(rng: np.random.Generator, number: int, entries: int) -> tuple[Any, np.ndarray]:
    """Return a table of noise and a target that knows nothing of it."""
    while True:
        n, d = rng.choice(SIZES), rng.choice(COLUMNS)
        if n * d <= entries:
            break
    X: Any = rng.normal(size=(n, d))
    if number % 3 == 0:
        X = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
        X["category"] = pd.Categorical(rng.integers(0, rng.integers(3, n // 3), size=n).astype(str))
    y = rng.normal(size=n)
    return X, (y > 0).astype(int) if number % 2 else y


def small_noise(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 100 to 300 rows and 5 to 40 columns of noise, with a number or two classes."""
    n, d = rng.integers(100, 301), rng.integers(5, 41)
    y = rng.normal(size=n)
    return rng.normal(size=(n, d)), (y > 0).astype(int) if number % 2 else y


def of_groups(rng: np.random.Generator, number: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return noise of 40 groups of 4 samples that are alike within each, also the target, and the groups."""
    groups = np.repeat(np.arange(40), 4)
    X, y = rng.normal(size=(40, 5))[groups] + 0.3 * rng.normal(size=(160, 5)), rng.normal(size=40)[groups]
    return X, (y > 0).astype(int) if number % 2 else y, groups


def weak(rng: np.random.Generator, number: int, effect: float) -> tuple[Any, np.ndarray]:
    """Return ten columns of which one has an effect, linear or a wave."""
    X = rng.normal(size=(150, 10))
    return X, effect * (X[:, 0] if number % 2 else 2.0 * np.sin(2.0 * X[:, 0])) + rng.normal(size=150)


def several(rng: np.random.Generator, effect: float) -> tuple[Any, np.ndarray]:
    """Return ten columns of which eight have an effect each."""
    X = rng.normal(size=(150, 10))
    return X, effect * X[:, :8].sum(axis=1) + rng.normal(size=150)


def judged(X: Any, y: np.ndarray, kinds: Any, groups: Any = None) -> dict[str, Any]:
    """Fit an untouched estimator and return what it says."""
    classes = y.dtype.kind == "i"
    grouped: dict[str, Any] = {} if groups is None else {"cv": GroupKFold(5)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kinds[0 if classes else 1](tol=TOL, **grouped)
        model.fit(X, y, **({} if groups is None else {"groups": groups}))
    warned = any("more strongly related" in str(warning.message) for warning in caught)
    kernels = int((model.kernel_weights_ > 0).sum())
    return {"warned": warned, "constant": kernels == 0, "kernels": kernels, "above": int(model.above_noise_.sum())}


def draws(n_draws: int, entries: int, kinds: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is said of every draw."""
    for number in range(n_draws):
        yield {"kind": "noise", "effect": 0.0} | judged(
            *noise(np.random.default_rng([seed, number]), number, entries), kinds
        )
    for number in range(max(n_draws // 4, 2) if kinds is SEARCHES else 0):
        found = of_groups(np.random.default_rng([seed, 3, number]), number)
        yield {"kind": "noise of groups", "effect": 0.0} | judged(*found[:2], kinds, found[2])
    for effect in EFFECTS[1:]:
        for number in range(max(n_draws // 4, 2)):
            said = judged(*weak(np.random.default_rng([seed, 1, number]), number, effect), kinds)
            yield {"kind": "linear" if number % 2 else "wave", "effect": effect} | said
    for effect in OF_EIGHT:
        for number in range(max(n_draws // 4, 2)):
            said = judged(*several(np.random.default_rng([seed, 2, number]), effect), kinds)
            yield {"kind": "eight linear", "effect": effect} | said


def draws_of_small_noise(n_draws: int, kinds: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is said of every small table of noise."""
    for number in range(n_draws):
        found = small_noise(np.random.default_rng([seed, 4, number]), number)
        yield {"kind": "small noise", "effect": 0.0} | judged(*found, kinds)


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("How often untouched fits say that they may have learned noise.")
    parser.add_argument("--draws", type=int, default=100, help="draws of noise; a quarter of it for each weak effect")
    parser.add_argument("--searches", action="store_true", help="ask the estimators with built-in cross-validation")
    parser.add_argument("--entries", type=int, default=40_000, help="most entries of a table: 1000 x 500 takes minutes")
    parser.add_argument("--small", action="store_true", help="only noise of 100 to 300 rows and 5 to 40 columns")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    kinds, entries = SEARCHES if options.searches else PLAIN, 4000 if options.smoke else options.entries
    count = 6 if options.smoke else options.draws
    found = (
        draws_of_small_noise(count, kinds, options.seed)
        if options.small
        else draws(count, entries, kinds, options.seed)
    )
    frame = pd.DataFrame(found)
    frame["honest"] = frame["warned"] | frame["constant"]
    grouped = frame.groupby(["kind", "effect"], sort=False)
    table = grouped.agg(
        draws=("honest", "size"),
        honest=("honest", "mean"),
        constant=("constant", "mean"),
        kernels=("kernels", "median"),
    ).reset_index()
    common.print_table(table, "Share of fits that warn, or are constant", {"honest": ".2f", "constant": ".2f"})
    common.save(frame, record, options.output, "noise_searches" if options.searches else "noise")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
