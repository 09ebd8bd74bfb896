"""Scales of columns that are mostly at one end of their range: rare values count no more than frequent ones."""

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor, solve
from manykernels.kernels import Linear
from manykernels.kernels.bank.normalization import scales_of_columns

N = 200


def rare(seed=0, n=N):
    """Return a normal column, two indicators, one of them rare, counts that are mostly zero, and a constant."""
    rng = np.random.default_rng(seed)
    counts = (rng.random(n) < 0.3) * rng.poisson(3.0, n)
    return np.column_stack([rng.normal(size=n), np.arange(n) < 6, np.arange(n) % 5 < 4, counts, np.ones(n)]) * 1.0


def texts(seed, n, words=400, topics=3):
    """Return counts of words, most of them rare, and the topic of every text."""
    rng = np.random.default_rng(seed)
    common = 1.0 / (10.0 + np.arange(words))
    boost = np.where(np.random.default_rng(9).random((topics, words)) < 0.1, 4.0, 1.0)
    shares = common * boost
    topic = rng.integers(topics, size=n)
    lengths = rng.integers(20, 60, size=n)
    rows = [rng.multinomial(m, shares[t] / shares[t].sum()) for m, t in zip(lengths, topic, strict=True)]
    return np.array(rows, dtype=float), topic


@pytest.mark.parametrize("share", [0.001, 0.03, 0.5, 0.8, 0.999])
def test_two_values_have_half_their_range_as_scale_however_rare_one_is(share):
    means, deviations = np.array([7.0 + 4.0 * share]), np.array([4.0 * np.sqrt(share * (1.0 - share))])
    found = scales_of_columns(np.array([7.0]), np.array([11.0]), means, deviations)
    np.testing.assert_allclose(found, 2.0, rtol=1e-9)


def test_other_columns_keep_their_deviations():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.random(500), rng.integers(5, size=500), np.ones(500)])
    deviations = np.where(np.ptp(X, axis=0) > 0, X.std(axis=0), 1.0)
    np.testing.assert_array_equal(scales_of_columns(X.min(0), X.max(0), X.mean(0), deviations), deviations)
    assert KernelBank.auto(standardize=True).fit(rare()).table.column_scales[1] < 0.2


def test_the_scales_of_a_bank_are_those_of_factors_and_of_tables():
    X = rare()
    wanted = KernelBank.auto().fit(X).table.column_scales
    np.testing.assert_allclose(wanted[:3], [X[:, 0].std(), 0.5, 0.5])
    assert wanted[3] > X[:, 3].std()
    assert wanted[4] == 1.0
    np.testing.assert_allclose(KernelBank.auto().fit(pd.DataFrame(X)).table.column_scales, wanted)
    with_gaps = np.vstack([X, np.full(X.shape[1], np.nan)])
    np.testing.assert_allclose(KernelBank.auto(missing="mask").fit(with_gaps).table.column_scales, wanted)


def test_units_and_signs_do_not_matter():
    X, factors, shifts = rare(), np.array([1e4, -3.0, -1e-3, 7.0, 1.0]), np.array([7.0, 1.0, 0.0, -4.0, 0.0])
    scales = [KernelBank.auto().fit(own).table.column_scales for own in (X, X * factors + shifts)]
    np.testing.assert_allclose(scales[1][:4], scales[0][:4] * np.abs(factors[:4]), rtol=1e-9)


def test_models_read_them_alike_however_kernels_are_held():
    X = rare()[:, :4]
    y = np.sin(X[:, 0]) + X[:, 1] - X[:, 3]
    bank = KernelBank.joint(Linear(), standardize="robust") + KernelBank.per_feature(widths=[1.0], standardize="robust")
    models = {
        form: MKLRegressor(bank, alpha=1e-2, tol=1e-7, resources={"representation": form}).fit(X[1:], y[1:])
        for form in ("gram", "factored")
    }
    wanted = models["gram"].predict(X)
    np.testing.assert_allclose(models["factored"].predict(X), wanted, atol=1e-4)
    found = solve(bank, y[1:], X=X[1:], loss="squared", penalty="l1", alpha=1e-2, tol=1e-7, representation="factored")
    np.testing.assert_allclose(found.functions.scores(X).ravel() + float(found.intercept), wanted, atol=1e-4)


def test_counts_of_words_are_classified_better_than_standardized():
    X, y = texts(0, 90)
    new, truth = texts(1, 600)
    views = {"left": slice(0, 200), "right": slice(200, 400)}
    scores = [
        MKLClassifier(KernelBank.from_views(views, Linear(), **given), penalty="ridge").fit(X, y).score(new, truth)
        for given in ({}, {"standardize": True})
    ]
    assert scores[0] > scores[1] + 0.03
