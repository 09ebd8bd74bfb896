"""Time and gap of Cox's partial likelihood with 100 kernels on up to 2,000 samples.

``python benchmarks/survival.py [--sizes 500 1000 2000] [--kernels 100] [--tol 1e-4] [--smoke]``

Ten columns, Gaussian kernels of ten widths on each; the hazard depends on three columns. Printed are CPU seconds,
Newton steps, the gap, the kernels selected, and the concordance on as many new samples beside that of the true hazards.
"""

from __future__ import annotations

import argparse
import time

import _common as common
import numpy as np

from manykernels import KernelBank, MKLSurvival, concordance_index, survival_array

N_COLUMNS = 10


def study(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns, the target and the true logarithms of hazards."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, N_COLUMNS))
    hazard = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + np.abs(X[:, 2]) - 1
    seen, censored = rng.exponential(np.exp(-hazard)), rng.exponential(2.0, n)
    return X, survival_array(seen <= censored, np.minimum(seen, censored)), hazard


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--alpha", type=float, default=0.02)
    parser.add_argument("--smoke", action="store_true", help="60 samples and 20 kernels")
    options = parser.parse_args()
    sizes, n_kernels = ([60], 20) if options.smoke else (options.sizes, options.kernels)
    widths = np.geomspace(0.2, 4.0, n_kernels // N_COLUMNS).tolist()
    bank = KernelBank.per_feature(widths=widths, normalize="mean_diagonal")
    print("samples  events  kernels  seconds  Newton steps      gap  selected  concordance  of the truth")
    for n in sizes:
        X, y, _ = study(n)
        with common.quiet():
            started = time.process_time()
            model = MKLSurvival(bank, alpha=options.alpha, tol=options.tol).fit(X, y)
            elapsed = time.process_time() - started
        new, target, hazard = study(n, seed=1)
        print(
            f"{n:7d} {y['event'].sum():7d} {len(model.kernel_names_):8d} {elapsed:8.1f} "
            f"{model.solution_.newton_steps:13d} {model.dual_gap_:8.0e} {model.solution_.active.size:9d} "
            f"{model.score(new, target):12.3f} {concordance_index(target, hazard):13.3f}"
        )


if __name__ == "__main__":
    main()
