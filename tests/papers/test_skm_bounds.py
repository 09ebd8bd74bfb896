"""Theorem 1 and Corollary 1 of the support kernel machine hold on random problems; stages are solved to the letter."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.papers import SupportKernelMachine, skm
from manykernels.papers.printed.skm import smoothing_errors, sufficient_kappa
from manykernels.papers.solvers import skm_descent
from manykernels.papers.solvers.skm_descent import epsilon_optimality
from manykernels.solvers import Status


def unit_kernels(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4))
    kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / 2) for x in X.T])
    return kernels, np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0, 1.0, -1.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kappa", [0.5, 0.1, 0.01])
def test_smoothing_costs_no_more_than_the_theorem_says(seed: int, kappa: float) -> None:
    kernels, y = unit_kernels(seed)
    constant = 1.0
    problem = skm(constant, np.ones(4)).problem(kernels, y)
    descent = skm_descent.Descent(skm_descent.UnitKernels(problem, np.arange(4)), np.zeros(30), 10**6, False)
    descent.shrink_box((1 - kappa) ** 2)  # d_j = 1 - kappa in the paper's units
    assert descent.minimize(skm_descent.NO_CENTER, kappa, 1e-6, 10**6) <= 1e-6
    weights = skm_descent.smoothed_dual(np.sqrt(descent.squares), kappa).weights
    descent.shrink_box(1.0)
    found = epsilon_optimality(problem, descent.rho, weights * constant)
    eps1, eps2 = smoothing_errors(kernels, constant, kappa)
    assert found.eps1 <= eps1
    assert found.eps2 <= eps2 + 1e-5


def test_the_sufficient_smoothing_is_the_largest_that_the_theorem_allows() -> None:
    kernels, _ = unit_kernels(0)
    kappa = sufficient_kappa(kernels, 1.0, 30 * 5e-4, 1e-4)
    below, above = (smoothing_errors(kernels, 1.0, kappa * factor) for factor in (0.999, 1.001))
    assert below[0] <= 30 * 5e-4
    assert below[1] <= 1e-4 / 2
    assert above[0] > 30 * 5e-4 or above[1] > 1e-4 / 2
    assert kappa < 1e-2


def test_to_the_letter_a_stage_takes_pairs_until_it_is_half_as_optimal_as_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels, y = unit_kernels(1)
    problem = skm(1.0, np.ones(4)).problem(kernels, y)
    ends: list[float] = []
    minimize = skm_descent.Descent.minimize

    def recorded(self: skm_descent.Descent, center: np.ndarray, constant: float, tol: float, most: int) -> float:
        ends.append(minimize(self, center, constant, tol, min(most, 20)))
        return ends[-1]

    monkeypatch.setattr(skm_descent.Descent, "minimize", recorded)
    solver = SupportKernelMachine(newton=False, rescale=False, epsilons=(5e-3, 1e-2))
    assert solver.solve(problem).status is Status.CONVERGED
    assert len(ends) > sum(end <= 1e-2 for end in ends) > 1
    assert ends[-1] <= 1e-2
