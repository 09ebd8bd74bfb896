"""Steps of the primal-dual iteration: corrections of a direction, by solutions in the system of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.solvers.test_start import problem

from manykernels import solve
from manykernels.solvers.gram import tuning
from manykernels.solvers.gram.iteration import PrimalDual
from manykernels.solvers.gram.start import start_iteration
from manykernels.solvers.gram.weight_variables import nearer


def gaussians(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_samples, 4))
    widths = np.array([0.3, 1.0, 3.0])[:, None, None, None]
    grams = np.exp(-((x[:, None] - x) ** 2).transpose(2, 0, 1) / (2 * widths**2))
    return grams.reshape(-1, n_samples, n_samples), np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 - 0.5


def steps_and_objectives(monkeypatch: pytest.MonkeyPatch, most: int, loss: str, penalty: Any) -> np.ndarray:
    grams, y = gaussians(60)
    target = np.where(y > 0, 1.0, -1.0) if loss in ("hinge", "logistic") else y
    monkeypatch.setattr(tuning, "MOST_CORRECTIONS", most)
    monkeypatch.setattr(tuning, "CORRECTED_READINGS", 0.0)  # however small a step is
    monkeypatch.setattr(tuning, "CORRECTED_ROWS", 0)
    found = [
        solve(grams, target, loss=loss, regularizer=penalty, relative_strength=part, tol=1e-7)
        for part in (0.3, 0.1, 0.03, 0.01)
    ]
    assert all(each.status == "converged" for each in found)
    return np.array([(each.newton_steps, each.certificate.primal) for each in found])


@pytest.mark.parametrize("penalty", ["l1", "simplex", "ridge"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile", "logistic"])
def test_corrections_spare_steps_on_the_way_to_the_same_optimum(
    loss: str, penalty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, corrected = (steps_and_objectives(monkeypatch, most, loss, penalty) for most in (0, 2))
    np.testing.assert_allclose(corrected[:, 1], without[:, 1], rtol=3e-7)
    if loss != "quantile":  # whose steps at a gap of 1e-7 turn in circles with and without
        assert corrected[:, 0].sum() <= without[:, 0].sum()


@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_steps_do_not_depend_on_the_unit_of_the_target(loss: str) -> None:
    grams, y = gaussians(60)
    found = [  # powers of two leave the rounding of every product as it is
        solve(grams, y * unit, loss=loss, regularizer="l1", relative_strength=0.05, tol=1e-6)
        for unit in (1.0, 2.0**-66, 2.0**50)
    ]
    assert len({(each.newton_steps, each.n_iter, each.status) for each in found}) == 1, found


def test_a_correction_that_makes_no_step_longer_leaves_the_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    posed = problem(0.2)
    directions = []
    for worth in (np.inf, 0.01):
        monkeypatch.setattr(tuning, "CORRECTED_READINGS", 0.0 if worth == np.inf else np.inf)
        monkeypatch.setattr(tuning, "CORRECTED_ROWS", 0)
        monkeypatch.setattr(tuning, "WORTH_CORRECTING", worth)
        iteration = start_iteration(posed, *posed.zero_model())
        iteration.newton_step(1e-3)
        directions.append((iteration.samples.rho, iteration.kernels.weights))
    for tried, plain in zip(*directions, strict=True):
        np.testing.assert_array_equal(tried, plain)


def test_corrections_are_for_steps_that_cost_much_more() -> None:
    def worth(n_kernels: int, n_samples: int, useless: int = 0) -> bool:
        iteration = PrimalDual.__new__(PrimalDual)
        iteration._useless, iteration._n_pairs, iteration._products = useless, 1, np.zeros((n_kernels, n_samples))
        return iteration._worth_correcting

    assert not worth(50, 200)
    assert not worth(300, 100)
    assert worth(50, 800)
    assert worth(1, 3_000)
    assert not worth(50, 800, useless=1)


def test_products_come_near_their_target_by_at_most_ten_of_it() -> None:
    products = np.array([1e-3, 0.5, 20.0, 200.0])
    np.testing.assert_allclose(products + nearer(products, 1.0), [0.1, 0.5, 10.0, 190.0])
