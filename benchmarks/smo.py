"""The support vector machine by `smo_svm` against LIBSVM (scikit-learn's SVC) on the same matrix, cold and warm.

``python benchmarks/smo.py [--samples 200 500 1000 2000] [--smoke] [--output DIR]``

Ringnorm with a sum of Gaussian kernels, and with a linear kernel, whose matrix of rank 20 makes a large C a hard
problem. Both programs stop at the same violation of the optimality conditions. *Cold*: one fit from zero. *Warm*: the
matrices of ten steps of an alternation between weights and support vector machines, ``sum_m theta_m K_m`` with weights
that move less and less; `smo_svm` starts at its last solution, LIBSVM, which has no warm start, from zero. CPU seconds
of all the fits, one thread, the best of three repetitions unless a run is slow.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import _common as common
import numpy as np
import pandas as pd
from sklearn.svm import SVC

from manykernels.datasets import make_ringnorm
from manykernels.solvers.learners.smo_svm import smo_svm

N_FEATURES = 20
N_KERNELS = 10
STEPS = 10  # of the alternation
SHRINKAGE = 0.5  # of the movement of the weights from one step to the next
SLOW_SECONDS = 0.5  # a run this long is not repeated
FORMATS = {"C": "g", "tol": ".0e", "smo_s": ".5f", "libsvm_s": ".5f", "speedup": ".2f", "excess": ".1e", "worst": ".1e"}

Fit = Callable[[np.ndarray, np.ndarray | None], np.ndarray]


@dataclass(frozen=True)
class Row:
    """One setting: seconds of both programs and how far apart their dual objectives are, relative."""

    kernel: str
    n_samples: int
    C: float
    tol: float
    start: str
    support: int
    smo_s: float
    libsvm_s: float
    speedup: float
    excess: float


def draw(n_samples: int, seed: int) -> tuple[dict[str, list[np.ndarray]], np.ndarray]:
    """Return the matrices of the alternation, the first of equal weights, a linear one, and the labels."""
    rng = np.random.default_rng(seed)
    X, y = make_ringnorm(n_samples, N_FEATURES, random_state=rng)
    kernels = common.dense_kernels(common.random_gaussians(N_KERNELS, N_FEATURES, rng), X) * n_samples
    weights, size, grams = np.full(N_KERNELS, 1 / N_KERNELS), 0.5, []
    for _ in range(STEPS):
        grams.append(np.tensordot(weights, kernels, axes=1))
        weights = (1 - size) * weights + size * rng.dirichlet(np.full(N_KERNELS, 0.3))
        size *= SHRINKAGE
    return {"gaussian": grams, "linear": [X @ X.T / N_FEATURES]}, y


def by_smo(y: np.ndarray, constant: float, tol: float) -> Fit:
    """Return a fit by this library."""
    return lambda gram, warm: smo_svm(gram, y, constant, warm, tol)[0]


def by_libsvm(y: np.ndarray, constant: float, tol: float) -> Fit:
    """Return a fit by LIBSVM, which starts from zero."""

    def fit(gram: np.ndarray, _: np.ndarray | None) -> np.ndarray:
        fitted = SVC(C=constant, kernel="precomputed", tol=tol, cache_size=1000).fit(gram, y)
        alpha = np.zeros(len(y))
        alpha[fitted.support_] = np.abs(fitted.dual_coef_[0])
        return alpha

    return fit


def follow(fit: Fit, grams: list[np.ndarray]) -> np.ndarray:
    """Fit one matrix after the other, each time from the last solution; return the last one."""
    alpha: np.ndarray | None = None
    for gram in grams:
        alpha = fit(gram, alpha)
    assert alpha is not None
    return alpha


def objective(gram: np.ndarray, y: np.ndarray, alpha: np.ndarray) -> float:
    """Return the dual objective, to be minimized."""
    return float(0.5 * (alpha * y) @ gram @ (alpha * y) - alpha.sum())


def measure(kernel: str, grams: list[np.ndarray], y: np.ndarray, constant: float, tol: float, repeats: int) -> Row:
    """Time both programs on all the matrices, one after the other."""
    runs = []
    for fit in (by_smo(y, constant, tol), by_libsvm(y, constant, tol)):
        run = common.cpu_time(partial(follow, fit, grams), 1)
        runs.append(run if run.best > SLOW_SECONDS else common.cpu_time(partial(follow, fit, grams), repeats))
    own, other = (objective(grams[-1], y, run.result) for run in runs)
    return Row(
        kernel=kernel,
        n_samples=len(y),
        C=constant,
        tol=tol,
        start="cold" if len(grams) == 1 else "warm",
        support=int(np.count_nonzero(runs[0].result)),
        smo_s=runs[0].best,
        libsvm_s=runs[1].best,
        speedup=runs[1].best / runs[0].best,
        excess=(own - other) / abs(other),
    )


def rows_of(n_samples: int, options: argparse.Namespace) -> Iterator[Row]:
    """Yield every setting at one number of samples."""
    grams, y = draw(n_samples, options.seed)
    sequences = [("gaussian", grams["gaussian"][:1]), ("gaussian", grams["gaussian"]), ("linear", grams["linear"])]
    for (kernel, chosen), constant, tol in itertools.product(sequences, options.constants, options.tolerances):
        yield measure(kernel, chosen, y, constant, tol, options.repeats)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each start and tolerance, the range of the speedup and how often LIBSVM was faster."""
    rows = []
    for (kernel, start, tol), part in frame.groupby(["kernel", "start", "tol"], sort=False):
        speedup = part["speedup"]
        worst = part.loc[speedup.idxmin()]
        rows.append(
            {
                "kernel": kernel,
                "start": start,
                "tol": tol,
                "settings": len(part),
                "LIBSVM faster in": int((speedup < 1).sum()),
                "least": float(speedup.min()),
                "median": float(speedup.median()),
                "most": float(speedup.max()),
                "least at": f"N = {worst['n_samples']}, C = {worst['C']:g}",
            }
        )
    return pd.DataFrame(rows)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser("smo_svm against LIBSVM on the same matrices.")
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 200, 500, 1000, 2000], help="values of N")
    parser.add_argument("--constants", type=float, nargs="+", default=[0.1, 1.0, 10.0, 100.0], help="values of C")
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-3, 1e-6], help="violations to stop at")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs; the best one counts")
    options = parser.parse_args()
    if options.smoke:
        options.samples, options.constants, options.repeats = [60], [1.0], 1
    return options


def main() -> int:
    """Measure, print, save."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    smo_svm(np.eye(4), [1.0, -1.0, 1.0, -1.0])  # compile
    rows = [row for n_samples in options.samples for row in rows_of(n_samples, options)]
    frame = pd.DataFrame([asdict(row) for row in rows])
    common.print_table(frame, "one matrix (cold), ten matrices (warm)", FORMATS)
    short = summary(frame)
    formats = {"tol": ".0e", "least": ".2f", "median": ".2f", "most": ".2f"}
    common.print_table(short, "LIBSVM's seconds over smo_svm's", formats)
    common.save(frame, record | {"summary": short.to_dict("records")}, options.output, "smo")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
