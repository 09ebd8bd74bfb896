"""Losses, regularizers, kernels, stacks and solvers of a user's own: the examples, through public imports only."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import proved_value

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from custom_kernel import HistogramIntersection  # noqa: E402  # examples are scripts, found by their folder
from custom_loss import AsymmetricSquared, LogCosh  # noqa: E402
from custom_regularizer import GroupMixture  # noqa: E402
from custom_solver import DirectRidge  # noqa: E402
from custom_stack import FactorStack  # noqa: E402

from manykernels import MKLRegressor, MKLRegressorCV, regularization_path, solve  # noqa: E402
from manykernels.exceptions import IncompatibleError  # noqa: E402
from manykernels.kernels import register_kernel  # noqa: E402
from manykernels.objective import Capability, Loss, Problem, Regularizer, get_loss, get_regularizer  # noqa: E402  # noqa: E402
from manykernels.solvers import SOLVERS, solvers_for  # noqa: E402
from manykernels.testing import GramStackContract, KernelContract, LossContract, RegularizerContract, SolverContract  # noqa: E402

MOST_LINES = 60
SCRIPTS = sorted(EXAMPLES.glob("custom_*.py"))
LOSSES = [LogCosh(), AsymmetricSquared(0.8), AsymmetricSquared(0.1)]
MIXTURES = [
    GroupMixture(0.7, groups=(0, 1, 1, 0, 1, 0, 1), ratios=ratios, group_weights=(1.0, 2.0))
    for ratios in ((0.5, 0.9), (1.0, 0.5), (0.0, 0.9), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0))
]
ids = {"ids": str}


class TestLosses(LossContract):
    @pytest.fixture(params=LOSSES, ids=str)
    def loss(self, request: pytest.FixtureRequest) -> Loss:
        return request.param


class TestMixture(RegularizerContract):
    @pytest.fixture(params=[mixture.ratios for mixture in MIXTURES], ids=str)
    def regularizer(self, request: pytest.FixtureRequest) -> Regularizer:
        return replace(MIXTURES[0], ratios=request.param)


class TestKernel(KernelContract):
    @pytest.fixture(params=[1.0, 0.5])
    def kernel(self, request: pytest.FixtureRequest) -> HistogramIntersection:
        register_kernel(HistogramIntersection)  # a run of the example as a script leaves its own copy registered
        return HistogramIntersection(request.param)


class TestStack(GramStackContract):
    stack_class = FactorStack

    def create(self, rng: np.random.Generator) -> FactorStack:
        return FactorStack(rng.normal(size=(5, 9, 3)))

    def dense(self, rng: np.random.Generator) -> np.ndarray:
        factors = rng.normal(size=(5, 9, 3))
        return np.einsum("mir,mjr->mij", factors, factors)


class TestSolver(SolverContract):
    solver_class = DirectRidge


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_classes_are_short_and_import_public_names_only(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < MOST_LINES, node.name
        if isinstance(node, ast.ImportFrom) and node.module.startswith("manykernels"):  # type: ignore[union-attr]
            module = __import__(node.module, fromlist=["__all__"])  # type: ignore[arg-type]
            assert {alias.name for alias in node.names} <= set(module.__all__), node.module


# --- solved to the last digits, and to the optimum of CVXPY ---------------------------------------------------------


def kernels_and_target(n_samples: int = 30, n_kernels: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n_samples, 2))
    widths = np.geomspace(0.2, 2.0, n_kernels)
    kernels = np.stack(
        [np.exp(-((X[:, [m % 2]] - X[:, [m % 2]].T) ** 2) / (2 * width**2)) for m, width in enumerate(widths)]
    )
    return kernels, np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n_samples)


def dual_loss(loss: Any, y: np.ndarray, rho: cp.Variable) -> cp.Expression:
    """Return ``sum_i l*(y_i, -rho_i)`` in the language of CVXPY."""
    if isinstance(loss, LogCosh):
        return -cp.sum(cp.entr(1 + rho) + cp.entr(1 - rho)) / 2 - y @ rho
    if isinstance(loss, AsymmetricSquared):
        sides = cp.sum_squares(cp.pos(rho)) / loss.tau + cp.sum_squares(cp.neg(rho)) / (1 - loss.tau)
        return sides / 2 - y @ rho
    assert loss.name == "squared"
    return cp.sum_squares(rho) / 2 - y @ rho


def optimum(kernels: np.ndarray, y: np.ndarray, loss: Any, linear: np.ndarray, ridge: np.ndarray) -> float:
    """Return the largest dual value under linear and quadratic terms, by Clarabel."""
    rho = cp.Variable(y.size)
    conjugate, constraints = 0.0, [cp.sum(rho) == 0]
    for kernel, a, r in zip(kernels, linear, ridge, strict=True):
        values, vectors = np.linalg.eigh(kernel)
        kept = values > 1e-10 * values[-1]
        norm = cp.norm((vectors[:, kept] * np.sqrt(values[kept])).T @ rho)
        if r > 0:
            conjugate += cp.square(cp.pos(norm - a)) / (2 * r)
        else:
            constraints.append(norm <= a)
    program = cp.Problem(cp.Minimize(dual_loss(loss, y, rho) + conjugate), constraints)
    return -proved_value(program)


def cases() -> Iterator[tuple[Any, Any]]:
    """Yield every user's loss with the usual penalties and with the mixture, and the mixture with the squared loss."""
    for loss in LOSSES:
        yield from ((loss, get_regularizer(name, 0.3)) for name in ("l1", "elasticnet", "ridge"))
        yield loss, replace(MIXTURES[2], strength=0.3)
    yield from ((get_loss("squared"), replace(mixture, strength=0.3)) for mixture in MIXTURES)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("loss", "regularizer"), list(cases()), ids=str)
