"""Optima of 500 small problems by the conic oracle, stored with the models that certify them.

``python -m tests.support.optima`` (``make optima``) solves them anew, which takes two minutes. The file holds, for each
problem, the objective at the conic solver's point and the model rebuilt from its multiplier. The lower end of the
bracket is not taken on trust: it is the dual value of that model, recomputed in NumPy whenever the file is read. So is
the identity of the problems, by sums that last bits do not change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.support.conic import ConicOptimum, conic_optimum

from manykernels.testing.problems import REGULARIZERS, SmallProblem, random_problem, small_cases
from manykernels.testing.solver import certificate_in_numpy

COUNT = 200
MORE_LOSSES = ("quantile", "poisson", "gamma")
MORE = 100  # problems of each of these, with every regularizer, after the 200 of the other losses
STORED = Path(__file__).parent / "optima.npz"
PARTS = ("fingerprint", "dual_coef", "kernel_weights")
STRENGTH = 5  # its place in a fingerprint
TARGET = 1e-12  # of the excess, at which no further rung of the oracle's ladder is tried

Floats = NDArray[np.float64]


def all_cases() -> list[tuple[int, str, str, bool, bool]]:
    """Return seed, loss, regularizer, intercept and weighting of all problems, none of which is drawn for that."""
    common = [(seed, *case) for seed, case in enumerate(small_cases(COUNT))]
    more = [
        (
            seed,
            loss,
            REGULARIZERS[seed % len(REGULARIZERS)],
            bool(seed // len(REGULARIZERS) % 2),
            bool(seed // (2 * len(REGULARIZERS)) % 2),
        )
        for loss in MORE_LOSSES
        for seed in range(MORE)
    ]
    return common + more


@cache
def drawn_at(index: int) -> SmallProblem:
    """Return one problem as it is drawn: of the 200 of the common losses, then of those of the others."""
    seed, loss, regularizer, intercept, weighted = all_cases()[index]
    return random_problem(seed, loss=loss, regularizer=regularizer, fit_intercept=intercept, weighted=weighted)


@cache
def problem_at(index: int) -> SmallProblem:
    """Return the problem whose optimum is stored.

    Its strength is that of the file: drawn strengths come from differences of losses, in which the last bits of a
    processor's exponentials stand at the tenth digit.
    """
    stored = _stored()
    drawn = drawn_at(index)
    if index >= len(stored) or not belongs(drawn, stored[index][2]):
        return drawn
    return replace(drawn, strength=float(stored[index][2][STRENGTH]))


def all_problems() -> tuple[SmallProblem, ...]:
    """Return the 500 problems whose optima are stored."""
    return tuple(map(problem_at, range(len(all_cases()))))


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
    """Return whether this is the fingerprint of the problem, up to rounding, and to differences in the strength."""
    found = fingerprint(problem)
    if found.shape != stored.shape or not np.isclose(found[STRENGTH], stored[STRENGTH], rtol=1e-7, atol=0):
        return False
    return np.allclose(np.delete(found, STRENGTH), np.delete(stored, STRENGTH), rtol=1e-9, atol=1e-9)


@cache
def _stored() -> list[tuple[float, float, Floats, Floats, Floats]]:
    """Return objective, intercept and the arrays of every problem, as they stand in the file."""
    with np.load(STORED) as file:
        objectives, intercepts, lengths = file["objective"], file["intercept"], file["lengths"]
        parts = [np.split(file[name], np.cumsum(lengths[k])[:-1]) for k, name in enumerate(PARTS)]
    return list(zip(objectives.tolist(), intercepts.tolist(), *parts, strict=True))


@cache
def stored_optimum(index: int) -> ConicOptimum:
    """Return the optimum of one problem from the file, certified anew.

    Raises
    ------
    ValueError
        If the file is that of other problems.
    """
    problem, (primal, b, stored, rho, d) = problem_at(index), _stored()[index]
    if len(_stored()) != len(all_cases()) or not belongs(problem, stored):
        raise ValueError(f"{STORED.name} holds another problem than {problem.description!r}: run `make optima`")
    return ConicOptimum(primal, rho, d, b, certificate_in_numpy(problem, rho, d, b))


def stored_optima() -> tuple[ConicOptimum, ...]:
    """Return the optima of all problems."""
    return tuple(map(stored_optimum, range(len(all_cases()))))


def compute() -> None:
    """Solve all problems and write the file."""
    drawn = [drawn_at(index) for index in range(len(all_cases()))]
    best = [conic_optimum(problem, target=TARGET) for problem in drawn]
    parts = [
        [fingerprint(problem) for problem in drawn],
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
