"""Steps of the primal-dual iteration: their independence of units, and targets of complementarity products."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import solve
from manykernels.solvers.gram.weight_variables import nearer


def gaussians(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_samples, 4))
    widths = np.array([0.3, 1.0, 3.0])[:, None, None, None]
    grams = np.exp(-((x[:, None] - x) ** 2).transpose(2, 0, 1) / (2 * widths**2))
    return grams.reshape(-1, n_samples, n_samples), np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 - 0.5


@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_steps_do_not_depend_on_the_unit_of_the_target(loss: str) -> None:
    grams, y = gaussians(60)
    found = [  # powers of two leave the rounding of every product as it is
        solve(grams, y * unit, loss=loss, penalty="l1", alpha="0.05*max", tol=1e-6) for unit in (1.0, 2.0**-66, 2.0**50)
    ]
    assert len({(each.newton_steps, each.n_iter, each.status) for each in found}) == 1, found


def test_products_come_near_their_target_by_at_most_ten_of_it() -> None:
    products = np.array([1e-3, 0.5, 20.0, 200.0])
    np.testing.assert_allclose(products + nearer(products, 1.0), [0.1, 0.5, 10.0, 190.0])
