"""Aligned weights against SciPy, CVXPY and the definition, on every kind of Gram stack."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import nnls
from tests.support.conic import proved_value

from manykernels import ConvergenceWarning, Gaussian, InvalidInputError, KernelBank, Linear
from manykernels import alignment as weights
from manykernels.alignment import aligned_weights, nonnegative_quadratic
from manykernels.grams import DenseStack, GramStack, PackedStack, build_stack

Array = NDArray[Any]


def grams(n_kernels: int, n: int = 40, seed: int = 0) -> tuple[Array, Array]:
    """Gaussian kernels of single columns, two of which decide the label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, max(2, n_kernels)))[:, :n_kernels]
    scale = rng.lognormal(size=n_kernels)
    kernels = [s * np.exp(-2 * (x[:, None] - x) ** 2) for s, x in zip(scale, X.T, strict=True)]
    return np.stack(kernels), np.sign(X[:, 0] + X[:, -1] ** 2 - 0.8 + 0.3 * rng.normal(size=n))


def centered(kernels: Array) -> Array:
    C = np.eye(kernels.shape[-1]) - 1 / kernels.shape[-1]
    return C @ kernels @ C


def reached(kernels: Array, theta: Array, ideal: Array) -> float:
    combined = np.tensordot(theta, kernels, axes=1)
    return float(np.sum(combined * ideal) / np.linalg.norm(combined) / np.linalg.norm(ideal))


@pytest.mark.parametrize(("n_kernels", "seed"), list(itertools.product([1, 2, 12, 60], range(3))))
def test_joint_weights_are_non_negative_least_squares(n_kernels: int, seed: int) -> None:
    kernels, y = grams(n_kernels, seed=seed)
    found = aligned_weights(kernels, y)
    flat, ideal = centered(kernels).reshape(n_kernels, -1), centered(np.outer(y, y))
    theta, _ = nnls(flat.T, ideal.ravel())
    np.testing.assert_allclose(found.weights, theta / theta.sum(), atol=1e-10)
    assert found.alignment == pytest.approx(reached(centered(kernels), theta, ideal), rel=1e-12)
    assert found.upper_bound >= found.alignment * (1 - 1e-12)
    assert found.gap < 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_joint_weights_solve_the_convex_problem_of_the_thesis(seed: int) -> None:
    kernels, y = grams(8, seed=seed)
    flat, ideal = centered(kernels).reshape(8, -1), centered(np.outer(y, y))
    M, b = flat @ flat.T, flat @ ideal.ravel()
    theta = cp.Variable(8, nonneg=True)
    problem = cp.Problem(cp.Maximize((b / np.linalg.norm(b)) @ theta), [cp.norm(flat.T @ theta) <= 1])  # (2.11)
    largest = proved_value(problem) * np.linalg.norm(b) / np.linalg.norm(ideal)
    found = aligned_weights(kernels, y)
    assert found.alignment == pytest.approx(largest, rel=1e-6)
    assert b @ found.weights / np.sqrt(found.weights @ M @ found.weights) == pytest.approx(
        found.alignment * np.linalg.norm(ideal), rel=1e-12
    )


def test_many_kernels_are_solved_on_a_growing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FIRST_SET", 16)
    kernels, y = grams(400, n=30)
    found = aligned_weights(kernels, y)
    theta, _ = nnls(centered(kernels).reshape(400, -1).T, centered(np.outer(y, y)).ravel(), maxiter=5000)
    np.testing.assert_allclose(found.weights, theta / theta.sum(), atol=1e-9)
    assert found.n_rounds > 1
    # One pass for the norms, one a round, and a few more over the set in work.
    assert found.n_rounds < found.passes < 1 + 2 * found.n_rounds


