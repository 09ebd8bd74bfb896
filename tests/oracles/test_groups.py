"""Penalties by group against the conic oracle: 60 problems, every loss, mixtures of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.norm_penalties import NUMBERS, optimum_under, solved

from manykernels.objective import get_loss, get_regularizer
from manykernels.objective.problem import Problem
from manykernels.testing.problems import LOSSES, SmallProblem, random_problem

MIXTURES = (
    ("ridge", "l1"),
    ("ridge", "elasticnet"),
    ("l1", "ridge", "elasticnet"),
    ("ridge", "simplex"),
    ("lq", "l1", "ridge"),
)
FORMS = {
    "l1": lambda cp, t: cp.sum(t),
    "ridge": lambda cp, t: cp.sum_squares(t) / 2,
    "elasticnet": lambda cp, t: cp.sum(t) / 2 + cp.sum_squares(t) / 4,
    "simplex": lambda cp, t: cp.square(cp.sum(t)) / 2,
    "lq": lambda cp, t: cp.sum(cp.power(t, 1.5)) / 1.5,
}


def case(number: int) -> tuple[SmallProblem, list[str], list[list[int]], list[float]]:
    """Return a problem, and the penalty, kernels and factor of each of its groups."""
    weighted, intercept = bool(number // 2 % 2), bool(number % 2)
    small = random_problem(number, loss=LOSSES[number % len(LOSSES)], fit_intercept=intercept, weighted=weighted)
    kinds = list(MIXTURES[number // len(LOSSES) % len(MIXTURES)])[: len(small.kernels)]
    rng = np.random.default_rng(number)
    owner = np.r_[: len(kinds), rng.integers(0, len(kinds), len(small.kernels) - len(kinds))]
    groups = [np.flatnonzero(owner == g).tolist() for g in range(len(kinds))]
    return small, kinds, groups, np.exp(rng.uniform(-1, 1, len(kinds))).tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", NUMBERS)
def test_optima_of_penalties_by_group(number: int) -> None:
    small, kinds, groups, factors = case(number)

    def penalty(cp: Any, t: Any) -> Any:
        parts = zip(kinds, groups, factors, strict=True)
        return small.strength * sum(factor * FORMS[kind](cp, t[own]) for kind, own, factor in parts)

    mapping = {
        tuple(own): get_regularizer(kind, factor) for kind, own, factor in zip(kinds, groups, factors, strict=True)
    }
    problem = Problem(
        small.kernels,
        small.y,
        get_loss(small.loss_name, **small.loss_params),
        get_regularizer(mapping, small.strength),
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
        kernel_penalties=small.kernel_penalties,
    )
    best, found = optimum_under(small, penalty), solved(problem)
    scale = max(abs(best), 1e-6)
    assert abs(found.primal - best) <= 1e-6 * scale
    assert found.dual <= best + 1e-9 * scale
    assert found.primal - found.dual <= 1e-6 * scale
