"""The primal-dual iteration starts far enough from the ends of the box, however few samples a class has."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.grams import DenseStack
from manykernels.objective import Problem, get_loss, get_regularizer
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
