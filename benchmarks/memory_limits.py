"""Fits that may use no more memory than their plan says: ``python benchmarks/memory_limits.py --fits 1000``.

Each fit runs in a child of a process in which everything is imported and compiled. The child may map what its parent
has mapped (that is the interpreter with its libraries, which no plan knows) and ``--factor`` times the plan of the fit,
by ``RLIMIT_AS``, which is what ``ulimit -v`` sets. Counted are fits, planned refusals, and whatever else was raised.

With ``--traced [--what KIND ...]`` instead what fits, paths and searches of several shapes were seen to hold at their
peak, by ``tracemalloc``, beside their plans: what is expected, and from few kernels that take part to many; searches
also beside a fit at the default strength.
"""

from __future__ import annotations

import argparse
import os
import resource
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut

from manykernels import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    regularization_path,
)
from manykernels.exceptions import MemoryBudgetError
from manykernels.grams.training import plan_for

OUTCOMES = ("fitted", "refused", "MemoryError", "other")
# What is run, rows, columns, widths of a column (0: a line each; None: the default bank), how held, and the strength.
# Searches: on columns of four values (levels), of a grid, of the sparsest mixture alone, leaving out one row at a time,
# of three targets, of four classes, and on a kernel of each column that comes as a matrix, also of four classes.
SHAPES: tuple[tuple[str, int, int, int | None, str, str], ...] = (
    ("fit", 500, 10, 4, "gram", "0.1*max"),
    ("fit", 1_000, 20, 4, "gram", "0.1*max"),
    ("fit", 1_000, 1, 1, "gram", "0.1*max"),
    ("fit", 2_000, 1, 2, "gram", "0.1*max"),
    ("fit", 1_500, 20, None, "auto", "auto"),
    ("fit", 1_000, 10, 3, "factored", "0.1*max"),
    ("fit", 3_000, 20, 3, "factored", "0.1*max"),
    ("fit", 3_000, 20, 3, "factored", "0.003*max"),
    ("fit", 30_000, 1, 30, "factored", "0.1*max"),
    ("fit", 30_000, 1, 30, "factored", "0.001*max"),
    ("fit", 20_000, 50, 5, "factored", "0.1*max"),
    ("fit", 20_000, 50, 5, "factored", "0.003*max"),
    ("fit", 100_000, 10, 5, "factored", "auto"),
    ("fit", 20_000, 100, 0, "factored", "0.1*max"),
    ("path", 3_000, 20, 3, "factored", ""),
    ("path", 10_000, 10, 3, "factored", ""),
    ("path", 20_000, 100, 0, "factored", ""),
    ("search", 500, 10, 3, "auto", ""),
    ("search", 1_000, 10, 3, "auto", ""),
    ("search", 1_500, 20, 3, "auto", ""),
    ("search", 1_500, 20, None, "auto", ""),
    ("search", 3_500, 8, None, "auto", ""),
    ("search", 6_000, 10, 3, "factored", ""),
    ("search", 2_000, 8, None, "auto", ""),
    ("search", 6_000, 8, None, "auto", ""),
    ("levels", 700, 20, None, "auto", ""),
    ("grid", 500, 10, 3, "gram", ""),
    ("sparsest", 500, 10, 3, "gram", ""),
    ("one out", 50, 6, None, "auto", ""),
    ("targets", 700, 8, None, "auto", ""),
    ("classes", 700, 8, None, "auto", ""),
    ("matrices", 300, 12, None, "gram", ""),
    ("matrices", 720, 4, None, "gram", ""),
    ("matrices", 400, 30, None, "gram", ""),
    ("classes of matrices", 300, 12, None, "gram", ""),
    ("classes of matrices", 720, 4, None, "gram", ""),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "grid": {"penalty": "l1"},
    "sparsest": {"l1_ratios": (1.0,)},
    "one out": {"cv": LeaveOneOut()},
}


def drawn(seed: int) -> tuple[Any, KernelBank, Any, Any, Any]:
    """Return an estimator, its kernels, rows, target and representation: 50 to 1,200 rows, 1 to 12 columns."""
    rng = np.random.default_rng([seed, 7])
    n, p = int(50 * 24 ** rng.random()), int(rng.integers(1, 13))
    X = rng.normal(size=(n, p))
    score = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    widths = np.unique(np.round(10 ** rng.uniform(-0.7, 0.7, size=int(rng.integers(1, 9))), 3)).tolist()
    bank = KernelBank.per_feature([Gaussian(width) for width in widths] + [Linear()], standardize=True)
    representation = str(rng.choice(["auto", "gram", "factored"]))
    resources = {"representation": representation}
    if rng.random() < 0.5:
        loss = str(rng.choice(["squared", "huber", "epsilon_insensitive"]))
        return MKLRegressor(bank, loss=loss, alpha="0.1*max", resources=resources), bank, X, score, representation
    loss = str(rng.choice(["logistic", "hinge", "squared_hinge"]))
    labels = score > np.median(score)
    return MKLClassifier(bank, loss=loss, alpha="0.1*max", resources=resources), bank, X, labels, representation


