"""Weights of the norms of a tree: kernel weights and derivatives, and shared functions of several targets by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.objective import Problem, Tree, get_regularizer
from manykernels.solvers import SharedNewton
from manykernels.solvers.gram.set_weights import NodeWeights

NAMES = [f"{view}{j}" for view in "abc" for j in range(4)]
GROUPS = {"left": {"a": "a*", "b": "b*"}, "right": "c*"}


def tree(strength: float = 1.0, l1_ratio: float = 0.4) -> Tree:
    """Return a tree of two levels over twelve kernels."""
    return Tree(strength, GROUPS, l1_ratio=l1_ratio).on_kernels(NAMES)


def posed(strength: float, seed: int = 0) -> Problem:
    """Return two targets of a few of twelve columns, with linear kernels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 12))
    Y = np.column_stack([X[:, 0] + X[:, 1] + X[:, 5], X[:, 0] - X[:, 1]]) + 0.3 * rng.normal(size=(60, 2))
    grams = np.einsum("im,jm->mij", X, X)
    return Problem(grams, Y - Y.mean(axis=0), "squared", tree(strength))


def test_norms_make_the_penalty() -> None:
    """A tree, and a mapping to one and to others, is the sum of the norms that it tells; ridge is none."""
    t = np.random.default_rng(0).uniform(size=12) * (np.arange(12) > 2)
    mixed = get_regularizer({"c*": "l1", "*": Tree(1.0, GROUPS["left"], l1_ratio=0.4)}, 2.0).on_kernels(NAMES)
    for penalty in (tree(3.0), mixed, get_regularizer("l1", 0.7)):
        found = penalty.norms_of(12)
        assert found is not None
        members, factors = found
        assert factors @ np.sqrt(members @ t**2) == pytest.approx(penalty.value(t), rel=1e-12)
    ridged = get_regularizer({"c*": "ridge", "*": "l1"}, 2.0).on_kernels(NAMES)
    assert get_regularizer("ridge", 1.0).norms_of(12) is ridged.norms_of(12) is None


def test_kernel_weights_are_those_of_norms() -> None:
    """The best weights of norms make the best kernel weights, zero where kernels are."""
    t = np.random.default_rng(1).uniform(size=12) * (np.arange(12) % 4 > 0) * (np.arange(12) < 8)
    found = NodeWeights.create(tree(2.0), t).weights
    alive = t > 0
    np.testing.assert_allclose(found[alive], tree(2.0).weights_from_norms(t)[alive], rtol=1e-12)
    assert not found[~alive].any()


@pytest.mark.parametrize("zero", [False, True])
def test_derivatives(zero: bool) -> None:
    """First and second derivatives are those by differences, also where a kernel is at zero."""
    rng = np.random.default_rng(2)
    t = rng.uniform(0.5, 1.0, size=12)
    t[3] = 0.0 if zero else t[3]
    here, u, root = NodeWeights.create(tree(), t), rng.uniform(size=12), rng.normal(size=(12, 12))
    curvature, start = root @ root.T, here.weights

    def value(x: np.ndarray) -> float:
        step = here.reweight(x).weights - start
        return float(-(u**2) @ step / 2 + step @ curvature @ step / 2)

    slopes, bends = here.derivatives(u, curvature)
    size, inside = 1e-4, np.flatnonzero(here.x > 0)
    for v in inside:
        move = np.zeros(len(here.x))
        move[v] = size
        up, down = value(here.x + move), value(here.x - move)
        assert (up - down) / (2 * size) == pytest.approx(-slopes[v], rel=1e-5, abs=1e-6)
        assert (up + down) / size**2 == pytest.approx(bends[v, v], rel=1e-4, abs=1e-5)
        other = np.roll(move, 1) * (here.x > 0)
        pairs = [(sign * also, value(here.x + sign * move + also * other)) for sign in (1, -1) for also in (1, -1)]
        mixed = sum(sign * found for sign, found in pairs) / (4 * size**2)
        assert mixed == pytest.approx(bends[v, np.argmax(other)] if other.any() else 0.0, rel=1e-4, abs=1e-5)
    if zero:
        v = int(np.flatnonzero(here.x == 0)[0])
        move = np.zeros(len(here.x))
        move[v] = 1e-7
        assert value(here.x + move) / 1e-7 == pytest.approx(-slopes[v], rel=1e-4)
    assert np.linalg.eigvalsh(bends).min() >= -1e-9


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_trees_with_shared_outputs_are_solved_in_few_steps(share: float) -> None:
    """The gap falls to 1e-9 in a few steps over the weights, and whole groups are left out."""
    whole = posed(1.0).strength_max()
    solution = SharedNewton(tol=1e-9, max_iter=40).solve(posed(share * whole))
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.kernel_weights[0] > 0
    if share >= 0.5:
        assert not solution.kernel_weights[8:].any()  # the view that tells nothing


@pytest.mark.parametrize(("loss", "seed"), [("squared", 0), ("huber", 1), ("logistic", 2)])
def test_a_kernel_that_is_a_group_by_itself_enters_again(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names, groups = ["a", "b", "c", "d"], {"one": ["c"], "two": ["a", "b"], "three": ["d"]}
    X = rng.normal(size=(40, 4))
    Y = X[:, [2, 0]] + 0.3 * rng.normal(size=(40, 2))
    Y = np.where(Y.max(axis=1, keepdims=True) == Y, 1.0, -1.0) if loss == "logistic" else Y
    grams = np.einsum("im,jm->mij", X, X)
    penalty = Tree(1.0, groups, l1_ratio=0.2).on_kernels(names)
    assert len(NodeWeights.create(penalty, np.ones(4)).x) == 5  # four kernels, and the group of two of them
    problem = Problem(grams, Y, loss, penalty).at_fraction(0.1)
    state = SharedNewton(tol=1e-6)
    nothing = state.solve(problem.with_penalty(replace(problem.regularizer, strength=1e6)))
    found = state.solve(problem, nothing)
    assert found.status == "converged"
    assert found.kernel_weights[2] > 0
    weights = NodeWeights.create(penalty, np.array([1.0, 1.0, 0.0, 1.0]))
    entered = weights.entering(penalty, np.array([0.0, 0.0, 5.0, 0.0]), 1.0)
    assert entered.candidates(np.array([0.0, 0.0, 5.0, 0.0])).tolist() == [0, 1, 2, 3]
