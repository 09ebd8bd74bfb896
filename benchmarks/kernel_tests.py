"""The p-values of kernels: how often they are at most 5 % and 1 % where no kernel matters, and what they cost.

``python benchmarks/kernel_tests.py`` draws tables on which the hypothesis is true: the target depends on the columns
that are always in, and on no other, and columns are correlated. It prints for each loss the shares of p-values up to
5 % and 1 %, and the p-value of the test of Kolmogorov and Smirnov that they are uniform; then p-values beside those of
random orders of the target; and CPU seconds of one call on larger tables, and on overlapping sets of columns, as of
genes (``--sets 20000 --set-rows 100000`` takes 1.6 GB). ``--part`` prints one of these tables, ``--smoke`` draws few.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from scipy.stats import f, kstest, spearmanr

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor, MKLSurvival, survival_array
from manykernels.grams import build_stack
from manykernels.inspection import kernel_tests, predictive_importance
from manykernels.kernels import PerFeature

TESTED = ["a", "b", "c"]
LOSSES = ("squared", "logistic", "poisson", "cox", "huber")


def table(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return three correlated columns to test, and a confounder that is correlated with them."""
    shared = rng.normal(size=(n, 1))
    return pd.DataFrame(0.7 * shared + rng.normal(size=(n, 4)), columns=[*TESTED, "age"])


