"""PolynomialMKL beside the lasso on standardized monomials at equal information: 23,426 to 1,373,701 products.

``python benchmarks/monomials.py [--columns 50 100 200] [--noise 0 0.1 0.3] [--seeds 5] [--smoke] [--output DIR]``

The data are those of ``benchmarks/polynomial.py``. Every method has the same 500 samples and chooses its strengths
among the same shares of the strength at which nothing is selected, by cross-validation with five parts. The lasso is
solved on all monomials, each divided by its own deviation, with a working set: a survey of all monomials follows every
solution, so that memory stays small; ``tests/experiments/test_monomials.py`` compares it with scikit-learn's on listed
monomials. A row is written after each fit, and rows that are there are not run again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from polynomial import DEGREE, monomial_data
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import HierarchicalMKL, NonlinearMKL, PolynomialMKL
from manykernels.discovery.polynomial.lasso_path import WeightedLasso, WeightedRows, best_strength
from manykernels.solvers.fold import Fold

METHODS = ("adaptive, centered", "adaptive", "lasso", "PolynomialMKL", "powers as they are")
OTHERS = ("HKL", "NLMKL", "gradient boosting", "random features")
ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


class StandardizedMonomials:
    """All monomials of degree one to three of columns in rows, each centered and divided by its own deviation.

    A monomial is a sorted triple of positions; position 0 is a column of ones.
    """

    def __init__(self, columns: np.ndarray) -> None:
        self._columns = np.vstack([np.ones(columns.shape[1]), columns])
        squares, n = self._columns**2, columns.shape[1]
        self._single = self._columns.astype(np.float32)  # a survey needs no more
        self._deviations = []
        for j, column in enumerate(self._columns):
            means = (self._columns[j:] * column) @ self._columns[j:].T / n
            spread = (squares[j:] * squares[j]) @ squares[j:].T / n - means**2
            self._deviations.append(np.where(spread > 1e-12, np.sqrt(np.maximum(spread, 1e-12)), np.inf))

    def survey(self, rho: np.ndarray, wanted: int) -> tuple[tuple[tuple[int, ...], ...], np.ndarray]:
        """Return the monomials of the largest ``|phi'rho|``; rho sums to zero, so that centers do not matter."""
        scores, names, least = np.zeros(0), [], 0.0
        size = np.abs(rho).max(initial=np.finfo(float).tiny)
        for j, column in enumerate(self._single):
            table = np.abs((self._single[j:] * (column * (rho / size).astype(np.float32))) @ self._single[j:].T)
            flat = size * np.triu(table / self._deviations[j]).ravel()
            at = np.flatnonzero(flat > least)
            at = at[np.argpartition(flat[at], -wanted)[-wanted:]] if len(at) > wanted else at
            names += [(j, j + int(i) // len(table), j + int(i) % len(table)) for i in at]
            scores = np.concatenate([scores, flat[at]])
            order = np.argsort(-scores, kind="stable")[:wanted]
            scores, names = scores[order], [names[i] for i in order]
            least = scores[-1] if len(scores) == wanted else 0.0
        return tuple(names), scores

    def features(self, indices: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Return the features on the samples that deviations were taken over."""
        return self.features_of(self._columns[1:], indices)

    def features_of(self, values: np.ndarray, indices: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Return the features on other samples."""
        whole = np.vstack([np.ones(values.shape[1]), values])
        found = np.ones((len(indices), values.shape[1]))
        for row, (j, k, m) in zip(found, indices, strict=True):
            center = self._columns[j] * self._columns[k] @ self._columns[m] / self._columns.shape[1]
            row[:] = (whole[j] * whole[k] * whole[m] - center) / self._deviations[j][k - j, m - j]
        return found


class MonomialLasso:
    """Lasso on all standardized monomials, its strength chosen by cross-validation."""

    def __init__(self, folds: int = 5, seed: int = 0) -> None:
        self._folds, self._seed = folds, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> MonomialLasso:
        """Choose the strength and solve."""
        self._center, self._scale = X.mean(axis=0), X.std(axis=0)
        rows = WeightedRows(np.ascontiguousarray(self._standardized(X)), y, np.ones(len(y)))
        parts = np.array_split(np.random.default_rng(self._seed).permutation(len(y)), self._folds)
        whole = self._lasso(rows)
        others = [rows.take(np.setdiff1d(np.arange(len(y)), part)) for part in parts]
        folds = [Fold(partial(self._lasso, own), rows.take(part)) for own, part in zip(others, parts, strict=True)]
        self.error_, self.mu_, _ = best_strength(folds, whole.largest())
        strengths = np.geomspace(whole.largest(), self.mu_, 1 + round(4 * np.log10(whole.largest() / self.mu_)))[1:]
        self.point_ = reduce(lambda last, mu: whole.solve_along(mu, last), strengths, whole.empty())
        self._whole = whole
        self.kernel_names_ = self.point_.indices
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the values at new rows."""
        return self._whole.scores(self.point_, self._standardized(X))

    def _standardized(self, X: np.ndarray) -> np.ndarray:
        return ((X - self._center) / self._scale).T

    @staticmethod
    def _lasso(rows: WeightedRows) -> WeightedLasso:
        own = StandardizedMonomials(rows.features)
        penalties = lambda indices: np.ones(len(indices))  # noqa: E731
        return WeightedLasso(rows.y, rows.weight, True, own.features, penalties, own.survey, own.features_of)


def candidates(method: str, seed: int) -> list[Any]:
    """Return the models among which a part of the training samples chooses; most choose by themselves."""
    common_options: dict[str, Any] = {"p": 1.0, "cv": 5, "random_state": seed}
    if method == "adaptive, centered":
        return [PolynomialMKL(DEGREE, adaptive=True, normalize="centered", **common_options)]
    if method == "adaptive":
        return [PolynomialMKL(DEGREE, adaptive=True, **common_options)]
    if method == "PolynomialMKL":
        return [PolynomialMKL(DEGREE, **common_options)]
    if method == "powers as they are":
        return [PolynomialMKL(DEGREE, normalize=None, **common_options)]
    if method == "lasso":
        return [MonomialLasso(5, seed)]
    if method == "HKL":
        bounded = {"degree": DEGREE, "max_kernels": 300, "resources": {"max_iter": 30}, "tol": 1e-2}
        return [HierarchicalMKL(alpha=alpha, **bounded) for alpha in ALPHAS[1:]]
    if method == "NLMKL":
        return [NonlinearMKL(degree=DEGREE, alpha=alpha) for alpha in ALPHAS]
    if method == "gradient boosting":
        return [HistGradientBoostingRegressor(max_iter=n, random_state=seed) for n in (50, 200)]
    features = [RBFSampler(gamma=gamma, n_components=1000, random_state=seed) for gamma in (1e-3, 1e-2, 1e-1)]
    return [make_pipeline(StandardScaler(), part, RidgeCV(np.logspace(-8, 2, 11))) for part in features]


def measure(method: str, n_columns: int, noise: float, seed: int, n_samples: int) -> dict[str, Any]:
    """Fit and test; error relative to the variance of the target."""
    X, y = monomial_data(n_columns, n_samples + 1000, noise, np.random.default_rng(seed))
    train, test = slice(n_samples), slice(n_samples, None)
    part = int(0.8 * n_samples)
    started, models = time.process_time(), candidates(method, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(models) > 1:
            own = [
                np.mean((m.fit(X[:part], y[:part]).predict(X[part:n_samples]) - y[part:n_samples]) ** 2) for m in models
            ]
            models = [models[int(np.argmin(own))]]
        model = models[0].fit(X[train], y[train])
    spent = time.process_time() - started
    error = float(np.mean((model.predict(X[test]) - y[test]) ** 2) / y[test].var())
    return {
        "r": n_columns, "noise": noise, "seed": seed, "method": method, "error": error, "cpu_s": spent,
        "kernels": len(getattr(model, "kernel_names_", ())), "gap": getattr(model, "dual_gap_", np.nan),
    }  # fmt: skip


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row a setting and method: errors over seeds, and the ratio to the lasso on the same data."""
    keys = ["r", "noise", "seed"]
    against = frame[frame["method"] == "lasso"].set_index(keys)["error"].rename("against")
    joined = frame.join(against, on=keys)
    joined["ratio"] = joined["error"] / joined["against"]
    rows = []
    for (r, noise, method), own in joined.groupby(["r", "noise", "method"], sort=False):
        rows.append({
            "r": r, "noise": noise, "method": method, "seeds": len(own), "error": np.exp(np.log(own["error"]).mean()),
            "lowest": own["error"].min(), "highest": own["error"].max(),
            "ratio to lasso": np.exp(np.log(own["ratio"]).mean()), "worst ratio": own["ratio"].max(),
            "cpu_s": own["cpu_s"].mean(), "kernels": own["kernels"].mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def main() -> int:
    """Measure what is missing, print and save."""
    parser = common.parser("PolynomialMKL beside the lasso on standardized monomials.")
    parser.add_argument("--samples", type=int, default=500, help="training samples")
    parser.add_argument("--columns", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS + OTHERS, default=METHODS)
    options = parser.parse_args()
    if options.smoke:
        options.samples, options.columns, options.noise, options.seeds = 80, [6], [0.1], 1
    record = common.environment()
    common.print_environment(record)
    options.output.mkdir(parents=True, exist_ok=True)
    path = Path(options.output) / "monomials_runs.csv"
    rows = pd.read_csv(path).to_dict("records") if path.exists() and not options.smoke else []
    known = {(row["r"], row["noise"], row["seed"], row["method"]) for row in rows}
    for r in options.columns:
        for seed in range(options.seeds):
            for noise in options.noise:
                for method in options.methods:
                    if (r, noise, seed, method) not in known:
                        rows.append(measure(method, r, noise, seed, options.samples))
                        pd.DataFrame(rows).to_csv(path, index=False)
    frame = summary(pd.DataFrame(rows).sort_values(["r", "noise"], kind="stable"))
    formats = {"error": ".3g", "lowest": ".3g", "highest": ".3g", "ratio to lasso": ".3f", "worst ratio": ".3f"}
    common.print_table(frame, "error relative to the variance of the target", formats | {"cpu_s": ".1f"})
    common.save(frame, record, options.output, "monomials")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
