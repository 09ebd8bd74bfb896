"""Interactions of three columns and more: what all triples cost, what is found, what it is worth, where bounds explode.

``python benchmarks/interactions.py [--problem triples|planted|sets|frontier] [--rows N] [--columns P] [--data DIR]
[--splits K] [--smoke]``

``triples``: drawn rows, the bank of single columns and of every set of three, one strength, a gap of 1e-3: CPU seconds
from the array to the certified model. ``planted``: the sign of a product of three, or four, of eight columns, plus
noise: no column and no pair says anything by itself. ``sets``: the bank of columns and pairs beside the same with all
triples, and boosting, on random halves of real tables; differences with their standard errors. ``share of noise`` is
the squared strength chosen beside the mean that pure noise has in any of these kernels: below 1, kernels enter for
nothing but noise, however many columns they have. ``frontier``: over all subsets of columns, the bound on all supersets
of a set,

    sum_(A contains B) rho'K_A rho = rho' (K_B o prod_(j not in B) (1 + K_j)) rho,

compared with enumeration, and how many sets a search that is cut by it would have to open where ``rho`` is noise.
"""

from __future__ import annotations

import time
from math import comb
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from manykernels import Binned, Gaussian, KernelBank, MKLClassifierCV, MKLRegressor, MKLRegressorCV, solve

SETS = ("energy", "concrete", "autompg", "yacht", "pima", "heart_statlog")
MOST_ROWS = 1000
ON_FACTORS: dict[str, Any] = {"representation": "factored"}
GROWTHS, LEVELS = (1.0, 2.0, 4.0), (1.0, 4.0)


def triples(n: int, p: int, seed: int) -> list[dict[str, Any]]:
    """Time a fit on every triple of columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.sin(2 * X[:, 0]) + 2 * np.sign(X[:, 3] * X[:, 4] * X[:, 5]) * np.minimum(1, abs(X[:, 3]))
    y += rng.normal(size=n)
    bank = KernelBank.per_feature(Binned(Gaussian(0.1), 32)) + KernelBank.interactions(order=3)
    found = []
    for strength in (0.1, 0.03, 0.02):
        started = time.process_time()
        model = solve(bank, y, X=X, loss="squared", penalty="l1", alpha=f"{strength}*max", tol=1e-3, **ON_FACTORS)
        record = {"rows": n, "columns": p, "triples": comb(p, 3), "strength": strength}
        record |= {"cpu_s": time.process_time() - started, "gap": model.dual_gap, "active": len(model.active)}
        names = [model.functions.stack.names[m].split(":")[0] for m in model.active.tolist()]
        found.append(record | {"planted": "x3 x x4 x x5" in names, "status": model.status.value})
    return found


def planted(n: int, draws: int, seed: int) -> list[dict[str, Any]]:
    """Look for products whose parts say nothing."""
    found = []
    for own in ((1, 3, 4), (1, 3, 4, 6)):
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw, len(own)])
            X, new = rng.normal(size=(2, n, 8))
            clean = np.sign(new[:, own].prod(axis=1))
            y = np.sign(X[:, own].prod(axis=1)) + rng.normal(size=n)
            banks = {
                "pairs": KernelBank.interactions(),
                "triples": KernelBank.interactions() + KernelBank.interactions(order=3),
                "every order": KernelBank.interactions(order=None),
            }
            for name, bank in banks.items():
                started = time.process_time()
                model = MKLRegressor(
                    KernelBank.per_feature(Binned(Gaussian(0.1), 32)) + bank,
                    alpha="0.3*max",
                    tol=1e-3,
                    resources=ON_FACTORS,
                ).fit(X, y)
                first = [name.split(":")[0] for name in model.weights_frame()["name"]][:1]
                record = {"columns": len(own), "rows": n, "model": name, "cpu_s": time.process_time() - started}
                hit = first == [" x ".join(f"x{j}" for j in own)]
                found.append(record | {"found": hit, "r2": r2(clean, model.predict(new)), "gap": model.dual_gap_})
            started = time.process_time()
            trees = HistGradientBoostingRegressor(random_state=0).fit(X, y)
            record = {"columns": len(own), "rows": n, "model": "boosting", "cpu_s": time.process_time() - started}
            found.append(record | {"r2": r2(clean, trees.predict(new))})
    return found


def r2(clean: np.ndarray, predicted: np.ndarray) -> float:
    """Return the share of the squares of the signal that is explained."""
    return float(1 - np.sum((clean - predicted) ** 2) / np.sum((clean - clean.mean()) ** 2))


def table_of(name: str, folder: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a set, at most a number of them, or drawn ones where there is no folder."""
    rng = np.random.default_rng(seed)
    if folder is None:
        X = rng.normal(size=(160, 4))
        return X, X[:, 0] * X[:, 1] * X[:, 2]
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        X, y = stored["X"].astype(float), np.asarray(stored["y"], dtype=float)
    chosen = rng.permutation(len(y))[:MOST_ROWS]
    return X[chosen], y[chosen]


