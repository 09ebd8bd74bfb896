"""Data at the ends of float64, far from zero, constant or zero: a right answer or a clear error, never nan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from manykernels.exceptions import InvalidInputError
from manykernels.kernels import Cosine, Gaussian, KernelBank, Laplacian, Linear, Matern, Polynomial
from manykernels.kernels.bank.normalization import column_statistics
from manykernels.kernels.specs.distances import row_norms, squared_distances

KERNELS = [("g", Gaussian(1.0)), ("m", Matern(2.0)), ("l", Linear()), ("p", Polynomial(2)), ("c", Cosine())]


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-8, 1e8, 1e150, 1e300])
def test_standardization_removes_any_scale(scale: float, rng: np.random.Generator) -> None:
    X = rng.normal(size=(12, 3)) + 1
    for center in (False, True):
        bank = KernelBank(KERNELS, standardize=True, center=center)
        (one, a), (two, b) = bank.fit_prepare(X), bank.fit_prepare(X * scale)
        np.testing.assert_allclose(two.block(b, b), one.block(a, a), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-150, 1e-100, 1e100, 1e150, 1e170, 1e300])
@pytest.mark.parametrize("spec", [spec for _, spec in KERNELS] + [Laplacian(1.0), Polynomial(3)], ids=lambda s: s.label)
@pytest.mark.parametrize("normalize", ["trace", "unit_diagonal", None])
def test_without_it_every_answer_is_finite_or_refused(
    normalize: str | None, spec: Linear, scale: float, rng: np.random.Generator
) -> None:
    X = rng.normal(size=(12, 3)) * scale
    try:
        fitted, rows = KernelBank([("k", spec)], normalize=normalize).fit_prepare(X)
    except InvalidInputError as error:
        assert "standardize=True" in str(error)  # noqa: PT017
        return
    K = fitted.block(rows, rows)
    assert np.isfinite(K).all()
    if normalize == "trace" and not fitted.zero_kernels.any():
        np.testing.assert_allclose(np.trace(K[0]), 1.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("spec", "scale", "message"),
    [
        (Gaussian(1.0), 1e160, "squared distances of kernel 'k' overflow: its columns hold values up to .*e\\+160"),
        (Linear(), 1e160, "Kernel 'k' overflows: k\\(x, x\\) is not finite for 12 row"),
        (Polynomial(3), 1e110, "Kernel 'k' overflows"),
        (Linear(), 1e149, "Kernel 'k' has a mean diagonal of .*e\\+298, at the end of the range"),
        (Linear(), 1e-150, "Kernel 'k' has a mean diagonal of .*e-300, at the end of the range"),
    ],
)
def test_refusals_name_the_kernel(spec: Linear, scale: float, message: str, rng: np.random.Generator) -> None:
    with pytest.raises(InvalidInputError, match=message):
        KernelBank([("k", spec)]).fit(rng.normal(size=(12, 3)) * scale)


def test_new_rows_that_overflow_are_refused(rng: np.random.Generator) -> None:
    X = rng.normal(size=(12, 3))
    for spec in (Gaussian(1.0), Linear(), Polynomial(2)):
        fitted = KernelBank([("k", spec)], standardize=True).fit(X)
        with pytest.raises(InvalidInputError, match="overflow"):
            fitted.prepare([[1e200, 0.0, 0.0]])


@pytest.mark.parametrize("normalize", ["trace", "mean_diagonal", "unit_diagonal", None])
def test_zero_kernels_stay_zero_and_are_flagged(normalize: str | None, rng: np.random.Generator) -> None:
    X = np.column_stack([np.full(9, 3.0), rng.normal(size=9)])
    bank = KernelBank([("zero", Linear(), [0]), ("line", Linear(), [1])], standardize=True, normalize=normalize)
    fitted, rows = bank.fit_prepare(X)
    assert fitted.zero_kernels.tolist() == [True, False]
    np.testing.assert_array_equal(fitted.block(fitted.prepare([[7.0, 1.0]]), rows)[0], 0.0)
    assert fitted.block(rows, rows)[1].any()


@pytest.mark.parametrize("normalize", ["trace", "mean_diagonal", "unit_diagonal", None])
def test_a_constant_kernel_is_zero_after_centering_not_rounding_blown_up(normalize: str | None) -> None:
    X = np.column_stack([np.full(9, 0.1), np.arange(9.0)])
    bank = KernelBank(
        [("same", Gaussian(0.3), [0]), ("offset", Polynomial(3), [0]), ("line", Linear(), [1])],
        normalize=normalize,
        center=True,
    )
    fitted, rows = bank.fit_prepare(X)
    assert fitted.zero_kernels.tolist() == [True, True, False]
    np.testing.assert_array_equal(fitted.block(rows, rows)[:2], 0.0)


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e8])
@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_far_from_zero_distances_keep_their_digits(shift: float, n_columns: int, rng: np.random.Generator) -> None:
    X = np.round(rng.normal(size=(20, n_columns)) * 64) / 64 + shift
    fitted, rows = KernelBank([("k", Gaussian(0.5))], normalize=None).fit_prepare(X)
    exact = np.exp(-2 * cdist(X - shift, X - shift, "sqeuclidean"))
    np.testing.assert_allclose(fitted.block(rows, rows)[0], exact, rtol=1e-11)


def test_two_far_clusters_and_an_outlier_keep_their_digits(rng: np.random.Generator) -> None:
    near = np.round(rng.normal(size=(10, 3)) * 64) / 64
    for X in (np.vstack([near, near + 1e8]), np.vstack([near, [[1e12, 0, 0]]])):
        fitted, rows = KernelBank([("k", Gaussian(1.0))], normalize=None).fit_prepare(X)
        K = fitted.block(rows, rows)[0]
        np.testing.assert_allclose(K[:10, :10], np.exp(-cdist(near, near, "sqeuclidean") / 2), rtol=1e-7)
        np.testing.assert_array_equal(K[:10, 10:], 0.0)


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([1e-3, 1.0, 1e3, 1e6]))
def test_squared_distances_are_accurate_symmetric_and_zero_on_the_diagonal(seed: int, d: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(15, d)) + offset * rng.integers(0, 2, size=(15, 1))
    A[4] = A[9]
    D = squared_distances(A, A, row_norms(A), row_norms(A))
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diag(D), 0.0)
    assert D[4, 9] == 0
    np.testing.assert_allclose(D, cdist(A, A, "sqeuclidean"), rtol=1e-9)
    B = rng.normal(size=(7, d))
    D = squared_distances(A, B, row_norms(A), row_norms(B))
    np.testing.assert_allclose(D, cdist(A, B, "sqeuclidean"), rtol=1e-9)


def test_column_statistics_are_those_of_numpy(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 5)) * [1, 10, 1e3, 1e-3, 1] + [0, 1, 1e6, 1, 0]
    X[:, 4] = -7.7
    means, deviations = column_statistics(X)
    np.testing.assert_allclose(means, X.mean(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(deviations[:4], X[:, :4].std(axis=0), rtol=1e-9)
    assert deviations[4] == 1
