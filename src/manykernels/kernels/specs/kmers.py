"""Kernels of sequences: spectrum, gapped and mismatch k-mers, and weighted degree, by counts of k-mers.

A k-mer is a sequence of k neighboring letters. ``phi_s(x)`` sums over the windows of x matching s:

    spectrum         s = the letters
    mismatches=m     s = all words that differ from the letters in at most m places
    gaps=g           s = the letters without g of them, and which
    positional       s = the letters and where they stand, at most ``shift`` places away

with ``shortest=l`` for lengths j = l..k at once, of weight k - j + 1 in the kernel (the weighted degree kernel's).

Leslie, Eskin, Noble, PSB 2002 (spectrum); Leslie, Eskin, Weston, Noble, NIPS 2002 (mismatches); Ghandi, Lee,
Mohammad-Noori, Beer, PLOS Comput. Biol. 10 (2014) (gaps); Raetsch, Sonnenburg, Kernel Methods in Comput. Biol. (2004)
(weighted degree); Meinicke, Tech, Morgenstern, Merkl, BMC Bioinformatics 5 (2004) (near positions).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs import kmer_loops
from manykernels.kernels.specs.base import register_kernel
from manykernels.kernels.specs.objects import MOST_FEATURES, FeatureRows, ObjectKernel, check_strings, read_objects
from manykernels.validation.arrays import Array, check_choice, check_count
from manykernels.validation.parameters import check_flag

ALPHABETS = {"dna": "ACGT", "rna": "ACGU", "protein": "ACDEFGHIKLMNPQRSTVWY"}


@register_kernel
@dataclass(frozen=True)
class Kmers(ObjectKernel):
    """Sequences are alike that share k-mers: spectrum, gapped, mismatch and weighted degree kernels.

    ``k(x, z) = phi(x)' phi(z)`` with counts ``phi`` of what the windows of k letters show, of unit length. Sequences
    may differ in length; one without any window of known letters is zero.

    Parameters
    ----------
    k : int
        Letters of a window.
    alphabet : str, default="dna"
        ``"dna"``, ``"rna"``, ``"protein"``, or the letters themselves. Lower case is read as upper case where the
        alphabet has no lower case.
    gaps : int, default=0
        How many of the k letters do not count, wherever they stand: all choices of k - gaps places are features.
    mismatches : int, default=0
        Up to how many letters may differ.
    positional : bool, default=False
        Whether positions of k-mers matter, for aligned sequences.
    shift : int, default=0
        Of positional k-mers: how far they may move. Two that stand d apart count ``2 shift + 1 - d``.
    shortest : int, optional
        All lengths from ``shortest`` to k, of weight ``k - length + 1``. None is k alone.
    reverse_complement : bool, default=False
        Whether the other strand is read too ("dna" and "rna").
    unknown : {"error", "skip"}, default="error"
        Treatment of letters outside the alphabet, for example N: "skip" leaves out their windows.
    n_features : int, default=2**22
        Words beyond so many share places by a hash, which is a kernel too.
    seed : int, default=0
        Of the hash.
    normalized : bool, default=True
        Whether rows of features have unit length.

    Raises
    ------
    InvalidInputError
        If a parameter has no meaning, or one window would have more than 5,000 features.

    Examples
    --------
    >>> from manykernels.kernels import Kmers
    >>> Kmers(2, normalized=False)(["ACGT", "ACGG"])
    array([[3., 2.],
           [2., 3.]])
    >>> Kmers(3, positional=True, shortest=1).label
    'kmers(3, positional, shortest=1)'

    Notes
    -----
    Of k letters in an alphabet of A, ``A**k`` words; positional ones have as many a place. The first ``n_features`` of
    them have separate places.
    """

    kind: ClassVar[str] = "kmers"
    k: int
    alphabet: str = "dna"
    gaps: int = 0
    mismatches: int = 0
    positional: bool = False
    shift: int = 0
    shortest: int | None = None
    reverse_complement: bool = False
    unknown: str = "error"
    n_features: int = MOST_FEATURES
    seed: int = 0
    normalized: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_count(self.k, "k", most=64))
        for name in ("gaps", "mismatches", "shift", "seed"):
            object.__setattr__(self, name, check_count(getattr(self, name), name, least=0))
        object.__setattr__(self, "n_features", check_count(self.n_features, "n_features", most=2**30))
        if self.shortest is not None:
            object.__setattr__(self, "shortest", check_count(self.shortest, "shortest", most=self.k))
        check_choice(self.unknown, ("error", "skip"), "unknown")
        for name in ("positional", "reverse_complement", "normalized"):
            check_flag(getattr(self, name), name)
        self._check_together()

    def _check_together(self) -> None:
        """Reject inconsistent parameters."""
        letters = self.letters
        if len(set(letters)) != len(letters) or len(letters) < 2 or max(map(ord, letters)) > 255:
            raise InvalidInputError(
                f"alphabet must be 'dna', 'rna', 'protein' or two or more different letters, got {self.alphabet!r}."
            )
        if self.gaps >= self.k:
            raise InvalidInputError(f"gaps={self.gaps} leaves no letters of k={self.k}. Use fewer gaps.")
        if (self.gaps and self.mismatches) or (self.shortest is not None and (self.gaps or self.mismatches)):
            raise InvalidInputError("Of gaps, mismatches and shortest, one kernel has one; add another kernel.")
        if self.mismatches >= self.k:
            raise InvalidInputError(
                f"mismatches={self.mismatches} let all {self.k} letters differ. Use fewer mismatches."
            )
        if self.shift and not self.positional:
            raise InvalidInputError("shift moves k-mers that have a place; set positional=True.")
        if self.reverse_complement and (self.positional or self.alphabet not in ("dna", "rna")):
            raise InvalidInputError("reverse_complement reads 'dna' or 'rna' whose k-mers have no place.")
        longest = 2.0**62  # numbers of words that 64 bits can tell apart
        if float(len(letters)) ** self.k * max(comb(self.k, self.gaps), 1) > longest:
            raise InvalidInputError(f"k={self.k} letters of {len(letters)} make more words than 64 bits can encode.")
        words = sum(comb(self.k, i) * (len(letters) - 1) ** i for i in range(self.mismatches + 1))
        most_words = 5000  # features that one window may add to
        if (count := max(words, comb(self.k, self.gaps)) * (2 * self.shift + 1)) > most_words:
            raise InvalidInputError(
                f"{self.label} has {count} features a window, more than {most_words}: take fewer gaps or mismatches."
            )

    @property
    def letters(self) -> str:
        """The letters of the alphabet."""
        return ALPHABETS.get(self.alphabet, self.alphabet)

    @cached_property
    def label(self) -> str:
        """Short text: k, and nondefault parameters."""
        shown = [str(self.k)]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(field.name if value is True else f"{field.name}={value}")
        return f"kmers({', '.join(shown)})"

    @property
    def n_places(self) -> int:
        """Number of features: of words if few, else ``n_features``."""
        if self.positional:
            return self.n_features
        size, first = len(self.letters), self.k if self.shortest is None else self.shortest
        kept = self.k - self.gaps
        words = comb(self.k, self.gaps) * size**kept if self.gaps else sum(size**j for j in range(first, self.k + 1))
        return min(words, self.n_features)

    def features(self, objects: object) -> csr_array:
        """Return the counts of every sequence.

        Parameters
        ----------
        objects : sequence of str or None

        Returns
        -------
        csr_array of shape (n, n_features)
            Of unit length if ``normalized``.

        Raises
        ------
        InvalidInputError
            Values other than strings, empty strings, and letters outside the alphabet.
        """
        codes, starts = self.encoded(objects)
        data, indices, ends = kmer_loops.count_kmers(codes, starts, *self._loop, self.normalized)
        matrix = csr_array((data, indices, ends), shape=(len(starts) - 1, self.n_places))
        matrix.sort_indices()
        return matrix

    @cached_property
    def _loop(self) -> tuple[kmer_loops.Plan, int, int]:
        """Parameters of the compiled loops: the windows, the maximal number of words, the number of strands."""
        size, shortest = len(self.letters), self.k if self.shortest is None else self.shortest
        lengths = np.arange(shortest, self.k + 1)
        kept = self.k - self.gaps
        masks = np.array(list(combinations(range(self.k), kept))) if self.gaps else np.zeros((1, 0), dtype=np.int64)
        powers = np.array([size ** int(length) for length in lengths], dtype=np.int64)
        a_place = len(masks) * size**kept if self.gaps else int(powers.sum())
        mask = np.uint64(0 if self.n_places & (self.n_places - 1) else self.n_places - 1)
        plan = (
            size, lengths, np.sqrt(self.k - lengths + 1.0), masks.astype(np.int64), self.mismatches, self.positional,
            self.shift, self.n_places, mask, np.uint64(self.seed), powers, a_place, size**kept,
        )  # fmt: skip
        words = sum(comb(self.k, i) * (size - 1) ** i for i in range(self.mismatches + 1))
        return plan, max(words, len(masks)), 2 if self.reverse_complement else 1

    def sizes(self, objects: object) -> tuple[float, float]:
        """Return the number of counted places per sequence, and the cached bytes beside the letters."""
        codes, starts = self.encoded(objects)
        plan, a_window, strands = self._loop
        each = len(codes) / max(len(starts) - 1, 1) * len(plan[1]) * max(a_window, 1) * (2 * plan[6] + 1) * strands
        return each, 24.0

    def read(self, objects: object, shared: dict[Any, Any] | None = None) -> KmerRows:
        """Return prepared sequences: shared letters, and feature norms."""
        shared = {} if shared is None else shared
        key = self.letters, self.unknown
        if key not in shared:
            shared[key] = self.encoded(objects)
        codes, starts = shared[key]
        return KmerRows(codes, starts, self._loop, self.normalized)

    def encoded(self, objects: object) -> tuple[Array, Array]:
        """Return the letters of all sequences as numbers, uint8 with 255 for unknown letters, and the offsets."""
        found = read_objects(objects)
        check_strings(found, self.label, "sequences")
        texts = ["" if item is None else item for item in found]
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
        codes = _table(self.letters)[np.frombuffer("".join(texts).encode("latin-1", "replace"), dtype=np.uint8)]
        if self.unknown == "error" and (codes == kmer_loops.UNKNOWN).any():
            self._refuse(codes, starts, texts)
        return codes, starts

    def _refuse(self, codes: Array, starts: Array, texts: list[str]) -> None:
        """Raise ``InvalidInputError`` with the letters outside the alphabet."""
        at = np.flatnonzero(codes == kmer_loops.UNKNOWN)
        rows = np.unique(np.searchsorted(starts, at, side="right") - 1)
        outside = sorted({texts[row][i - starts[row]] for i, row in
                          ((i, int(np.searchsorted(starts, i, side="right")) - 1) for i in at[:1000])})  # fmt: skip
        raise InvalidInputError(
            f"{len(rows)} sequence(s) hold letters outside the alphabet {self.letters!r}: "
            f"{', '.join(map(repr, outside[:8]))}, first in row {rows[0]}. Correct them, name the alphabet, or leave "
            "out the windows that hold one with unknown='skip'."
        )


def _table(letters: str) -> Array:
    """Return the code of every of 256 characters, 255 for foreign characters."""
    table = np.full(256, kmer_loops.UNKNOWN, dtype=np.uint8)
    for code, letter in enumerate(letters):
        if letter.lower() not in letters and len(letter.lower()) == 1 and ord(letter.lower()) < 256:
            table[ord(letter.lower())] = code
    for code, letter in enumerate(letters):
        table[ord(letter)] = code
    return table


class KmerRows(FeatureRows):
    """Sequences as letters: their features are counted whenever they are needed, and take no memory.

    Those needed again and again may be listed, at four bytes a window and word.
    """

    def __init__(self, codes: Array, starts: Array, loop: tuple[kmer_loops.Plan, int, int], normalized: bool) -> None:
        self.codes, self.starts, self._loop, self._normalized = codes, starts, loop, normalized
        squares = kmer_loops.squares_of(codes, starts, *loop)
        self.squares = (squares > 0).astype(np.float64) if normalized else squares
        roots = np.sqrt(squares)
        self._scale = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0) if normalized else None
        self._listed: tuple[Array, Array, Array] | None = None

    def keep(self, room: int) -> int:
        """Cache the features within a number of bytes; return the bytes taken."""
        plan, a_window, strands = self._loop
        each = 4 if len(plan[1]) == 1 else 12
        size = each * len(self.codes) * a_window * len(plan[1]) * (2 * plan[6] + 1) * strands
        if self._listed is None and size <= room:
            self._listed = kmer_loops.list_places(self.codes, self.starts, *self._loop)
            return size
        return 0

    def adjoint(self, r: Array) -> Array:
        amounts = np.ascontiguousarray(r if self._scale is None else r * self._scale, dtype=np.float64)
        if self._listed is not None:
            return kmer_loops.spread_listed(*self._listed, amounts, self._loop[0][7])
        return kmer_loops.spread(self.codes, self.starts, *self._loop, amounts)

    def adjoints(self, R: Array) -> Array:
        """Return ``sum_i R_ic phi(x_i)`` of several columns, in a single read of the sequences."""
        amounts = np.ascontiguousarray(R if self._scale is None else R * self._scale[:, None], dtype=np.float64)
        return kmer_loops.spread_several(self.codes, self.starts, *self._loop, amounts)

    def scores(self, w: Array) -> Array:
        table = np.ascontiguousarray(w, dtype=np.float64)
        if self._listed is not None:
            sums = kmer_loops.gather_listed(*self._listed, table)
        else:
            sums = kmer_loops.gather(self.codes, self.starts, *self._loop, table)
        return sums if self._scale is None else sums * self._scale

    def rows(self, index: slice | Array) -> csr_array:
        chosen = np.arange(len(self.starts) - 1)[index]
        parts = [self.codes[self.starts[i] : self.starts[i + 1]] for i in chosen]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        codes = np.concatenate([np.zeros(0, np.uint8), *parts])
        data, indices, ends = kmer_loops.count_kmers(codes, starts, *self._loop, self._normalized)
        return csr_array((data, indices, ends), shape=(len(chosen), self._loop[0][7]))
