"""Gaussians that are powers of wider ones are held as these, and are the kernels that they would be."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from manykernels import KernelBank, MKLRegressorCV
from manykernels.grams import LazyStack, build_stack
from manykernels.grams.powers import MOST_SQUARINGS, PoweredStack, Powers
from manykernels.kernels import Gaussian, Laplacian, Linear
from manykernels.testing.kernels import GramStackContract

POINTS = np.random.default_rng(5).normal(size=(23, 2))
KERNELS = [
    ("a narrow", Gaussian(0.5), [0]),
    ("b", Gaussian(1.0), [1]),
    ("another kind", Laplacian(2.0), [0]),
    ("a wide", Gaussian(2.0), [0]),
    ("a", Gaussian(1.0), [0]),
    ("a once more", Gaussian(0.5), [0]),
    ("no power", Gaussian(1.7), [0]),
    ("line", Linear(), None),
    ("far narrower", Gaussian(0.125), [0]),
    ("root of two", Gaussian(2.0**0.5), [1]),
]


def lazy_of(X, kernels=KERNELS, **options):
    bank, prepared = KernelBank(kernels, **options).fit_prepare(X)
    return LazyStack(bank, prepared)


class TestPowered(GramStackContract):
    stack_class = PoweredStack

    def dense(self, rng):
        return lazy_of(POINTS).block()

    def create(self, rng):
        lazy = lazy_of(POINTS)
        with patch.object(Powers, "pay", lambda n: True):
            powers = lazy.powers
        names, scales = [name for name, _, _ in KERNELS], np.ones(len(KERNELS))
        return PoweredStack(lazy.triangles(powers.bases), powers, scales, len(POINTS), names=names)


class TestPoweredFloat32(TestPowered):
    rtol = 1e-5

    def create(self, rng):
        with patch.object(Powers, "pay", lambda n: True):
            return lazy_of(POINTS).rounded()


def test_kernels_are_powers_of_the_widest_of_their_columns_within_so_many_squarings():
    lazy = lazy_of(POINTS)
    with patch.object(Powers, "pay", lambda n: True):
        powers = lazy.powers
    owners = [KERNELS[powers.bases[place]][0] for place in powers.owners]
    a, b, own = "a wide", "root of two", [name for name, _, _ in KERNELS]
    assert owners == [a, b, own[2], a, a, a, own[6], own[7], own[8], b]
    assert powers.squarings.tolist() == [4, 1, 0, 0, 2, 4, 0, 0, 0, 0]
    assert powers.squarings.max() <= MOST_SQUARINGS
    assert lazy.powers is powers
    assert lazy_of(POINTS).powers is None  # rows as short as these are read faster from triangles


@pytest.mark.parametrize("options", [{"normalize": "trace"}, {"center": True}, {"normalize": "unit_diagonal"}])
def test_copies_in_single_precision_hold_a_third(options):
    X = np.random.default_rng(0).normal(size=(700, 4))
    X[0, 0] = 60.0  # far from all others: its powers would be no normal numbers
    bank, prepared = KernelBank.per_feature(widths=["0.5*median", "median", "2*median"], **options).fit_prepare(X)
    stack, packed = build_stack(bank, prepared, dtype=np.float32), build_stack(bank, prepared, dtype=np.float64)
    share = 1.0 if options == {"center": True} else 3.0  # centered kernels are no powers of each other
    assert packed.nbytes == pytest.approx(2.0 * share * stack.nbytes, rel=1e-12)
    weights, columns = np.arange(len(bank)) % 3.0, np.random.default_rng(1).normal(size=(700, 2))
    largest = np.abs(packed.block()).max()
    np.testing.assert_allclose(stack.block(), packed.block(), atol=2e-6 * largest)
    np.testing.assert_allclose(stack.quad(columns[:, 0]), packed.quad(columns[:, 0]), rtol=1e-4)
    np.testing.assert_allclose(stack.combine(weights), packed.combine(weights), atol=2e-5 * largest)
    np.testing.assert_allclose(stack.apply_each(columns), packed.apply_each(columns), atol=1e-3 * largest)


def test_searches_choose_the_same_and_hold_less():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(450, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=450)
    found = {}
    for powers in (True, False):
        held = []

        def counted(lazy, held=held, rounded=LazyStack.rounded):
            copy = rounded(lazy)
            held.append(copy.nbytes / copy.n_samples**2)
            return copy

        with patch.object(Powers, "pay", lambda n, own=powers: own), patch.object(LazyStack, "rounded", counted):
            found[powers] = MKLRegressorCV().fit(X, y), max(held)
    (own, less), (other, more) = found[True], found[False]
    assert less < 0.5 * more
    tried = ["kernels", "mixing", "fraction"]
    assert own.cv_results_[tried].equals(other.cv_results_[tried])
    np.testing.assert_allclose(own.cv_results_["mean_score"], other.cv_results_["mean_score"], rtol=1e-3)
    np.testing.assert_allclose(own.predict(X), other.predict(X), atol=1e-3)
