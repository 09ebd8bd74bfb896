"""Curves that must rise, fall or bend one way, beside boosted trees with such constraints and curves bent afterwards.

``python benchmarks/shapes.py [--rows 300 3000 100000] [--draws 5] [--smoke] [--output DIR]``

Twenty columns; twelve have additive effects, of which eight rise or fall, two of these are concave as well, two are
convex, and two go up and down. Ten columns of effects and noise are told to have shapes. Kernels with shapes, one model
with a certified gap; the same kernels without, and with the fitted curves made monotone afterwards by isotonic
regression, as additive models of boosted trees are edited; boosted trees with ``monotonic_cst`` of single columns, and
of all columns together. R2 is that of the scores without noise on new rows. Violations are of rising or falling curves,
the largest fall of a curve that is to rise beside the range of all curves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.isotonic import IsotonicRegression

from manykernels import Gaussian, KernelBank, MKLRegressor, MKLRegressorCV

N_COLUMNS, NOISE, TEST_ROWS, GRID = 20, 2.0, 20_000, 400
FEW = 5000  # rows up to which strengths are chosen by folds
FORMATS = {"R2": ".4f", "sem": ".4f", "violation": ".1e", "CPU s": ".1f", "gap": ".0e"}
EFFECTS: tuple[tuple[Callable[[np.ndarray], np.ndarray], Any], ...] = (
    (np.tanh, "increasing"),
    (lambda x: np.maximum(x, 0.0), "increasing"),
    (lambda x: -np.exp(0.5 * x), "decreasing"),
    (lambda x: 1.0 * (x > 0.5), "increasing"),
    (lambda x: -np.log1p(np.exp(2 * x)), "decreasing"),
    (lambda x: 0.3 * x, "increasing"),
    (lambda x: 1.0 - np.exp(-x - 1.0), "increasing and concave"),
    (lambda x: np.sqrt(np.maximum(x + 2.5, 0.0)), "increasing and concave"),
    (lambda x: 0.5 * x**2, "convex"),
    (np.abs, "convex"),
    (lambda x: np.sin(3 * x), None),
    (lambda x: np.cos(2 * x), None),
    (np.zeros_like, "increasing"),
    (np.zeros_like, "decreasing"),
)
SHAPES = {f"x{j}": shape for j, (_, shape) in enumerate(EFFECTS) if shape}
SIGNS = [
    ("increasing" in shape) - ("decreasing" in shape) for shape in (SHAPES.get(f"x{j}", "") for j in range(N_COLUMNS))
]


def drawn(n_rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return correlated columns and the scores without noise."""
    X = rng.normal(size=(n_rows, N_COLUMNS)) + 0.5 * rng.normal(size=(n_rows, 1))
    scores = sum(effect(X[:, j]) for j, (effect, _) in enumerate(EFFECTS))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(N_COLUMNS)]), np.asarray(scores)


def curves(predict: Callable[[pd.DataFrame], np.ndarray], X: pd.DataFrame) -> np.ndarray:
    """Return how scores change along every column, the others at their medians, (columns, points)."""
    middle = X.median().to_numpy()
    table = np.tile(middle, (N_COLUMNS * GRID, 1))
    for j in range(N_COLUMNS):
        ends = X.iloc[:, j].min(), X.iloc[:, j].max()
        table[j * GRID : (j + 1) * GRID, j] = np.linspace(*ends, GRID)
    return predict(pd.DataFrame(table, columns=X.columns)).reshape(N_COLUMNS, GRID)


def violation(predict: Callable[[pd.DataFrame], np.ndarray], X: pd.DataFrame) -> float:
    """Return by how much curves that are to rise fall from a value to the next, beside the range of all curves."""
    found = curves(predict, X)
    falls = [max(float(-(sign * np.diff(own)).min()), 0.0) for sign, own in zip(SIGNS, found, strict=True) if sign]
    return max(falls) / float(np.ptp(found))


