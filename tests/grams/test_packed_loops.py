"""The compiled loops on sizes around their seams, and the exponentials against the standard library."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.grams import gaussian_loops as gaussian
from manykernels.grams import loops
from manykernels.grams import packed as packed_loops
from manykernels.grams.base import mirror_upper, triangle_size, triangle_starts
from manykernels.validation.arrays import read_only

SIZES = [1, 2, 3, 31, 32, 33, 91]  # around blocks of 32, and 91: a triangle larger than one tile


def symmetric(n_samples, n_kernels=4, dtype=np.float64, seed=0):
    array = np.random.default_rng(seed).normal(size=(n_kernels, n_samples, n_samples))
    return (array + array.transpose(0, 2, 1)).astype(dtype)


def packed(grams):
    return np.ascontiguousarray(grams[:, *np.triu_indices(grams.shape[1])])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_packed_loops_equal_numpy(n, dtype):
    grams, rho = symmetric(n, dtype=dtype), np.random.default_rng(1).normal(size=n)
    triangles, exact = read_only(packed(grams)), grams.astype(np.float64)
    d = np.array([0.5, 0.0, -2.0, 1.0])
    quad, each, combined = np.empty(4), np.empty((4, n)), np.zeros(triangles.shape[1])
    packed_loops.quad_packed(triangles, n, rho, quad)
    packed_loops.apply_packed_each(triangles, n, rho, each)
    used = np.flatnonzero(d)
    for first, last in ((0, n), (n, combined.size)):
        loops.add_columns(triangles, used, d[used], combined[first:last], first)
    np.testing.assert_allclose(quad, np.einsum("i,mij,j->m", rho, exact, rho), rtol=0, atol=1e-12 * n**2)
    np.testing.assert_allclose(each, exact @ rho, rtol=0, atol=1e-12 * n)
    np.testing.assert_allclose(combined, packed(np.tensordot(d, exact, axes=1)[None])[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", SIZES)
def test_packing_and_unpacking_are_inverse(n):
    gram = symmetric(n)[0]
    triangle, again = np.empty(triangle_size(n)), np.empty((n, n))
    packed_loops.pack_triangle(read_only(gram), triangle)
    packed_loops.unpack_triangle(read_only(triangle), n, again)
    np.testing.assert_array_equal(triangle, packed(gram[None])[0])
    np.testing.assert_array_equal(again, gram)
    np.testing.assert_array_equal(triangle[triangle_starts(n)[:-1]], np.diagonal(gram))
    upper = np.triu(gram)
    mirror_upper(upper)
    np.testing.assert_array_equal(upper, gram)


def test_a_bad_entry_shows():
    triangles = packed(symmetric(5))
    triangles[2, 3] = np.nan
    quad = np.empty(4)
    packed_loops.quad_packed(read_only(triangles), 5, np.ones(5), quad)
    np.testing.assert_array_equal(np.isnan(quad), [False, False, True, False])


def test_a_kernel_of_weight_zero_is_not_read():
    triangles = packed(symmetric(5))
    triangles[1] = np.nan
    assert np.isfinite(packed_loops.PackedStack(triangles, 5).combine([1.0, 0.0, 1.0, 1.0])).all()


def test_exp64_is_within_two_units_in_the_last_place():
    x = -np.concatenate([np.linspace(0, 705, 20001), np.logspace(-300, 2, 5001)])
    values = np.array([gaussian.exp64(v) for v in x])
    np.testing.assert_allclose(values, np.exp(x), rtol=5e-16, atol=0)


@pytest.mark.parametrize("x", [0.0, -0.0, -5e-324])
def test_exponentials_at_zero(x):
    assert gaussian.exp64(x) == 1.0


@pytest.mark.parametrize("x", [-709.0, -1e6, -1e300, -np.inf])
def test_exponentials_far_below_zero_vanish(x):
    assert gaussian.exp64(x) == 0.0


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (8, 1), (9, 2), (257, 1), (270, 5)])
def test_gaussian_quad_equals_numpy_around_its_tiles(n, d):
    rng = np.random.default_rng(n)
    points, rho = rng.normal(size=(d, n)), rng.normal(size=n)
    coefficients = np.array([-1e-4, -0.5, -200.0])
    squares = ((points[:, :, None] - points[:, None, :]) ** 2).sum(axis=0)
    expected = np.array([rho @ np.exp(c * squares) @ rho for c in coefficients])
    actual = np.empty(3)
    gaussian.gaussian_quad(points, coefficients, rho, actual)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13 * np.abs(rho).sum() ** 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_gaussian_triangles_are_the_tiles_packed(n, dtype):
    points = np.random.default_rng(n).normal(size=(3, n))
    coefficients, scales, out = np.array([-0.5, -4.0]), np.array([1.0, 0.3]), np.full((4, triangle_size(n)), 7.0, dtype)
    gaussian.gaussian_triangles(points, coefficients, scales, np.array([3, 1]), out)
    tiles = np.empty((2, n, n))
    gaussian.gaussian_tile(points, points, coefficients, scales, tiles)
    np.testing.assert_array_equal(out[[3, 1]], packed(tiles).astype(dtype))
    np.testing.assert_array_equal(out[[0, 2]], 7.0)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (8, 1), (9, 2), (257, 1), (270, 5)])
def test_gaussian_sum_equals_numpy_around_its_tiles(n, d, upper):
    rng = np.random.default_rng(n)
    left, right, weights = rng.normal(size=(d, n)), rng.normal(size=(d, n + 3)), np.array([0.5, 2.0, 1.0, -3.0])
    right = left if upper else right
    coefficients = np.array([-0.01, -0.04, -0.64, -0.03])
    squares = ((left[:, :, None] - right[:, None, :]) ** 2).sum(axis=0)
    expected = 7.0 + np.tensordot(weights, np.exp(coefficients[:, None, None] * squares), axes=1)
    part = np.triu if upper else np.asarray
    exact = np.full(squares.shape, 7.0)
    gaussian.gaussian_sum(left, right, coefficients, weights, upper, exact)
    np.testing.assert_allclose(part(exact), part(expected), rtol=0, atol=1e-13)
