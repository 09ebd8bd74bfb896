"""Polynomial kernels: time of a draw against r, a regression on 176,851 products beside others, and 1.7e8 products.

``python benchmarks/polynomial.py [--samples 500] [--huge 1000] [--methods NAME ...] [--smoke] [--output DIR]``

The data are those of Afkanpour (2013), section 6.1.3: columns uniform on [-1, 1], the target a sum of ten monomials of
degree at most three in the first five columns; here also with noise of a tenth of its deviation. Strengths (and p) are
chosen on 1000 validation samples, errors are on 1000 test samples, relative to the variance of the target. Every method
runs in a process of its own, whose peak memory is told; ``fit_s`` is one fit with the chosen parameters by the clock on
the wall, ``fit_cpu_s`` the same in CPU seconds, ``all_cpu_s`` that of all fits.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import comb
from typing import Any

import _common as common
import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from manykernels import KernelBank, Linear, MKLRegressor, Polynomial, PolynomialMKL
from manykernels.discovery.polynomial.descent import InteractionSampler
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.product_bases import RankOneBase
from manykernels.exceptions import ConvergenceWarning

mpl.use("Agg")
import matplotlib.pyplot as plt

DEGREE = 3
ALPHAS = (1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2)
FORMATS = {
    "ms_per_draw": ".2f", "error": ".2e", "fit_s": ".1f", "fit_cpu_s": ".1f",
    "all_cpu_s": ".1f", "peak_mb": ".0f", "gap": ".1e", "alpha": ".0e"
}  # fmt: skip


def monomial_data(
    n_columns: int, n_samples: int, noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns and a sum of ten random monomials of the first five columns, noise relative to its deviation."""
    terms = [term for d in range(4) for term in itertools.combinations_with_replacement(range(5), d)]
    chosen = rng.choice(len(terms), 10, replace=False)
    X = rng.uniform(-1.0, 1.0, (n_samples, n_columns))
    y = np.sum([np.prod(X[:, list(terms[i])], axis=1) for i in chosen], axis=0)
    return X, y + noise * y.std() * rng.normal(size=n_samples)


# --- draws ----------------------------------------------------------------------------------------------------------


def time_draws(sizes: list[int], n_samples: int, n_draws: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return CPU milliseconds of one draw by Algorithm 3, each from new dual coefficients, against r."""
    rows = []
    for r in sizes:
        family = PolynomialFamily.create(RankOneBase(rng.normal(size=(r, n_samples))), DEGREE)
        duals = rng.normal(size=(n_draws, n_samples))
        assert family.moments  # computed once a fit, not once a draw

        def draw(family: PolynomialFamily = family, duals: np.ndarray = duals) -> None:
            for a in duals:
                InteractionSampler(family, a).draw(rng)

        milliseconds = 1e3 * common.cpu_time(draw, 3).best / n_draws
        rows.append({"r": r, "products": comb(r + DEGREE, DEGREE), "ms_per_draw": milliseconds})
    return pd.DataFrame(rows)


# --- the regression -------------------------------------------------------------------------------------------------


def candidates(
    method: str, n_columns: int, alphas: Sequence[float], exponents: Sequence[float], seed: int
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield (parameters, estimator) among which validation chooses."""
    for alpha in alphas:
        if method == "PolynomialMKL":
            for p in exponents:
                yield {"alpha": alpha, "p": p}, PolynomialMKL(DEGREE, p=p, alpha=alpha, random_state=seed)
        elif method == "PolynomialMKL, p=2":
            yield {"alpha": alpha, "p": 2.0}, PolynomialMKL(DEGREE, alpha=alpha, random_state=seed)
        elif method == "MKLRegressor, linear and cubic":
            yield {"alpha": alpha}, MKLRegressor(_linear_and_cubic(n_columns), alpha=alpha)
        elif method == "KernelRidge, cubic":
            kernel = KernelRidge(alpha=1e3 * alpha, kernel="poly", degree=DEGREE, gamma=1.0, coef0=1.0)
            yield {"alpha": alpha}, make_pipeline(StandardScaler(), kernel)
        else:
            # A monomial such as x^3 has a larger deviation than x y z, and is then penalized less, as in PolynomialMKL.
            scaled = [StandardScaler()] if method == "Lasso on standardized monomials" else []
            steps = (StandardScaler(), PolynomialFeatures(DEGREE, include_bias=False), *scaled)
            yield {"alpha": alpha}, make_pipeline(*steps, Lasso(alpha, max_iter=1000))


METHODS = (
    "PolynomialMKL",
    "Lasso on all monomials",
    "Lasso on standardized monomials",
    "KernelRidge, cubic",
    "MKLRegressor, linear and cubic",
    "PolynomialMKL, p=2",
)


def _linear_and_cubic(n_columns: int) -> KernelBank:
    """Return a linear kernel a column and one cubic kernel of all columns."""
    entries = [(f"x{j}", Linear(), [j]) for j in range(n_columns)]
    return KernelBank(
        [*entries, ("cubic", Polynomial(DEGREE), list(range(n_columns)))], standardize=True, normalize="trace"
    )


def measure(
    method: str,
    n_columns: int,
    n_samples: int,
    noise: float,
    alphas: Sequence[float],
    exponents: Sequence[float],
    seed: int,
) -> dict[str, Any]:
    """Fit all candidates of a method, then the best one against the clock; in a process of its own."""
    X, y = monomial_data(n_columns, n_samples + 2000, noise, np.random.default_rng(seed))
    train, validate, test = slice(n_samples), slice(n_samples, n_samples + 1000), slice(n_samples + 1000, None)
    fits: list[tuple[float, dict[str, Any], Any]] = []
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for parameters, model in candidates(method, n_columns, alphas, exponents, seed):
            model.fit(X[train], y[train])
            fits.append((float(np.mean((model.predict(X[validate]) - y[validate]) ** 2)), parameters, model))
        spent = time.process_time() - started
        _, parameters, model = min(fits, key=lambda fit: fit[0])
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(X[train], y[train])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = float(np.mean((model.predict(X[test]) - y[test]) ** 2) / y[test].var())
    return {
        "noise": noise, "method": method, "error": error, "fit_s": wall, "fit_cpu_s": cpu, "all_cpu_s": spent,
        "fits": len(fits),
        "peak_mb": common.peak_memory_bytes() / 2**20, "kernels": len(getattr(model, "kernel_names_", ())),
        "gap": getattr(model, "dual_gap_", np.nan), **{"alpha": np.nan, "p": np.nan}, **parameters,
    }  # fmt: skip


def huge(n_columns: int, n_samples: int, seed: int) -> dict[str, Any]:
    """Fit one model on a family that cannot be listed; in a process of its own."""
    X, y = monomial_data(n_columns, n_samples + 1000, 0.1, np.random.default_rng(seed))
    model = PolynomialMKL(DEGREE, p=1.0, alpha=1e-2, random_state=seed)
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:n_samples], y[:n_samples])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = np.mean((model.predict(X[n_samples:]) - y[n_samples:]) ** 2) / y[n_samples:].var()
    return {
        "r": n_columns, "products": model.n_family_kernels_, "error": float(error), "fit_s": wall, "fit_cpu_s": cpu,
        "peak_mb": common.peak_memory_bytes() / 2**20, "kernels": len(model.kernel_names_), "gap": model.dual_gap_,
        "bound by": model.certificate_method_,
    }  # fmt: skip


