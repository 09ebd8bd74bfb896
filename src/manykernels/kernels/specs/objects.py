"""Kernels of columns that hold objects - sequences, texts, molecules, graphs - by sparse features of every object.

    k(x, z) = p = phi(x)' phi(z),      or, of molecules,      k(x, z) = p / (|phi(x)|^2 + |phi(z)|^2 - p)

Nothing of size N x N is needed to work with the first: ``u^2 = ||sum_i r_i phi(x_i)||^2`` costs the nonzeros.

Of texts, the features are hashed n-grams of words or characters, by scikit-learn's HashingVectorizer.

Of molecules: fingerprints as sparse counts, by their inner product, Tanimoto's or the MinMax kernel.

    linear       p = phi(x)' phi(z), of unit length if normalized
    tanimoto     p / (|phi(x)|^2 + |phi(z)|^2 - p)
    minmax       sum_j min(phi_j(x), phi_j(z)) / sum_j max(phi_j(x), phi_j(z))

The sum of the maxima is the sum of all counts less that of the minima.

Ralaivola, Swamidass, Saigo, Baldi, "Graph kernels for chemical informatics", Neural Networks 18 (2005).

Of graphs: counts of Weisfeiler-Lehman labels, or of shortest paths between labels.

    subtree          phi counts the labels of nodes after 0, 1, ..., ``depth`` rounds, in which a node's label becomes
                     the hash of the respective and of the sorted labels of the neighbors
    shortest_path    phi counts unordered pairs of nodes by (label, label, length of the shortest path)

Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt, J. Mach. Learn. Res. 12 (2011); Borgwardt, Kriegel, ICDM
2005.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import shortest_path
from sklearn.feature_extraction.text import HashingVectorizer

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelSpec, register_kernel
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.validation.arrays import Array, check_choice, check_count
from manykernels.validation.parameters import check_flag

MOST_FEATURES = 2**22  # of one kernel; those beyond share the places of others, by a hash
_SHOWN = 40  # letters of a value in a message


class FeatureRows:
    """Prepared objects with features (n, n_places), for sums over rows and functions of features."""

    squares: Array  # (n,): of the lengths of the features

    def __init__(self, matrix: csr_array) -> None:
        self._matrix = matrix
        self.squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()

    def adjoint(self, r: Array) -> Array:
        """Return ``sum_i r_i phi(x_i)``, (n_places,)."""
        return np.asarray(self._matrix.T @ r)

    def adjoints(self, R: Array) -> Array:
        """Return ``sum_i R_ic phi(x_i)`` of several columns, (n_places, k)."""
        return np.asarray(self._matrix.T @ R)

    def scores(self, w: Array) -> Array:
        """Return ``phi(x_i)' w``, (n,)."""
        return np.asarray(self._matrix @ w)

    def keep(self, room: int) -> int:
        """Cache features within a number of bytes; return the additional bytes."""
        return 0

    def rows(self, index: slice | Array) -> csr_array:
        """Return the features of some objects, (len(index), n_places)."""
        return self._matrix[np.arange(self._matrix.shape[0])[index]]


