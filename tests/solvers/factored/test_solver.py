"""What is told of models on factors is true of their predictions, and Hessians have as many rows as they need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manykernels.solvers.factored.newton as newton
from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor, Polynomial
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams.factored import FourierStack
from manykernels.kernels import Joint, PerFeature
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.losses import get_loss
from manykernels.objective.losses.curvature import OutputCurvature, SampleCurvature, sampled_rows
from manykernels.solvers.factored.quadratic_formed import FormedQuadratic
from manykernels.solvers.factored.solver import FactoredNewton

N = 107


def far(offset: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    labels = X[:, 0] + 0.3 * rng.normal(size=N) > 0
    return X + np.array([offset, 0.0, offset * (seed % 2)]), labels


def value(model: Any, X: np.ndarray, labels: np.ndarray) -> float:
    """Loss of the predictions of a model."""
    margins = np.where(labels, 1, -1) * model.decision_function(X)
    match model.loss:
        case "squared_hinge":
            return float(0.5 * (np.maximum(0, 1 - margins) ** 2).sum())
        case "hinge":
            return float(np.maximum(0, 1 - margins).sum())
    return float(np.logaddexp(0, -margins).sum())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:No kernel:UserWarning")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("offset", [1e5, 1e9])
@pytest.mark.parametrize(("loss", "empty"), [("squared_hinge", N / 2), ("hinge", N), ("logistic", N * np.log(2))])
def test_values_are_those_of_the_predictions_and_never_above_no_kernels(offset: float, loss: str, empty: float) -> None:
    center = offset < 1e9
    banks = [
        KernelBank.per_feature(Polynomial(2), normalize=None, center=center, standardize=False),
        KernelBank([PerFeature([Polynomial(2), Linear()]), Joint([Polynomial(3), Gaussian(1.0)])],
                   normalize="mean_diagonal", center=center, standardize=False),
    ]  # fmt: skip
    for seed, bank in enumerate(banks):
        X, labels = far(offset, seed)
        alpha = (1e-9, 1e-2)[seed]
        model = MKLClassifier(
            bank, loss=loss, resources={"representation": "factored", "max_iter": 10}, alpha=alpha
        ).fit(X, labels)
        told = model.solution_.certificate.primal
        assert value(model, X, labels) <= told * (1 + 1e-6)
        assert told <= empty * (1 + 1e-9)


@pytest.mark.nightly
def test_a_model_that_rounding_spoils_says_why() -> None:
    X, labels = far(1e7, 0)
    bank = KernelBank(
        [PerFeature([Polynomial(2), Linear()]), Joint([Polynomial(2)])], normalize=None, standardize=False
    )
    model = MKLClassifier(bank, loss="hinge", penalty="ridge", resources={"representation": "factored"}, alpha=1e-2)
    with pytest.warns(ConvergenceWarning, match=r"cancel, and rounding.*standardize=True"):
        model.fit(X, labels)
    told = model.solution_.certificate.primal
    assert 0.999 * value(model, X, labels) <= told <= N * (1 + 1e-9)
    assert str(model.solution_.status) == "inaccurate"


def test_a_value_far_away_among_few_rows_costs_their_values() -> None:
    """The bins of a width of 0.02 on a range of 1e4 are millions; values among 137 rows are not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(137, 4))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=137)
    X[5] = 1e4
    bank = KernelBank.per_feature(Gaussian(0.02), standardize=False)
    models = [
        MKLRegressor(bank, loss="epsilon_insensitive", resources={"representation": kind}, alpha=1e-3, tol=1e-6).fit(
            X, y
        )
        for kind in ("factored", "gram")
    ]
    first, second = (model.solution_.certificate.primal for model in models)
    assert first == pytest.approx(second, rel=2e-6)
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-2)