@pytest.mark.parametrize("method", ["joint", "independent", "uniform"])
@pytest.mark.parametrize("center", [True, False])
def test_every_stack_gives_the_same(method: str, center: bool) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 3)) + 1.0
    y = X[:, 0] ** 2 + rng.normal(size=25)
    kernels = [(f"g{w:g}{c}", Gaussian(w), [c]) for w in (0.5, 2.0) for c in range(3)]
    bank = KernelBank([*kernels, ("line", Linear(), None)], normalize=None).fit(X)
    lazy = build_stack(bank, X, kind="lazy")
    dense = lazy.block()
    stacks: list[GramStack] = [lazy, DenseStack(dense), PackedStack.from_dense(dense)]
    results = [aligned_weights(stack, y, method, center=center) for stack in stacks]
    used, ideal = (centered(dense), centered(np.outer(y, y))) if center else (dense, np.outer(y, y))
    for found in results:
        np.testing.assert_allclose(found.weights, results[0].weights, atol=1e-11)
        assert found.alignment == pytest.approx(reached(used, found.weights, ideal), rel=1e-11)
        alone = [reached(used, row, ideal) for row in np.eye(7)]
        np.testing.assert_allclose(found.kernel_alignments, alone, atol=1e-12)
        assert found.weights.sum() == pytest.approx(1.0)
    if method == "independent":
        np.testing.assert_allclose(results[0].weights, np.array(alone) / np.sum(alone), atol=1e-12)
    if method == "uniform":
        np.testing.assert_allclose(results[0].weights, 1 / 7)


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, y = grams(90, n=20)
    whole = aligned_weights(kernels, y)
    monkeypatch.setattr(weights, "CHUNK_BYTES", 7 * 8 * 210)
    monkeypatch.setattr(weights, "FIRST_SET", 8)
    parts = aligned_weights(kernels, y)
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-10)
    assert parts.n_rounds > whole.n_rounds


def test_no_more_is_held_at_once_than_the_budget_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, y = grams(50, n=20)
    sizes: list[int] = []
    plain = weights.pack_features

    def spy(triangles: Array, n: int, center: bool, out: Array) -> None:
        sizes.append(out.nbytes)
        plain(triangles, n, center, out)

    monkeypatch.setattr(weights, "pack_features", spy)
    monkeypatch.setattr(weights, "CHUNK_BYTES", 5 * 8 * 210)
    aligned_weights(kernels, y)
    assert max(sizes) == 5 * 8 * 210


def test_random_directions_do_not_pass_the_upper_bound() -> None:
    kernels, y = grams(10)
    found, ideal = aligned_weights(kernels, y), centered(np.outer(y, y))
    rng = np.random.default_rng(0)
    others = [reached(centered(kernels), theta, ideal) for theta in rng.exponential(size=(200, 10)) ** 3]
    assert max(others) < found.alignment <= found.upper_bound


def test_the_bound_shows_weights_that_are_not_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, y = grams(20)
    best = aligned_weights(kernels, y)
    monkeypatch.setattr(weights, "nonnegative_quadratic", lambda M, b: np.eye(len(b))[int(np.argmax(b))] * b.max())
    with pytest.warns(ConvergenceWarning, match="proven optimal only up to"):
        worse = aligned_weights(kernels, y)
    assert worse.alignment < best.alignment <= worse.upper_bound
    assert worse.gap > 1e-3
    assert worse.stationarity > 1e-3 > best.stationarity


def test_scaling_a_kernel_divides_its_joint_weight() -> None:
    kernels, y = grams(6)
    scale = np.array([1.0, 1e-6, 1e6, 3.0, 1.0, 1.0])
    plain, scaled = aligned_weights(kernels, y), aligned_weights(kernels * scale[:, None, None], y)
    expected = plain.weights / scale
    np.testing.assert_allclose(scaled.weights, expected / expected.sum(), rtol=1e-9)
    assert scaled.alignment == pytest.approx(plain.alignment, rel=1e-12)


def test_equal_and_constant_kernels_do_no_harm() -> None:
    kernels, y = grams(5)
    twice = np.concatenate([kernels, kernels, np.ones((1, 40, 40)), np.zeros((1, 40, 40))])
    found, plain = aligned_weights(twice, y), aligned_weights(kernels, y)
    np.testing.assert_allclose(found.weights[:5] + found.weights[5:10], plain.weights, atol=1e-9)
    np.testing.assert_array_equal(found.weights[10:], 0)
    np.testing.assert_array_equal(found.kernel_alignments[10:], 0)


def test_a_kernel_that_is_nearly_constant_keeps_its_digits() -> None:
    x = np.random.default_rng(0).normal(size=30)
    y = (x > 0) * 2.0 - 1
    wide = np.exp(-((x[:, None] - x) ** 2) / (2 * 1e5**2))  # 1 - 1e-10: what is left after centering is linear in x
    found = aligned_weights(np.stack([wide, np.outer(x, x)]), y)
    assert found.kernel_alignments[0] == pytest.approx(found.kernel_alignments[1], rel=1e-4)


def test_the_ideal_kernel_may_be_given() -> None:
    kernels, y = grams(6)
    given = aligned_weights(kernels, target=np.outer(y, y))
    np.testing.assert_allclose(given.weights, aligned_weights(kernels, y).weights, atol=1e-13)


