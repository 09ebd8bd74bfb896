"""Every Gram stack obeys every law, and none is left out."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import manykernels
import manykernels.grams as grams_package
from manykernels.grams import DenseStack, GramStack, LazyStack, PackedStack, PairStack, RankOneStack
from manykernels.grams.base import GramView
from manykernels.grams.dense import DensePart
from manykernels.kernels import ArdGaussian, Gaussian, KernelBank, Laplacian, Matern, Polynomial
from manykernels.kernels.pairs import data as pair_index
from manykernels.testing.kernels import GramStackContract

N_SAMPLES = 23


def random_grams(rng: np.random.Generator, n_kernels: int = 5, n_samples: int = N_SAMPLES) -> np.ndarray:
    factors = rng.normal(size=(n_kernels, n_samples, 9))
    return factors @ factors.transpose(0, 2, 1)


class RandomGrams(GramStackContract):
    def dense(self, rng):
        return random_grams(rng)


class TestDense(RandomGrams):
    stack_class = DenseStack

    def create(self, rng):
        return DenseStack(random_grams(rng), names=list("abcde"))


class TestDenseFloat32(RandomGrams):
    stack_class = DenseStack
    rtol = 1e-6

    def create(self, rng):
        return DenseStack(random_grams(rng).astype(np.float32))


class TestDenseReadOnlyNotContiguous(RandomGrams):
    stack_class = DenseStack

    def create(self, rng):
        array = np.moveaxis(np.moveaxis(random_grams(rng), 0, 2).copy(), 2, 0)
        array.flags.writeable = False
        return DenseStack(array)


class TestPacked(RandomGrams):
    stack_class = PackedStack

    def create(self, rng):
        return PackedStack.from_dense(random_grams(rng), names=list("abcde"))


class TestPackedFloat32(RandomGrams):
    stack_class = PackedStack
    rtol = 1e-6

    def create(self, rng):
        return PackedStack.from_stack(DenseStack(random_grams(rng)), dtype=np.float32)


class TestDensePart(RandomGrams):
    """Some samples of full matrices, of which no copy has been made."""

    stack_class = DensePart

    def create(self, rng):
        wide, samples = np.zeros((5, 2 * N_SAMPLES, 2 * N_SAMPLES)), np.arange(0, 2 * N_SAMPLES, 2)
        wide[:, ::2, ::2] = random_grams(rng)
        return DensePart(DenseStack(wide), samples)


class TestView(RandomGrams):
    """Only ``_block`` and ``diag``: the laws of every default."""

    stack_class = GramView

    def create(self, rng):
        wide = random_grams(rng)
        order = np.array([3, 1, 0, 4, 2])
        inverse = np.argsort(order)
        return GramView(DenseStack(wide[order]), inverse, np.arange(N_SAMPLES))


class TestViewInSmallChunks(TestView):
    def create(self, rng):
        stack = super().create(rng)
        # Blocks of one kernel and three rows: the seams between blocks are part of the laws.
        stack._chunks = small_chunks(stack)
        return stack

    def test_pickle(self):
        assert self.create(np.random.default_rng(0)).n_samples == N_SAMPLES


def small_chunks(stack):
    def chunks(kernels):
        for at in range(len(kernels)):
            for top in range(0, stack.n_samples, 3):
                yield np.array([at]), np.arange(top, min(top + 3, stack.n_samples))

    return chunks


X = np.random.default_rng(3).normal(size=(N_SAMPLES, 4))
WIDTHS = (0.5, 2.0, 30.0)


def mixed_bank(**options):
    entries = [(f"a{w}", Gaussian(w), [0]) for w in WIDTHS] + [
        ("p", Polynomial(2), [0, 1]),
        ("b", Gaussian(1.5), [0, 1, 3]),
        ("l", Laplacian(2.0), [2]),
        ("ard", ArdGaussian((1.0, 3.0)), [1, 2]),
        ("matern", Matern(1.0), [0]),
    ]
    return KernelBank([entries[k] for k in (3, 0, 5, 1, 4, 6, 2, 7)], **{"normalize": "trace", **options}).fit(X)


def formulas() -> np.ndarray:
    """The kernels of ``mixed_bank`` before normalization, from their definitions."""
    difference = X[:, None] - X
    square = lambda columns, scale=1.0: ((difference[:, :, columns] / scale) ** 2).sum(axis=2)  # noqa: E731
    a = [np.exp(-square([0]) / (2 * w**2)) for w in WIDTHS]
    p = (X[:, :2] @ X[:, :2].T + 1) ** 2
    b = np.exp(-square([0, 1, 3]) / (2 * 1.5**2))
    laplacian = np.exp(-np.abs(difference[:, :, 2]) / 2)
    ard = np.exp(-square([1, 2], np.array([1.0, 3.0])) / 2)
    r = np.sqrt(3) * np.abs(difference[:, :, 0])
    return np.stack([p, a[0], laplacian, a[1], b, ard, a[2], (1 + r) * np.exp(-r)])


class TestLazy(GramStackContract):
    stack_class = LazyStack

    def dense(self, rng):
        raw = formulas()
        return raw / np.trace(raw, axis1=1, axis2=2)[:, None, None]

    def create(self, rng):
        bank = mixed_bank()
        return LazyStack(bank, bank.prepare(X))


class TestLazyFloat32(TestLazy):
    rtol = 1e-6

    def create(self, rng):
        bank = mixed_bank()
        return LazyStack(bank, bank.prepare(X), dtype=np.float32)


class TestLazyCentered(TestLazy):
    rtol = 1e-11

    def dense(self, rng):
        center = np.eye(N_SAMPLES) - 1 / N_SAMPLES
        centered = center @ formulas() @ center
        return centered / np.trace(centered, axis1=1, axis2=2)[:, None, None]

    def create(self, rng):
        bank = mixed_bank(center=True)
        return LazyStack(bank, bank.prepare(X))


class TestLazyUnitDiagonal(TestLazy):
    def dense(self, rng):
        raw = formulas()
        size = np.sqrt(np.diagonal(raw, axis1=1, axis2=2))
        return raw / (size[:, :, None] * size[:, None, :])

    def create(self, rng):
        bank = mixed_bank(normalize="unit_diagonal")
        return LazyStack(bank, bank.prepare(X))


class TestRankOne(GramStackContract):
    stack_class = RankOneStack

    def dense(self, rng):
        features = rng.normal(size=(5, N_SAMPLES))
        return features[:, :, None] * features[:, None, :]

    def create(self, rng):
        return RankOneStack(rng.normal(size=(5, N_SAMPLES)), names=list("abcde"))


class TestPairs(GramStackContract):
    """Products of kernels of 4 first and 6 second members, and main effects; most of the table is filled."""

    stack_class = PairStack
    rtol = 1e-11
    sizes, n_pairs, products = (4, 6), N_SAMPLES, [(0, 0), (1, 1), (1, None), (None, 0), (0, 1)]

    def members(self, rng):
        left, right = (random_grams(rng, 2, size) for size in self.sizes)
        return left, right, np.column_stack([rng.integers(0, size, self.n_pairs) for size in self.sizes])

    def dense(self, rng):
        left, right, pairs = self.members(rng)
        pick = lambda grams, k, c: 1.0 if k is None else grams[k][np.ix_(pairs[:, c], pairs[:, c])]  # noqa: E731
        return np.stack([pick(left, a, 0) * pick(right, b, 1) for a, b in self.products])

    def create(self, rng):
        left, right, pairs = self.members(rng)
        return PairStack(left, right, pairs, products=self.products)


class TestPairsInALargeTable(TestPairs):
    """Ten pairs among 22 x 30, by sparse tables."""

    sizes, n_pairs = (22, 30), 10

    @pytest.fixture(autouse=True)
    def _sparse(self, monkeypatch):
        monkeypatch.setattr(pair_index, "DENSE_SHARE", 0.1)


class TestSymmetricPairs(TestPairs):
    """Members of one kind, also with two different kernels; the average over all orders is written out."""

    sizes, n_pairs, products, sign = (9, 9), N_SAMPLES, [(0, 0), (1, 1), (0, 1), (1, 0)], 1

    def members(self, rng):
        left = random_grams(rng, 2, self.sizes[0])
        return left, left, rng.integers(0, self.sizes[0], (self.n_pairs, 2))

    def dense(self, rng):
        grams, _, pairs = self.members(rng)
        n = self.sizes[0]
        swap = np.eye(n * n).reshape(n, n, n * n).transpose(1, 0, 2).reshape(n * n, n * n)
        mean = (np.eye(n * n) + self.sign * swap) / 2
        at = pairs[:, 0] * n + pairs[:, 1]
        return np.stack([(mean @ np.kron(grams[a], grams[b]) @ mean)[np.ix_(at, at)] for a, b in self.products])

    def create(self, rng):
        left, _, pairs = self.members(rng)
        symmetry = "symmetric" if self.sign == 1 else "antisymmetric"
        return PairStack(left, None, pairs, products=self.products, symmetry=symmetry)


class TestAntisymmetricPairsInALargeTable(TestSymmetricPairs):
    sizes, n_pairs, sign = (22, 22), 12, -1

    @pytest.fixture(autouse=True)
    def _sparse(self, monkeypatch):
        monkeypatch.setattr(pair_index, "DENSE_SHARE", 0.1)


def subclasses(cls):
    for child in cls.__subclasses__():
        yield child
        yield from subclasses(child)


@pytest.fixture(scope="module")
def _all_modules():
    """Import whatever defines a stack or puts one under the contract, whichever tests are collected."""
    for module in pkgutil.walk_packages(manykernels.__path__, "manykernels."):
        if "__main__" not in module.name:
            importlib.import_module(module.name)
    tests = Path(__file__).parents[1]
    for path in sorted(tests.rglob("test_*.py")):
        if "(GramStackContract)" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.relative_to(tests.parent).with_suffix("").parts))


@pytest.mark.usefixtures("_all_modules")
def test_every_stack_has_its_contract():
    covered = {c.stack_class for c in subclasses(GramStackContract) if hasattr(c, "stack_class")}
    shipped = {
        c for c in subclasses(GramStack) if c.__module__.startswith("manykernels.") and not inspect.isabstract(c)
    }
    assert shipped
    assert shipped <= covered, f"no contract test for {sorted(c.__name__ for c in shipped - covered)}"


def test_every_exported_stack_is_known_to_the_meta_test():
    exported = {c for c in vars(grams_package).values() if inspect.isclass(c) and issubclass(c, GramStack)}
    assert exported - {GramStack} <= set(subclasses(GramStack))
    assert {DenseStack, LazyStack, PackedStack, RankOneStack} <= exported


def test_the_contract_notices_a_wrong_stack():
    class Wrong(TestDense):
        def create(self, rng):
            stack = super().create(rng)
            quad = stack._quad
            stack._quad = lambda r: quad(r) * (1 + 1e-6)
            return stack

    failed = False
    try:
        Wrong().test_quad()
    except AssertionError:
        failed = True
    assert failed