@pytest.mark.parametrize("missed", [newton.MISSED, -1.0])
def test_a_hessian_takes_more_rows_where_those_it_has_miss_a_bend(
    missed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far from the minimum a gap falls slowly however many rows there are: that took Hessians of all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.where(3 * np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1 + rng.logistic(size=4000) > 0, 1.0, -1.0)
    problem = Problem(FourierStack.grid(X, [0.3, 1.0, 3.0]), y, get_loss("logistic"), get_regularizer("l1", 1.0))
    problem = problem.at_fraction(0.01)
    taken: list[int] = []
    made = FormedQuadratic.create
    monkeypatch.setattr(FormedQuadratic, "create", lambda *given: taken.append(given[2]) or made(*given))
    monkeypatch.setattr(newton, "descends", lambda *_: False)  # which would do without a Hessian,
    monkeypatch.setattr(newton, "predict_sweep_cost", lambda *_: np.inf)  # as these would
    whole = FactoredNewton(tol=1e-6).solve(problem)
    assert set(taken) == {4000}
    taken.clear()
    monkeypatch.setattr(newton, "SAMPLE_ROWS", 500)
    monkeypatch.setattr(newton, "SAMPLE_PER_RANK", 1)
    monkeypatch.setattr(newton, "MISSED", missed)
    found = FactoredNewton(tol=1e-6).solve(problem)
    assert found.certificate.relative_gap <= 1e-6
    assert found.certificate.primal == pytest.approx(whole.certificate.primal, rel=2e-6)
    assert min(taken) == 500
    assert max(taken) == (2000 if missed > 0 else 4000)


def test_hessians_of_a_sample_are_rounded_and_those_of_all_rows_are_not() -> None:
    rng = np.random.default_rng(0)
    operators = FourierStack.grid(rng.normal(size=(2000, 2)), [0.5, 2.0]).operators([0, 1, 3], 1e-8)
    Z = np.hstack([*[each.rows(np.arange(2000)) for each in operators], np.ones((2000, 1))])
    p = rng.dirichlet(np.ones(3), size=2000)
    one, several = SampleCurvature(p[:, 0]), SampleCurvature(p)
    coupled = OutputCurvature(p, np.ones(2000))
    for rows, error in ((2000, 1e-12), (500, 1e-5)):
        index, weights = sampled_rows(p[:, 0], rows)
        exact = (Z[index].T * weights) @ Z[index]
        assert np.allclose(one.gram(operators, rows, n_constants=1), exact, rtol=0, atol=error * np.abs(exact).max())
        for curvature, whole in ((several, p.sum(axis=1)), (coupled, 1.0 - (p**2).sum(axis=1))):
            index, weights = sampled_rows(whole, rows)
            blocks, shares = curvature.hessian(operators, rows, n_constants=1)
            diagonals = p if shares is None else p @ shares.basis**2 - (p @ shares.basis) ** 2
            for found, own in zip(blocks, diagonals[index].T, strict=True):
                exact = (Z[index].T * (weights * own / whole[index])) @ Z[index]
                assert np.allclose(found, exact, rtol=0, atol=error * np.abs(exact).max())


def test_between_blocks_of_a_multinomial_hessian_is_nothing_on_average() -> None:
    """In the coordinates of `Shares`; a class that no row has a chance of leaves the basis orthogonal to ones."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([4.0, 2.0, 1.0], size=500)
    p = np.column_stack([p, np.zeros(500)])
    ones = FourierStack.grid(np.zeros((500, 1)), [1.0]).operators([0], 1e-3)  # a constant feature
    blocks, shares = OutputCurvature(p, np.ones(500)).hessian(ones, 500, n_constants=1)
    assert shares is not None
    assert np.allclose(shares.basis.T @ np.column_stack([shares.basis, np.ones(4)]), np.eye(3, 4), atol=1e-12)
    assert np.allclose(shares.product(np.ones((blocks.shape[1], 3))), 0.0, atol=1e-4 * blocks.max())
    mean = np.diag(p.sum(axis=0)) - p.T @ p
    np.testing.assert_allclose(blocks[:, -1, -1], np.diag(shares.basis.T @ mean @ shares.basis), rtol=1e-12, atol=1e-12)
