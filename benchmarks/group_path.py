"""A path of 30 strengths over linear kernels of column groups (the group lasso), certified, beside group solvers.

    python benchmarks/group_path.py [--smoke] [--problem NAME ...] [--repeats N]

Prints CPU seconds of one thread (medians), the largest certified gap on the path, and the ratio to each peer that is
installed: adelie (which wants an environment of its own, with numpy below 2) solves the same strengths to its own
tolerance and certifies nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

from manykernels import KernelBank, Linear, regularization_path
from manykernels.threads import blas_threads

PROBLEMS = {
    "2,000 x 500 groups": (2_000, 500, "squared"),
    "20,000 x 100 groups": (20_000, 100, "squared"),
    "20,000 x 100 groups, logistic": (20_000, 100, "logistic"),
}
SMOKE = {"200 x 20 groups": (200, 20, "squared"), "200 x 20 groups, logistic": (200, 20, "logistic")}
SIZE, TRUE, N_ALPHAS, RATIO, TOL = 10, 6, 30, 0.05, 1e-4


def data(n: int, groups: int, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Return columns in column order and a target that six groups make, with noise."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(n, groups * SIZE)))
    weights = rng.normal(size=TRUE * SIZE)
    scores = X[:, : TRUE * SIZE] @ weights
    scores += rng.normal(size=n) * scores.std()
    return X, np.sign(scores) if loss == "logistic" else scores


def ours(X: np.ndarray, y: np.ndarray, loss: str) -> Any:
    """Return the path of this library."""
    groups = X.shape[1] // SIZE
    kernels = [(f"group {g}", Linear(), list(range(g * SIZE, (g + 1) * SIZE))) for g in range(groups)]
    bank = KernelBank(kernels, standardize=False, normalize=None)
    return regularization_path(
        X,
        y,
        kernels=bank,
        loss=loss,
        penalty="l1",
        n_alphas=N_ALPHAS,
        alpha_min_ratio=RATIO,
        tol=TOL,
        representation="factored",
    )


def with_adelie(X: np.ndarray, y: np.ndarray, loss: str, alphas: np.ndarray) -> None:
    """Solve the same strengths by adelie, whose penalty of a group is unscaled here as well."""
    import adelie

    glm = adelie.glm.gaussian(y) if loss == "squared" else adelie.glm.binomial((y + 1) / 2)
    groups = np.arange(0, X.shape[1], SIZE)
    adelie.grpnet(
        X=X,
        glm=glm,
        groups=groups,
        penalty=np.ones(len(groups)),
        lmda_path=alphas,
        early_exit=False,
        progress_bar=False,
        n_threads=1,
    )


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the median CPU seconds of a call, and what it returned last."""
    spent, out = [], None
    for _ in range(repeats):
        start = time.process_time()
        out = call()
        spent.append(time.process_time() - start)
    return median(spent), out


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two small problems, once")
    parser.add_argument("--problem", nargs="*", help="only these")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    problems = SMOKE if arguments.smoke else PROBLEMS
    repeats = 1 if arguments.smoke else arguments.repeats
    warnings.simplefilter("ignore")
    for name in arguments.problem or problems:
        n, groups, loss = problems[name]
        X, y = data(n, groups, loss)
        with blas_threads(n, 1):
            ours(*data(200, 20, loss), loss)  # compiles
            spent, path = seconds(lambda X=X, y=y, loss=loss: ours(X, y, loss), repeats)
            table = path.summary()
            gap, active = table["relative_gap"].max(), int(table["n_active"].iloc[-1])
            line = f"{name}: {spent:.2f} CPU s, largest gap {gap:.1e}, {active} groups at the end"
            if find_spec("adelie") is not None:
                alphas = table["alpha"].to_numpy()
                peer, _ = seconds(lambda X=X, y=y, loss=loss, a=alphas: with_adelie(X, y, loss, a), repeats)
                line += f"; adelie {peer:.2f}, ratio {spent / peer:.1f}"
        print(line)


if __name__ == "__main__":
    main()
