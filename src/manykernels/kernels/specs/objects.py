"""Kernels of columns that hold objects - sequences, texts, molecules, graphs - by sparse features of every object.

    k(x, z) = p = phi(x)' phi(z),      or, of molecules,      k(x, z) = p / (|phi(x)|^2 + |phi(z)|^2 - p)

Nothing of size N x N is needed to work with the first: ``u^2 = ||sum_i r_i phi(x_i)||^2`` costs the nonzeros.

Of texts, the features are hashed n-grams of words or characters, by scikit-learn's HashingVectorizer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array
from sklearn.feature_extraction.text import HashingVectorizer

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import KernelSpec, register_kernel
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.validation.arrays import Array, check_choice, check_count
from manykernels.validation.parameters import check_flag

MOST_FEATURES = 2**22  # of one kernel; those beyond share the places of others, by a hash
_SHOWN = 40  # letters of a value in a message


class FeatureRows:
    """Objects to work with, by their features: what sums over rows and functions of features need.

    Parameters
    ----------
    matrix : csr_array of shape (n, n_places)
    """

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
        """Have features at hand that are needed again and again, in so many bytes; return how many more they take."""
        return 0

    def rows(self, index: slice | Array) -> csr_array:
        """Return the features of some objects, (len(index), n_places)."""
        return self._matrix[np.arange(self._matrix.shape[0])[index]]


@dataclass(frozen=True)
class ObjectKernel(KernelSpec):
    """A kernel of one column of objects: inner products of sparse features.

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
            What kernels that read the same objects may keep there for one another.
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
        """Whether the kernel is the inner product of its features, not another function of them."""
        return True

    @property
    def feature_map(self) -> ObjectKernel:
        """What kernels share whose features are the same."""
        return self

    def unit(self) -> ObjectKernel:
        """Return the kernel whose features have unit length."""
        own: Any = self
        return replace(own, normalized=True) if hasattr(self, "normalized") else self

    def reads(self, column: int) -> frozenset[str]:
        """Objects: whatever they are, the kernel looks at them itself."""
        return frozenset({"objects"})

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise ``InvalidInputError`` if there is not exactly one column."""
        if n_columns != 1:
            raise InvalidInputError(
                f"{name}: {self.kind} reads one column of objects, and {n_columns} columns are selected. Name the "
                'column: KernelBank([("dna", kernel, ["column"])]).'
            )

    def of_points(self, left: SparsePoints, right: SparsePoints) -> Array:
        """Return the kernel between rows of features, (n_left, n_right) float64."""
        return left.inner(right)

    def diag_of_points(self, points: SparsePoints) -> Array:
        """Return ``k(x, x)`` from rows of features, (n,)."""
        return points.squared_norms

    def points(self, objects: object) -> SparsePoints:
        """Return objects as rows of features; those that are already stay as they are."""
        return objects if isinstance(objects, SparsePoints) else SparsePoints.of(self.features(objects))

    def __call__(self, A: object, B: object = None) -> Array:
        """Return the matrix of kernel values between objects, or rows of features; ``B=None`` means ``B = A``."""
        left = self.points(A)
        return self.of_points(left, left if B is None else self.points(B))

    def diag(self, A: object) -> Array:
        """Return ``k(a, a)`` of every object, (n,)."""
        return self.diag_of_points(self.points(A))


def as_objects(values: object) -> Array:
    """Return objects as a one-dimensional array of dtype object, None where nothing is known."""
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


def check_strings(objects: Array, kernel: str, noun: str, *, empty: bool = False) -> None:
    """Raise ``InvalidInputError`` unless all objects are strings (or None), and none is empty unless ``empty``."""
    wrong = [i for i, item in enumerate(objects) if not isinstance(item, str) and item is not None]
    if wrong:
        first = objects[wrong[0]]
        raise InvalidInputError(
            f"{kernel} reads {noun} as strings, and {len(wrong)} of {len(objects)} values are none, first "
            f"{str(first)[:_SHOWN]!r} ({type(first).__name__}) in row {wrong[0]}. Name a column of {noun}."
        )
    blank = [] if empty else [i for i, item in enumerate(objects) if item is not None and not item.strip()]
    if blank:
        raise InvalidInputError(
            f"{len(blank)} of {len(objects)} {noun} are empty, first in row {blank[0]}. Drop these rows, or put None "
            "in their place and make the bank with missing='mask'."
        )


def unit_rows(matrix: csr_array) -> csr_array:
    """Return rows divided by their lengths; rows of zeros stay as they are."""
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
        found = as_objects(objects)
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
