"""Optima of 500 small problems by the conic oracle, stored with the models that certify them.

``python -m tests.support.optima`` (``make optima``) solves them anew, which takes two minutes. The file holds, for each
problem, the objective at the conic solver's point and the model rebuilt from its multiplier. The lower end of the
bracket is not taken on trust: it is the dual value of that model, recomputed in NumPy whenever the file is read. So is
the identity of the problems, by sums that last bits do not change.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.support.conic import ConicOptimum, conic_optimum

from manykernels.testing.problems import REGULARIZERS, SmallProblem, random_problem, small_problems
from manykernels.testing.solver import certificate_in_numpy

COUNT = 200
MORE_LOSSES = ("quantile", "poisson", "gamma")
MORE = 100  # problems of each of these, with every regularizer, after the 200 of the other losses
STORED = Path(__file__).parent / "optima.npz"
PARTS = ("fingerprint", "dual_coef", "kernel_weights")
TARGET = 1e-12  # of the excess, at which no further rung of the oracle's ladder is tried

Floats = NDArray[np.float64]


@cache
def all_problems() -> tuple[SmallProblem, ...]:
    """Return the 200 problems of the common losses, then those of the others."""
    more = [
        random_problem(
            seed,
            loss=loss,
            regularizer=REGULARIZERS[seed % len(REGULARIZERS)],
            fit_intercept=bool(seed // len(REGULARIZERS) % 2),
            weighted=bool(seed // (2 * len(REGULARIZERS)) % 2),
        )
        for loss in MORE_LOSSES
        for seed in range(MORE)
    ]
    return (*small_problems(COUNT), *more)


def fingerprint(problem: SmallProblem) -> Floats:
    """Return numbers that no other problem shares: projections of its arrays on fixed waves."""
    waves = np.cos(1.0 + np.arange(problem.kernels.size))
    numbers = [
        problem.kernels.ravel() @ waves / problem.kernels.max(),
        problem.kernels.max(),
        problem.y @ waves[: problem.y.size],
        problem.weights @ waves[: problem.y.size],
        problem.penalties @ waves[: len(problem.kernels)],
        problem.strength,
        float(problem.fit_intercept),
        *problem.loss_params.values(),
        *problem.regularizer_params.values(),
    ]
    return np.array(numbers, dtype=float)


def belongs(problem: SmallProblem, stored: Floats) -> bool:
    """Return whether this is the fingerprint of the problem, up to rounding."""
    found = fingerprint(problem)
    return found.shape == stored.shape and np.allclose(found, stored, rtol=1e-9, atol=1e-9)


@cache
def stored_optima() -> tuple[ConicOptimum, ...]:
    """Return the optima of the file, certified anew.

    Raises
    ------
    ValueError
        If the file is that of other problems.
    """
    with np.load(STORED) as file:
        objectives, intercepts, lengths = file["objective"], file["intercept"], file["lengths"]
        parts = [np.split(file[name], np.cumsum(lengths[k])[:-1]) for k, name in enumerate(PARTS)]
    found = []
    for problem, primal, b, stored, rho, d in zip(all_problems(), objectives, intercepts, *parts, strict=True):
        if not belongs(problem, stored):
            raise ValueError(f"{STORED.name} holds another problem than {problem.description!r}: run `make optima`")
        found.append(ConicOptimum(float(primal), rho, d, float(b), certificate_in_numpy(problem, rho, d, float(b))))
    return tuple(found)


def compute() -> None:
    """Solve all problems and write the file."""
    best = [conic_optimum(problem, target=TARGET) for problem in all_problems()]
    parts = [
        [fingerprint(problem) for problem in all_problems()],
        [each.dual_coef for each in best],
        [each.kernel_weights for each in best],
    ]
    np.savez_compressed(
        STORED,
        objective=[each.primal for each in best],
        intercept=[each.intercept for each in best],
        lengths=[[array.size for array in arrays] for arrays in parts],
        **{name: np.concatenate(arrays) for name, arrays in zip(PARTS, parts, strict=True)},
    )
    excess = max(each.excess for each in best)
    print(f"{STORED.name}: {len(best)} optima, each at most {excess:.1e} above its lower bound, relative to it")  # noqa: T201


if __name__ == "__main__":
    compute()
