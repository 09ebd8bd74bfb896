"""The laws of a kernel, as a test class to inherit."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.kernels import KERNELS, KernelSpec, spec_from_dict

__all__ = ["KernelContract"]

Array = NDArray[Any]


class KernelContract:
    """Laws that every kernel obeys; inherit it and supply a fixture ``kernel``.

    Examples
    --------
    A test module for a kernel of your own::

        class TestMyKernel(KernelContract):
            @pytest.fixture
            def kernel(self):
                return MyKernel(0.7)
    """

    def points(self) -> Array:
        """Return rows on which the kernel is defined (n, p), two of them equal; non-negative unless overridden."""
        X = 3.0 * np.random.default_rng(0).random((23, 3))
        X[7] = X[3]
        X.flags.writeable = False
        return X

    def test_symmetric(self, kernel: KernelSpec) -> None:
        """Check shape, type and exact symmetry of the matrix of points with themselves."""
        X = self.points()
        K = kernel(X)
        assert K.shape == (len(X), len(X))
        assert K.dtype == np.float64
        np.testing.assert_array_equal(K, K.T)

    def test_positive_semidefinite(self, kernel: KernelSpec) -> None:
        """Check that no eigenvalue is negative beyond rounding."""
        eigenvalues = np.linalg.eigvalsh(kernel(self.points()))
        assert eigenvalues[0] >= -1e-12 * eigenvalues[-1], f"smallest eigenvalue {eigenvalues[0]:.3g}"

    def test_diagonal(self, kernel: KernelSpec) -> None:
        """Check that ``diag`` is the diagonal of the matrix, and all ones if the kernel says so."""
        X = self.points()
        diagonal = kernel.diag(X)
        np.testing.assert_allclose(diagonal, np.diag(kernel(X)), rtol=1e-12)
        assert not kernel.unit_diagonal or np.all(diagonal == 1)

    def test_two_sets_of_points(self, kernel: KernelSpec) -> None:
        """Check that values of different sets of points are those of all points together."""
        X = self.points()
        expected = kernel(X)
        np.testing.assert_allclose(kernel(X[:9], X[9:]), expected[:9, 9:], rtol=1e-12, atol=1e-12 * expected.max())
        assert kernel(X[:0], X).shape == (0, len(X))

    def test_dictionary(self, kernel: KernelSpec) -> None:
        """Check that the registered kernel comes back equal from its dictionary, through JSON, and from a pickle."""
        assert KERNELS[kernel.kind] is type(kernel), f"{type(kernel).__name__} is not registered"
        assert spec_from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert kernel.kind in kernel.label

    def test_frozen(self, kernel: KernelSpec) -> None:
        """Check that hyper-parameters cannot be set, and that equal kernels hash alike."""
        assert hash(kernel) == hash(pickle.loads(pickle.dumps(kernel)))
        for field in fields(kernel):
            try:
                setattr(kernel, field.name, getattr(kernel, field.name))
            except FrozenInstanceError:
                continue
            raise AssertionError(f"{field.name} of {kernel.label} could be changed")
