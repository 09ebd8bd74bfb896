"""Operators that have no Hessian: categories of many levels beside curves, solved by products, beside matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, Overlap, solve, survival_array
from manykernels.grams.factored import levels
from manykernels.kernels import Gaussian, Linear, PerFeature
from manykernels.objective import get_regularizer
from manykernels.solvers.factored import fallback, working_set
from manykernels.solvers.factored.quadratic_products import ProductQuadratic

N = 160
LOSSES = (
    "squared", "huber", "logistic", "squared_hinge", "poisson", "gamma", "cox", "several", "hinge",
    "epsilon_insensitive", "quantile",
)  # fmt: skip
BANK = KernelBank(
    [
        PerFeature([Gaussian(0.8), Linear()], ["a", "b"]),
        ("group", Overlap(), ["group"]),
        ("other", Overlap(), ["other"]),
        ("both", Overlap(), ["group", "other"]),
    ]
)
PENALTIES: dict[str, Any] = {
    "l1": "l1",
    "always in": {("group", "other"): get_regularizer("ridge", 0.1), "*": "l1"},
    "elasticnet": get_regularizer("elasticnet", 1.0, l1_ratio=0.5),
    "lq": get_regularizer("lq", 1.0, q=1.5),
    "simplex": "simplex",
}


KINKED = ("hinge", "epsilon_insensitive", "quantile")
CASES = [(loss, "always in" if loss in KINKED else "l1") for loss in LOSSES]
CASES += [(loss, "always in") for loss in ("logistic", "cox", "several")]
CASES += [(loss, penalty) for loss in ("squared", "logistic") for penalty in ("elasticnet", "lq", "simplex")]


def problem_of(loss: str, n: int = N, groups: int = 40, others: int = 12) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(3)
    group, other = rng.integers(0, groups, n), rng.integers(0, others, n)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["group"] = pd.Categorical([f"s{code:03d}" for code in group])
    frame["other"] = pd.Categorical([f"t{code:03d}" for code in other])
    f = np.sin(2 * frame["a"].to_numpy()) + rng.normal(size=groups)[group] + 0.5 * rng.normal(size=others)[other]
    noisy = f + 0.5 * rng.normal(size=n)
    match loss:
        case "poisson":
            return frame, rng.poisson(np.exp(0.5 * f)).astype(float)
        case "gamma":
            return frame, rng.gamma(2.0, 0.5 * np.exp(0.5 * f)) + 1e-3
        case "cox":
            return frame, survival_array(rng.random(n) < 0.7, rng.exponential(np.exp(-f)))
        case "several":
            return frame, np.column_stack([noisy, frame["a"] - f + rng.normal(size=n)])
        case "logistic" | "hinge" | "squared_hinge":
            return frame, np.where(noisy > 0, 1.0, -1.0)
    return frame, noisy


@pytest.fixture
def without_hessians(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have a handful of levels go without a Hessian, and no matrices take over; return the steps by products."""
    steps: list[int] = []
    step = ProductQuadratic.step

    def counted(self: Any, *arguments: Any) -> Any:
        steps.append(len(self._blocks))
        return step(self, *arguments)

    monkeypatch.setattr(levels, "FEW_LEVELS", 4)
    monkeypatch.setattr(working_set.FactoredWorkingSet, "_matrices", lambda *_: None)
    monkeypatch.setattr(fallback, "matrix_first", lambda *_: False)
    monkeypatch.setattr(ProductQuadratic, "step", counted)
    return steps


def solved(loss: str, penalty: Any, held_as: str, tol: float) -> Any:
    frame, y = problem_of(loss)
    strength = {} if hasattr(penalty, "strength") else {"alpha": 0.01}
    return solve(
        BANK, y, X=frame, loss="squared" if loss == "several" else loss, penalty=penalty, tol=tol,
        representation=held_as, outputs="shared", **strength,
    )  # fmt: skip


@pytest.mark.parametrize(("loss", "penalty"), CASES)
def test_levels_are_solved_as_on_matrices(loss: str, penalty: str, without_hessians: list[int]) -> None:
    tol = 1e-3 if loss in KINKED else 1e-7
    found = solved(loss, PENALTIES[penalty], "factored", tol)
    assert without_hessians
    assert found.certificate.relative_gap <= tol
    matrices = solved(loss, PENALTIES[penalty], "gram", 1e-7)
    primal, dual = found.certificate.primal, found.certificate.dual
    size = abs(matrices.certificate.primal)
    assert matrices.certificate.dual - 1e-9 * size <= primal <= matrices.certificate.primal + 1.1 * tol * size
    assert dual <= matrices.certificate.primal + 1e-9 * size


def test_ridge_of_groups_is_the_ridge_of_its_matrices(without_hessians: list[int]) -> None:
    """The closed form of a random intercept, of two crossed groupings."""
    frame, y = problem_of("squared")
    bank = KernelBank([("group", Overlap(), ["group"]), ("other", Overlap(), ["other"])], normalize=None)
    found = solve(bank, y, X=frame, loss="squared", penalty="ridge", strength=0.7, tol=1e-10, representation="factored")
    codes = [frame[name].cat.codes.to_numpy() for name in ("group", "other")]
    grams = [np.equal.outer(own, own) for own in codes]
    system = np.zeros((N + 1, N + 1))
    system[:N, :N] = np.sum(grams, axis=0) + 0.7 * np.eye(N)
    system[:N, N] = system[N, :N] = 1.0
    solution = np.linalg.solve(system, np.append(y, 0.0))
    scores = np.sum(grams, axis=0) @ solution[:N] + solution[N]
    np.testing.assert_allclose(found.decision_function(frame), scores, atol=1e-5)


def test_six_hundred_levels_are_exact() -> None:
    """They were held on landmarks: the gap was 0.02 after 60 seconds."""
    frame, y = problem_of("squared", 900, 600, 20)
    found = solve(
        BANK,
        y,
        X=frame,
        loss="squared",
        penalty=PENALTIES["always in"],
        alpha=0.02,
        tol=1e-6,
        representation="factored",
    )
    assert found.certificate.relative_gap <= 1e-6
    matrices = solve(
        BANK,
        y,
        X=frame,
        loss="squared",
        penalty=PENALTIES["always in"],
        alpha=0.02,
        tol=1e-6,
        representation="gram",
    )
    assert found.certificate.primal == pytest.approx(matrices.certificate.primal, rel=2e-6)
    np.testing.assert_allclose(found.decision_function(frame), matrices.decision_function(frame), atol=0.01)
