"""Penalties and losses of a user's own on factors: by their curve, by their functions, and against CVXPY."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import proved_value

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from custom_loss import AsymmetricSquared, LogCosh  # examples are scripts, found by their folder
from custom_regularizer import GroupMixture

from manykernels import Gaussian, KernelBank, Linear, solve
from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import factored_stack
from manykernels.objective import BlockL1, ElasticNetBall, GroupElasticNet, Problem, Regularizer, get_loss
from manykernels.solvers.factored import newton
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.factored.working_set import FactoredWorkingSet
from manykernels.testing import RegularizerContract


@dataclass(frozen=True)
class Rounded(Regularizer):
    """``C sum_m (sqrt(t_m^2 + a^2) - a)``: the block 1-norm without its corner, given by functions and no curve."""

    a: float = 0.3
    name: ClassVar[str] = "rounded"
    separable: ClassVar[bool] = True
    sparse: ClassVar[bool] = False

    def value(self, t):
        return float(self.strength * np.sum(t * (t / (np.hypot(t, self.a) + self.a))))

    def conjugate(self, u):
        if np.any(u > self.strength * (1 + 1e-12)):
            return np.inf
        rest = np.sqrt(np.maximum(self.strength - u, 0) * (self.strength + u))
        return float(self.a * np.sum(u * (u / (self.strength + rest))))

    def dual_scale(self, u):
        return self.strength / max(float(np.max(u, initial=0.0)), self.strength)

    def prox(self, t, step):
        low, high = np.zeros(np.shape(t)), np.array(t, dtype=float)
        for _ in range(1100):
            x = (low + high) / 2
            above = x + step * self.derivative(x) > t
            low, high = np.where(above, low, x), np.where(above, x, high)
            if np.all(high - low <= 1e-16 * high):
                break
        return (low + high) / 2 if step > 0 else np.array(t, dtype=float)

    def derivative(self, t):
        return self.strength * (np.asarray(t) / np.hypot(t, self.a))

    def second_derivative(self, t):
        return self.strength * self.a**2 / np.hypot(t, self.a) ** 3


MIXTURE = GroupMixture(1.0, groups=(0, 1, 1, 0, 1, 1), ratios=(0.0, 0.9), group_weights=(1.0, 2.0))
PENALTIES = (
    Rounded(0.5),
    MIXTURE,
    ElasticNetBall(1.0, eta=0.5),
    ElasticNetBall(1.0, eta=0.0),
    GroupElasticNet(1.0, l1_ratio=0.5, q=1.5),
    GroupElasticNet(1.0, l1_ratio=0.0, q=1.2),
)
ids = {"ids": repr}


class TestRounded(RegularizerContract):
    @pytest.fixture
    def regularizer(self) -> Regularizer:
        return Rounded(0.7)


@pytest.fixture(autouse=True)
def _on_factors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)


def table(seed: int, n: int, loss: str) -> tuple[np.ndarray, np.ndarray, KernelBank]:
    """Return columns, a target and a bank of three kernels on each of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    y = np.where(f > 0.4, 1.0, -1.0) if get_loss(loss).task == "classification" else f
    return X, y, KernelBank.per_feature([Gaussian(0.5), Gaussian(1.5), Linear()], standardize=True)


def on_factors(X: np.ndarray, y: np.ndarray, bank: KernelBank, loss: Any, penalty: Regularizer, **options: Any) -> Any:
    """Return the solution on factors and the exact kernels."""
    tol = options.pop("tol", 1e-8)
    problem = Problem(factored_stack(X, bank), y, loss, penalty, **options)
    fitted, prepared = bank.fit_prepare(X)
    return FactoredNewton(tol=tol).solve(problem), fitted.block(prepared, prepared)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("penalty", PENALTIES, **ids)
def test_the_optimum_is_that_of_the_kernels_as_matrices(penalty: Regularizer, loss: str) -> None:
    X, y, bank = table(0, 150, loss)
    rng = np.random.default_rng(1)
    options = {"sample_weight": rng.uniform(0.5, 2.0, 150), "kernel_penalties": rng.uniform(0.8, 1.25, 6)}
    solution, kernels = on_factors(X, y, bank, loss, penalty, **options)
    assert solution.status == "converged"
    exact = solve(kernels, y, loss=loss, penalty=penalty, tol=1e-8, **options)
    assert exact.certificate.relative_gap <= 1e-8
    assert solution.certificate.primal == pytest.approx(exact.certificate.primal, rel=3e-8)
    assert solution.certificate.dual <= exact.certificate.primal


def optimum(kernels: np.ndarray, y: np.ndarray, penalty: Regularizer) -> float:
    """Return the optimal objective with the squared loss, by CVXPY and Clarabel."""
    blocks, scores = [], 0.0
    for kernel in kernels:
        values, vectors = np.linalg.eigh(kernel)
        kept = values > 1e-10 * values[-1]
        blocks.append(cp.Variable(int(kept.sum())))
        scores = scores + (vectors[:, kept] * np.sqrt(values[kept])) @ blocks[-1]
    if isinstance(penalty, Rounded):
        omega = penalty.strength * sum(cp.norm(cp.hstack([v, [penalty.a]])) - penalty.a for v in blocks)
    else:
        assert isinstance(penalty, ElasticNetBall)  # a minimum over weights of its own
        theta = cp.Variable(len(blocks), nonneg=True)
        ratios = sum(cp.quad_over_lin(v, weight) for v, weight in zip(blocks, theta, strict=True))
        ball = penalty.eta * cp.sum(theta) + (1 - penalty.eta) * cp.sum_squares(theta) <= 1
        omega, constraints = penalty.strength / 2 * ratios, [ball]
        return proved_value(cp.Problem(cp.Minimize(_squares(scores, y) + omega), constraints))
    return proved_value(cp.Problem(cp.Minimize(_squares(scores, y) + omega)))


def _squares(scores: cp.Expression, y: np.ndarray) -> cp.Expression:
    return cp.sum_squares(scores + cp.Variable() - y) / 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("penalty", [Rounded(0.5), ElasticNetBall(1.0, eta=0.5)], **ids)
@pytest.mark.parametrize("columns_in_turn", [False, True])
def test_functions_agree_with_cvxpy(
    penalty: Regularizer, columns_in_turn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if columns_in_turn:
        monkeypatch.setattr(newton, "RANK_LIMIT", 0)
    X, y, bank = table(2, 30, "squared")
    solution, kernels = on_factors(X, y, bank, "squared", penalty, tol=1e-7)
    assert solution.certificate.relative_gap <= 1e-7
    assert solution.certificate.primal == pytest.approx(optimum(kernels, y, penalty), rel=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("penalty", [BlockL1(0.3), Rounded(0.5), MIXTURE], **ids)
@pytest.mark.parametrize("loss", [LogCosh(), AsymmetricSquared(0.8)], **ids)
def test_losses_of_a_users_own(loss: Any, penalty: Regularizer) -> None:
    X, y, bank = table(3, 120, "squared")
    solution, kernels = on_factors(X, y, bank, loss, penalty)
    exact = solve(kernels, y, loss=loss, penalty=penalty, tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.certificate.primal == pytest.approx(exact.certificate.primal, rel=3e-8)


def test_a_penalty_without_derivatives_is_refused_in_words() -> None:
    class Bare(Rounded):
        derivative = Regularizer.derivative
        second_derivative = Regularizer.second_derivative

    X, y, bank = table(4, 30, "squared")
    with pytest.raises(IncompatibleError, match="second derivatives in the block norms"):
        on_factors(X, y, bank, "squared", Bare(0.5))
