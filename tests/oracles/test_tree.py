"""Trees of penalties against the conic oracle: 60 problems, every loss, one and two levels of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.norm_penalties import NUMBERS, optimum_under, solved

from manykernels.objective import Tree, get_loss
from manykernels.objective.problem import Problem
from manykernels.testing.problems import LOSSES, SmallProblem, random_problem

Groups = list[tuple[float, list[int]]]


def case(number: int) -> tuple[SmallProblem, dict[str, Any], float, Groups]:
    """Return a problem, a tree of its kernels, the share of single norms, and each group's factor and kernels."""
    weighted, intercept = bool(number // 2 % 2), bool(number % 2)
    small = random_problem(number, loss=LOSSES[number % len(LOSSES)], fit_intercept=intercept, weighted=weighted)
    rng = np.random.default_rng(number)
    views = [part.tolist() for part in np.array_split(rng.permutation(len(small.kernels)), 2)]
    ratio = float(rng.uniform(0.1, 0.9))
    if number % 3 == 0 or len(small.kernels) < 4:
        return small, {"a": views[0], "b": views[1]}, ratio, [(len(own) ** 0.5, own) for own in views]
    halves = [part.tolist() for part in np.array_split(views[0], 2)]
    tree = {"a": {"c": halves[0], "d": halves[1]}, "b": views[1]}
    return small, tree, ratio, [(len(own) ** 0.5 / 2, own) for own in (*views, *halves)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", NUMBERS)
def test_optima_of_trees(number: int) -> None:
    small, tree, ratio, groups = case(number)

    def penalty(cp: Any, t: Any) -> Any:
        nodes = sum(factor * cp.norm(t[own]) for factor, own in groups)
        return small.strength * (ratio * cp.sum(t) + (1 - ratio) * nodes)

    problem = Problem(
        small.kernels,
        small.y,
        get_loss(small.loss_name, **small.loss_params),
        Tree(small.strength, tree, l1_ratio=ratio),
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
        kernel_penalties=small.kernel_penalties,
    )
    best, found = optimum_under(small, penalty), solved(problem)
    scale = max(abs(best), 1e-6)
    assert abs(found.primal - best) <= 1e-6 * scale
    assert found.dual <= best + 1e-9 * scale
    assert found.primal - found.dual <= 1e-6 * scale
