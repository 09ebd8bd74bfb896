"""The quadratic with a penalty of groups: every kind of matrix has the same minimum, and the search on a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from manykernels import KernelBank, Linear
from manykernels.grams.factored import factored_stack
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.factored import quadratic_formed, quadratic_products
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.quadratic import NOTHING, Expansion, Position, Quadratic, line_minimum
from manykernels.solvers.factored.quadratic_formed import FormedQuadratic
from manykernels.solvers.factored.quadratic_products import ProductQuadratic
from manykernels.solvers.factored.quadratic_rows import RowQuadratic


@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "lq", "simplex"])
def test_every_kind_of_matrix_has_the_same_minimum(penalty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 30)) + 0.5 * rng.normal(size=(120, 1))
    y = X[:, :9] @ rng.normal(size=9) + rng.normal(size=120)
    entries = [(f"group {g}", Linear(), list(range(3 * g, 3 * g + 3))) for g in range(10)]
    stack = factored_stack(np.asfortranarray(X), KernelBank(entries, normalize=None))
    problem = Problem(stack, y, get_loss("squared"), get_regularizer(penalty, 1.0)).at_fraction(0.1)
    objective = FactoredObjective(problem, stack.operators(list(range(10)), 0.0), 0.0)
    start = Point(np.zeros(objective.rank), problem.best_constant, problem.constant_scores(problem.best_constant))
    slopes, curvature, tol = objective.settle_intercept(start), objective.loss.curvature(start.z), 1e-9
    monkeypatch.setattr(quadratic_products, "SWEEP_TOL", 0.0)
    monkeypatch.setattr(ProductQuadratic, "most_sweeps", 100)
    monkeypatch.setattr(quadratic_formed, "GROUP_TOL", tol)
    values = {}
    for kind in (FormedQuadratic, RowQuadratic, ProductQuadratic):
        quadratic = kind.create(objective, curvature, len(y))
        here = Expansion(objective, start, slopes, objective.adjoint(slopes), curvature)
        v, shift, change = quadratic.step(here, tol)
        end = Point(v, start.b + shift, objective.scores(v) + start.b + shift)
        np.testing.assert_allclose(change, end.z - start.z, atol=1e-9 * np.abs(end.z).max())
        values[kind.__name__] = objective.value(end)
    least = min(values.values())
    assert least < 0.9 * objective.value(start)
    assert values == pytest.approx(dict.fromkeys(values, least), rel=1e-5)


def test_positions_are_combined_where_sweeps_alone_come_to_no_end() -> None:
    """Two coordinates that are nearly the same trade: turns alone would take thousands of sweeps."""
    H, q = np.array([[1.0, 0.999], [0.999, 1.0]]), np.array([-1.0, 1.0])
    penalty = GroupPenalty(np.array([0, 1, 2]), np.full(2, 1e-3), *np.zeros((2, 2)))

    class Turns(Quadratic):
        """Coordinates in turn."""

        most_sweeps, sweeps_of_some = 30, 1

        def sweep(self, at: Position, everything: bool) -> tuple[float, float]:
            before = at.v.copy()
            penalty.sweep(H[None], np.ones((1, 2)), at.v, at.slopes[None])
            return float((at.v - before) @ H @ (at.v - before)), penalty.violation(at.v, at.slopes)

        def image(self, step: Position) -> np.ndarray:
            return step.v

        def step(self, here: Expansion, tol: float) -> Any:
            """There is no loss."""

    quadratic = Turns()
    quadratic.penalty = penalty
    at = Position(np.zeros(2), q.copy(), NOTHING, 0.0)
    sweeps, enough, ended = quadratic.minimize(at, 1e-8)
    assert enough
    assert ended
    assert sweeps <= 15
    np.testing.assert_allclose(at.v, np.linalg.solve(H, -q - 1e-3 * np.sign(at.v)), rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "outside"),
    [((1.0, 0.0, 0.0, 2.0, 0.0, False), 0.0), ((0.5, 2.0, 0.0, 2.0, 0.0, False), 0.0),
     ((0.0, 0.0, 1.0, 1.5, 2.0, False), 0.0), ((0.0, 0.0, 1.0, 1.0, 2.0, True), 0.3)],
)  # fmt: skip
def test_the_minimum_on_a_line_is_that_of_a_search(shape: tuple[Any, ...], outside: float) -> None:
    rng, starts = np.random.default_rng(0), np.array([0, 2, 5, 6])
    a, c, b, *rest = shape
    penalty = GroupPenalty(starts, *(np.full(3, each) for each in (a, c, b)), *rest, outside)
    v, step = rng.normal(size=6), rng.normal(size=6)
    v[2:5] = 0.0
    falls, square = -8.0, 9.0

    def value(s: float) -> float:
        return falls * s + 0.5 * square * s**2 + penalty.value(v + s * step)

    found = line_minimum(penalty, v, step, falls, square)
    best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
    assert 0.0 < found < 1.0
    assert value(found) <= best.fun + 0.02 * (value(0.0) - best.fun)
    assert line_minimum(penalty, v, step, 1e3, square) == 0.0
    assert line_minimum(penalty, v, step, -1e3, square) == 1.0
