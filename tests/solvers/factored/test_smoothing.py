"""Smoothed losses: what smoothing adds to the gap of the true loss, and how many steps that leaves."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.factored import on_factors

from manykernels import KernelBank
from manykernels.objective.losses import get_loss
from manykernels.solvers.factored.smoothing import SmoothedLoss

KINKED = ("hinge", "epsilon_insensitive", "quantile")


@pytest.mark.parametrize("name", KINKED)
def test_error_is_the_loss_less_the_bound_of_its_smoothed_dual_variable(name):
    rng, loss = np.random.default_rng(0), get_loss(name)
    y = rng.choice([-1.0, 1.0], 500) if loss.task == "classification" else rng.normal(size=500)
    z = 2 * rng.normal(size=500)
    for mu in (0.5, 0.05):
        smoothed = SmoothedLoss.of(loss, mu)
        rho = -smoothed.slope(y, z)
        np.testing.assert_allclose(
            smoothed.error(y, z), loss.value(y, z) + loss.conjugate(y, rho) + rho * z, atol=1e-12
        )
    assert not SmoothedLoss.of(get_loss("squared"), mu).error(y, z).any()


@pytest.mark.parametrize("name", KINKED)
def test_error_falls_with_the_square_of_the_smoothing(name):
    rng, loss = np.random.default_rng(1), get_loss(name)
    y = rng.choice([-1.0, 1.0], 200_000) if loss.task == "classification" else rng.normal(size=200_000)
    z = 2 * rng.normal(size=200_000)
    wide, narrow = (SmoothedLoss.of(loss, mu).error(y, z).sum() for mu in (0.08, 0.02))
    assert 12 < wide / narrow < 20


def test_kinked_losses_converge_in_few_newton_steps():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(6000, 4))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=6000) > 0, 1.0, -1.0)
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0])
    model = on_factors(X, y, bank, loss="hinge", relative_strength=0.05)
    assert model.dual_gap <= 1e-4
    assert model.history[-1].newton_steps <= 18