@dataclass(frozen=True)
class ObjectKernel(KernelSpec):
    """A kernel of a single column of objects: inner products of sparse features.

    A concrete kernel is a frozen dataclass that defines ``kind`` and `features`, and is registered as any other.
    Objects come as a column of a DataFrame, or to the kernel itself as a list; None and NaN have no features.

    Examples
    --------
    >>> from manykernels.kernels import Kmers
    >>> Kmers(2)(["ACAC", "CACA"]).round(3)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """

    family: ClassVar[str] = "features"
    kinds: ClassVar[frozenset[str]] = frozenset({"objects"})  # whatever they are, the kernel looks at them itself

    @abstractmethod
    def features(self, objects: object) -> csr_array:
        """Return the features of every object.

        Parameters
        ----------
        objects : sequence of n objects

        Returns
        -------
        csr_array of shape (n, n_features), float64
            In canonical form; a row of zeros for None.

        Raises
        ------
        InvalidInputError
            If an object is not what the kernel reads.
        """

    def read(self, objects: object, shared: dict[Any, Any] | None = None) -> FeatureRows:
        """Return objects to work with.

        Parameters
        ----------
        objects : sequence of n objects
        shared : dict, optional
            Cache shared by kernels of the same objects.
        """
        shared = {} if shared is None else shared
        if self.feature_map not in shared:
            shared[self.feature_map] = FeatureRows(self.features(objects))
        return shared[self.feature_map]

    def sizes(self, objects: Array) -> tuple[float, float]:
        """Return how many features an object has, and how many bytes they take in products, in the mean.

        Parameters
        ----------
        objects : sequence of n objects

        Returns
        -------
        features, n_bytes : float
        """
        each = self.features(objects).nnz / max(len(objects), 1)
        return each, 16.0 * each + 16.0  # a number and an index a feature, the length of the row and where it begins

    @property
    @abstractmethod
    def n_places(self) -> int:
        """Number of features."""

    @property
    def explicit(self) -> bool:
        """Return whether the kernel is the plain inner product of the features."""
        return True

    @property
    def feature_map(self) -> ObjectKernel:
        """The key of kernels with the same features."""
        return self

    def unit(self) -> ObjectKernel:
        """Return the kernel with features of unit length."""
        own: Any = self
        return replace(own, normalized=True) if hasattr(self, "normalized") else self

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise ``InvalidInputError`` unless there is exactly one column."""
        if n_columns != 1:
            raise InvalidInputError(
                f"{name}: {self.kind} reads one column of objects, and {n_columns} columns are selected. Name the "
                'column: KernelBank([("dna", kernel, ["column"])]).'
            )

    def evaluate_points(self, left: SparsePoints, right: SparsePoints) -> Array:
        """Return the kernel between rows of features, (n_left, n_right) float64."""
        return left.inner(right)

    def diag_of_points(self, points: SparsePoints) -> Array:
        """Return ``k(x, x)`` from rows of features, (n,)."""
        return points.squared_norms

    def points(self, objects: object) -> SparsePoints:
        """Return objects as rows of features; prepared rows stay unchanged."""
        return objects if isinstance(objects, SparsePoints) else SparsePoints.create(self.features(objects))

    def __call__(self, A: object, B: object = None) -> Array:
        """Return the matrix of kernel values between objects, or rows of features; ``B=None`` means ``B = A``."""
        left = self.points(A)
        return self.evaluate_points(left, left if B is None else self.points(B))

    def diag(self, A: object) -> Array:
        return self.diag_of_points(self.points(A))


def read_objects(values: object) -> Array:
    """Return objects as a one-dimensional array of dtype object, None for missing."""
    if isinstance(values, str):
        raise InvalidInputError(f"Expected a list of objects, got one string, {values[:_SHOWN]!r}: put it in a list.")
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, (np.ndarray, pd.Series)) and values.ndim == 1:
        items: Sequence[Any] = values.tolist()
    elif isinstance(values, Sequence):
        items = values
    else:
        raise InvalidInputError(f"Expected a list or a column of objects, got {type(values).__name__}.")
    out = np.empty(len(items), dtype=object)
    out[:] = [None if item is None or item is pd.NA or (isinstance(item, float) and np.isnan(item)) else item
              for item in items]  # fmt: skip
    return out


def check_strings(objects: Array, kernel: str, noun: str) -> None:
    """Raise ``InvalidInputError`` unless all objects are strings, not empty, or None."""
    wrong = [i for i, item in enumerate(objects) if not isinstance(item, str) and item is not None]
    if wrong:
        first = objects[wrong[0]]
        raise InvalidInputError(
            f"{kernel} reads {noun} as strings, and {len(wrong)} of {len(objects)} values are none, first "
            f"{str(first)[:_SHOWN]!r} ({type(first).__name__}) in row {wrong[0]}. Name a column of {noun}."
        )
    blank = [i for i, item in enumerate(objects) if item is not None and not item.strip()]
    if blank:
        raise InvalidInputError(
            f"{len(blank)} of {len(objects)} {noun} are empty, first in row {blank[0]}. Drop these rows, or put None "
            "in their place and make the bank with missing='mask'."
        )


def unit_rows(matrix: csr_array) -> csr_array:
    """Return rows divided by their lengths; rows of zeros stay unchanged."""
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    scaled = (diags_array(np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)) @ matrix).tocsr()
    scaled.sort_indices()
    return scaled


ANALYZERS = ("word", "char", "char_wb")


@register_kernel
@dataclass(frozen=True)
class Ngrams(ObjectKernel):
    """Texts are alike that share n-grams of words or characters: counts by scikit-learn's `HashingVectorizer`.

    ``k(x, z) = phi(x)' phi(z)`` with hashed counts ``phi``, of unit length. Nothing is learned of training rows: texts
    of words that nobody has seen are read as all others.

    Parameters
    ----------
    n : int, default=1
        Words or characters of an n-gram.
    analyzer : {"word", "char", "char_wb"}, default="word"
        What is counted; "char_wb": characters inside words.
    shortest : int, optional
        All lengths from ``shortest`` to n. None is n alone.
    binary : bool, default=False
        Whether n-grams count once.
    n_features : int, default=2**18
        Places of the hash.
    normalized : bool, default=True
        Whether rows of features have unit length.

    Raises
    ------
    InvalidInputError
        If a parameter has no meaning.

    Examples
    --------
    >>> from manykernels.kernels import Ngrams
    >>> Ngrams(1)(["a blue sky", "blue sea", "green sea"]).round(2)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """

    kind: ClassVar[str] = "ngrams"
    n: int = 1
    analyzer: str = "word"
    shortest: int | None = None
    binary: bool = False
    n_features: int = 2**18
    normalized: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n", most=100))
        check_choice(self.analyzer, ANALYZERS, "analyzer")
        if self.shortest is not None:
            object.__setattr__(self, "shortest", check_count(self.shortest, "shortest", most=self.n))
        object.__setattr__(self, "n_features", check_count(self.n_features, "n_features", most=2**30))
        for name in ("binary", "normalized"):
            check_flag(getattr(self, name), name)

    @property
    def n_places(self) -> int:
        """Places of the hash."""
        return self.n_features

    def features(self, objects: object) -> csr_array:
        """Return the counts of every text.

        Parameters
        ----------
        objects : sequence of str or None

        Raises
        ------
        InvalidInputError
            Values that are no strings, and empty texts.
        """
        found = read_objects(objects)
        check_strings(found, self.label, "texts")
        reader = HashingVectorizer(
            analyzer=self.analyzer,
            ngram_range=(self.n if self.shortest is None else self.shortest, self.n),
            n_features=self.n_features,
            norm="l2" if self.normalized else None,
            alternate_sign=False,
            binary=self.binary,
        )
        if not len(found):
            return csr_array((0, self.n_features))
        matrix = csr_array(reader.transform(["" if item is None else item for item in found]))
        matrix.sort_indices()
        return matrix


FEATURES = ("subtree", "shortest_path")


@register_kernel
@dataclass(frozen=True)
class GraphFeatures(ObjectKernel):
    """Graphs are alike that share Weisfeiler-Lehman subtrees, or shortest paths between labels.

    A column holds networkx graphs, or pairs ``(edges, labels)``: edges as pairs of nodes, and a mapping from nodes to
    labels, which also tells nodes without edges. Edges have no direction: listed in both directions or several times,
    they count once.

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
        check_flag(self.normalized, "normalized")

    @property
    def n_places(self) -> int:
        """Places of the hash."""
        return self.n_features

    def features(self, objects: object) -> csr_array:
        """Return the counts of every graph.

        Parameters
        ----------
        objects : sequence of networkx.Graph, pairs of edges and labels, or None

        Raises
        ------
        InvalidInputError
            Objects that are no graphs, and graphs without nodes.
        """
        count = _subtrees if self.counted == "subtree" else _paths
        counts = [
            Counter[int]() if item is None else count(*_read(item, row, self.node_label), self.depth)
            for row, item in enumerate(read_objects(objects))
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
    # Listed in both directions or twice, an edge is one edge.
    pairs = {(min(place[a], place[b]), max(place[a], place[b])) for a, b, *_ in edges}
    return list(labels.values()), sorted(pairs)


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
    """Count pairs of nodes joined by a path, by labels and length."""
    n = len(labels)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    lengths = shortest_path(joined, directed=False, unweighted=True)
    pairs = zip(*np.nonzero(np.triu(np.isfinite(lengths), 1)), strict=True)
    found = Counter((*sorted((labels[a], labels[b])), int(lengths[a, b])) for a, b in pairs)
    return Counter({_hash(repr(key)): count for key, count in found.items()})


SIMILARITIES = ("tanimoto", "minmax", "linear")


@register_kernel
@dataclass(frozen=True)
class Fingerprint(ObjectKernel):
    """Molecules are alike that share substructures: Tanimoto, MinMax or linear kernel of sparse fingerprints.

    A column holds SMILES, of which RDKit makes Morgan fingerprints of counts (``pip install rdkit``), or fingerprints
    as they come: RDKit's vectors of bits or counts, mappings from positions to counts, or sets of positions.

    Parameters
    ----------
    similarity : {"tanimoto", "minmax", "linear"}, default="tanimoto"
        How counts are compared.
    radius : int, default=2
        Of Morgan's environments, for SMILES.
    binary : bool, default=False
        Whether counts above 1 are set to 1.
    n_features : int, default=4096
        Places; positions beyond share them, modulo their number.
    normalized : bool, default=True
        Whether features of the linear kernel have unit length; the rest are one for equal molecules in any case.

    Raises
    ------
    InvalidInputError
        If a parameter has no meaning.

    Examples
    --------
    >>> from manykernels.kernels import Fingerprint
    >>> Fingerprint("minmax")([{1: 2, 5: 1}, {1: 1, 7: 1}]).round(2)
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    kind: ClassVar[str] = "fingerprint"
    similarity: str = "tanimoto"
    radius: int = 2
    binary: bool = False
    n_features: int = 4096
    normalized: bool = True

    def __post_init__(self) -> None:
        check_choice(self.similarity, SIMILARITIES, "similarity")
        object.__setattr__(self, "radius", check_count(self.radius, "radius", least=0, most=20))
        object.__setattr__(self, "n_features", check_count(self.n_features, "n_features", most=2**24))
        for name in ("binary", "normalized"):
            check_flag(getattr(self, name), name)

    @property
    def explicit(self) -> bool:
        """Return whether the kernel is linear."""
        return self.similarity == "linear"

    @property
    def n_places(self) -> int:
        """Positions."""
        return self.n_features

    def features(self, objects: object) -> csr_array:
        """Return the fingerprint of every molecule.

        Parameters
        ----------
        objects : sequence of str, RDKit vectors, mappings, sets or None

        Raises
        ------
        InvalidInputError
            SMILES that do not parse, negative counts, and objects that are no fingerprints.
        """
        return self._featured(*self._table(objects))

    def read(self, objects: object, shared: dict[Any, Any] | None = None) -> FeatureRows:
        """Return prepared molecules, shared by kernels of a single column."""
        shared, found = {} if shared is None else shared, read_objects(objects)
        if self.feature_map not in shared:
            smiles = any(isinstance(item, str) for item in found)  # whose fingerprints are the kernel's own
            key = ("fingerprints", self.radius, self.n_features) if smiles else "fingerprints"
            if key not in shared:
                shared[key] = self._table(found)
            shared[self.feature_map] = FeatureRows(self._featured(*shared[key]))
        return shared[self.feature_map]

    def _table(self, objects: object) -> tuple[Array, Array, Array]:
        """Return positions and counts of all molecules in turn, and the offsets."""
        counts = self._read_counts(read_objects(objects))
        starts = np.concatenate([[0], np.cumsum([len(each) for each in counts])]).astype(np.int64)
        places = np.fromiter((j for each in counts for j in each), dtype=np.int64, count=starts[-1])
        values = np.fromiter((c for each in counts for c in each.values()), dtype=np.float64, count=starts[-1])
        return places, values, starts

    def _featured(self, places: Array, values: Array, starts: Array) -> csr_array:
        """Return features from the result of `_table`."""
        matrix = csr_array((values.copy(), places % self.n_features, starts), shape=(len(starts) - 1, self.n_features))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if self.binary:
            matrix.data[:] = 1.0
        return unit_rows(matrix) if self.explicit and self.normalized else matrix

    def _read_counts(self, objects: Array) -> list[Mapping[int, float]]:
        """Return positions with counts of every molecule, or raise an error with the invalid objects."""
        smiles = [i for i, item in enumerate(objects) if isinstance(item, str)]
        counts: list[Any] = [None] * len(objects)
        if smiles:
            for i, found in zip(smiles, self._fingerprints([objects[i] for i in smiles], smiles), strict=True):
                counts[i] = found
        for i, item in enumerate(objects):
            if counts[i] is None:
                counts[i] = {} if item is None else _read_fingerprint(item, i)
        wrong = [i for i, each in enumerate(counts) if any(not 0 <= count < np.inf for count in each.values())]
        if wrong:
            raise InvalidInputError(
                f"Counts of a fingerprint must be finite and not negative, but row {wrong[0]} has others."
            )
        return counts

    def _fingerprints(self, smiles: list[str], rows: list[int]) -> list[dict[int, float]]:
        """Return Morgan fingerprints of counts, by RDKit."""
        try:
            chem, generators = import_module("rdkit.Chem"), import_module("rdkit.Chem.rdFingerprintGenerator")
            log = import_module("rdkit.RDLogger")
        except ImportError as error:
            raise InvalidInputError(
                "Strings are read as SMILES, of which RDKit makes fingerprints: python -m pip install rdkit. Or pass "
                "fingerprints, such as {position: count}."
            ) from error
        generator = generators.GetMorganGenerator(radius=self.radius, fpSize=self.n_features)
        log.DisableLog("rdApp.error")
        try:
            molecules = [chem.MolFromSmiles(text) for text in smiles]
        finally:
            log.EnableLog("rdApp.error")
        wrong = [at for at, (text, one) in enumerate(zip(smiles, molecules, strict=True)) if one is None or not text]
        if wrong:
            raise InvalidInputError(
                f"{len(wrong)} of {len(smiles)} SMILES do not parse, first {smiles[wrong[0]]!r} in row "
                f"{rows[wrong[0]]}. Correct or drop them."
            )
        return [dict(generator.GetCountFingerprint(one).GetNonzeroElements()) for one in molecules]

    def evaluate_points(self, left: SparsePoints, right: SparsePoints) -> Array:
        """Return the kernel between rows of fingerprints; two without any position are alike by zero."""
        if self.similarity == "minmax":
            products = _minima(left, right)
            sizes = [np.asarray(rows.rows.sum(axis=1)).ravel() for rows in (left, right)]
        else:
            products, sizes = left.inner(right), [left.squared_norms, right.squared_norms]
        if self.explicit:
            return products
        union = sizes[0][:, None] + sizes[1] - products
        return np.divide(products, union, out=np.zeros_like(products), where=union > 0)

    def diag_of_points(self, points: SparsePoints) -> Array:
        """Return ``k(x, x)``: 1, or 0 for an empty object."""
        return points.squared_norms if self.explicit else (points.squared_norms > 0).astype(np.float64)


def _read_fingerprint(item: Any, row: int) -> Mapping[int, float]:
    """Return positions with counts of a given fingerprint."""
    if hasattr(item, "GetNonzeroElements"):
        return dict(item.GetNonzeroElements())
    if hasattr(item, "GetOnBits"):
        return dict.fromkeys(item.GetOnBits(), 1.0)
    if isinstance(item, (set, frozenset)):
        item = dict.fromkeys(item, 1.0)
    whole = isinstance(item, Mapping) and all(isinstance(j, (int, np.integer)) and j >= 0 for j in item)
    if not whole:
        raise InvalidInputError(
            f"A fingerprint is SMILES, RDKit's vector, {{position: count}} or a set of positions, got "
            f"{type(item).__name__} in row {row}."
        )
    return item


@compiled()
def minimum_sums(
    starts: Array, places: Array, counts: Array, others: Array, at: Array, values: Array, work: Array, out: Array
) -> None:
    """Set ``out[i, k]`` to ``sum_j min(a_ij, b_kj)`` of sparse rows; ``work``, of zeros, has room for a single row."""
    for i in range(starts.size - 1):
        for j in range(starts[i], starts[i + 1]):
            work[places[j]] = counts[j]
        for k in range(others.size - 1):
            total = 0.0
            for j in range(others[k], others[k + 1]):
                total += min(work[at[j]], values[j])
            out[i, k] = total
        for j in range(starts[i], starts[i + 1]):
            work[places[j]] = 0.0


def _minima(left: SparsePoints, right: SparsePoints) -> Array:
    """Return the sums of minima of counts, (n, r)."""
    parts: list[Array] = []
    for rows in (left, right):
        parts += [rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data.astype(np.float64)]
    out = np.empty((len(left), len(right)))
    minimum_sums(*parts, np.zeros(left.shape[1]), out)
    return out
