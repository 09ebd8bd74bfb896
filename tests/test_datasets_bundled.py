"""Bundled data arrives as named tables with readable targets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from manykernels.datasets import load_bundled

SHAPES = {
    "breast_cancer": ((569, 30), 2),
    "diabetes": ((442, 10), None),
    "digits": ((1797, 64), 10),
    "iris": ((150, 4), 3),
    "wine": ((178, 13), 3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_classes(name: str) -> None:
    X, y = load_bundled(name)
    shape, n_classes = SHAPES[name]
    assert X.shape == shape
    assert len(y) == shape[0]
    assert all(isinstance(column, str) for column in X.columns)
    if n_classes is not None:
        assert y.nunique() == n_classes
        assert all(isinstance(label, str) for label in y)


def test_classes_are_named_as_in_the_source() -> None:
    X, y = load_bundled("breast_cancer")
    source = load_breast_cancer()
    np.testing.assert_array_equal(X, source.data)
    np.testing.assert_array_equal(y == "benign", source.target == 1)


def test_a_regression_target_stays_a_number() -> None:
    _, y = load_bundled("diabetes")
    np.testing.assert_array_equal(y, load_diabetes().target)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Unknown data set 'mnist'\. Bundled: 'breast_cancer'.*'wine'"):
        load_bundled("mnist")
