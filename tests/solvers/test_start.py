"""The primal-dual iteration starts far enough from the ends of the box, however few samples a class has."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.grams import DenseStack
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers import WorkingSet
from manykernels.solvers.gram.iteration import _best_factor
from manykernels.solvers.gram.start import start_iteration


def problem(share: float) -> Problem:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3, 120, 4))
    grams = points @ points.transpose(0, 2, 1)
    y = np.where(points[0, :, 0] > np.quantile(points[0, :, 0], 1.0 - share), 1.0, -1.0)
    return Problem(DenseStack(grams), y, get_loss("hinge"), get_regularizer("l1", 2.0))


@pytest.mark.parametrize("share", [0.5, 0.2, 0.05])
def test_products_of_complementarity_are_a_part_of_what_the_constant_loses(share: float) -> None:
    posed = problem(share)
    rho, b = posed.zero_model()
    iteration = start_iteration(posed, rho, b)
    loss = posed.empirical_loss(posed.constant_scores(b))
    pairs = iteration.samples.n_pairs + iteration.kernels.n_pairs
    assert iteration.barrier() * pairs >= 0.08 * loss


def test_a_start_from_a_model_that_does_not_know_all_rows_takes_few_steps() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 2, size=(3, 120, 1))
    grams = np.exp(-((points - points.transpose(0, 2, 1)) ** 2))
    y = np.where(np.sin(2 * points[1, :, 0]) > 0, 1.0, -1.0)
    y[100:104] *= -1  # of rows that the model does not know
    known = np.arange(100)

    def posed(rows: np.ndarray) -> Problem:
        return Problem(grams[:, rows][:, :, rows], y[rows], get_loss("logistic"), get_regularizer("l1", 0.1))

    found, whole = WorkingSet().solve(posed(known)).scatter(known, 120), posed(np.arange(120))
    warm, cold = WorkingSet(tol=1e-6).solve(whole, found), WorkingSet(tol=1e-6).solve(whole)
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-6)
    assert warm.newton_steps <= cold.newton_steps + 5


def fitted_by_noise(loss: str) -> Problem:
    """Return targets that have nothing to do with the kernels, which are rich enough to fit them all the same."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(150, 4))
    squares = (points[:, None] - points[None]) ** 2
    grams = np.exp(-squares.transpose(2, 0, 1)[:, None] / (2.0 * np.array([0.3, 1.0, 3.0])[None, :, None, None] ** 2))
    y = {"logistic": rng.choice([-1.0, 1.0], 150), "poisson": rng.poisson(2.0, 150), "gamma": rng.gamma(2.0, size=150)}
    return Problem(grams.reshape(-1, 150, 150), y[loss].astype(float), get_loss(loss), get_regularizer("l1", 1.0))


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma"])
@pytest.mark.parametrize("fraction", [1e-3, 1e-5])
def test_entropic_losses_converge_where_the_penalty_is_next_to_nothing(loss: str, fraction: float) -> None:
    """Searches whose scores are noise walk down to there; steps for an entropy alone broke down a hundred times."""
    found = WorkingSet(tol=1e-4).solve(fitted_by_noise(loss).at_fraction(fraction))
    assert found.status == "converged"
    assert found.newton_steps <= 60


def test_a_path_of_noise_to_a_ten_millionth_of_the_largest_strength_converges() -> None:
    problem, warm, steps = fitted_by_noise("logistic"), None, 0
    for fraction in 10.0 ** -np.arange(0.5, 7.1, 0.5):
        warm = WorkingSet(tol=1e-4).solve(problem.at_fraction(fraction), warm)
        assert warm.status == "converged"
        steps += warm.newton_steps
    assert steps <= 400


@pytest.mark.parametrize("best", [1e-9, 0.03, 1.02, 50.0, 3e4])
@pytest.mark.parametrize("power", [2.0, 1.5])
def test_weights_of_a_start_are_multiplied_by_about_the_best_factor(best: float, power: float) -> None:
    values: list[float] = []

    def primal(factor: float) -> float:
        values.append(abs(factor - best) ** power)
        return values[-1]

    found = _best_factor(primal, 1e-6, 1e6)
    assert primal(found) <= 0.05 * primal(0.0) or found == pytest.approx(max(best, 1e-6), rel=0.25)
    assert len(values) <= 17


def test_a_line_of_primal_values_ends_at_an_end() -> None:
    assert _best_factor(lambda factor: 1.0 - factor, 1e-6, 1.0) == 1.0
    assert _best_factor(lambda factor: 1.0 + factor, 1e-6, 1e6) == 1e-6
    assert _best_factor(lambda factor: 1.0 + factor, 1.0, 1e6) == 1.0


@pytest.mark.parametrize("n_samples", [60, 100])
def test_weights_that_fit_no_score_do_not_begin_below_the_central_path(n_samples: int) -> None:
    """The scores of the constant's coefficients help no sample; weights of next to nothing took 8 steps to grow."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 4))
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 + 0.5 * rng.logistic(size=n_samples) > 0, 1.0, -1.0)
    squares = (X.T[:, None, :, None] - X.T[:, None, None, :]) ** 2
    grams = np.exp(-squares / (2.0 * np.array([0.1, 0.3, 1.0, 3.0])[None, :, None, None] ** 2))
    stack = grams.reshape(-1, n_samples, n_samples)
    found = WorkingSet().solve(Problem(stack, y, get_loss("quantile"), get_regularizer("l1", 1.0)).at_fraction(0.01))
    assert found.status == "converged"
    assert found.newton_steps <= 14
