"""The generator: the same problem for the same seed, and problems that are as nasty as promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np
from tests.support.conic import ConicOptimum
from tests.support.optima import COUNT, MORE, MORE_LOSSES

from manykernels.testing.problems import LOSSES, REGULARIZERS, SmallProblem, random_problem


def test_equal_seeds_give_equal_problems() -> None:
    first, again, other = (random_problem(seed, loss="huber", weighted=True) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.kernels, again.kernels)
    np.testing.assert_array_equal(first.sample_weight, again.sample_weight)
    assert (first.strength, first.description) == (again.strength, again.description)
    assert first.strength != other.strength


def test_every_combination_comes_up(problems: tuple[SmallProblem, ...]) -> None:
    seen = Counter(
        (p.loss_name, p.regularizer_name, p.fit_intercept, p.sample_weight is not None, p.kernel_penalties is not None)
        for p in problems[:COUNT]
    )
    wanted = {
        (*case, weighted, weighted) for *case, weighted in product(LOSSES, REGULARIZERS, (True, False), (True, False))
    }
    assert set(seen) == wanted
    assert Counter(p.loss_name for p in problems[COUNT:]) == dict.fromkeys(MORE_LOSSES, MORE)


def test_problems_are_small_symmetric_and_semidefinite(problems: tuple[SmallProblem, ...]) -> None:
    for problem in problems:
        kernels = problem.kernels
        assert kernels.shape[0] <= 12
        assert problem.y.size <= 40
        np.testing.assert_array_equal(kernels, kernels.transpose(0, 2, 1))
        values = np.linalg.eigvalsh(kernels)
        assert (values[:, 0] >= -1e-13 * np.abs(values).max(1)).all()


def test_problems_cannot_be_written_to(problems: tuple[SmallProblem, ...]) -> None:
    for problem in problems:
        arrays = [problem.kernels, problem.y, problem.sample_weight, problem.kernel_penalties]
        assert not any(array.flags.writeable for array in arrays if array is not None)


def test_every_kind_of_kernel_occurs(problems: tuple[SmallProblem, ...]) -> None:
    ranks = [np.linalg.matrix_rank(problem.kernels, hermitian=True, tol=None) for problem in problems]
    traces = [np.trace(problem.kernels, axis1=1, axis2=2) / problem.y.size for problem in problems]
    assert sum((rank == 0).any() for rank in ranks) > 20
    assert sum((rank == 1).any() for rank in ranks) > 50
    assert sum((rank == 3).any() for rank in ranks) > 50
    assert sum(np.array_equal(problem.kernels[0], problem.kernels[-1]) for problem in problems) > 30
    assert max(float(trace.max()) for trace in traces) > 1e3
    assert min(float(trace[trace > 0].min()) for trace in traces) < 1e-3


def test_classes_are_imbalanced_and_never_single(problems: tuple[SmallProblem, ...]) -> None:
    shares = np.array([(p.y > 0).mean() for p in problems if p.loss_name in LOSSES[:3]])
    assert shares.min() > 0
    assert shares.max() < 1
    assert (np.abs(shares - 0.5) > 0.2).sum() > 20


def test_solutions_are_neither_zero_nor_trivial(
    problems: tuple[SmallProblem, ...], optimum: Callable[[int], ConicOptimum]
) -> None:
    active, total = [], []
    for index, problem in enumerate(problems):
        if problem.regularizer_name in ("l1", "simplex"):
            weights = optimum(index).kernel_weights
            active.append(int((weights > 1e-5 * weights.max()).sum()))
            total.append(weights.size)
    several, sparse = np.array(active) >= 2, np.array(active) < np.array(total)
    assert several.mean() > 0.5
    assert sparse.mean() > 0.8
