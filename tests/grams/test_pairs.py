"""Kernels of pairs: the answer of the explicit Kronecker product, without it."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from manykernels import InvalidInputError, solve
from manykernels.exceptions import MemoryBudgetError, NotPSDError
from manykernels.grams import DenseStack, PairStack
from manykernels.grams import pair_stack as module
from manykernels.kernels.pairs import data as pair_index
from manykernels.objective import Problem, get_regularizer
from manykernels.solvers import choose_solver


def grams(rng: np.random.Generator, n_kernels: int, size: int) -> np.ndarray:
    factors = rng.normal(size=(n_kernels, size, 5))
    return factors @ factors.transpose(0, 2, 1) / 5


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small stacks be fitted as large ones are, and tables with few pairs be sparse."""
    monkeypatch.setattr(module, "MOST_FORMED", 10)
    monkeypatch.setattr(pair_index, "DENSE_SHARE", 0.1)


def table(sizes: tuple[int, int], share: float = 1.0) -> tuple[PairStack, np.ndarray, np.ndarray]:
    """Return some pairs of a table, the explicit Kronecker products, and a target of two of them."""
    rng = np.random.default_rng(0)
    left, right = (grams(rng, 2, size) for size in sizes)
    pairs = np.array(list(np.ndindex(*sizes)))
    at = np.flatnonzero(rng.random(len(pairs)) < share)
    kron = np.stack([np.kron(a, b)[np.ix_(at, at)] for a in left for b in right])
    y = (kron[0] + kron[3]) @ rng.normal(size=len(at)) / 10 + rng.normal(size=len(at))
    return PairStack(left, right, pairs[at]), kron, y


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize(
    ("sizes", "share", "regularizer", "fit_intercept"),
    [((40, 30), 1.0, "l1", True), ((40, 30), 0.04, "ridge", True), ((12, 9), 0.8, "simplex", False)],
)
def test_same_answer_as_the_explicit_kronecker_product(sizes, share, regularizer, fit_intercept):
    stack, kron, y = table(sizes, share)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    start = Problem(kron, y, "squared", get_regularizer(regularizer, 1.0), fit_intercept=fit_intercept)
    dense = replace(start, sample_weight=weights).at_fraction(0.2)
    free = dense.replace_twin(stack)
    chosen, reason = choose_solver(free)
    assert chosen.name == "block_coordinate"
    assert "products" in reason
    found = chosen(tol=1e-9).solve(free)
    expected = choose_solver(dense)[0](tol=1e-9).solve(dense)
    assert found.certificate.relative_gap <= 1e-9
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-8)
    # The same model, certified on the explicit matrices.
    again = dense.certificate(found.dual_coef, found.kernel_weights, found.intercept)
    assert again.relative_gap <= 1.01e-9
    scores = [p.stack.apply(m.kernel_weights, m.dual_coef) for p, m in ((free, found), (dense, expected))]
    np.testing.assert_allclose(*scores, atol=1e-3 * np.std(y))


TARGETS = {
    "squared": lambda y: y,
    "logistic": np.sign,
    "squared_hinge": np.sign,
    "huber": lambda y: y,
    "poisson": lambda y: np.round(np.exp(y - y.max() + 2)),
    "gamma": lambda y: np.exp(y / 3),
}


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize(
    ("loss", "regularizer", "fit_intercept"),
    [
        ("logistic", "l1", True),
        ("logistic", "ridge", False),
        ("squared_hinge", "simplex", True),
        ("huber", "elasticnet", True),
        ("squared", "lq", True),
        ("poisson", "simplex", True),
        ("gamma", "l1", True),
    ],
)
def test_losses_with_derivatives_need_only_products(loss, regularizer, fit_intercept):
    stack, kron, y = table((12, 9), 0.8)
    stack, kron, y = (
        PairStack(stack._factors._left / 10, stack._factors._right, stack.pairs),
        kron / 10,
        TARGETS[loss](y),
    )
    start = Problem(kron, y, loss, get_regularizer(regularizer, 1.0), fit_intercept=fit_intercept)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    dense = replace(start, sample_weight=weights).at_fraction(0.1)
    free = dense.replace_twin(stack)
    assert choose_solver(free)[0].name == "block_coordinate"
    found = choose_solver(free)[0](tol=1e-9).solve(free)
    expected = choose_solver(dense)[0](tol=1e-9).solve(dense)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-8)
    again = dense.certificate(found.dual_coef, found.kernel_weights, found.intercept)
    assert again.relative_gap <= 1.01e-9


