"""The laws of a kernel and of a Gram stack, as test classes to inherit."""

import json
import pickle
from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError, fields
from typing import Any, ClassVar

import numpy as np
import pytest

from manykernels.exceptions import InvalidInputError
from manykernels.grams.base import GramStack
from manykernels.kernels import KERNELS, KernelSpec, spec_from_dict
from manykernels.validation.arrays import Array


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
        """Return rows on which the kernel is defined (n, p), two equal; non-negative unless overridden."""
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
        """Check that the registered kernel comes back equal from the dictionary, through JSON, and from a pickle."""
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


class GramStackContract(ABC):
    """Laws of a Gram stack, every checked against the same operation written in NumPy on the dense matrices.

    Inherit in a test class, set ``stack_class`` and write `create` and `dense`; called with generators of the same
    seed, they must describe the same kernels, at least four of them on at least six samples.

    Attributes
    ----------
    stack_class : type
        The class under test.
    rtol : float
        Relative error allowed, beside the largest entry of the expected result.

    Examples
    --------
    >>> from manykernels.grams import DenseStack
    >>> class TestDense(GramStackContract):
    ...     stack_class = DenseStack
    ...
    ...     def dense(self, rng):
    ...         factors = rng.normal(size=(4, 6, 3))
    ...         return factors @ factors.transpose(0, 2, 1)
    ...
    ...     def create(self, rng):
    ...         return DenseStack(self.dense(rng))
    >>> TestDense().test_quad()
    """

    stack_class: ClassVar[type[GramStack]]
    rtol: ClassVar[float] = 1e-12

    @abstractmethod
    def create(self, rng: np.random.Generator) -> GramStack:
        """Return the stack under test."""

    @abstractmethod
    def dense(self, rng: np.random.Generator) -> Array:
        """Return the same Gram matrices, (M, N, N) float64, computed independently of the stack."""

    # --- help -------------------------------------------------------------------------------------------------------

    def pair(self) -> tuple[GramStack, Array, np.random.Generator]:
        """Return the stack, the dense matrices and a generator for vectors."""
        stack, grams = self.create(np.random.default_rng(7)), self.dense(np.random.default_rng(7))
        return stack, grams, np.random.default_rng(11)

    def check_close(self, actual: Array, expected: Array) -> None:
        """Assert equal shapes, float64, and values within ``rtol`` of the largest expected one."""
        assert actual.dtype == np.float64
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=self.rtol * max(np.abs(expected).max(), 1e-300))

    @staticmethod
    def weights_with_zeros(n_kernels: int) -> Array:
        """Return weights with zeros and both signs."""
        return np.where(np.arange(n_kernels) % 3 == 1, 0.0, np.linspace(-1.0, 2.0, n_kernels))

    # --- laws -------------------------------------------------------------------------------------------------------

    def test_data_describe_the_stack(self) -> None:
        """Check sizes, dtype and names."""
        stack, grams, _ = self.pair()
        assert type(stack) is self.stack_class
        assert stack.shape == grams.shape
        assert (len(stack), stack.n_kernels, stack.n_samples) == (len(grams), *grams.shape[:2])
        assert stack.dtype in (np.dtype(np.float32), np.dtype(np.float64))
        assert stack.names is None or len(set(stack.names)) == len(grams)
        assert stack.nbytes >= 0

    def test_block(self) -> None:
        """Check blocks by positions, slices and masks."""
        stack, grams, _ = self.pair()
        rows, cols, kernels = [4, 1, 1], [0, 5, 3, 2], [2, 0]
        self.check_close(stack.block(rows, cols, kernels), grams[np.ix_(kernels, rows, cols)])
        self.check_close(stack.block(), grams)
        self.check_close(stack.block(slice(1, 4), kernels=np.arange(len(grams)) == 3), grams[3:4, 1:4])

    def test_block_is_exactly_symmetric(self) -> None:
        """Check that both triangles are equal to the last bit."""
        block = self.pair()[0].block()
        np.testing.assert_array_equal(block, block.transpose(0, 2, 1))

    def test_diag(self) -> None:
        """Check the diagonals."""
        stack, grams, _ = self.pair()
        self.check_close(stack.diag(), np.diagonal(grams, axis1=1, axis2=2))

    def test_quad_each(self) -> None:
        """Check ``r' K_m r`` of every column of a matrix."""
        stack, grams, rng = self.pair()
        columns = rng.normal(size=(stack.n_samples, 3))
        self.check_close(stack.quad_each(columns), np.einsum("ik,mij,jk->mk", columns, grams, columns))

    def test_squares_each(self) -> None:
        """Check ``tr R' K_m R`` of several sets of vectors, and of sets of one."""
        stack, grams, rng = self.pair()
        sets = rng.normal(size=(stack.n_samples, 4, 3))
        self.check_close(stack.squares_each(sets), np.einsum("ikt,mij,jkt->mk", sets, grams, sets))
        self.check_close(stack.squares_each(sets[:, :, :1]), stack.quad_each(sets[:, :, 0]))

    def test_squares(self) -> None:
        """Check ``tr R' K_m R`` of all kernels and of some, and single matrices."""
        stack, grams, rng = self.pair()
        columns = rng.normal(size=(stack.n_samples, 3))
        expected = np.einsum("ik,mij,jk->m", columns, grams, columns)
        self.check_close(stack.squares(columns), expected)
        self.check_close(stack.squares(columns, np.array([1, 0])), expected[[1, 0]])
        self.check_close(stack.matrix(1), grams[1])

    def test_quad(self) -> None:
        """Check ``r' K_m r``, also for a zero vector."""
        stack, grams, rng = self.pair()
        r = rng.normal(size=stack.n_samples)
        self.check_close(stack._quad(r), np.einsum("i,mij,j->m", r, grams, r))
        self.check_close(stack.quad(r), np.einsum("i,mij,j->m", r, grams, r))
        self.check_close(stack.quad(np.zeros_like(r)), np.zeros(len(grams)))

    def test_apply_each(self) -> None:
        """Check ``K_m R`` for a vector, a single column and several, all kernels and some."""
        stack, grams, rng = self.pair()
        for shape in ((stack.n_samples,), (stack.n_samples, 1), (stack.n_samples, 3)):
            right = rng.normal(size=shape)
            self.check_close(stack.apply_each(right), grams @ right)
            self.check_close(stack.apply_each(right, [3, 1]), grams[[3, 1]] @ right)

    def test_apply(self) -> None:
        """Check ``sum_m d_m K_m R`` with zero and negative weights."""
        stack, grams, rng = self.pair()
        d = self.weights_with_zeros(len(grams))
        for shape in ((stack.n_samples,), (stack.n_samples, 3)):
            right = rng.normal(size=shape)
            self.check_close(stack.apply(d, right), np.tensordot(d, grams, axes=1) @ right)

    def test_combine(self) -> None:
        """Check ``sum_m d_m K_m`` with zero and negative weights, and that it is exactly symmetric."""
        stack, grams, _ = self.pair()
        d = self.weights_with_zeros(len(grams))
        combined = stack.combine(d)
        self.check_close(combined, np.tensordot(d, grams, axes=1))
        np.testing.assert_array_equal(combined, combined.T)
        self.check_close(stack.combine(np.zeros(len(grams))), np.zeros(grams.shape[1:]))

    def test_triangles(self) -> None:
        """Check packed triangles in the storage dtype and into an array of the caller."""
        stack, grams, _ = self.pair()
        upper = np.triu_indices(stack.n_samples)
        packed = stack.triangles([2, 0])
        assert packed.dtype == stack.dtype
        self.check_close(packed.astype(np.float64), grams[[2, 0]][:, upper[0], upper[1]])
        out = np.empty((len(grams), len(upper[0])))
        assert stack.triangles(out=out) is out
        self.check_close(out, grams[:, upper[0], upper[1]])

    def test_take(self) -> None:
        """Check some kernels, also of a stack of some kernels."""
        stack, grams, rng = self.pair()
        r = rng.normal(size=stack.n_samples)
        taken = stack.take([3, 0])
        assert taken.shape == (2, *grams.shape[1:])
        assert taken.names == (None if stack.names is None else (stack.names[3], stack.names[0]))
        self.check_close(taken.quad(r), np.einsum("i,mij,j->m", r, grams[[3, 0]], r))
        self.check_close(taken.take([1]).block(), grams[[0]])

    def test_restrict(self) -> None:
        """Check some samples, and some kernels of them."""
        stack, grams, rng = self.pair()
        samples = [5, 0, 2]
        small = stack.restrict(samples)
        expected = grams[:, samples][:, :, samples]
        r = rng.normal(size=3)
        assert small.names == stack.names
        self.check_close(small.block(), expected)
        self.check_close(small.quad(r), np.einsum("i,mij,j->m", r, expected, r))
        self.check_close(small.take([1]).combine([2.0]), 2 * expected[1])

    def test_read_only_arguments_are_left_alone(self) -> None:
        """Check that arguments that cannot be written are accepted."""
        stack, grams, rng = self.pair()
        r, d = rng.normal(size=stack.n_samples), self.weights_with_zeros(len(grams))
        r.flags.writeable = d.flags.writeable = False
        self.check_close(stack.quad(r), np.einsum("i,mij,j->m", r, grams, r))
        self.check_close(stack.apply_each(r), grams @ r)
        self.check_close(stack.apply(d, r), np.tensordot(d, grams, axes=1) @ r)

    def test_float32_and_integer_arguments(self) -> None:
        """Check that other real arguments give the same float64 results."""
        stack, grams, _ = self.pair()
        r = np.arange(stack.n_samples) - 2
        expected = np.einsum("i,mij,j->m", r, grams, r)
        self.check_close(stack.quad(r), expected)
        self.check_close(stack.quad(r.astype(np.float32)), expected)
        self.check_close(stack.quad(r.tolist()), expected)

    def test_pickle(self) -> None:
        """Check that a copy through pickle gives equal results."""
        stack, _, rng = self.pair()
        r = rng.normal(size=stack.n_samples)
        again = pickle.loads(pickle.dumps(stack))
        assert type(again) is type(stack)
        assert again.names == stack.names
        np.testing.assert_array_equal(again.quad(r), stack.quad(r))

    def test_threads_do_not_change_results(self) -> None:
        """Check that three threads give the results of one, bit for bit."""
        stack, _, rng = self.pair()
        r, d = rng.normal(size=stack.n_samples), self.weights_with_zeros(stack.n_kernels)
        single = [stack.quad(r), stack.apply_each(r), stack.combine(d)]
        stack = self.pair()[0]
        stack.n_threads = 3
        for actual, expected in zip([stack.quad(r), stack.apply_each(r), stack.combine(d)], single, strict=True):
            np.testing.assert_array_equal(actual, expected)

    def test_counters_count_passes(self) -> None:
        """Check that entries, bytes and passes are counted exactly, and not by a stack taken from this one."""
        stack, grams, rng = self.pair()
        r, d = rng.normal(size=stack.n_samples), self.weights_with_zeros(len(grams))
        m, active, triangle = len(grams), np.count_nonzero(d), stack.n_samples * (stack.n_samples + 1) // 2
        assert stack.counters.passes == 0
        for operation, kernels in (
            (lambda: stack.quad(r), m),
            (lambda: stack.apply_each(r, [0, 2]), 2),
            (lambda: stack.apply(d, r), active),
            (lambda: stack.combine(d), active),
            (lambda: stack.triangles([1]), 1),
        ):
            stack.counters.reset()
            operation()
            assert stack.counters.entries == kernels * triangle
            assert stack.counters.bytes_read == kernels * triangle * stack.dtype.itemsize
            assert stack.counters.passes == kernels / m
        stack.counters.reset()
        assert stack.take([0]).quad(r).shape == (1,)
        assert stack.counters.entries == 0

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda s: s.quad(np.ones(s.n_samples + 1)), "r must have shape"),
            (lambda s: s.quad(np.ones((s.n_samples, 2))), "r must have shape"),
            (lambda s: s.quad(np.full(s.n_samples, np.nan)), "r contains .* NaN"),
            (lambda s: s.quad(["a"] * s.n_samples), "r must hold real numbers"),
            (lambda s: s.apply_each(np.ones((2, s.n_samples))), "R must have shape"),
            (lambda s: s.apply(np.ones(s.n_kernels + 1), np.ones(s.n_samples)), "d must have shape"),
            (lambda s: s.combine(np.full(s.n_kernels, np.inf)), "d contains .* infinite"),
            (lambda s: s.take([s.n_kernels]), "kernels has position"),
            (lambda s: s.take([]), "No kernels chosen"),
            (lambda s: s.take([0.5]), "kernels must be a slice"),
            (lambda s: s.restrict([-s.n_samples - 1]), "samples has position"),
            (lambda s: s.restrict([True]), "mask of samples must have"),
            (lambda s: s.triangles([0], out=np.empty((2, 3))), "out must have shape"),
        ],
    )
    def test_wrong_arguments_are_refused(self, call: Any, message: str) -> None:
        """Check that the message names the argument that is wrong."""
        with pytest.raises(InvalidInputError, match=message):
            call(self.pair()[0])
