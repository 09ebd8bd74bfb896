"""Kernels without a penalty against the conic oracle: 60 problems, every loss, columns that repeat and are constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracles.test_groups import FORMS
from tests.support.norm_penalties import NUMBERS, optimum_under, solved

from manykernels.objective import get_loss, get_regularizer
from manykernels.objective.problem import Problem
from manykernels.testing.problems import LOSSES, SmallProblem, random_problem

KINDS = ("l1", "elasticnet", "ridge")


def case(number: int) -> tuple[SmallProblem, int]:
    """Return a problem whose first kernels are linear in a few columns, and how many of them there are."""
    weighted, intercept = bool(number // 2 % 2), bool(number % 2)
    small = random_problem(number, loss=LOSSES[number % len(LOSSES)], fit_intercept=intercept, weighted=weighted)
    rng = np.random.default_rng([number, 1])  # with no classes that the columns separate
    Z = rng.normal(size=(small.y.size, 3)) * [100.0, 1.0, 0.5]
    more = [Z[:, :1] @ Z[:, :1].T, Z[:, 1:] @ Z[:, 1:].T]
    if number % 3 == 0:
        more.append(more[0])  # a column that is there twice
    if number % 3 == 1:
        more.append(np.ones_like(more[0]))  # and one that an intercept is
    penalties = None if small.kernel_penalties is None else np.r_[np.ones(len(more)), small.kernel_penalties]
    values = vars(small) | {"kernels": np.concatenate([more, small.kernels]), "kernel_penalties": penalties}
    return SmallProblem(**values), len(more)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", NUMBERS)
def test_optima_with_kernels_without_a_penalty(number: int) -> None:
    small, n_free = case(number)
    kind = KINDS[number // len(LOSSES) % len(KINDS)]

    def penalty(cp: Any, t: Any) -> Any:
        return small.strength * FORMS[kind](cp, t[n_free:])

    mapping = {tuple(range(n_free)): None, "*": get_regularizer(kind, 1.0)}
    problem = Problem(
        small.kernels,
        small.y,
        get_loss(small.loss_name, **small.loss_params),
        get_regularizer(mapping, small.strength),
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
        kernel_penalties=small.kernel_penalties,
    )
    best, found = optimum_under(small, penalty), solved(problem, tol=5e-7)  # what rounding leaves beside huge weights
    scale = max(abs(best), 1e-6)
    assert abs(found.primal - best) <= 1e-6 * scale
    assert found.dual <= best + 1e-9 * scale
    assert found.primal - found.dual <= 1e-6 * scale