def sets(names: list[str], folder: Path | None, splits: int, seed: int) -> list[dict[str, Any]]:
    """Compare banks with and without triples by their scores on halves."""
    found = []
    for name in names:
        for split in range(seed, seed + splits):
            X, y = table_of(name, folder, split)
            X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, random_state=split)
            classes = len(np.unique(y)) == 2
            plain = KernelBank.per_feature(Binned(Gaussian(0.1), 32)) + KernelBank.interactions()
            for model, bank in {"pairs": plain, "triples": plain + KernelBank.interactions(order=3)}.items():
                search = MKLClassifierCV if classes else MKLRegressorCV
                started = time.process_time()
                fitted = search(bank, penalty="l1", n_alphas=8, cv=3, resources=ON_FACTORS, tol=1e-2).fit(X, y)
                record = {"set": name, "split": split, "model": model, "cpu_s": time.process_time() - started}
                rho = np.asarray(y - fitted.predict(X), dtype=float) if not classes else None
                level = np.nan if rho is None else (fitted.alpha_ * len(y)) ** 2 / max(float(rho @ rho), 1e-300)
                active = [each.split(":")[0] for each in fitted.weights_frame()["name"]]
                record |= {"score": fitted.score(X_new, y_new), "active": len(active), "share of noise": level}
                found.append(record | {"of three": sum(each.count(" x ") == 2 for each in active)})
            trees: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
            started = time.process_time()
            score = trees(random_state=0).fit(X, y).score(X_new, y_new)
            found.append(
                {"set": name, "split": split, "model": "boosting", "score": score}
                | {"cpu_s": time.process_time() - started}
            )
    return found


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row a set: mean scores, and what triples add to pairs with its standard error."""
    wide = frame.pivot_table(index=["set", "split"], columns="model", values="score")
    more = (wide["triples"] - wide["pairs"]).groupby("set")
    out = wide.groupby("set").mean().assign(added=more.mean(), error=more.sem())
    for column in ("cpu_s", "of three", "share of noise"):
        out[column] = frame[frame["model"] == "triples"].groupby("set")[column].mean()
    return out.reset_index()


def frontier(n: int, p: int, seed: int) -> list[dict[str, Any]]:
    """Count the sets that a search cut by the bound on all supersets has to open, where there is noise only."""
    rng = np.random.default_rng(seed)
    X, rho = rng.normal(size=(n, p)), rng.normal(size=n)
    rho -= rho.mean()
    fitted = KernelBank.per_feature(Binned(Gaussian(0.25), 6)).fit(X)
    grams = fitted.block(fitted.prepare(X), fitted.prepare(X))
    found = []
    for growth in GROWTHS:
        squares, bounds = np.empty(2**p), np.empty(2**p)
        for code in range(2**p):
            product, rest = np.ones((n, n)), np.ones((n, n))
            for j in range(p):
                if code >> j & 1:
                    product *= grams[j] / growth**2
                else:
                    rest *= 1.0 + grams[j] / growth**2
            squares[code], bounds[code] = rho @ product @ rho, rho @ (product * rest) @ rho
        sums = squares.copy()
        for j in range(p):  # sums over supersets
            without = np.flatnonzero(~np.arange(2**p) >> j & 1)
            sums[without] += sums[without | 1 << j]
        wrong = float(np.abs(bounds / sums - 1).max())
        if wrong > 1e-9:  # the smoke run is its test
            raise AssertionError(f"the closed form is not the sum over supersets: a relative difference of {wrong:.1e}")
        sizes = np.array([code.bit_count() for code in range(2**p)])
        for level in LEVELS:
            limit = level * float(rho @ rho) / growth**2  # of single columns
            opened, entering = bounds > limit, squares > limit
            for size in range(1, p + 1):
                own = sizes == size
                record = {"columns": p, "growth": growth, "level": level, "order": size, "sets": int(own.sum())}
                record |= {"opened": int(opened[own].sum()), "enter": int(entering[own].sum())}
                found.append(record | {"bound against enumeration": wrong})
    return found


def expected(p: int) -> list[dict[str, Any]]:
    """Count the sets that are open for noise of the mean size, by order: sets of one are alike."""
    found = []
    for growth in GROWTHS:
        for level in LEVELS:
            weights = np.array([growth ** (-2 * (size - 1)) for size in range(1, p + 1)])
            bounds = weights * [(1 + growth**-2) ** (p - size) for size in range(1, p + 1)]
            opened = [size for size in range(1, p + 1) if bounds[size - 1] > level]
            count = sum(comb(p, size) for size in opened)
            found.append(
                {"columns": p, "growth": growth, "level": level, "open up to": max(opened, default=0), "sets": count}
            )
    return found


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Interactions of three columns and more.")
    parser.add_argument("--problem", default="triples", choices=("triples", "planted", "sets", "frontier"))
    parser.add_argument("--rows", type=int, default=None, help="100,000 for triples, 2,000 planted, 300 for a frontier")
    parser.add_argument("--columns", type=int, default=None, help="50 for triples, 10 for a frontier")
    parser.add_argument("--data", type=Path, default=None, help="folder of the sets; drawn rows if not given")
    parser.add_argument("--names", default=",".join(SETS), help="sets, separated by commas")
    parser.add_argument("--splits", type=int, default=5, help="random halves, or draws")
    options = parser.parse_args()
    record, small = common.environment(), options.smoke
    common.print_environment(record)
    with common.quiet():
        if options.problem == "triples":
            size = (500, 7) if small else (options.rows or 100_000, options.columns or 50)
            frame = pd.DataFrame(triples(*size, options.seed))
        elif options.problem == "planted":
            n, draws = (200, 1) if small else (options.rows or 2000, options.splits)
            frame = pd.DataFrame(planted(n, draws, options.seed))
        elif options.problem == "sets":
            names = options.names.split(",")[: 1 if small else None]
            frame = pd.DataFrame(
                sets(names, None if small else options.data, 1 if small else options.splits, options.seed)
            )
        else:
            size = (60, 4) if small else (options.rows or 300, options.columns or 10)
            frame = pd.DataFrame(frontier(*size, options.seed))
    name = f"interactions_{options.problem}" + ("_smoke" if small else "")
    common.save(frame, record, options.output, name)
    if options.problem == "planted":
        keys = ["columns", "rows", "model"]
        frame = frame.assign(found=frame["found"].astype(float)).groupby(keys, sort=False).mean(numeric_only=True)
        frame = frame.reset_index()
    if options.problem == "sets":
        frame = compared(frame)
    common.print_table(frame, options.problem, {"cpu_s": ".1f", "gap": ".1e", "bound against enumeration": ".1e"})
    if options.problem == "frontier":
        more = pd.DataFrame([line for p in (10, 20, 50) for line in expected(p)])
        common.print_table(more, "open for noise of the mean size", {})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