def alone(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run in a fresh process, so that peak memory is that of this run."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# --- the whole ------------------------------------------------------------------------------------------------------


def plot(draws: pd.DataFrame, options: Any) -> float:
    """Draw time a draw and number of products against r, and return the fitted exponent of the former."""
    x, t = np.log(draws["r"]), np.log(draws["ms_per_draw"])
    slope, level = np.polyfit(x, t, 1)
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    ax.loglog(draws["r"], draws["ms_per_draw"], "o-", label=f"a draw: ms, growth r^{slope:.2f}")
    ax.loglog(draws["r"], np.exp(level) * draws["r"] ** slope, ":", color="C0")
    ax.loglog(draws["r"], draws["products"] / draws["products"].iloc[0], "s--", label="products, relative")
    ax.set(xlabel="base kernels r", title=f"Algorithm 3, D = {DEGREE}, N = {options.samples}")
    ax.legend(frameon=False)
    options.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output / "polynomial_draws.png", dpi=110)
    plt.close(figure)
    return float(slope)


def parse() -> Any:
    """Read the command line."""
    parser = common.parser("Polynomial kernels: draws, a regression on 176,851 products, and 1.7e8 products.")
    parser.add_argument("--samples", type=int, default=500, help="training samples")
    parser.add_argument("--columns", type=int, default=100, help="columns of the regression")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30, 100, 200, 300, 500], help="r of the draws")
    parser.add_argument("--draws", type=int, default=20, help="draws timed at once")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.1], help="noise over the target's deviation")
    parser.add_argument("--alphas", type=float, nargs="+", default=list(ALPHAS), help="strengths to choose from")
    parser.add_argument("--p", type=float, nargs="+", default=[1.0, 1.1], help="p of PolynomialMKL to choose from")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="methods of the regression")
    parser.add_argument("--huge", type=int, default=1000, help="columns of the largest family; 0 leaves it out")
    options = parser.parse_args()
    if options.smoke:
        options.samples, options.columns, options.sizes, options.draws = 60, 8, [10, 20], 3
        options.noise, options.huge, options.alphas = [0.1], 12, [1e-2, 3e-2]
    return options


def main() -> int:
    """Measure, print, save, draw."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    draws = time_draws(options.sizes, options.samples, options.draws, np.random.default_rng(options.seed))
    slope = plot(draws, options)
    common.print_table(draws, f"one draw at D = {DEGREE}, N = {options.samples}: grows as r^{slope:.2f}", FORMATS)
    common.save(draws, record | {"exponent": slope}, options.output, "polynomial_draws")
    setting = (options.columns, options.samples)
    rows = []
    for noise, method in itertools.product(options.noise, options.methods):
        rows.append(alone(measure, method, *setting, noise, options.alphas, options.p, options.seed))
        common.CONSOLE.print(f"{method}: relative error {rows[-1]['error']:.3g}, {rows[-1]['fit_s']:.1f} s")
    frame = pd.DataFrame(rows)
    common.print_table(
        frame, f"{comb(options.columns + DEGREE, DEGREE)} products of {options.columns} columns", FORMATS
    )
    common.save(frame, record, options.output, "polynomial")
    if options.huge:
        largest = pd.DataFrame([alone(huge, options.huge, options.samples, options.seed)])
        common.print_table(largest, f"{options.huge} columns", FORMATS)
        common.save(largest, record, options.output, "polynomial_huge")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
