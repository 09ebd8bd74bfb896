"""Many targets on three related views, with strengths of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.grams import DenseStack
from manykernels.objective import Problem, get_loss, get_regularizer

N, T = 90, 12
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 9))
VIEWS = [X[:, :3], X[:, 3:6] + X[:, :3], X[:, 6:]]  # the second is related to the first
LINEAR = np.stack([view @ view.T / 3.0 for view in VIEWS])
GAUSSIAN = np.stack([np.exp(-0.2 * ((view[:, None] - view[None]) ** 2).sum(axis=2)) for view in VIEWS])
TARGETS = X @ (RNG.normal(size=(9, T)) * (RNG.random((9, T)) < 0.4)) + RNG.uniform(0.3, 3.0, T) * RNG.normal(
    size=(N, T)
)


def posed(
    kernels: Any, penalty: str, *, weighted: bool = True, intercept: bool = True, **parameters: Any
) -> list[Problem]:
    """Return a problem a target, with strengths of their own."""
    stack = DenseStack(kernels)
    given: dict[str, Any] = {"fit_intercept": intercept}
    if weighted:
        given |= {"sample_weight": np.linspace(0.5, 2.0, N), "kernel_penalties": np.array([1.0, 2.0, 0.6])}
    problems = [
        Problem(stack, y, get_loss("squared"), get_regularizer(penalty, 1.0, **parameters), **given) for y in TARGETS.T
    ]
    fractions = np.geomspace(0.02, 0.6, T)
    return [problem.at_fraction(fraction) for problem, fraction in zip(problems, fractions, strict=True)]
