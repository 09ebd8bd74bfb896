"""Time and gap of Cox's partial likelihood: 100 kernels on up to 2,000 samples, and factors on 100,000.

``python benchmarks/survival.py [--problem gram|factored] [--sizes 500 1000 2000] [--tol 1e-4] [--smoke]``

The hazard depends on three columns. ``gram``: ten columns, Gaussian kernels of ten widths on each, as N x N matrices.
``factored``: 32 columns, a line and Gaussians of five widths on each (192 kernels), held as factors; with times that
are all different, and with times rounded to 20 a unit, whose ties Efron's correction takes. Printed are CPU seconds and
the peak of memory of the process so far (data included), Newton steps, the gap, kernels and columns selected, and the
concordance on as many new samples (20,000 at most) beside that of the true hazards.
"""

from __future__ import annotations

import argparse
import time

import _common as common
import numpy as np

from manykernels import KernelBank, Linear, MKLSurvival, survival_array
from manykernels.estimators import concordance_index

SIZES = {"gram": [500, 1000, 2000], "factored": [1000, 10_000, 100_000]}
COLUMNS = {"gram": 10, "factored": 32}
STEPS_OF_TIME = 20
JUDGED = 20_000


def study(n: int, n_columns: int, *, ties: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns, the target and the true logarithms of hazards."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, n_columns))
    hazard = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + np.abs(X[:, 2]) - 1
    seen, censored = rng.exponential(np.exp(-hazard)), rng.exponential(2.0, n)
    times = np.minimum(seen, censored)
    return X, survival_array(seen <= censored, np.ceil(STEPS_OF_TIME * times) if ties else times), hazard


def bank_of(problem: str, n_kernels: int) -> KernelBank:
    """Return the kernels of a problem."""
    if problem == "factored":
        return KernelBank.per_feature(Linear(), widths=[0.25, 0.5, 1.0, 2.0, 4.0], standardize=True)
    widths = np.geomspace(0.2, 4.0, n_kernels // COLUMNS[problem]).tolist()
    return KernelBank.per_feature(widths=widths, normalize="mean_diagonal")


def line(problem: str, model: MKLSurvival, n: int, *, ties: bool) -> str:
    """Fit, judge, and return what is to be printed."""
    X, y, _ = study(n, COLUMNS[problem], ties=ties)
    with common.quiet():
        started = time.process_time()
        model.fit(X, y)
        elapsed = time.process_time() - started
    peak = common.peak_memory_bytes() / 1e9
    new, target, hazard = study(min(n, JUDGED), COLUMNS[problem], ties=ties, seed=1)
    columns = {name.split(":")[0] for name in np.array(model.kernel_names_)[model.solution_.active]}
    return (
        f"{n:7d} {y['event'].sum():7d} {'yes' if ties else 'no':>5} {len(model.kernel_names_):8d} {elapsed:8.1f} "
        f"{peak:5.2f} {model.solution_.newton_steps:13d} {model.dual_gap_:8.0e} {model.solution_.active.size:9d} "
        f"{len(columns):8d} {model.score(new, target):12.3f} {concordance_index(target, hazard):13.3f}"
    )


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=tuple(SIZES), default="gram")
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--kernels", type=int, default=100, help="of the problem gram")
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--alpha", type=float, default=0.02)
    parser.add_argument("--smoke", action="store_true", help="both problems, 60 and 300 samples")
    options = parser.parse_args()
    print(
        "samples  events  ties  kernels  seconds    GB  Newton steps      gap  selected  columns  concordance  of truth"
    )
    runs = [("gram", [60]), ("factored", [300])] if options.smoke else [(options.problem, options.sizes)]
    for problem, sizes in runs:
        bank = bank_of(problem, 20 if options.smoke else options.kernels)
        for n in sizes or SIZES[problem]:
            for ties in (False, True)[: 1 + (problem == "factored")]:
                model = MKLSurvival(bank, alpha=options.alpha, tol=options.tol, resources={"representation": problem})
                print(line(problem, model, n, ties=ties), flush=True)


if __name__ == "__main__":
    main()