def test_uniform_needs_no_target() -> None:
    found = aligned_weights(grams(4)[0], method="uniform")
    np.testing.assert_array_equal(found.weights, 0.25)
    assert np.isnan(found.alignment)
    assert found.passes == 0


def test_frame_lists_the_heaviest_first() -> None:
    kernels, y = grams(3)
    frame = aligned_weights(DenseStack(kernels, names=["a", "b", "c"]), y).frame()
    assert list(frame.columns) == ["name", "weight", "alignment"]
    assert frame["weight"].is_monotonic_decreasing
    assert set(frame["name"]) == {"a", "b", "c"}


ORTHOGONAL = np.outer([1.0, 1.0, -1.0, -1.0], [1.0, 1.0, -1.0, -1.0])[None]


@pytest.mark.parametrize(
    ("kernels", "y", "given", "words"),
    [
        (ORTHOGONAL, [1, -1, 1, -1], {}, "all inner products of kernels with the target are zero"),
        (ORTHOGONAL, [1, -1, 1, -1], {"method": "independent"}, "all inner products of kernels with the target"),
        (ORTHOGONAL, [2.5, 2.5, 2.5, 2.5], {}, "the target is constant"),
        (np.ones((2, 4, 4)), [1, -1, 1, -1], {}, "all kernels are constant"),
        (ORTHOGONAL, [1, -1, 1], {}, "4 samples, but the target has 3"),
        (ORTHOGONAL, None, {}, "requires y"),
        (ORTHOGONAL, None, {"method": "uniform", "target": "hot"}, "target must be one of"),
        (ORTHOGONAL, [1, -1, 1, -1], {"method": "alignf"}, "method must be one of 'joint'"),
        (ORTHOGONAL, [1, -1, 1, -1], {"tol": 0.0}, "tol must be a finite positive"),
        (ORTHOGONAL, None, {"target": np.ones((2, 3))}, "target must be a kernel matrix"),
    ],
)
def test_what_has_no_alignment_is_refused(kernels: Array, y: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        aligned_weights(kernels, y, **given)


@pytest.mark.parametrize("seed", range(30))
def test_nonnegative_quadratic_against_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 25))
    A = rng.normal(size=(int(rng.integers(1, 30)), m)) + rng.choice([0.0, 1.0])
    A = np.concatenate([A, A[:, : m // 3]], axis=1)  # singular
    c = rng.normal(size=len(A))
    x = nonnegative_quadratic(A.T @ A, A.T @ c)
    _, residual = nnls(A, c)
    assert (x >= 0).all()
    assert np.linalg.norm(A @ x - c) == pytest.approx(residual, abs=1e-9)
    assert (A.T @ (A @ x - c)).min() > -1e-8


def test_nonnegative_quadratic_refuses_other_shapes() -> None:
    with pytest.raises(InvalidInputError, match=r"M must have shape \(2, 2\) to go with b"):
        nonnegative_quadratic(np.eye(3), [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="M must be symmetric"):
        nonnegative_quadratic([[1.0, 2.0], [0.0, 1.0]], np.ones(2))


class Watched(DenseStack):
    """Counts the kernels of each chunk of triangles, and the chunks that were still held when it was read."""

    def __init__(self, kernels: Array) -> None:
        super().__init__(kernels)
        self.read: list[int] = []
        self.held: list[int] = []
        self._chunks_read: list[weakref.ref[Array]] = []

    def triangles(self, kernels: Any = None) -> Array:
        self.held.append(sum(chunk() is not None for chunk in self._chunks_read))
        found = super().triangles(kernels)
        self.read.append(len(found))
        self._chunks_read.append(weakref.ref(found))
        return found


def test_chunks_are_small_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, y = grams(11)
    monkeypatch.setattr(weights, "CHUNK_BYTES", 3 * 4 * 40 * 41)  # three kernels
    stack = Watched(kernels)
    watched = weights.CenteredProducts(stack)
    found = watched.with_target(watched.target(np.outer(y, y)))
    flat = centered(kernels).reshape(11, -1)
    np.testing.assert_allclose(found[0], flat @ centered(np.outer(y, y)).ravel(), rtol=1e-10)
    np.testing.assert_allclose(found[1:], np.linalg.norm([flat, kernels.reshape(11, -1)], axis=-1), rtol=1e-10)
    np.testing.assert_allclose(watched.inner_products(range(7), range(11)), flat[:7] @ flat.T, rtol=1e-10)
    assert max(stack.read) == 3
    assert max(stack.held) == 0
