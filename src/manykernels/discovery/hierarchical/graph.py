"""The directed acyclic graph of a product family: nodes are levels of columns, arrows raise one level by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from manykernels.validation.arrays import Array

Node = tuple[tuple[int, int], ...]
"""Pairs (column, level), columns ascending, levels positive; a column that is not named has level zero."""

ROOT: Node = ()


def depth(node: Node) -> int:
    """Return the sum of the levels: the number of arrows from the root."""
    return sum(level for _, level in node)


def raised(node: Node, column: int) -> Node:
    """Return the child with the level of one column raised by one."""
    levels = dict(node)
    levels[column] = levels.get(column, 0) + 1
    return tuple(sorted(levels.items()))


def parents(node: Node) -> Iterator[Node]:
    """Yield the nodes with one level lowered by one."""
    for column, level in node:
        yield tuple((c, j - (c == column)) for c, j in node if c != column or level > 1)


def ancestors(node: Node) -> Iterator[Node]:
    """Yield the box of nodes below ``node`` in every level, the root first and ``node`` itself last."""
    for levels in product(*(range(level + 1) for _, level in node)):
        yield tuple((column, level) for (column, _), level in zip(node, levels, strict=True) if level)


def hull_matrix(nodes: Sequence[Node]) -> Array:
    """Return which node is an ancestor of which, for a set of nodes that holds all of its ancestors."""
    place = {node: m for m, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(nodes)))
    for m, node in enumerate(nodes):
        matrix[m, [place[ancestor] for ancestor in ancestors(node)]] = 1.0
    return matrix


class Hull:
    """The active set: nodes together with all of their ancestors, and the sources of what is left."""

    def __init__(self, n_columns: int, degree: int, largest_level: int) -> None:
        self._n_columns, self._degree, self._largest_level = n_columns, degree, largest_level
        self.nodes: list[Node] = []
        self.sources: dict[Node, None] = {ROOT: None}

    def add(self, node: Node) -> None:
        """Move a source into the active set; its children whose parents are all there become sources."""
        del self.sources[node]
        self.nodes.append(node)
        inside = set(self.nodes)
        for child in self._children(node):
            if all(parent in inside for parent in parents(child)):
                self.sources[child] = None

    def _children(self, node: Node) -> Iterator[Node]:
        levels = dict(node)
        if depth(node) < self._degree:
            for column in range(self._n_columns):
                if levels.get(column, 0) < self._largest_level:
                    yield raised(node, column)
