"""Kernels of graphs have the values that GraKeL gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels.kernels import GraphFeatures

grakel = pytest.importorskip("grakel", reason="needs GraKeL: pip install 'manykernels[graphs]'")

Pairs = list[tuple[list[tuple[int, int]], dict[int, str]]]


@pytest.fixture(scope="module")
def graphs() -> Pairs:
    """Draw graphs of 3 to 9 labeled nodes, some of them in several parts."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(25):
        n = int(rng.integers(3, 10))
        edges = [(a, b) for a in range(n) for b in range(a) if rng.random() < 0.35] or [(1, 0)]
        made.append((edges, {node: str(rng.choice(list("CNO"))) for node in range(n)}))
    return made


def theirs(graphs: Pairs, kernel: Any) -> np.ndarray:
    return np.asarray(
        kernel.fit_transform([grakel.Graph(_both(edges), node_labels=labels) for edges, labels in graphs])
    )


def _both(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return edges + [(b, a) for a, b in edges]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_subtrees(graphs: Pairs, depth: int, normalized: bool) -> None:
    own = GraphFeatures(depth=depth, normalized=normalized)(graphs)
    kernel = grakel.WeisfeilerLehman(n_iter=depth, base_graph_kernel=grakel.VertexHistogram, normalize=normalized)
    np.testing.assert_allclose(own, theirs(graphs, kernel), rtol=1e-12)


def test_paths_of_graphs_with_one_label_are_counted_once_and_by_grakel_from_both_ends(graphs: Pairs) -> None:
    alike = [(edges, dict.fromkeys(labels, "C")) for edges, labels in graphs]
    own = GraphFeatures("shortest_path", normalized=False)(alike)
    np.testing.assert_allclose(4 * own, theirs(alike, grakel.ShortestPath(with_labels=True)), rtol=1e-12)


def test_paths_between_labels_that_differ_are_counted_once() -> None:
    """A chain from C to N by nodes that have labels of their own: no pair of nodes has one label."""
    chains = [([(j, j + 1) for j in range(n - 1)], {j: "CNOPSF"[j] for j in range(n)}) for n in range(2, 7)]
    own = GraphFeatures("shortest_path", normalized=False)(chains)
    np.testing.assert_allclose(2 * own, theirs(chains, grakel.ShortestPath(with_labels=True)), rtol=1e-12)
