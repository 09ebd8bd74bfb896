"""Curves that rise, fall, are convex or concave against the conic oracle: 60 problems, every loss, five penalties."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.oracles.test_groups import FORMS
from tests.support.conic import _conic_loss, _solved
from tests.support.norm_penalties import LADDER, NUMBERS, solved

from manykernels import Gaussian, KernelBank, Laplacian, Linear
from manykernels.grams.factored import factored_stack
from manykernels.kernels import Shaped
from manykernels.objective import get_loss, get_regularizer
from manykernels.objective.problem import Problem
from manykernels.testing.problems import LOSSES, SmallProblem, random_problem
from manykernels.testing.solver import losses_at

SHAPES = ("increasing", "concave", "decreasing and convex", "convex", "decreasing", "increasing and concave")
KINDS = ("l1", "elasticnet", "ridge")
SMOOTH_TOL, KINKED_TOL = 1e-7, 1e-6  # of kinks, which are smoothed: shapes have no matrices to go over to


def case(number: int) -> tuple[SmallProblem, np.ndarray, list[tuple[int, Any, str, np.ndarray]]]:
    """Return a problem, its columns, and what each kernel with a shape is: column, base kernel, shape, knots."""
    weighted, intercept = bool(number // 2 % 2), bool(number % 2)
    small = random_problem(number, loss=LOSSES[number % len(LOSSES)], fit_intercept=intercept, weighted=weighted)
    rng = np.random.default_rng([number, 2])
    X = rng.normal(size=(small.y.size, 3))
    X[:, 0] += 0.8 * (small.y - small.y.mean()) / max(small.y.std(), 1e-12)
    knots = [np.sort(rng.normal(size=7)) + 0.4 * np.arange(7) - 1.2 for _ in range(3)]
    bases = (Gaussian(0.6), Laplacian(1.0), Gaussian(1.5))
    shapes = [SHAPES[(number + j) % len(SHAPES)] for j in range(3)]
    kernels = [(j, bases[(number + j) % 3], shapes[j], knots[j]) for j in range(3)]
    return small, X, [*kernels, (0, Laplacian(3.0), shapes[0], knots[0])]


def hats(knots: np.ndarray, x: np.ndarray, *, beyond: bool) -> np.ndarray:
    """Return the weights of values at knots at points, of lines that go on beyond the knots or end there."""
    H = np.array([np.interp(x, knots, unit) for unit in np.eye(len(knots))]).T
    if beyond:
        for outside, (a, b) in ((x < knots[0], (0, 1)), (x > knots[-1], (-2, -1))):
            share = (x[outside] - knots[a]) / (knots[b] - knots[a])
            H[outside] = 0.0
            H[outside, a], H[outside, b] = 1.0 - share, share
    return H


def inequalities(shape: str, knots: np.ndarray, values: Any) -> list[Any]:
    """Return what holds for values at knots of a curve of this shape."""
    slopes = [(values[k + 1] - values[k]) / (knots[k + 1] - knots[k]) for k in range(len(knots) - 1)]
    bends = [after - before for before, after in pairwise(slopes)]
    signed = {"increasing": (slopes, 1), "decreasing": (slopes, -1), "convex": (bends, 1), "concave": (bends, -1)}
    return [sign * part >= 0 for word in shape.split(" and ") for parts, sign in [signed[word]] for part in parts]


def optimum(small: SmallProblem, X: np.ndarray, kernels: list[Any], kind: str) -> float:
    """Return the optimal value by values of curves at knots, whose norms are those of the base kernels there."""
    import cvxpy as cp

    b, plain = cp.Variable(), cp.Variable(2)
    scores, norms, rules = X[:, 1:] @ plain + (b if small.fit_intercept else 0.0), [], []
    for column, base, shape, knots in kernels:
        root = np.linalg.cholesky(base(knots[:, None]))
        v = cp.Variable(len(knots))
        bent = "convex" in shape or "concave" in shape
        scores = scores + hats(knots, X[:, column], beyond=bent) @ (root @ v)
        norms.append(cp.norm(v))
        rules += inequalities(shape, knots, root @ v)
    z, t = cp.Variable(small.y.size), cp.hstack([*norms, cp.norm(plain)])
    unit = float(small.weights @ losses_at(small, np.zeros_like(small.y))) / small.y.size
    goal = (_conic_loss(cp, small, z) + small.strength * FORMS[kind](cp, t)) / unit
    program = cp.Problem(cp.Minimize(goal), [z == scores, *rules])
    for options in LADDER:
        if _solved(cp, program, "CLARABEL", options) and program.status == "optimal":
            break
    return float(program.value) * unit


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", NUMBERS)
def test_optima_with_shapes(number: int) -> None:
    small, X, kernels = case(number)
    kind = KINDS[number // len(LOSSES) % len(KINDS)]
    entries: list[Any] = [
        (f"{slot}", Shaped(base, shape, points=tuple(knots)), [column])
        for slot, (column, base, shape, knots) in enumerate(kernels)
    ]
    bank = KernelBank([*entries, ("line", Linear(), [1, 2])], normalize=None)
    loss = get_loss(small.loss_name, **small.loss_params)
    problem = Problem(
        factored_stack(X, bank),
        small.y,
        loss,
        get_regularizer(kind, small.strength),
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
    )
    tol = SMOOTH_TOL if loss.smooth else KINKED_TOL
    best, found = optimum(small, X, kernels, kind), solved(problem, tol=tol)
    scale = max(abs(best), 1e-6)
    assert abs(found.primal - best) <= 1e-6 * scale
    assert found.dual <= best + 1e-8 * scale
    assert found.primal - found.dual <= 1e-6 * scale
