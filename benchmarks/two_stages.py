"""Two-stage learning of Gaussian widths: published steps beside corrective weights, and how far to search.

``python benchmarks/two_stages.py --data DIR [--splits 3] [--smoke] [--output DIR]``

The first table has one width: alignment on the training samples, the bound on it over the family, kernels, CPU seconds
of the first stage and test error, means over random halves of each set, after a gain below 0.001; pairs of digits, on
raw pixels, are in it too. The second has one width a feature, corrective weights: the search ended after so many steps,
or shrunk, and what held-out rows choose;
``spread`` is the mean standard deviation of the logarithms of the widths of a kernel. The second stage is a support
vector machine at strength 0.1. Without ``--data`` the sets are those of scikit-learn.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

from manykernels.discovery import (
    ArdGaussianFamily,
    AscentSettings,
    Discovery,
    FamilySearch,
    GaussianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    align_family,
    discover_in_two_stages,
    graded_settings,
)

SETS = ("heart_statlog", "ionosphere", "sonar", "thyroid_ida", "breast_cancer_ida", "pima")
MOST_TRAINING = 250
DIGITS = "digits "
PAIRS = ((2, 3), (2, 9), (3, 8), (4, 9), (5, 8))  # of digits, on raw pixels, in the first table only
PIXELS = GaussianFamily(350.0, 36_000.0)
STRENGTH = 0.1
ONE = SearchSettings(n_starts=1)


def tables(folder: str | None, smoke: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows and signs of every set at hand."""
    if folder is None or smoke:
        wine = load_wine(return_X_y=True)
        return {"wine": wine} if smoke else {"wine": wine, "wdbc": load_breast_cancer(return_X_y=True)}
    found = {}
    for name in SETS:
        path = Path(folder) / f"{name}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as archive:
                found[name] = archive["X"].astype(float), archive["y"]
    path = Path(folder) / "mnist10k.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as archive:
            X, y = archive["X"].astype(float), archive["y"]
        for pair in PAIRS:
            kept = np.isin(y, pair)
            found[f"{DIGITS}{pair[0]}-{pair[1]}"] = X[kept], y[kept]
    return found


def halves(X: np.ndarray, y: np.ndarray, seed: int, most: int, standardize: bool) -> tuple[Any, Any]:
    """Return a random half to train on, standardized or not, and the rest; the largest label is positive."""
    kept = np.isfinite(X).all(axis=1)
    X, signs = X[kept], np.where(y[kept] == np.max(y), 1.0, -1.0)
    order = np.random.default_rng(seed).permutation(len(signs))
    train, test = order[: min(len(order) // 2, most)], order[len(order) // 2 :]
    if not standardize:
        return (X[train], signs[train]), (X[test], signs[test])
    spread = X[train].std(axis=0)
    varies = spread > 0
    Z = (X[:, varies] - X[train][:, varies].mean(axis=0)) / spread[varies]
    return (Z[train], signs[train]), (Z[test], signs[test])


def test_error(found: Discovery, train: Any, test: Any) -> float:
    """Return the share of wrong signs."""
    scores = np.full(len(test[1]), float(np.asarray(found.solution.intercept)))
    for kernel, weight in zip(found.kernels, found.solution.kernel_weights, strict=True):
        scores += weight * (kernel.spec(test[0], train[0]) @ found.solution.dual_coef)
    return float(np.mean(np.where(scores > 0, 1.0, -1.0) != test[1]))


def one_width(name: str, train: Any, test: Any) -> list[dict[str, Any]]:
    """Return what published steps and corrective weights do with one width."""
    family, rows = PIXELS if name.startswith(DIGITS) else GaussianFamily(0.05, 50.0), []
    for update in ("published", "corrective"):
        ascent, started = AscentSettings(update), time.process_time()
        aligned = align_family(FamilySearch(family, train[0]), train[1], np.ones(len(train[1])), ascent=ascent)
        seconds = time.process_time() - started
        found = discover_in_two_stages(SearchProblem(*train, loss="hinge", strength=STRENGTH), family, ascent=ascent)
        row = {"data": name, "update": update, "alignment": aligned.alignment, "bound": aligned.upper_bound}
        row |= {"kernels": len(aligned.weights), "cpu_s": seconds, "error": 100 * test_error(found, train, test)}
        rows.append(row)
    return rows


def width_a_feature(name: str, train: Any, test: Any) -> list[dict[str, Any]]:
    """Return what becomes of one width a feature, by how far each search goes."""
    graded = graded_settings(ONE)
    shrunk = [SearchSettings(1, shrinkage) for shrinkage in (1e-4, 1e-2)]
    rows = []
    for label, settings in [*((named(one), one) for one in (*graded, *shrunk)), ("validated", graded)]:
        started = time.process_time()
        found = discover_in_two_stages(
            SearchProblem(*train, loss="hinge", strength=STRENGTH),
            ArdGaussianFamily(0.05, 50.0),
            settings=settings,
            limits=Limits(max_iter=20),
            random_state=0,
        )
        seconds = time.process_time() - started
        spread = np.mean([np.std(np.log(kernel.spec.widths)) for kernel in found.kernels]) if found.kernels else 0.0
        row = {"data": name, "search": label, "spread": spread, "cpu_s": seconds}
        rows.append(row | {"error": 100 * test_error(found, train, test)})
    return rows


def named(settings: SearchSettings) -> str:
    """Return settings in words."""
    if settings.shrinkage:
        return f"shrinkage {settings.shrinkage:g}"
    return "to the end" if settings.max_steps is None else f"{settings.max_steps} steps"


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--data", help="folder of archives")
    options.add_argument("--sets", default="", help="only sets whose names begin with this")
    options.add_argument("--splits", type=int, default=3, help="random halves of every set")
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    single, wide = [], []
    splits, most = (1, 30) if chosen.smoke else (chosen.splits, MOST_TRAINING)
    for name, (X, y) in tables(chosen.data, chosen.smoke).items():
        for seed in range(splits if name.startswith(chosen.sets) else 0):
            train, test = halves(X, y, chosen.seed + seed, most, not name.startswith(DIGITS))
            single += one_width(name, train, test)
            wide += [] if name.startswith(DIGITS) else width_a_feature(name, train, test)
    first, second = pd.DataFrame(single), pd.DataFrame(wide)
    means = first.groupby(["data", "update"], sort=False).mean().reset_index()
    common.print_table(
        means,
        f"one width, means over {splits} splits",
        {"alignment": ".4f", "bound": ".4f", "cpu_s": ".2f", "error": ".1f"},
    )
    common.save(first, record, chosen.output, "two_stages_one_width")
    if second.empty:
        return
    errors = second.pivot_table("error", "search", "data", sort=False)
    others = second.groupby("search", sort=False)[["spread", "cpu_s"]].mean()
    common.print_table(
        errors.assign(mean=errors.mean(axis=1)).join(others).round(2).reset_index(),
        "one width a feature, test error in %",
        {},
    )
    common.save(second, record, chosen.output, "two_stages_features")


if __name__ == "__main__":
    main()