def drawn(loss: str, effect: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return targets that depend on an effect."""
    n = len(effect)
    if loss == "logistic":
        return np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-effect)), "yes", "no")
    if loss == "poisson":
        return rng.poisson(np.exp(0.5 * effect)).astype(float)
    if loss == "cox":
        return survival_array(rng.random(n) < 0.7, rng.exponential(size=n) * np.exp(-effect))
    noise = rng.normal(size=n) if loss == "squared" else rng.standard_t(2, size=n)
    return effect + noise


def model_of(loss: str, always: str | None) -> MKLRegressor | MKLClassifier | MKLSurvival:
    """Return an estimator whose age is always in, under ridge or free, or does not exist."""
    curves = PerFeature([Gaussian(0.5), Gaussian(2.0), Linear()], TESTED)
    bank = KernelBank([curves] if always is None else [curves, PerFeature([Linear()], ["age"])])
    penalty = "l1" if always is None else {"age*": None if always == "free" else "ridge", "*": "l1"}
    # Under ridge the age is a random effect of large variance: the strength says which.
    given = {"penalty": penalty, "alpha": 1e-3 if always == "ridge" else "0.5*max"}
    if loss == "cox":
        return MKLSurvival(bank, **given)
    if loss == "logistic":
        return MKLClassifier(bank, **given)
    return MKLRegressor(bank, loss=loss, **given)


def sizes(draws: int, n: int, losses: list[str], seed: int) -> None:
    """Print how large p-values are where the hypothesis is true."""
    print(
        f"{draws} draws of {n} rows, 9 kernels on 3 correlated columns: shares of p-values, and the least p-value of "
        "uniformity times 9\n"
    )
    print("| loss | age is always in | <= .05 | <= .01 | Kolmogorov-Smirnov |\n| --- | --- | --- | --- | --- |")
    for loss in losses:
        for always in (None, "free", "ridge"):
            if loss == "huber" and always == "ridge":
                continue
            rng = np.random.default_rng(seed)
            found, model = [], None
            for _ in range(draws):
                X = table(rng, n)
                y = drawn(loss, np.zeros(n) if always is None else 0.7 * X["age"].to_numpy(), rng)
                # The tests take the loss, the bank and the penalty of a model, and fit the null model to every draw.
                model = model or model_of(loss, always).fit(X, y)
                frame = kernel_tests(model, X, y).set_index("name")["p_value"]
                found.append(frame.loc[sorted(name for name in frame.index if not name.startswith("age"))].to_numpy())
            p = np.array(found)
            ks = min(kstest(column, "uniform").pvalue * p.shape[1] for column in p.T)
            shares = (f"{np.mean(p <= level):.3f}" for level in (0.05, 0.01))
            print(f"| {loss} | {always or 'no'} | {' | '.join(shares)} | {min(ks, 1.0):.2f} |", flush=True)


def permuted(n_orders: int) -> None:
    """Print p-values beside those of random orders of the target."""
    rng = np.random.default_rng(3)
    X = table(rng, 150)
    y = 0.25 * X["a"].to_numpy() + rng.standard_exponential(150)
    model = model_of("squared", None).fit(X, y)
    frame = kernel_tests(model, X, y).set_index("name")
    centered = y - y.mean()
    orders = np.array([rng.permutation(centered) for _ in range(n_orders)])
    print(f"\n{n_orders} random orders of the target\n\n| kernel | p-value | by random orders |\n| --- | --- | --- |")
    stack = build_stack(model_of("squared", None).kernels.fit(X), X)
    for number, name in enumerate(model.kernel_names_):
        K = stack.matrix(number)
        own, others = centered @ K @ centered, np.einsum("pi,pi->p", orders @ K, orders)
        by_orders = (1 + np.count_nonzero(others >= own)) / (1 + n_orders)
        print(f"| {name} | {frame.loc[name, 'p_value']:.4f} | {by_orders:.4f} |")


def seconds(shapes: list[tuple[int, int]]) -> None:
    """Print what a call costs."""
    print("\n| rows | columns | kernels | fit, CPU s | tests, CPU s |\n| --- | --- | --- | --- | --- |")
    for n, p in shapes:
        rng = np.random.default_rng(5)
        X = rng.normal(size=(n, p))
        y = np.sin(X[:, 0]) + rng.normal(size=n)
        bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0])
        started = time.process_time()
        model = MKLRegressor(bank).fit(X, y)
        fitted = time.process_time()
        frame = kernel_tests(model, X, y)
        print(
            f"| {n:,} | {p} | {len(frame)} | {fitted - started:.2f} | {time.process_time() - fitted:.2f} |", flush=True
        )


def f_test(x: np.ndarray, y: np.ndarray, degree: int) -> float:
    """Return the p-value of the F-test of a polynomial against the constant."""
    left = y - np.polyval(np.polyfit(x, y, degree), x)
    rest, freedom = float(left @ left), len(y) - degree - 1
    return float(f.sf((np.sum((y - y.mean()) ** 2) - rest) / degree / (rest / freedom), degree, freedom))


def importance_test(X: pd.DataFrame, y: np.ndarray) -> float:
    """Return the p-value of the importance of column a: a model of one half of the rows, permutations of the other."""
    half = len(y) // 2
    model = model_of("squared", None).fit(X[:half], y[:half])
    found = predictive_importance(model, X[half:], y[half:], random_state=0).set_index("name")["p_value"]
    return float(found.get("a", 1.0))


def power(draws: int, n: int) -> None:
    """Print shares of p-values up to 5 % of several tests, for a line and two waves in one column."""
    tests = ("kernels of the column", "line, F-test", "cubic, F-test", "Spearman", "permuted importance")
    print(f"\n{draws} draws of {n} rows\n\n| function | {' | '.join(tests)} |")
    print(f"| --- |{' --- |' * len(tests)}")
    waves = (("none", lambda x: 0.0 * x), ("line", lambda x: x), ("slow wave", np.sin), ("fast wave", fast_wave))
    for name, function in waves:
        rng = np.random.default_rng(2)
        found, model = [], None
        for _ in range(draws):
            X = table(rng, n)[TESTED]
            effect = function(X["a"].to_numpy())
            y = 0.3 * effect / max(effect.std(), 1e-9) + rng.normal(size=n)
            model = model or model_of("squared", None).fit(X, y)
            own = kernel_tests(model, X, y, by="column").set_index("name")["p_value"]["a"]
            x = X["a"].to_numpy()
            others = (f_test(x, y, 1), f_test(x, y, 3), spearmanr(x, y).pvalue, importance_test(X, y))
            found.append([own, *others])
        shares = np.mean(np.array(found) <= 0.05, axis=0)
        print(f"| {name} | {' | '.join(f'{share:.2f}' for share in shares)} |", flush=True)


def fast_wave(x: np.ndarray) -> np.ndarray:
    """Return a wave of period 2.1."""
    return np.sin(3.0 * x)


def sets(n_sets: int, n: int, p: int) -> None:
    """Print what tests of sets of columns cost: 5 to 35 of all columns, a kernel each."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, p))
    y = X[:, :3].sum(axis=1) + 3.0 * rng.normal(size=n)
    views = {f"s{k}": sorted(rng.choice(p, rng.integers(5, 36), replace=False).tolist()) for k in range(n_sets)}
    bank = KernelBank.from_views(views, Linear(), normalize=None)
    few = slice(0, 200)
    model = MKLRegressor(bank, alpha="0.5*max", resources={"representation": "factored"}).fit(X[few], y[few])
    started = time.process_time()
    frame = kernel_tests(model, X, y)
    spent = time.process_time() - started
    print("\n| rows | columns | sets | tests, CPU s | q-values up to 5 % |\n| --- | --- | --- | --- | --- |")
    print(f"| {n:,} | {p:,} | {n_sets:,} | {spent:.1f} | {int((frame['q_value'] <= 0.05).sum())} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few draws")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=LOSSES)
    parser.add_argument("--seed", type=int, default=1, help="of the draws for sizes")
    parser.add_argument("--sets", type=int, default=2_000)
    parser.add_argument("--set-rows", type=int, default=10_000)
    parser.add_argument("--part", choices=["sizes", "permuted", "power", "seconds", "sets"], help="a single table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    small, part = options.smoke, options.part
    draws = 3 if small else options.draws
    if part in (None, "sizes"):
        sizes(draws, options.rows, options.losses, options.seed)
    if part in (None, "permuted"):
        permuted(100 if small else 20_000)
    if part in (None, "power"):
        power(draws, options.rows)
    if part in (None, "seconds"):
        seconds([(300, 3)] if small else [(300, 20), (3_000, 20), (100_000, 20)])
    if part in (None, "sets"):
        sets(*(20, 300, 60) if small else (options.sets, options.set_rows, 2_000))


if __name__ == "__main__":
    main()
