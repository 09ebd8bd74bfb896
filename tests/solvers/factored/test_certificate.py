"""Which kernels enter a working set."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor
from manykernels.solvers.factored.certificate import DualBound, violators

ALONE = np.full((4, 2), -1)


def bound(norms: np.ndarray) -> DualBound:
    return DualBound(0.0, np.zeros(1), norms, norms, 1.0, 0.0, 0, 0)


def test_kernels_enter_that_the_fall_of_the_threshold_could_reach_and_fewer_where_their_growth_is_known() -> None:
    norms, used, limit = np.array([1.2, 0.95, 0.9, 0.7]), np.array([0]), np.ones(4)
    assert violators(bound(norms), used, ALONE, limit, 1.0).tolist() == []
    assert violators(bound(norms), used, ALONE, limit, 1.0, np.array(0.2)).tolist() == [1, 2]
    steady = np.array([0.2, 0.02, 0.15, 0.2])  # the second hardly grows
    assert violators(bound(norms), used, ALONE, limit, 1.0, steady).tolist() == [2]


def test_twice_as_many_kernels_enter_as_are_in_use_where_the_last_ones_stayed() -> None:
    norms, used, alone = np.linspace(3.0, 2.0, 200), np.arange(60), np.full((200, 2), -1)
    entering = [violators(bound(norms), used, alone, np.ones(200), 1.0, stayed=stayed) for stayed in (False, True)]
    assert [found.tolist() for found in entering] == [list(range(60, 80)), list(range(60, 180))]


@pytest.mark.parametrize("rows", [800, 1000])
def test_noise_is_solved_at_strengths_that_rounding_beside_the_whole_vector_would_hide(rows: int) -> None:
    """Squares of dual norms were known up to 3e-14 of that of the vector, and gaps ended at 2e-3 to 4e-3."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    bank = KernelBank.per_feature(widths=[0.1, 0.5], standardize=True)
    model = MKLRegressor(bank, alpha="1e-5*max", tol=5e-5, resources={"representation": "factored"}).fit(X, y)
    assert model.dual_gap_ <= 5e-5
    assert model.solution_.status == "converged"


@pytest.mark.parametrize("kind", [MKLRegressor, MKLClassifier], ids=lambda kind: kind.__name__)
def test_noise_is_solved_at_strengths_whose_squares_are_below_what_a_pass_leaves_open(kind: type) -> None:
    rng = np.random.default_rng(804)
    X, y = rng.normal(size=(800, 4)), np.sign(rng.normal(size=800))
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], standardize=True)
    model = kind(bank, alpha="1e-4*max", resources={"representation": "factored"}).fit(X, y)
    assert model.solution_.status == "converged"
