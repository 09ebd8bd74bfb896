"""Trees of penalties: the groups, the recursion against the conic solver's numbers, and mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import solve
from manykernels.exceptions import InvalidInputError
from manykernels.objective import Tree

NAMES = ("rna: p53", "rna: repair", "cna: p53", "cna: repair", "age")
GROUPS = {"rna": {"one": "rna: p53", "two": ["rna: repair"]}, "cna": None}


def test_groups_by_level() -> None:
    tree = Tree(1.0, GROUPS).on_kernels(NAMES)
    assert tree.owners == ((0, 0, 1, 1, -1), (0, 1, -1, -1, -1))
    np.testing.assert_allclose(tree.sizes[0], np.sqrt([2, 2]) / 2)
    np.testing.assert_allclose(tree.sizes[1], [0.5, 0.5])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"rnas": None}, "No kernel is called 'rnas'"),
        ({"rna": None, "one": "*p53"}, "'rna: p53' is in two groups of a tree"),
        (3.5, "mapping of names"),
        ({"rna": 3.5}, "mapping of names"),
    ],
)
def test_mistakes_are_said(groups, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Tree(1.0, groups).on_kernels(NAMES)


def test_a_tree_without_single_norms_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="l1_ratio"):
        Tree(1.0, GROUPS, l1_ratio=0.0)
    with pytest.raises(InvalidInputError, match="names of the kernels of this tree are not set"):
        Tree(1.0, GROUPS).value(np.ones(5))


def test_it_is_the_block_norm_where_groups_do_not_count() -> None:
    t = np.array([1.0, 2.0, 0.0, 0.5, 3.0])
    tree = Tree(2.0, GROUPS, l1_ratio=1.0).on_kernels(NAMES)
    assert tree.value(t) == pytest.approx(13.0)
    assert tree.strength_max(t) == pytest.approx(3.0)
    np.testing.assert_allclose(tree.prox(t, 0.25), [0.5, 1.5, 0.0, 0.0, 2.5])


def test_prox_beats_all_around() -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        tree = Tree(float(rng.uniform(0.2, 2.0)), GROUPS, l1_ratio=float(rng.uniform(0.1, 1.0))).on_kernels(NAMES)
        t = rng.exponential(size=5)
        x = tree.prox(t, 0.5)
        least = 0.5 * np.sum((x - t) ** 2) + 0.5 * tree.value(x)
        for scale in (1e-3, 1e-1, 1.0):
            other = np.maximum(x + scale * rng.normal(size=(100, 5)), 0.0)
            assert min(0.5 * np.sum((o - t) ** 2) + 0.5 * tree.value(o) for o in other) >= least


def test_the_dual_norm_is_where_the_prox_becomes_zero() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        tree = Tree(1.0, GROUPS, l1_ratio=float(rng.uniform(0.05, 0.95))).on_kernels(NAMES)
        u = rng.exponential(size=5) * 10 ** rng.uniform(-3, 3)
        largest = tree.strength_max(u)
        assert not tree.prox(u, largest * (1 + 1e-9)).any()
        assert tree.prox(u, largest * (1 - 1e-9)).any()


def test_a_group_that_is_not_needed_is_left_out_as_a_whole() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 12))
    kernels = np.einsum("im,jm->mij", X, X)
    y = X[:, :4] @ [2.0, -1.5, 1.0, 1.0] + 0.3 * rng.normal(size=60)
    tree = Tree(12.0, {"a": (0, 1, 2, 3), "b": (4, 5, 6, 7), "c": (8, 9, 10, 11)}, l1_ratio=0.3)
    found = solve(kernels, y, loss="squared", penalty=tree, tol=1e-8)
    assert found.status == "converged"
    assert (found.kernel_weights[:4] > 0).all()
    assert not found.kernel_weights[4:].any()