def bent_afterwards(model: Any, X: pd.DataFrame) -> Callable[[pd.DataFrame], np.ndarray]:
    """Return predictions in which curves are isotonic regressions of the fitted ones, on the training values."""
    middle = pd.DataFrame(np.tile(X.median().to_numpy(), (len(X), 1)), columns=X.columns)
    level = float(model.predict(middle.iloc[:1])[0])
    bends = {}
    for j, sign in enumerate(SIGNS):
        if sign:
            own = model.predict(middle.assign(**{f"x{j}": X[f"x{j}"]})) - level
            bends[f"x{j}"] = IsotonicRegression(increasing=sign > 0, out_of_bounds="clip").fit(X[f"x{j}"], own)

    def predict(rows: pd.DataFrame) -> np.ndarray:
        scores = model.predict(rows)
        base = pd.DataFrame(np.tile(X.median().to_numpy(), (len(rows), 1)), columns=X.columns)
        for name, bend in bends.items():
            plain = model.predict(base.assign(**{name: rows[name]})) - level
            scores = scores + bend.predict(rows[name]) - plain
        return np.asarray(scores)

    return predict


def ours(n_rows: int, shape: Any) -> Any:
    """Return an estimator on two widths a column, with the strength by folds where rows are few."""
    bank = KernelBank.per_feature([Gaussian("0.5*median"), Gaussian("2*median")], standardize=True, shape=shape)
    return MKLRegressorCV(bank, cv=5) if n_rows <= FEW else MKLRegressor(bank, tol=1e-3)


def methods(n_rows: int) -> dict[str, Any]:
    """Return what is compared, by name."""
    trees = {"monotonic_cst": SIGNS, "random_state": 0}
    return {
        "kernels with shapes": ours(n_rows, SHAPES),
        "kernels": ours(n_rows, None),
        "trees of one column, monotonic": HistGradientBoostingRegressor(interaction_cst="no_interactions", **trees),
        "trees, monotonic": HistGradientBoostingRegressor(**trees),
        "trees of one column": HistGradientBoostingRegressor(interaction_cst="no_interactions", random_state=0),
    }


def measured(n_rows: int, draw: int, seed: int) -> list[dict[str, Any]]:
    """Return a row a method of one draw."""
    rng = np.random.default_rng([seed, n_rows, draw])
    X, scores = drawn(n_rows, rng)
    y = scores + NOISE * rng.normal(size=n_rows)
    X_test, truth = drawn(TEST_ROWS, rng)
    found = []

    def tell(name: str, predict: Callable[[pd.DataFrame], np.ndarray], seconds: float, gap: float) -> None:
        missed = np.mean((predict(X_test) - truth) ** 2) / truth.var()
        row = {"rows": n_rows, "method": name, "R2": 1.0 - missed, "violation": violation(predict, X), "CPU s": seconds}
        found.append(row | {"gap": gap})

    for name, model in methods(n_rows).items():
        started = time.process_time()
        with common.quiet():
            model.fit(X, y)
        seconds = time.process_time() - started
        tell(name, model.predict, seconds, getattr(model, "dual_gap_", np.nan))
        if name == "kernels":
            started = time.process_time()
            bent = bent_afterwards(model, X)
            tell("kernels, made monotone afterwards", bent, seconds + time.process_time() - started, np.nan)
    return found


def main() -> None:
    """Run all sizes and print the means over draws."""
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3000, 100_000], help="training rows")
    parser.add_argument("--draws", type=int, default=5, help="drawn data sets a size")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    record = common.environment()
    common.print_environment(record)
    ours(FEW, SHAPES).fit(*drawn(60, np.random.default_rng(0)))  # loops are compiled before any clock runs
    sizes, draws = ([120], 1) if arguments.smoke else (arguments.rows, arguments.draws)
    rows = [row for n_rows in sizes for draw in range(draws) for row in measured(n_rows, draw, arguments.seed)]
    grouped = pd.DataFrame(rows).groupby(["rows", "method"], sort=False)
    table = grouped.mean().reset_index()
    table.insert(3, "sem", grouped["R2"].sem(ddof=1).to_numpy() if draws > 1 else 0.0)
    table["violation"] = grouped["violation"].max().to_numpy()
    common.print_table(table, "Curves with shapes", FORMATS)
    common.save(table, record, arguments.output, "shapes")


if __name__ == "__main__":
    main()
