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
