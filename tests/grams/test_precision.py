"""Products in single precision are those of vectors of any unit."""

import numpy as np
import pytest

from manykernels.grams.precision import convert_precision, product_in_precision

rng = np.random.default_rng(0)
FEATURES = rng.normal(size=(40, 7)).astype(np.float32)


@pytest.mark.parametrize("unit", [1.0, 1e-20, 1e42, 1e-44, 1e300, 0.0])
@pytest.mark.parametrize("shape", [(40,), (40, 3)])
def test_products_have_the_unit_of_the_vectors(unit: float, shape: tuple[int, ...]) -> None:
    vectors = unit * rng.normal(size=shape)
    found = product_in_precision(FEATURES.T, vectors)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, FEATURES.T.astype(np.float64) @ vectors, atol=1e-5 * unit)


def test_each_column_has_a_unit_of_its_own() -> None:
    vectors = rng.normal(size=(40, 3)) * [1e-30, 1.0, 1e30]
    known = FEATURES.T.astype(np.float64) @ vectors
    found = product_in_precision(FEATURES.T, vectors)
    assert (np.abs(found - known).max(axis=0) < 1e-5 * np.abs(known).max(axis=0)).all()
    rounded, units = convert_precision(vectors, np.float32)
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded * units, vectors, rtol=1e-6)


def test_vectors_of_the_same_precision_are_taken_as_they_are() -> None:
    vectors = rng.normal(size=(40, 2))
    assert convert_precision(vectors, np.float64)[0] is vectors
