"""Functions with a shape in the solver on factors: every penalty with a curve, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor, solve
from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import factored_stack
from manykernels.kernels import Shaped
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers import SOLVERS
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.solvers.factored.quadratic_formed import FormedQuadratic


def rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    X[:, 3] = X[:, 0] + 0.1 * rng.normal(size=n)  # columns that act on each other
    return X, np.sin(2 * X[:, 0]) + np.maximum(X[:, 1], 0.0) + 0.3 * rng.normal(size=n)


def bank(**options: Any) -> KernelBank:
    shapes = ("increasing", "convex", "concave", "decreasing")
    curves = [
        (f"{j} {width}", Shaped(Gaussian(width), shapes[j], knots=16), [j]) for j in range(4) for width in (0.5, 2.0)
    ]
    return KernelBank([*curves, ("line", Linear(), [2])], **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "lq", "ridge", "simplex", "lp_ball"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_gaps_close_under_every_penalty(penalty: str, loss: str) -> None:
    X, y = rows()
    y = {"squared": y, "logistic": np.sign(y), "poisson": np.round(np.exp(y))}[loss]
    stack = factored_stack(X, bank())
    found = solve(stack, y, loss=loss, penalty=penalty, alpha="0.02*max", tol=1e-7)
    assert found.certificate.relative_gap <= 1e-7
    for component in found.functions.components:
        G = stack.constraints_of(component.kernel)
        if G is not None:
            assert (G @ component.coefficients >= -1e-9 * np.linalg.norm(component.coefficients)).all()


def test_where_no_inequality_holds_curves_are_those_without_a_shape() -> None:
    rng = np.random.default_rng(0)
    x, knots, strength = rng.normal(size=(200, 1)), np.linspace(-1.5, 1.5, 8), 0.01
    y = np.exp(x[:, 0]) + 3 * x[:, 0]
    hats = np.column_stack([np.interp(x[:, 0], knots, unit) for unit in np.eye(8)])
    on_knots, center = Gaussian(2.0)(knots[:, None]), np.eye(200) - 1.0 / 200
    gram = center @ hats @ on_knots @ hats.T @ center
    rho = np.linalg.solve(gram + strength * np.eye(200), center @ y)
    assert (np.diff(on_knots @ hats.T @ center @ rho) > 0).all()
    bank = KernelBank([("curve", Shaped(Gaussian(2.0), "increasing", points=tuple(knots)))], normalize=None)
    found = solve(factored_stack(x, bank), y, loss="squared", penalty="ridge", strength=strength, tol=1e-9)
    assert found.certificate.primal == pytest.approx(0.5 * strength * rho @ (center @ y), rel=1e-6)


@pytest.mark.parametrize("shape", ["increasing", "convex"])
def test_groups_that_share_a_heavy_row_leave_faces_together(shape: str) -> None:
    """A row with 1e6 times the weight of the others is nearly an equation, which single groups cannot move along."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(120, 2)), np.ones(120)
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    weights[3] = 1e6
    curves = [(str(width), Shaped(Gaussian(width), shape, knots=16), [0]) for width in (0.5, 1.0, 2.0)]
    other = ("other", Shaped(Gaussian(1.0), shape, knots=16), [1])
    stack = factored_stack(X, KernelBank([*curves, ("free", Gaussian(0.5), [0]), ("line", Linear(), [0]), other]))
    factors = [stack.factor(m, 0.0) for m in range(stack.n_kernels)]
    Z, starts = np.hstack(factors), np.cumsum([0, *(own.shape[1] for own in factors)])
    zero, q = np.zeros(Z.shape[1]), -Z.T @ (weights * y)
    penalty = GroupPenalty.create(get_regularizer("l1", 10.0), starts, np.ones(stack.n_kernels))
    penalty = replace(penalty, cones=tuple(stack.constraints_of(m) for m in range(stack.n_kernels)))
    problem = FormedQuadratic(Z.T @ (weights[:, None] * Z), penalty)
    v, r = problem.solve(zero, q, 1e-8)
    first, last = (problem._violation(problem._rotate(at), problem._rotate(slope)) for at, slope in ((zero, q), (v, r)))
    assert last <= 1e-7 * first
    for G, low, high in zip(penalty.cones, starts[:-1], starts[1:], strict=True):
        assert G is None or (G @ v[low:high] >= -1e-9 * np.linalg.norm(v)).all()


@pytest.mark.parametrize("weight", [1e-15, 1e12, 1e15])
def test_a_heavy_row_is_met_by_a_function_with_a_shape(weight: float) -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(120, 2)), np.ones(120)
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    weights[3] = weight
    model = MKLRegressor(KernelBank.auto(shape={0: "increasing"})).fit(X, y, sample_weight=weights)
    assert model.solution_.status == "converged"
    if weight > 1.0:
        assert model.predict(X)[3] == pytest.approx(y[3], abs=1e-6)


def test_dual_norms_are_those_of_functions_of_the_shape() -> None:
    X, y = rows()
    stack = factored_stack(X, bank())
    rho = y - y.mean()
    low, high = stack.quads(rho)
    plain = np.array([np.sum((stack.factor(m, 0.0).T @ rho) ** 2) for m in range(stack.n_kernels)])
    assert (low <= high).all()
    assert (high <= plain * (1 + 1e-9)).all()
    assert (high < 0.99 * plain).any()
    np.testing.assert_allclose(high[-1], plain[-1], rtol=1e-9)  # of the kernel without a shape
    several = stack.quad_bounds_each([rho, -rho])
    np.testing.assert_allclose(several[0][1], high, rtol=1e-9)
    assert not np.allclose(several[1][1], high)  # a cone has a direction
    assert stack.shaped
    assert stack.restrict(np.arange(50)).shaped  # solvers on matrices refuse parts as they refuse the whole
    assert not stack.take([stack.n_kernels - 1]).shaped


def test_what_cannot_keep_shapes_says_so() -> None:
    X, y = rows(60)
    stack = factored_stack(X, bank())
    problem = Problem(stack, y, get_loss("squared"), get_regularizer("l1", 1.0))
    for name, solver in SOLVERS.items():
        if name != "factored":
            assert "shapes of columns" in solver.refusals(problem)[0]
    with pytest.raises(IncompatibleError, match=r"not sums of kernel values.*solution\.certificate"):
        problem.certificate(y, np.ones(stack.n_kernels), 0.0)
    with pytest.raises(IncompatibleError, match="several classes or targets share"):
        solve(stack, np.column_stack([y, y]), loss="squared", penalty="l1", strength=1.0, outputs="shared")
    with pytest.raises(IncompatibleError, match="has a shape and is to go without a penalty"):
        solve(stack, y, loss="squared", penalty={"0 0.5": None, "*": "l1"}, strength=1.0)
