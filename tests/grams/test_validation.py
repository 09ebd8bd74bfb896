"""Checks of Gram arrays: what is refused, how it is said, and what is let through."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.exceptions import InvalidInputError, NotPSDError
from manykernels.grams import DenseStack, PackedStack, as_stack
from manykernels.validation.arrays import check_float32_range, check_indices, check_names
from manykernels.validation.gram import check_gram_array, examined

INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])  # eigenvalues -1 and 3


def gram(n_samples=30, rank=4, seed=0):
    factor = np.random.default_rng(seed).normal(size=(n_samples, rank))
    return factor @ factor.T


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e150])
def test_rank_deficient_kernels_of_any_scale_pass_untouched(scale):
    kernels = np.stack([gram(), np.ones((30, 30)), np.zeros((30, 30))]) * scale
    assert examined(check_gram_array(kernels), "raise")[0] is kernels


def test_float32_rounding_is_let_through():
    kernels = gram().astype(np.float32)[None]
    assert examined(check_gram_array(kernels), "raise")[0] is kernels
    assert as_stack(kernels).dtype == np.float32


@pytest.mark.parametrize("dtype", [int, bool, np.float16, np.int8, ">f8"])
def test_other_real_numbers_become_float64(dtype):
    array = check_gram_array(np.eye(3)[None].astype(dtype))
    assert array.dtype == np.float64
    assert array.dtype.isnative


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        (np.eye(3), r"must have shape .* got \(3, 3\).*pass kernels\[None\]"),
        (np.ones((2, 3, 4)), r"must have shape .* got \(2, 3, 4\)"),
        (np.ones((0, 3, 3)), "at least one kernel and one sample"),
        (np.ones((3, 0, 0)), "at least one kernel and one sample"),
        (np.eye(2)[None] * 1j, "must hold real numbers, got dtype complex128"),
        ([[["a"]]], "must hold real numbers"),
        ([[[1, 2], [2]]], "could not be read as one array"),
        (np.full((1, 2, 2), np.inf), r"kernels\[0\] contains 4 NaN or infinite value"),
    ],
)
def test_arrays_that_are_no_kernels_are_refused(kernels, message):
    with pytest.raises(InvalidInputError, match=message):
        check_gram_array(kernels)


def test_asymmetry_is_reported_with_kernel_entry_and_size():
    kernels = np.stack([np.eye(3), np.eye(3)])
    kernels[1, 0, 2] = 0.25
    with pytest.raises(
        NotPSDError, match=r"kernels\[1\] is not symmetric: entry \[0, 2\] is 0.25 .* \(difference 0.25\)"
    ):
        check_gram_array(kernels)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_asymmetry_is_relative_to_the_size_of_the_kernel(scale):
    kernels = gram()[None].copy() * scale
    kernels[0, 0, 1] *= 1 + 1e-12
    assert check_gram_array(kernels) is kernels
    kernels[0, 0, 1] *= 1 + 1e-3
    with pytest.raises(NotPSDError, match="not symmetric"):
        check_gram_array(kernels)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e100])
def test_an_indefinite_kernel_is_refused_with_its_eigenvalues(scale):
    kernels = np.stack([np.eye(2), INDEFINITE, INDEFINITE]) * scale
    smallest = f"{-scale:.3g}".replace("+", r"\+")
    with pytest.raises(
        NotPSDError, match=rf"kernels\[1\] .* smallest eigenvalue is {smallest} .* So are 1 more of the 3"
    ):
        examined(kernels, "raise")


@pytest.mark.parametrize("gram_matrix", [[[0.0, 1.0], [1.0, 0.0]], [[-1e-200]], [[1.0, 0.0], [0.0, -1e-3]]])
def test_small_or_hollow_indefinite_kernels_are_refused(gram_matrix):
    with pytest.raises(NotPSDError, match='psd="clip"'):
        as_stack([gram_matrix])


def test_clip_sets_negative_eigenvalues_to_zero_in_a_copy():
    noise = np.random.default_rng(1).normal(size=(30, 30))
    kernels = np.stack([gram(), gram() + noise + noise.T])
    before = kernels.copy()
    clipped = as_stack(kernels, psd="clip").block()
    np.testing.assert_array_equal(kernels, before)
    np.testing.assert_array_equal(clipped[0], kernels[0])
    values, vectors = np.linalg.eigh(kernels[1])
    assert values[0] < -1
    np.testing.assert_allclose(clipped[1], (vectors * values.clip(0)) @ vectors.T, atol=1e-12 * values[-1])
    assert examined(clipped, "raise")[0] is clipped


def test_ignore_lets_an_indefinite_kernel_through():
    np.testing.assert_array_equal(as_stack(INDEFINITE[None], psd="ignore").block()[0], INDEFINITE)
    with pytest.raises(InvalidInputError, match="psd must be one of"):
        as_stack(INDEFINITE[None], psd="fix")


def test_as_stack_passes_stacks_and_does_not_copy_arrays():
    stack = DenseStack(np.eye(2)[None])
    assert as_stack(stack) is stack
    kernels = gram()[None]
    assert np.shares_memory(as_stack(kernels, names=["a"]).array, kernels)


@pytest.mark.parametrize("size", [1e-40, 1e39])
def test_kernels_that_float32_cannot_hold_are_refused(size):
    kernels = np.stack([np.eye(3), size * np.eye(3)])
    with pytest.raises(InvalidInputError, match=r"Kernel 1 has diagonal entries up to 1e.* float32 cannot hold"):
        PackedStack.from_dense(kernels, dtype=np.float32)
    check_float32_range(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "one name for each of the 2 kernels, got 1"), (["a", "a"], r"\['a'\] appear more than once")],
)
def test_names_are_checked(names, message):
    with pytest.raises(InvalidInputError, match=message):
        DenseStack(np.ones((2, 1, 1)), names=names)
    assert check_names(["a", "b"], 2) == ("a", "b")


def test_indices_from_the_end_and_masks():
    np.testing.assert_array_equal(check_indices([-1, 0], 4, "x"), [3, 0])
    np.testing.assert_array_equal(check_indices([True, False, True], 3, "x"), [0, 2])
    np.testing.assert_array_equal(check_indices(slice(None, None, 2), 5, "x"), [0, 2, 4])


@pytest.mark.parametrize(("shape", "n_samples"), [((2, 5), 3), ((6,), 3), ((0, 6), 3)])
def test_packed_triangles_of_a_wrong_shape_are_refused(shape, n_samples):
    with pytest.raises(InvalidInputError, match=r"must have shape \(M, 6\)"):
        PackedStack(np.ones(shape), n_samples)


def test_other_storage_types_are_refused():
    with pytest.raises(InvalidInputError, match="stored as float32 or float64"):
        PackedStack.from_dense(np.eye(2)[None], dtype=np.float16)
    with pytest.raises(InvalidInputError, match=r"non-empty \(M, N, N\) array"):
        DenseStack(np.eye(3))
