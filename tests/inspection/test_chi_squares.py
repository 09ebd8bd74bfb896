"""Tails of sums of chi-squares, beside their closed forms; combinations of p-values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, f, false_discovery_control

from manykernels.inspection.evidence.chi_squares import cauchy_combination, chi_squares_tail, false_discovery_rates


@pytest.mark.parametrize("freedom", [1, 2, 7, 60, 900])
@pytest.mark.parametrize("multiple", [1e-4, 0.3, 0.9, 1.0, 1.1, 3.0, 25.0])
def test_equal_weights_are_a_chi_square(freedom: int, multiple: float) -> None:
    q, expected = freedom * multiple, chi2.sf(freedom * multiple, freedom)
    if expected > 1e-290:
        assert chi_squares_tail(5.0 * q, np.full(freedom, 5.0)) == pytest.approx(expected, rel=1e-9)
        assert chi_squares_tail(q, [1.0], [freedom]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("above", "below"), [(1, 3), (4, 200), (90, 12)])
@pytest.mark.parametrize("ratio", [1e-3, 0.5, 1.0, 4.0, 60.0])
def test_ratios_are_those_of_the_f_distribution(above: int, below: int, ratio: float) -> None:
    share = above * ratio / (above * ratio + below)
    found = chi_squares_tail(0.0, [1.0 - share, -share], [above, below])
    assert found == pytest.approx(f.sf(ratio, above, below), rel=1e-9)


def test_pairs_of_weights_are_sums_of_exponentials() -> None:
    # a weight that occurs twice is an exponential variable of mean 2 w, and a sum of these has a closed form
    w, q = np.array([0.5, 1.0, 3.0]), np.array([0.01, 1.0, 10.0, 100.0, 1000.0])
    others = [np.prod([own / (own - other) for other in w if other != own]) for own in w]
    expected = np.exp(-q[:, None] / (2.0 * w)) @ np.array(others)
    found = [chi_squares_tail(float(one), np.repeat(w, 2)) for one in q]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("counts", "q", "below"),
    [
        ([1, 1, 1], 1, 0.0542),
        ([1, 1, 1], 7, 0.4936),
        ([1, 1, 1], 20, 0.8760),
        ([2, 2, 2], 20, 0.6002),
        ([2, 2, 2], 60, 0.9839),
        ([6, 4, 2], 10, 0.0027),
        ([6, 4, 2], 50, 0.5648),
        ([6, 4, 2], 120, 0.9912),
    ],
)
def test_tails_are_those_of_published_tables(counts: list[int], q: float, below: float) -> None:
    """Imhof (1961) and Davies (1980, Table 3): distribution functions of 6 X_1 + 3 X_2 + X_3."""
    assert 1.0 - chi_squares_tail(q, [6.0, 3.0, 1.0], counts) == pytest.approx(below, abs=5.1e-5)


def tail_by_series(q: float, weights: np.ndarray) -> float:
    """Return the tail by the series of Ruben (1962), a mixture of chi-squares with positive shares."""
    smallest, n = weights.min(), len(weights)
    powers = (1.0 - smallest / weights)[:, None] ** np.arange(1, 4_000)
    g, shares = 0.5 * powers.sum(axis=0), np.zeros(4_000)
    shares[0] = np.prod(np.sqrt(smallest / weights))
    for k in range(1, len(shares)):
        shares[k] = g[:k][::-1] @ shares[:k] / k
    return float(shares @ chi2.sf(q / smallest, n + 2 * np.arange(len(shares))))


@pytest.mark.parametrize("multiple", [0.2, 1.0, 3.0, 10.0, 25.0])
@pytest.mark.parametrize("decay", [0.5, 0.8, 1.0])
def test_small_tails_are_those_of_a_series_of_positive_terms(decay: float, multiple: float) -> None:
    weights = np.maximum(np.arange(1.0, 13.0) ** -decay, 0.05)
    q = multiple * weights.sum()
    expected = tail_by_series(q, weights)
    assert 1e-40 < expected < 1.0
    assert chi_squares_tail(q, weights) == pytest.approx(expected, rel=1e-8)


def test_limits() -> None:
    assert chi_squares_tail(0.0, [1.0, 2.0]) == 1.0
    assert chi_squares_tail(0.0, [-1.0]) == 0.0
    assert chi_squares_tail(-1.0, [-1.0]) == pytest.approx(chi2.cdf(1.0, 1), rel=1e-9)
    assert chi_squares_tail(-1.0, []) == 1.0
    assert chi_squares_tail(1.0, [0.0]) == 0.0


def test_combined_p_values() -> None:
    assert cauchy_combination([0.2]) == pytest.approx(0.2)
    assert cauchy_combination([1e-30, 0.3, 1.0]) == pytest.approx(3e-30, rel=1e-6)
    assert cauchy_combination([1.0, 1.0]) > 0.99


def test_false_discovery_rates_are_those_of_scipy() -> None:
    p = np.random.default_rng(0).random(50) ** 2
    np.testing.assert_allclose(false_discovery_rates(p), false_discovery_control(p), rtol=1e-12)