@pytest.mark.usefixtures("_large")
def test_kernels_that_resemble_one_another_take_few_newton_steps():
    """The plain alternation takes 105."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(20, 3)), rng.normal(size=(15, 2))
    pairs = np.argwhere(rng.random((20, 15)) < 0.8)
    y = np.sin(first[pairs[:, 0], 0]) * second[pairs[:, 1], 0] + 0.1 * rng.normal(size=len(pairs))
    distances = [((points[:, None] - points) ** 2).sum(axis=2) for points in (first, second)]
    left, right = (np.stack([np.exp(-part / width**2) for width in (1, 2, 4, 8)]) for part in distances)
    problem = Problem(PairStack(left, right, pairs), np.where(y > 0.5, 1, -1), "logistic", get_regularizer("l1", 1.0))
    found = choose_solver(problem)[0](tol=1e-8).solve(problem.at_fraction(0.03))
    assert found.certificate.relative_gap <= 1e-8
    assert found.n_iter <= 20


def test_other_losses_form_the_matrix():
    stack, kron, y = table((12, 9))
    options = {"loss": "hinge", "penalty": "l1", "strength": 1.0, "tol": 1e-8}
    found, expected = (solve(kernels, np.sign(y), **options) for kernels in (stack, DenseStack(kron)))
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-7)


def test_prediction_for_members_that_no_pair_had():
    stack, kron, _ = table((12, 9))
    pairs, rng = stack.pairs, np.random.default_rng(2)
    train = np.flatnonzero((pairs[:, 0] < 8) & (pairs[:, 1] < 7) & (rng.random(len(pairs)) < 0.5))
    test = np.flatnonzero((pairs[:, 0] >= 8) & (pairs[:, 1] >= 7))
    rho, d = rng.normal(size=(len(train), 2)), np.array([1.0, 0.0, 2.0, 0.5])
    expected = np.tensordot(d, kron, axes=1)[np.ix_(test, train)] @ rho
    np.testing.assert_allclose(stack.restrict(train).cross_apply(pairs[test], d, rho), expected, atol=1e-10)
    np.testing.assert_allclose(stack.restrict(train).cross_apply(pairs[test], d, rho[:, 0]), expected[:, 0], atol=1e-10)


def test_symmetry_of_predictions():
    rng = np.random.default_rng(3)
    members, pairs, rho = grams(rng, 2, 15), rng.integers(0, 15, (30, 2)), rng.normal(size=30)
    for symmetry, sign in (("symmetric", 1.0), ("antisymmetric", -1.0)):
        stack = PairStack(members, None, pairs, symmetry=symmetry)
        there, back = (stack.cross_apply(new, [1.0, 2.0], rho) for new in (pairs, pairs[:, ::-1]))
        np.testing.assert_allclose(there, sign * back, atol=1e-12)
        assert np.abs(there).max() > 0.1


def test_memory_is_that_of_the_members():
    rng = np.random.default_rng(4)
    left, right = grams(rng, 1, 200), grams(rng, 1, 100)
    pairs = np.column_stack([rng.integers(0, size, 6000) for size in (200, 100)])
    stack = PairStack(left, right, pairs)
    tracemalloc.start()
    solve(stack, rng.normal(size=6000), loss="squared", penalty="ridge", strength=1.0, tol=1e-6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stack.nbytes == left.nbytes + right.nbytes + pairs.nbytes
    assert peak < 0.05 * 8 * 6000**2  # a matrix among the pairs has 288 MB


def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    stack, _, y = table((12, 9))
    monkeypatch.setattr(module, "MOST_FORMED", 10)
    monkeypatch.setattr(module, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryBudgetError, match=r"108 pairs.*losses with derivatives"):
        solve(stack, np.sign(y), loss="hinge", penalty="l1", strength=1.0)
    assert solve(stack, y, loss="squared", penalty="l1", strength=1.0).certificate.relative_gap < 1e-2


ONE, TWO = np.eye(3)[None], np.eye(2)[None]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((ONE, TWO, [[0, 2]]), {}, r"pairs\[0, 1\] is 2, but there are 2 second members"),
        ((ONE, TWO, [[-1, 0]]), {}, r"pairs\[0, 0\] is -1, but there are 3 first members"),
        ((ONE, TWO, [[0.0, 1.0]]), {}, "array of integers .* pandas.factorize"),
        ((ONE, TWO, [0, 1]), {}, r"shape \(n_pairs, 2\), got shape \(2,\)"),
        ((ONE, TWO, [[0, 0]]), {"products": [(0, 1)]}, r"products has \(0, 1\), but there are 1 left and 1 right"),
        ((ONE, TWO, [[0, 0]]), {"products": [(None, None)]}, "a constant"),
        ((ONE, TWO, [[0, 0]]), {"products": []}, "products is empty"),
        ((ONE, TWO, [[0, 0]]), {"symmetry": "symmetric"}, "pass right=None"),
        ((ONE, None, [[0, 0]]), {"symmetry": "yes"}, "symmetry must be None"),
        ((ONE[0], TWO, [[0, 0]]), {}, "left must have shape"),
    ],
)
def test_what_cannot_be_used_is_named(arguments, options, message):
    with pytest.raises(InvalidInputError, match=message):
        PairStack(*arguments, **options)


def test_an_indefinite_kernel_of_members_is_refused():
    with pytest.raises(NotPSDError, match="eigenvalue"):
        PairStack(ONE, np.array([[[0.0, 1.0], [1.0, 0.0]]]), [[0, 0]])


@pytest.mark.parametrize("cheapest", [0, 1, 2])
def test_every_way_to_quadratic_forms_of_many_columns_gives_the_same(cheapest, monkeypatch):
    stack, kron, _ = table((12, 9), 0.5)
    columns = np.random.default_rng(1).normal(size=(stack.n_samples, 4))
    costs = tuple(1.0 if way == cheapest else 2.0 for way in range(3))
    monkeypatch.setattr(PairStack, "_quad_costs", property(lambda self: costs))
    monkeypatch.setattr(module, "ENTRY_ROWS", 7)
    expected = np.einsum("ik,mij,jk->mk", columns, kron, columns)
    np.testing.assert_allclose(stack.quad_each(columns), expected, rtol=1e-10)
    assert stack.quad_cost == 1.0


def test_entries_of_few_pairs_cost_less_than_tables_of_members():
    few, all_pairs = table((40, 30), 0.03)[0], table((40, 30))[0]
    assert few.quad_cost == few.n_kernels * few.n_samples**2
    assert all_pairs.quad_cost < all_pairs.n_kernels * all_pairs.n_samples**2