def test_the_default_solver_finds_the_optimum(loss: Any, regularizer: Any) -> None:
    kernels, y = kernels_and_target()
    solution = solve(kernels, y, loss=loss, penalty=regularizer, tol=1e-8)
    assert str(solution.status) == "converged"
    assert solution.certificate.relative_gap <= 1e-8
    linear, ridge = (np.broadcast_to(part, 7) for part in (regularizer.curve.linear, regularizer.curve.ridge))
    assert solution.certificate.primal == pytest.approx(optimum(kernels, y, loss, linear, ridge), rel=1e-6)


@pytest.mark.parametrize("name", ["lq", "simplex", "lp_ball", "elasticnet_ball"])
@pytest.mark.parametrize("loss", LOSSES, **ids)
def test_other_penalties_are_solved_with_the_losses_too(name: str, loss: Any) -> None:
    kernels, y = kernels_and_target()
    assert solve(kernels, y, loss=loss, penalty=name, strength=0.3, tol=1e-8).certificate.relative_gap <= 1e-8


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", [get_regularizer("simplex", 0.3), *MIXTURES], ids=str)
@pytest.mark.parametrize("loss", LOSSES, **ids)
def test_all_able_solvers_agree(loss: Any, regularizer: Any) -> None:
    kernels, y = kernels_and_target()
    problem = Problem(kernels, y, loss, regularizer)
    best = solve(kernels, y, loss=loss, penalty=regularizer, tol=1e-8).certificate.primal
    able = solvers_for(problem)
    assert len(able) >= 3
    for name in able:
        gap = max(SOLVERS[name].attainable_gap, 1e-7)
        found = SOLVERS[name](tol=gap).solve(problem)
        assert found.certificate.primal == pytest.approx(best, rel=2 * gap), name


# --- through estimators ---------------------------------------------------------------------------------------------


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    return X, np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(60)


@pytest.mark.parametrize("loss", LOSSES, **ids)
def test_losses_go_through_estimator_path_and_cross_validation(loss: Any) -> None:
    X, y = rows()
    model = MKLRegressor(loss=loss, alpha=0.01, tol=1e-8).fit(X, y)
    assert model.dual_gap_ <= 1e-8
    assert model.score(X, y) > 0.5
    path = regularization_path(X, y, loss=loss, n_alphas=4, tol=1e-8)
    assert path.summary()["relative_gap"].max() <= 1e-8
    assert path.summary()["n_active"].iloc[0] == 0
    chosen = MKLRegressorCV(loss=loss, cv=2, penalty="l1", n_alphas=4, search={"alpha_min_ratio": 1e-5}).fit(X, y)
    assert chosen.alpha_ in chosen.alphas_


def test_mixtures_go_through_estimator_path_and_cross_validation() -> None:
    X, y = rows()
    n_kernels = len(MKLRegressor(alpha=0.1).fit(X, y).kernel_names_)
    penalty = GroupMixture(1.0, tuple(np.arange(n_kernels) % 2), ratios=(0.3, 1.0), group_weights=(1.0, 2.0))
    model = MKLRegressor(penalty=replace(penalty, strength=0.01 * len(y)), tol=1e-8).fit(X, y)
    path = regularization_path(X, y, penalty=penalty, n_alphas=4, tol=1e-8)
    assert path.summary()["relative_gap"].max() <= 1e-8
    assert path.summary()["n_active"].iloc[0] == 0
    chosen = MKLRegressorCV(penalty=penalty, cv=2, alphas=[0.1, 0.01, 0.001], tol=1e-8).fit(X, y)
    assert chosen.alpha_ in (0.1, 0.01, 0.001)
    again = regularization_path(X, y, penalty=penalty, alphas=[0.01], tol=1e-8).solutions[0]
    np.testing.assert_allclose(again.kernel_weights, model.kernel_weights_, rtol=1e-3, atol=1e-6)


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "loss", "regularizer", "words"),
    [
        ("silp", "squared", "l1", "a set of kernel weights with a linear maximizer.*regularizer 'l1'"),
        ("skm", "squared", "simplex", "labels as targets and a conjugate that is linear.*loss 'squared'"),
        ("smooth_dual", "squared", "l1", "a differentiable conjugate.*regularizer 'l1'"),
        ("working_set", "squared", "ridge", "kernel weights that are exactly zero.*regularizer 'ridge'"),
        ("pfbs", "quantile", "l1", "a bounded second derivative.*loss 'quantile'"),
        ("ufo_mkl", LogCosh(), "ridge", "a conjugate that is quadratic on its box.*loss 'log_cosh'"),
        ("obscure", "squared", MIXTURES[0], "a power q > 1.*regularizer 'group_mixture'"),
    ],
    ids=str,
)
def test_refusals_name_what_is_missing(solver: str, loss: Any, regularizer: Any, words: str) -> None:
    kernels, y = kernels_and_target()
    strength = None if isinstance(regularizer, Regularizer) else 0.3
    with pytest.raises(IncompatibleError, match=f"Solver '{solver}' .*it needs {words}.*Able: "):
        solve(kernels, y, loss=loss, penalty=regularizer, strength=strength, solver=solver)


class Bare(GroupMixture):
    """A mixture of which only the abstract methods are known."""

    name = "bare"
    capabilities = property(lambda self: frozenset({Capability.SEPARABLE}))


def test_what_nobody_can_solve_is_refused_with_every_reason() -> None:
    kernels, y = kernels_and_target()
    bare = Bare(1.0, MIXTURES[0].groups, MIXTURES[0].ratios, MIXTURES[0].group_weights)
    with pytest.raises(
        IncompatibleError, match=r"No solver can solve this problem\. 'working_set': it needs .*'conic': "
    ):
        solve(kernels, y, loss="squared", penalty=bare)
