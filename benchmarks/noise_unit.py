"""Noise in closed form beside random orders: the unit of the default strength, and the test of all kernels together.

``python benchmarks/noise_unit.py [--draws 60] [--smoke]`` prints first the unit, the geometric mean over orders of the
largest norm of a kernel, over that of 2,000 orders: of 19 orders, and in closed form, from gamma distributions of the
moments of each kernel, with columns taken as independent and the kernels of a column as one. Then the shares of targets
of 150 rows and ten columns that are told from noise at 5 %: by ``noise_p_value_``, from up to 199 orders, and by the
Cauchy combination of ``kernel_tests``; and the CPU seconds of both.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import noise
import numpy as np
from scipy.optimize import brentq
from scipy.stats import gamma

from manykernels import MKLClassifier, MKLRegressor
from manykernels.estimators import permutations
from manykernels.grams import build_stack
from manykernels.inspection import kernel_tests
from manykernels.inspection.evidence.chi_squares import cauchy_combination
from manykernels.kernels import KernelBank

SIZES = ((100, 5), (200, 20), (400, 40), (1_000, 20))


def units(n: int, p: int, seed: int) -> tuple[list[float], list[float]]:
    """Return units of 19 orders and in closed form, over that of 2,000 orders, and their CPU seconds."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, p)), rng.standard_exponential(n)
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0]).fit(X)
    stack, rho = build_stack(bank, X), y - y.mean()
    grams = [np.asarray(stack.matrix(m), dtype=float) for m in range(stack.n_kernels)]

    def by_orders(count: int) -> float:
        orders = np.array([rng.permutation(rho) for _ in range(count)]).T
        squares = np.array([np.einsum("ij,ij->j", orders, K @ orders) for K in grams])
        return float(np.exp(np.mean(np.log(squares.max(axis=0))) / 2))

    def in_closed_form() -> float:
        moments = []
        for K in grams:
            sums, total = K.sum(axis=0), K.sum()
            first = np.trace(K) - total / n
            second = np.sum(K**2) - 2.0 * (sums @ sums) / n + (total / n) ** 2
            moments.append((first, second))
        first, second = np.array(moments).T * np.array([[1.0], [rho @ rho / (n - 1)]])
        first *= rho @ rho / (n - 1)
        second *= 2.0 * rho @ rho / (n - 1)
        law = gamma(first**2 / second, scale=second / first)
        chance = len(grams) / p  # kernels of a column
        median = brentq(lambda q: law.logcdf(q).sum() / chance - np.log(0.5), 1e-3 * first.max(), 1e3 * first.max())
        return float(np.sqrt(median))

    exact, found, seconds = by_orders(2_000), [], []
    for unit in (lambda: by_orders(19), in_closed_form):
        start = time.process_time()
        found.append(unit() / exact)
        seconds.append(time.process_time() - start)
    return found, seconds


def told(X: Any, y: np.ndarray) -> tuple[list[bool], list[float]]:
    """Return whether a target is told from noise by random orders and by p-values, and their CPU seconds."""
    spent = [0.0, 0.0]
    own = permutations.PermutedTargets._levels_on

    def timed(*given: Any) -> Any:
        start = time.process_time()
        found = own(*given)
        spent[0] += time.process_time() - start
        return found

    permutations.PermutedTargets._levels_on = timed
    model = (MKLClassifier if y.dtype.kind == "i" else MKLRegressor)(tol=noise.TOL).fit(X, y)
    permutations.PermutedTargets._levels_on = own
    start = time.process_time()
    p = cauchy_combination(kernel_tests(model, X, y)["p_value"])
    spent[1] = time.process_time() - start
    return [bool(np.max(model.noise_p_value_) <= 0.05), p <= 0.05], spent


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    draws = 2 if options.smoke else options.draws
    print("| rows | columns | 19 orders: mean, spread | closed form: mean, spread | CPU ms of both |")
    print("| --- | --- | --- | --- | --- |")
    for n, p in SIZES[: 1 if options.smoke else None]:
        found, seconds = np.array([units(n, p, seed) for seed in range(max(draws // 6, 2))]).transpose(1, 2, 0)
        cells = [f"{own.mean():.3f}, {own.std():.3f}" for own in found]
        print(f"| {n:,} | {p} | {' | '.join(cells)} | {', '.join(f'{1e3 * s.mean():.0f}' for s in seconds)} |")
    print("\n| target | effect | random orders | p-values | CPU ms of both |\n| --- | --- | --- | --- | --- |")
    cases = [("noise", 0.0), *(("one column", effect) for effect in noise.EFFECTS[1:4])]
    for name, effect in [*cases, *(("eight columns", effect) for effect in noise.OF_EIGHT)]:
        rows = []
        for number in range(draws):
            rng = np.random.default_rng([7, number])
            rows.append(told(*(noise.several(rng, effect) if name[0] == "e" else noise.weak(rng, number, effect))))
        found, seconds = np.array(rows, dtype=float).transpose(1, 2, 0)
        cells = [f"{own.mean():.2f}" for own in found]
        print(f"| {name} | {effect} | {' | '.join(cells)} | {', '.join(f'{1e3 * s.mean():.0f}' for s in seconds)} |")


if __name__ == "__main__":
    main()
