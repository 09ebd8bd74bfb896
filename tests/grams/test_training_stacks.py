"""From a bank and rows to a stack, and prediction between rows, each against dense NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams import DenseStack, LazyStack, PackedStack, build_stack, cross_apply, cross_apply_each, lazy
from manykernels.kernels import FromCallable, Gaussian, KernelBank, Laplacian, Linear, Polynomial

RNG = np.random.default_rng(5)
X, NEW = RNG.normal(size=(40, 3)), RNG.normal(size=(13, 3))
ENTRIES = [
    ("g1", Gaussian(0.7), [0, 1]),
    ("p3", Polynomial(3), [2]),
    ("g2", Gaussian(4.0), [0, 1]),
    ("l", Laplacian(1.0), None),
    ("lin", Linear(), None),
]


def normalized(A, B):
    """The kernels of ``ENTRIES`` scaled to unit trace on X, from their definitions."""

    def raw(A, B):
        near = ((A[:, None, :2] - B[:, :2]) ** 2).sum(axis=2)
        city = np.abs(A[:, None] - B).sum(axis=2)
        return np.stack(
            [
                np.exp(-near / (2 * 0.7**2)),
                (A[:, 2:] @ B[:, 2:].T + 1) ** 3,
                np.exp(-near / 32),
                np.exp(-city),
                A @ B.T,
            ]
        )

    return raw(A, B) / np.trace(raw(X, X), axis1=1, axis2=2)[:, None, None]


@pytest.fixture
def bank():
    return KernelBank(ENTRIES, normalize="trace").fit(X)


@pytest.mark.parametrize(("kind", "cls"), [("dense", DenseStack), ("packed", PackedStack), ("lazy", LazyStack)])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-6), (None, 1e-12)])
def test_every_kind_holds_the_kernels_of_the_bank(bank, kind, cls, dtype, rtol):
    stack = build_stack(bank, X, kind=kind, dtype=dtype, n_jobs=2)
    assert type(stack) is cls
    assert stack.dtype == (np.float64 if dtype is None else dtype)
    assert stack.names == bank.names
    np.testing.assert_allclose(stack.block(), normalized(X, X), rtol=0, atol=rtol)
    assert stack.counters.passes == 2 * 40 / 41  # the block just read, in triangles


def test_losses_that_couple_samples_take_more_matrices(bank):
    squares = {coupled: 2**20 + 8 * (each * 40**2 + 8 * 5 + 16 * 40) for coupled, each in ((False, 4), (True, 8))}
    budget = (squares[False] + squares[True]) // 2 + 8 * 8 * 40**2
    build_stack(bank, X, kind="lazy", memory_budget=budget)
    with pytest.raises(MemoryBudgetError, match="working arrays"):
        build_stack(bank, X, kind="lazy", memory_budget=budget, coupled=True)


def test_auto_follows_the_budget(bank):
    assert isinstance(build_stack(bank, bank.prepare(X), memory_budget="1 GB"), PackedStack)
    assert isinstance(build_stack(bank, X, memory_budget="1 GB", n_targets=10), DenseStack)
    working = 2**20 + 8 * (4 * 40**2 + 8 * 50 + 16 * 40) + 8 * 8 * 40**2
    many = KernelBank([(f"g{m}", Gaussian(1.0 + m), None) for m in range(50)]).fit(X)  # 164 kB, of blocks 77
    assert isinstance(build_stack(many, X, memory_budget=working + 100), LazyStack)
    with pytest.raises(MemoryBudgetError, match="cannot be fitted"):
        build_stack(many, X, memory_budget=working - 1)


class Overflowing(Linear):
    """A kernel of a user that goes wrong off the diagonal, where no check of the bank looks."""

    def from_inner_product(self, G, out=None):
        values = super().from_inner_product(G, out)
        if values.ndim == 2:
            values[0, -1] = values[-1, 0] = np.inf
        return values


@pytest.mark.parametrize("kind", ["dense", "packed"])
def test_entries_that_are_not_finite_are_refused_by_name(kind):
    bank = KernelBank([("ok", Linear(), None), ("odd", Overflowing(), None)], normalize=None).fit(X)
    with pytest.raises(InvalidInputError, match="Gram matrix of kernel 'odd' has entries that are NaN or infinite"):
        build_stack(bank, X, kind=kind)


def test_points_far_away_and_equal_points_give_zero_and_one():
    rows = np.array([[0.0], [0.0], [1e100]])
    bank = KernelBank([("g", Gaussian(1e-100), None), ("h", Gaussian(1e100), None)], normalize=None).fit(rows)
    for dtype in (np.float64, np.float32):
        stack = build_stack(bank, rows, kind="lazy", dtype=dtype)
        expected = np.array([[[1, 1, 0], [1, 1, 0], [0, 0, 1]], np.ones((3, 3))], dtype=float)
        expected[1, 2, :2] = expected[1, :2, 2] = np.exp(-0.5)
        np.testing.assert_allclose(stack.block(), expected, atol=1e-7)
        np.testing.assert_allclose(stack.quad([1, 2, 3]), np.einsum("i,mij,j->m", [1, 2, 3], expected, [1, 2, 3]), 1e-7)


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 2)])
@pytest.mark.parametrize("tile_bytes", [4 * 2**20, 8 * 40 * 3])
def test_cross_apply_is_the_decision_function(bank, shape, tile_bytes, monkeypatch):
    monkeypatch.setattr(lazy, "TILE_BYTES", tile_bytes)
    d, rho = np.array([1.0, 0.0, -2.0, 0.5, 3.0]), np.random.default_rng(0).normal(size=shape)
    expected = d[:, None, None] * (normalized(NEW, X) @ rho.reshape(40, -1))
    each = cross_apply_each(bank, bank.prepare(NEW), bank.prepare(X), d, rho)
    total = cross_apply(bank, bank.prepare(NEW), bank.prepare(X), d, rho)
    np.testing.assert_allclose(each, expected[d != 0].reshape(4, 13, *shape[1:]), rtol=0, atol=1e-13)
    np.testing.assert_allclose(total, expected.sum(axis=0).reshape(13, *shape[1:]), rtol=0, atol=1e-13)


def test_cross_apply_on_support_samples_only(bank):
    rho = np.where(np.arange(40) % 5 == 0, 1.0, 0.0)
    support = np.flatnonzero(rho)
    d, rows = np.ones(5), bank.prepare(X)
    full = cross_apply(bank, bank.prepare(NEW), rows, d, rho)
    np.testing.assert_allclose(cross_apply(bank, bank.prepare(NEW), rows.take(support), d, rho[support]), full, 1e-13)


def test_cross_apply_reads_active_kernels_only(bank):
    def forbidden(a, b):
        raise AssertionError("evaluated")

    spec = FromCallable(forbidden)
    specs = (*bank.table.specs[:3], spec, bank.table.specs[4])
    guarded = replace(bank, raw=replace(bank.table, specs=specs))
    prepared = bank.prepare(NEW)
    assert np.isfinite(cross_apply(guarded, prepared, bank.prepare(X), [1, 1, 1, 0, 1], np.ones(40))).all()
    assert cross_apply(guarded, prepared, bank.prepare(X), np.zeros(5), np.ones(40)).tolist() == [0.0] * 13
    assert cross_apply_each(guarded, prepared, bank.prepare(X), np.zeros(5), np.ones(40)).shape == (0, 13)


def test_cross_apply_refuses_wrong_shapes(bank):
    rows = bank.prepare(X)
    with pytest.raises(InvalidInputError, match=r"d must have shape \(5,\), got \(4,\)"):
        cross_apply(bank, rows, rows, np.ones(4), np.ones(40))
    with pytest.raises(InvalidInputError, match=r"rho must have shape \(40,\)"):
        cross_apply_each(bank, rows, rows, np.ones(5), np.ones(39))


def test_lazy_temporaries_stay_small():
    """Peak of traced allocations of each operation on a stack that would take 320 MB dense."""
    import tracemalloc

    rows = np.random.default_rng(0).normal(size=(400, 2))
    entries = [(f"{w:.3f} {c}", Gaussian(w), c) for w in np.linspace(0.1, 20, 120) for c in ([0], [0, 1])]
    bank = KernelBank([*entries, *[(f"p{k}", Polynomial(k), [1]) for k in range(1, 11)]], normalize="trace").fit(rows)
    stack = build_stack(bank, rows, kind="lazy")
    r, d = np.ones(400), np.ones(250)
    for operation in (lambda: stack.quad(r), lambda: stack.apply(d, r), lambda: stack.combine(d)):
        operation()
        tracemalloc.start()
        operation()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 24 * 2**20
