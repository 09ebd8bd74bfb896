"""Kernels of texts: hashed n-grams of words or characters, by scikit-learn's HashingVectorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import register_kernel
from manykernels.kernels.specs.objects import ObjectKernel, as_objects, check_strings
from manykernels.validation.arrays import check_choice, check_count

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
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInputError(f"{name} must be True or False, got {getattr(self, name)!r}.")

    @property
    def n_places(self) -> int:
        """Places of the hash."""
        return self.n_features

    def features(self, objects: object) -> csr_array:
        """Return the counts of every text.

        Parameters
        ----------
        objects : sequence of str or None

        Returns
        -------
        csr_array of shape (n, n_features)

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
