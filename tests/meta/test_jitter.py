"""Perturbed inputs: by how much, what keeps its value, and who draws them."""

from __future__ import annotations

from inspect import unwrap

import numpy as np
import pytest
import sklearn.datasets
from tests.support.jitter import Perturbed, install, perturbed


def generator(seed: int = 0) -> Perturbed:
    return Perturbed(np.random.PCG64(seed))


@pytest.mark.parametrize("draw", ["normal", "random", "uniform", "exponential", "standard_t"])
def test_floats_change_by_a_relative_rounding_error(draw: str) -> None:
    given = {"df": 3.0} if draw == "standard_t" else {}
    plain = getattr(np.random.Generator(np.random.PCG64(0)), draw)(size=(200, 5), **given)
    ours = getattr(generator(), draw)(size=(200, 5), **given)
    relative = np.abs(ours / plain - 1.0)
    assert 0.5e-15 < np.median(relative) < 1.5e-15
    assert relative.max() < 2e-15
    assert 0.3 < (ours > plain).mean() < 0.7
    one = getattr(generator(), draw)(**given)
    assert isinstance(one, float)
    assert one == getattr(generator(), draw)(size=1, **given)[0]


def test_equal_opposite_and_whole_numbers_keep_their_structure() -> None:
    values = np.random.Generator(np.random.PCG64(1)).normal(size=300)
    found = perturbed(np.r_[values, -values, values, np.arange(5.0), np.nan, np.inf], 1)
    np.testing.assert_array_equal(found[300:600], -found[:300])
    np.testing.assert_array_equal(found[600:900], found[:300])
    np.testing.assert_array_equal(found[900:], [*range(5), np.nan, np.inf])
    assert 0.3 < (found[:300] == perturbed(values, 2)).mean() < 0.7
    for other in (np.arange(3), np.float32([0.1]), ["a"], "a", None, True):
        assert perturbed(other, 1) is other
    np.testing.assert_array_equal(perturbed(values.reshape(20, 15).T, 1), found[:300].reshape(20, 15).T)


def test_uniform_draws_stay_inside_their_bounds() -> None:
    assert generator().random(100_000).max() < 1.0
    drawn = generator().uniform(1.0, 1.0 + 1e-14, 1_000)
    assert 1.0 <= drawn.min() < drawn.max() < 1.0 + 1e-14


def test_generators_of_tests_and_data_sets_are_perturbed_and_those_of_the_library_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(np.random, "default_rng", np.random.default_rng)
    for name in dir(sklearn.datasets):
        if name.startswith("load_"):
            monkeypatch.setattr(sklearn.datasets, name, getattr(sklearn.datasets, name))
    plain = unwrap(sklearn.datasets.load_diabetes)().data
    monkeypatch.setattr(Perturbed, "seed", 1)
    install(1)
    ours = np.random.default_rng(5)
    assert isinstance(ours, Perturbed)
    assert np.random.default_rng(ours) is ours
    library = {"__name__": "manykernels.discovery.base", "np": np}
    assert type(eval("np.random.default_rng(5)", library)) is np.random.Generator
    for found in (sklearn.datasets.load_diabetes().data, sklearn.datasets.load_diabetes(return_X_y=True)[0]):
        assert 0.5e-15 < np.median(np.abs(found / plain - 1.0)) < 1.5e-15