def planned_for(bank: KernelBank, X: Any, representation: str) -> Any:
    """Return the plan of a fit, as the estimator makes it."""
    return plan_for(bank, X, representation=representation, memory_budget=None)


def mapped() -> int:
    """Return the bytes that this process has mapped."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def outcome(seed: int, factor: float) -> int:
    """Fit in a child under its limit; return the place of what became of it in `OUTCOMES`."""
    model, bank, X, y, representation = drawn(seed)
    told = planned_for(bank, X, representation)
    planned = told.nbytes + told.working_nbytes
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 3
    try:
        limit = mapped() + int(factor * planned)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        model.fit(X, y)
        code = 0
    except MemoryBudgetError:
        code = 1
    except MemoryError:
        code = 2
    except Exception as error:
        print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(code)


def traced(what: str, n: int, p: int, widths: int | None, representation: str, alpha: str) -> None:
    """Print the plan and the peak of one shape; a few of its rows are learned first, which compiles and imports."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(n, p)) / 1.5 - 1.0 if what == "levels" else rng.normal(size=(n, p))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] ** 2 + 0.5 * rng.normal(size=n)
    classes, matrices = what.startswith("classes"), what.endswith("matrices")
    if what == "targets":
        y = np.column_stack([y, X[:, 1] + rng.normal(size=n), np.abs(X[:, 2]) + rng.normal(size=n)])
    y = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75])) if classes else y
    grid = np.geomspace(0.3, 3.0, widths or 1).tolist()
    bank = KernelBank.per_feature(widths=grid, standardize=True) if widths else None
    bank = KernelBank.per_feature(Linear(), standardize=True) if widths == 0 else bank
    kernels = "precomputed" if matrices else bank
    X = np.exp(-(np.subtract(X.T[:, :, None], X.T[:, None], order="C") ** 2)) if matrices else X  # or it is copied
    resources = {"representation": representation}
    plain, in_folds = (MKLClassifier, MKLClassifierCV) if classes else (MKLRegressor, MKLRegressorCV)
    fits = plain(kernels, resources=resources)
    searches = what not in ("fit", "path")
    model = fits if what == "path" else plain(kernels, alpha=alpha, resources=resources)
    model = in_folds(kernels, resources=resources, **{"cv": 5, **SETTINGS.get(what, {})}) if searches else model

    def run(count: int, model: Any = model) -> None:
        rows, target = X[:, :count, :count] if matrices else X[:count], y[:count]
        if what == "path":
            regularization_path(rows, target, kernels=bank, n_alphas=20, representation=representation)
        else:
            model.fit(rows, target)

    run(min(n, 1_200) // 2)
    plan, peak = model.plan(X, y), peak_of(lambda: run(n))
    shape = f"{what} {n:,} x {p} x {widths}, {plan.kind} {alpha}"
    beside = f", {peak / peak_of(lambda: run(n, fits)):.2f} times a fit" if searches else ""
    ratio = f"{peak / plan.expected_nbytes:.2f} of what is expected"
    print(f"{shape:42s} plan {plan.expected}, traced {peak / 1e6:.1f} MB: {ratio}{beside}", flush=True)


def peak_of(work: Callable[[], object]) -> int:
    """Return the bytes that were held at the peak of some work."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    """Print how many fits ended how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--factor", type=float, default=1.3)
    parser.add_argument("--traced", action="store_true", help="plans of some shapes beside their peaks")
    parser.add_argument("--what", nargs="+", help="with --traced, the kinds of shapes to look at, such as search")
    parser.add_argument("--smoke", action="store_true", help="three fits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.traced:
        for shape in SHAPES[:1] if options.smoke else SHAPES:
            if options.what is None or shape[0] in options.what:
                traced(*shape)
        return
    for seed in range(12):  # compiled here, once, and no part of any plan
        model, _, X, y, _ = drawn(10**6 + seed)
        model.fit(X[:60], y[:60])
    found: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + (3 if options.smoke else options.fits)):
        code = outcome(seed, options.factor)
        name = OUTCOMES[code] if 0 <= code < len(OUTCOMES) else f"killed by signal {-code}"
        found[name] += 1
        if name not in ("fitted", "refused"):
            model, bank, X, _, representation = drawn(seed)
            told = planned_for(bank, X, representation)
            print(
                f"seed {seed}: {name}, {X.shape}, {told.kind}, {told.nbytes + told.working_nbytes:,} bytes", flush=True
            )
    print(f"at {options.factor:g} times the plan: " + ", ".join(f"{count} {name}" for name, count in found.items()))


if __name__ == "__main__":
    main()
