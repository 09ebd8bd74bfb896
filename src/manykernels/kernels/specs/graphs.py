"""Kernels of graphs: counts of Weisfeiler-Lehman labels, or of shortest paths between labels.

    subtree          phi counts the labels of nodes after 0, 1, ..., ``depth`` rounds, in which a node's label becomes
                     the hash of its own and of the sorted labels of its neighbors
    shortest_path    phi counts unordered pairs of nodes by (label, label, length of the shortest path)

Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt, J. Mach. Learn. Res. 12 (2011); Borgwardt, Kriegel, ICDM
2005.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import register_kernel
from manykernels.kernels.specs.objects import ObjectKernel, as_objects, unit_rows
from manykernels.validation.arrays import check_choice, check_count

FEATURES = ("subtree", "shortest_path")


@register_kernel
@dataclass(frozen=True)
class GraphFeatures(ObjectKernel):
    """Graphs are alike that share Weisfeiler-Lehman subtrees, or shortest paths between labels.

    A column holds networkx graphs, or pairs ``(edges, labels)``: edges as pairs of nodes, and a mapping from nodes to
    labels, which also tells nodes without edges. Edges have no direction.

    Parameters
    ----------
    counted : {"subtree", "shortest_path"}, default="subtree"
    depth : int, default=3
        Rounds of new labels; 0 counts labels alone. Of no account for paths.
    node_label : str, default="label"
        The attribute of networkx's nodes; nodes without it are all alike.
    n_features : int, default=2**20
        Places of the hash.
    normalized : bool, default=True
        Whether rows of features have unit length.

    Raises
    ------
    InvalidInputError
        If a parameter has no meaning.

    Examples
    --------
    >>> from manykernels.kernels import GraphFeatures
    >>> triangle, path = ([(0, 1), (1, 2), (2, 0)], {}), ([(0, 1), (1, 2)], {})
    >>> GraphFeatures(depth=1, normalized=False)([triangle, path])
    array([[18., 12.],
           [12., 14.]])
    """

    kind: ClassVar[str] = "graph_features"
    counted: str = "subtree"
    depth: int = 3
    node_label: str = "label"
    n_features: int = 2**20
    normalized: bool = True

    def __post_init__(self) -> None:
        check_choice(self.counted, FEATURES, "counted")
        object.__setattr__(self, "depth", check_count(self.depth, "depth", least=0, most=50))
        object.__setattr__(self, "n_features", check_count(self.n_features, "n_features", most=2**30))
        if not isinstance(self.normalized, (bool, np.bool_)):
            raise InvalidInputError(f"normalized must be True or False, got {self.normalized!r}.")

    @property
    def n_places(self) -> int:
        """Places of the hash."""
        return self.n_features

    def features(self, objects: object) -> csr_array:
        """Return the counts of every graph.

        Parameters
        ----------
        objects : sequence of networkx.Graph, pairs of edges and labels, or None

        Returns
        -------
        csr_array of shape (n, n_features)

        Raises
        ------
        InvalidInputError
            Objects that are no graphs, and graphs without nodes.
        """
        count = _subtrees if self.counted == "subtree" else _paths
        counts = [
            Counter[int]() if item is None else count(*_read(item, row, self.node_label), self.depth)
            for row, item in enumerate(as_objects(objects))
        ]
        indptr = np.concatenate([[0], np.cumsum([len(each) for each in counts])]).astype(np.int64)
        indices = np.array([j for each in counts for j in each], dtype=np.uint64) % np.uint64(self.n_features)
        data = np.array([n for each in counts for n in each.values()], dtype=np.float64)
        matrix = csr_array((data, indices.astype(np.int64), indptr), shape=(len(counts), self.n_features))
        matrix.sum_duplicates()
        return unit_rows(matrix) if self.normalized else matrix


def _read(graph: object, row: int, attribute: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Return labels of nodes as text, and edges between positions of nodes."""
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        labels = {node: str(data.get(attribute, "")) for node, data in graph.nodes(data=True)}
        edges: Any = list(graph.edges())
    elif isinstance(graph, tuple) and len(graph) == 2 and isinstance(graph[1], Mapping):
        edges = [tuple(edge) for edge in graph[0]] if isinstance(graph[0], Iterable) else None
        if edges is None or any(len(edge) != 2 for edge in edges):
            raise InvalidInputError(f"Edges of the graph in row {row} must be pairs of nodes.")
        labels = {node: "" for edge in edges for node in edge} | {node: str(own) for node, own in graph[1].items()}
    else:
        raise InvalidInputError(
            f"A graph is a networkx graph or a pair (edges, labels) of pairs of nodes and a mapping, got "
            f"{type(graph).__name__} in row {row}."
        )
    if not labels:
        raise InvalidInputError(f"The graph in row {row} has no nodes; drop it, or put None in its place.")
    place = {node: at for at, node in enumerate(labels)}
    return list(labels.values()), [(place[a], place[b]) for a, b, *_ in edges]


def _hash(text: str) -> int:
    """Return 64 bits of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _subtrees(labels: list[str], edges: list[tuple[int, int]], depth: int) -> Counter[int]:
    """Count labels of nodes over all rounds."""
    neighbors: list[list[int]] = [[] for _ in labels]
    for a, b in edges:
        neighbors[a].append(b)
        if a != b:
            neighbors[b].append(a)
    current = [_hash("0:" + text) for text in labels]
    counts = Counter(current)
    for number in range(1, depth + 1):
        current = [
            _hash(f"{number}:{own}:{sorted(current[at] for at in near)}")
            for own, near in zip(current, neighbors, strict=True)
        ]
        counts.update(current)
    return counts


def _paths(labels: list[str], edges: list[tuple[int, int]], depth: int) -> Counter[int]:
    """Count pairs of nodes that a path joins, by their labels and its length."""
    n = len(labels)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    lengths = shortest_path(joined, directed=False, unweighted=True)
    pairs = zip(*np.nonzero(np.triu(np.isfinite(lengths), 1)), strict=True)
    found = Counter((*sorted((labels[a], labels[b])), int(lengths[a, b])) for a, b in pairs)
    return Counter({_hash(repr(key)): count for key, count in found.items()})
