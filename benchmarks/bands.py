"""Coverage of 95% bands for five losses, and what they cost beside a fit.

``python benchmarks/bands.py [--rows 300 3000] [--draws 20] [--seed 0] [--losses squared ...] [--time] [--smoke]`` draws
targets that depend on the first of three columns, fits default curves of three widths, and prints the share of the true
function inside pointwise bands of the score, of the curve, and the share of simultaneous bands that hold the whole
curve. ``--time`` prints CPU seconds of a fit of 100,000 rows and 30 columns, and those of its bands.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLSurvival, survival_array
from manykernels.estimators.supervised import base
from manykernels.estimators.supervised.posterior import posterior_of
from manykernels.inspection import ShapeDisplay
from manykernels.kernels import Gaussian, Linear

LOSSES = ("squared", "huber", "logistic", "poisson", "cox")
BANK = KernelBank.per_feature([Linear(), Gaussian(0.3), Gaussian(1.0)])


def truth(x: np.ndarray) -> np.ndarray:
    """Return the function of the first column."""
    return np.sin(2.0 * x)


def fitted(loss: str, score: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> Any:
    """Return a model of a target that is drawn from its scores."""
    n = len(score)
    if loss == "logistic":
        return MKLClassifier(BANK).fit(X, rng.random(n) < 1.0 / (1.0 + np.exp(-score)))
    if loss == "poisson":
        return MKLRegressor(BANK, loss="poisson").fit(X, rng.poisson(np.exp(score)).astype(float))
    if loss == "cox":
        return MKLSurvival(BANK).fit(X, survival_array(rng.random(n) < 0.8, rng.exponential(size=n) * np.exp(-score)))
    noise = rng.normal(size=n) if loss == "squared" else rng.standard_t(3, size=n)
    return MKLRegressor(BANK, loss=loss).fit(X, score + 0.5 * noise)


def coverage(loss: str, n: int, seed: int) -> tuple[float, float, bool]:
    """Return shares inside bands of scores and of a curve, and whether the simultaneous band holds the curve."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 3))
    model = fitted(loss, truth(X[:, 0]), X, rng)
    new = rng.uniform(-2.0, 2.0, size=(200, 3))
    deviation = np.sqrt(posterior_of(model).variance(model._check_rows(new)))
    score, target = model._scores(new)[:, 0], truth(new[:, 0])
    shape = ShapeDisplay.from_estimator(model, X, columns=["x0"], bands=True).frame()
    off = np.abs(shape["effect"] - (truth(shape["x"]) - shape["density"] @ truth(shape["x"])))
    # Logarithms of hazards have no level.
    inside = float("nan") if loss == "cox" else float(np.mean(np.abs(score - target) <= 1.96 * deviation))
    return inside, float(np.mean(off <= 1.96 * shape["std"])), bool((off <= shape["simultaneous"]).all())


def measure_time(n: int, p: int) -> None:
    """Print CPU seconds of a fit, and of the bands in it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = sum(np.sin(X[:, j] * (1 + j % 3)) for j in range(p)) + 2.0 * rng.normal(size=n)
    keep, spent = base.keep_bands, []

    def timed(*given: Any) -> None:
        start = time.process_time()
        keep(*given)
        spent.append(time.process_time() - start)

    base.keep_bands = timed
    start = time.process_time()
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0])).fit(X, y)
    total = time.process_time() - start
    curves = int((model.kernel_weights_ > 0).sum())
    print(f"{n:,} rows, {curves} curves: fit {total - sum(spent):.1f} CPU s, bands {sum(spent):.2f} CPU s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3000])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=LOSSES)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.time:
        measure_time(2_000 if options.smoke else 100_000, 5 if options.smoke else 30)
        return
    print("loss          rows   scores   curve   whole curve")
    seeds = range(options.seed, options.seed + (1 if options.smoke else options.draws))
    for loss in options.losses:
        for n in [200] if options.smoke else options.rows:
            found = [coverage(loss, n, seed) for seed in seeds]
            print(f"{loss:<10} {n:>7,}   {' '.join(f'{share:>7.3f}' for share in np.mean(found, axis=0))}", flush=True)


if __name__ == "__main__":
    main()
