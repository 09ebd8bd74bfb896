"""Fits that once went wrong in float64: what they report is true, and they converge."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import solve
from manykernels.objective.regularizers import BlockLq


def test_block_q_norm_near_one_does_not_lose_its_penalty_to_underflow() -> None:
    """Coefficients of 1e-190 with weights of 1e197: their squared norm underflowed, and the gap was told to be 0."""
    x = np.array([-0.1, 0.3, 0.2])
    kernel = np.exp(-2 * (x[:, None] - x) ** 2)
    solution = solve(
        kernel[None],
        [0.5, -1.8, 2.8],
        loss="epsilon_insensitive",
        regularizer=BlockLq(8e-6, q=1.005),
        fit_intercept=False,
        tol=1e-6,
    )
    rho, d = solution.dual_coef, solution.kernel_weights[0]
    norm = d * np.linalg.norm(np.linalg.cholesky(kernel).T @ rho)
    residual = np.abs(d * kernel @ rho - [0.5, -1.8, 2.8])
    primal = np.maximum(residual - 0.1, 0).sum() + 8e-6 / 1.005 * norm**1.005
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert primal == pytest.approx(3.7936620e-4, rel=1e-5)
    assert solution.status == "converged"


@pytest.mark.parametrize("seed", range(8))
def test_a_constant_column_does_no_harm(seed: int) -> None:
    """The intercept absorbs its kernel, whose norms are then rounding; steps were cut to nothing to respect them."""
    rng = np.random.default_rng(seed)
    columns = np.column_stack([rng.standard_normal((60, 3)), np.ones(60)])
    kernels = np.stack([np.outer(column, column) for column in columns.T])
    y = columns[:, 0] + 0.3 * rng.standard_normal(60)
    solution = solve(kernels, y, loss="huber", regularizer=BlockLq(6e-2, q=1.9), tol=1e-6)
    assert solution.status == "converged"
    assert solution.n_iter < 50
