"""Breiman's problems have the moments and the error rates that their definitions imply."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.datasets import (
    make_ringnorm,
    make_twonorm,
    make_waveform,
    ringnorm_bayes_error,
    twonorm_bayes_error,
    wave_shapes,
)

N = 40_000
GENERATORS = [make_ringnorm, make_twonorm, make_waveform]


def four_errors(std: float, count: int) -> float:
    """Four standard errors of a mean: a correct generator leaves them once in 16,000 draws, and the seed is fixed."""
    return 4.0 * std / np.sqrt(count)


@pytest.mark.parametrize(("label", "mean", "variance"), [(1.0, 0.0, 4.0), (-1.0, 2 / np.sqrt(20), 1.0)])
def test_ringnorm_has_the_published_means_and_covariances(label: float, mean: float, variance: float) -> None:
    X, y = make_ringnorm(N, random_state=1)
    cloud = X[y == label]
    n = len(cloud)
    assert abs(cloud.mean() - mean) < four_errors(np.sqrt(variance), cloud.size)
    np.testing.assert_allclose(np.cov(cloud.T), variance * np.eye(20), atol=1.5 * four_errors(np.sqrt(2) * variance, n))


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_twonorm_has_the_published_means_and_covariances(label: float) -> None:
    X, y = make_twonorm(N, 10, random_state=2)
    cloud = X[y == label]
    assert abs(cloud.mean() - label * 2 / np.sqrt(10)) < four_errors(1.0, cloud.size)
    np.testing.assert_allclose(np.cov(cloud.T), np.eye(10), atol=1.5 * four_errors(np.sqrt(2), len(cloud)))


@pytest.mark.parametrize("make", [make_ringnorm, make_twonorm])
def test_both_classes_are_equally_likely(make: object) -> None:
    _, y = make(N, 2, random_state=3)
    assert set(y) == {-1.0, 1.0}
    assert abs(y.mean()) < four_errors(1.0, N)


@pytest.mark.parametrize("n_features", [3, 20])
def test_ringnorm_error_is_that_of_the_likelihood_ratio(n_features: int) -> None:
    X, y = make_ringnorm(N, n_features, random_state=4)
    log_wide = -(X**2).sum(axis=1) / 8 - n_features * np.log(2)
    log_narrow = -((X - 2 / np.sqrt(n_features)) ** 2).sum(axis=1) / 2
    errors = np.where(log_wide > log_narrow, 1.0, -1.0) != y
    expected = ringnorm_bayes_error(n_features)
    assert abs(errors.mean() - expected) < four_errors(np.sqrt(expected), N)


def test_the_published_error_rates_are_found() -> None:
    assert ringnorm_bayes_error() == pytest.approx(0.013, abs=1e-3)
    assert twonorm_bayes_error() == pytest.approx(0.023, abs=1e-3)


def test_twonorm_error_is_that_of_the_sum() -> None:
    X, y = make_twonorm(N, random_state=5)
    errors = np.sign(X.sum(axis=1)) != y
    assert abs(errors.mean() - twonorm_bayes_error()) < four_errors(np.sqrt(0.023), N)


def test_the_waves_are_the_published_triangles() -> None:
    first, second, third = wave_shapes()
    assert first[[4, 5, 10, 15, 16]].tolist() == [0.0, 1.0, 6.0, 1.0, 0.0]
    assert second[4:].tolist() == first[:-4].tolist()
    assert third[:-4].tolist() == first[4:].tolist()


@pytest.mark.parametrize(("label", "pair"), [(1, (0, 1)), (2, (0, 2)), (3, (1, 2))])
def test_waveform_classes_mix_their_two_waves(label: int, pair: tuple[int, int]) -> None:
    X, y = make_waveform(N, random_state=6)
    first, second = wave_shapes()[list(pair)]
    cloud = X[y == label]
    assert abs((y == label).mean() - 1 / 3) < four_errors(0.5, N)
    np.testing.assert_allclose(cloud.mean(axis=0), (first + second) / 2, atol=four_errors(np.sqrt(4.0), len(cloud)))
    # u has variance 1/12, the noise has variance 1.
    difference = first - second
    covariance = np.eye(21) + np.outer(difference, difference) / 12
    np.testing.assert_allclose(np.cov(cloud.T), covariance, atol=1.5 * four_errors(np.sqrt(2) * 4.0, len(cloud)))


def test_waveform_noise_columns_carry_no_information() -> None:
    X, y = make_waveform(N, 19, random_state=7)
    noise = X[:, 21:]
    assert X.shape == (N, 40)
    for label in (1, 2, 3):
        np.testing.assert_allclose(noise[y == label].mean(axis=0), 0.0, atol=four_errors(1.0, N // 3))
    np.testing.assert_allclose(noise.var(axis=0), 1.0, atol=four_errors(np.sqrt(2), N))


@pytest.mark.parametrize("make", GENERATORS)
def test_the_random_state_decides_the_draw(make: object) -> None:
    X, y = make(30, random_state=8)
    again, y_again = make(30, random_state=np.random.default_rng(8))
    other, _ = make(30, random_state=9)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, y_again)
    assert np.abs(X - other).max() > 0.1


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("n_samples", [0, -1, 2.0, True])
def test_impossible_sizes_are_refused(make: object, n_samples: object) -> None:
    with pytest.raises(ValueError, match=r"n_samples must be an integer of at least 1"):
        make(n_samples)


def test_other_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n_features must be an integer of at least 1, got 0"):
        make_ringnorm(10, 0)
    with pytest.raises(ValueError, match=r"n_noise_features must be an integer of at least 0, got -1"):
        make_waveform(10, -1)
