"""Kernels of columns of objects: their values against plain counting, the bank on them, and models end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from manykernels import Gaussian, KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, load_model, save_model
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.kernels import KERNELS, Fingerprint, GraphFeatures, KernelSpec, Kmers, Ngrams, ObjectKernel
from manykernels.testing.kernels import KernelContract

RNG = np.random.default_rng(0)
SEQUENCES = ["".join(RNG.choice(list("ACGT"), size)) for size in RNG.integers(3, 30, 23)]
SEQUENCES[7] = SEQUENCES[3]
TEXTS = [" ".join(RNG.choice(["red", "green", "blue", "sea", "sky"], size)) for size in RNG.integers(1, 9, 23)]
TEXTS[7] = TEXTS[3]
PRINTS = [{int(j): int(RNG.integers(1, 4)) for j in RNG.choice(40, 9, replace=False)} for _ in range(23)]
PRINTS[7] = PRINTS[3]
GRAPHS: list[Any] = [
    ([(int(a), int(b)) for a, b in RNG.integers(0, 6, (7, 2)) if a != b], {j: "ab"[j % 2] for j in range(6)})
    for _ in range(23)
]
GRAPHS[7] = GRAPHS[3]

EXAMPLES: dict[str, list[tuple[ObjectKernel, list[Any]]]] = {
    "kmers": [
        (Kmers(3), SEQUENCES),
        (Kmers(4, gaps=1, reverse_complement=True), SEQUENCES),
        (Kmers(3, mismatches=1, normalized=False), SEQUENCES),
        (Kmers(3, positional=True, shortest=1, shift=1), SEQUENCES),
        (Kmers(6, n_features=50, seed=3), SEQUENCES),
        (Kmers(2, alphabet="abc ", unknown="skip"), [text.lower().replace("t", " ") for text in SEQUENCES]),
    ],
    "ngrams": [(Ngrams(1), TEXTS), (Ngrams(3, "char", shortest=2, binary=True, normalized=False), TEXTS)],
    "fingerprint": [(Fingerprint(kind), PRINTS) for kind in ("tanimoto", "minmax", "linear")],
    "graph_features": [(GraphFeatures(), GRAPHS), (GraphFeatures("shortest_path", normalized=False), GRAPHS)],
}
CASES = [case for cases in EXAMPLES.values() for case in cases]


def test_every_kernel_of_objects_has_examples() -> None:
    """A kernel of objects that is registered runs the contract below."""
    own = {kind for kind, cls in KERNELS.items() if issubclass(cls, ObjectKernel) and cls.__module__.startswith("many")}
    assert own == set(EXAMPLES)


class TestObjectKernels(KernelContract):
    """The laws of kernels, on objects."""

    @pytest.fixture(params=CASES, ids=lambda case: case[0].label)
    def case(self, request: pytest.FixtureRequest) -> tuple[ObjectKernel, list[Any]]:
        """A kernel, and objects that it reads."""
        self._objects = request.param[1]
        return request.param

    @pytest.fixture
    def kernel(self, case: tuple[ObjectKernel, list[Any]]) -> KernelSpec:
        """The kernel."""
        return case[0]

    def points(self) -> Any:
        """Return the objects."""
        return self._objects

    def test_features(self, kernel: ObjectKernel) -> None:
        """Features are as many as the kernel says, canonical, and its inner products if it is explicit."""
        features = kernel.features(self.points())
        assert features.shape == (len(self.points()), kernel.n_places)
        assert features.has_canonical_format
        assert kernel.features([None]).nnz == 0
        if kernel.explicit:
            np.testing.assert_allclose((features @ features.T).toarray(), kernel(self.points()), atol=1e-14)


# --- sequences: values against plain counting ------------------------------------------------------------------------


def windows(text: str, k: int) -> list[tuple[int, str]]:
    """Return every window with its place."""
    return [(i, text[i : i + k]) for i in range(len(text) - k + 1)]


def spectrum(k: int) -> Callable[[str], Counter[Any]]:
    """Count k-mers."""
    return lambda text: Counter(word for _, word in windows(text, k))


def mismatch(k: int, most: int) -> Callable[[str], Counter[Any]]:
    """Count words by all words that are near."""
    every = ["".join(word) for word in product("ACGT", repeat=k)]
    near = {w: [v for v in every if sum(a != b for a, b in zip(v, w, strict=True)) <= most] for w in every}
    return lambda text: Counter(other for _, word in windows(text, k) for other in near[word])


def gapped(k: int, gaps: int) -> Callable[[str], Counter[Any]]:
    """Count choices of places with their letters."""
    kept = list(combinations(range(k), k - gaps))
    return lambda text: Counter((own, "".join(word[j] for j in own)) for _, word in windows(text, k) for own in kept)


def weighted_degree(k: int) -> Callable[[str], Counter[Any]]:
    """Count words of all lengths where they stand, with the roots of the weights k - length + 1."""

    def count(text: str) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for length in range(1, k + 1):
            for place in windows(text, length):
                found[place] += np.sqrt(k - length + 1)
        return found

    return count


def shifted(k: int, shift: int) -> Callable[[str], Counter[Any]]:
    """Count words at all places near theirs."""
    moves = range(-shift, shift + 1)
    return lambda text: Counter((i + move, word) for i, word in windows(text, k) for move in moves)


def both_strands(k: int) -> Callable[[str], Counter[Any]]:
    """Count words of both strands."""
    other = str.maketrans("ACGT", "TGCA")
    return lambda text: spectrum(k)(text) + spectrum(k)(text.translate(other)[::-1])


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (Kmers(1), spectrum(1)),
        (Kmers(3), spectrum(3)),
        (Kmers(6), spectrum(6)),
        (Kmers(4, mismatches=1), mismatch(4, 1)),
        (Kmers(4, mismatches=2), mismatch(4, 2)),
        (Kmers(5, gaps=2), gapped(5, 2)),
        (Kmers(5, positional=True, shortest=1), weighted_degree(5)),
        (Kmers(3, positional=True, shift=2), shifted(3, 2)),
        (Kmers(3, reverse_complement=True), both_strands(3)),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_kmers_are_what_python_counts(kernel: Kmers, count: Callable[[str], Counter[Any]]) -> None:
    """Inner products of Python's own counters, divided by their lengths."""
    counts = [count(text) for text in SEQUENCES]
    inner = np.array([[float(sum(a[word] * b[word] for word in a)) for b in counts] for a in counts])
    lengths = np.sqrt(np.diag(inner))
    lengths[lengths == 0] = 1.0
    np.testing.assert_allclose(kernel(SEQUENCES), inner / lengths[:, None] / lengths, atol=1e-12)


def test_two_near_positions_count_by_their_distance() -> None:
    """Words that stand d apart count 2 shift + 1 - d, as the docstring says, also before the first place."""
    kernel = Kmers(2, positional=True, shift=3, normalized=False, alphabet="abx")
    texts = ["ab" + "x" * i for i in range(1)] + ["x" * d + "ab" for d in range(1, 5)]
    words = kernel(texts)
    plain = [Counter(dict(shifted(2, 3)(text))) for text in texts]
    assert words[0].tolist() == [sum(plain[0][w] * other[w] for w in plain[0]) for other in plain]
    assert words[0, 1] == 6


def test_words_beyond_the_places_are_hashed() -> None:
    """Words that have places of their own stay there; the others share them, as the seed says."""
    np.testing.assert_array_equal(Kmers(5, seed=4)(SEQUENCES), Kmers(5)(SEQUENCES))
    few, other = Kmers(6, n_features=100).features(SEQUENCES), Kmers(6, n_features=100, seed=1).features(SEQUENCES)
    assert few.shape == other.shape == (len(SEQUENCES), 100)
    assert (few != other).nnz


def test_unknown_letters_leave_out_their_windows() -> None:
    """A window that holds an unknown letter counts for nothing; lower case is upper case."""
    kernel = Kmers(2, unknown="skip", normalized=False)
    np.testing.assert_array_equal(kernel(["ACNGT", "acgt"]), [[2.0, 2.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (["ACGT", 3], "1 of 2 values are none, first '3' (int) in row 1"),
        (["ACGT", ""], "1 of 2 sequences are empty, first in row 1"),
        (["ACGT", "ACXNT"], "outside the alphabet 'ACGT': 'N', 'X', first in row 1"),
        ("ACGT", "one string"),
    ],
)
def test_bad_sequences_are_refused_in_words(objects: Any, words: str) -> None:
    """The message says what was wrong and where."""
    with pytest.raises(InvalidInputError) as caught:
        Kmers(2)(objects)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 3, "gaps": 3}, "leaves no letters"),
        ({"k": 3, "gaps": 1, "mismatches": 1}, "one kernel has one"),
        ({"k": 3, "shift": 1}, "set positional=True"),
        ({"k": 3, "alphabet": "AA"}, "different letters"),
        ({"k": 3, "alphabet": "protein", "reverse_complement": True}, "reverse_complement reads"),
        ({"k": 40}, "64 bits"),
        ({"k": 20, "mismatches": 4}, "features a window"),
        ({"k": 3, "unknown": "drop"}, "unknown"),
    ],
)
def test_parameters_without_a_meaning_are_refused(parameters: dict[str, Any], words: str) -> None:
    """Each with what to do."""
    with pytest.raises(InvalidInputError, match=words):
        Kmers(**parameters)


# --- texts, molecules, graphs ---------------------------------------------------------------------------------------


def test_ngrams_are_those_of_scikit_learn() -> None:
    """Counts of a vectorizer that learns its vocabulary have the same inner products: no two words share a place."""
    counts = CountVectorizer(ngram_range=(1, 2)).fit_transform(TEXTS).astype(float)
    expected = cosine_similarity(counts)
    np.testing.assert_allclose(Ngrams(2, shortest=1)(TEXTS), expected, atol=1e-12)


def test_fingerprints_are_compared_as_their_formulas_say() -> None:
    """Tanimoto and MinMax on counts, in plain Python."""
    for a, row, bits in zip(PRINTS, Fingerprint("minmax")(PRINTS), Fingerprint()(PRINTS), strict=True):
        for b, minmax, tanimoto in zip(PRINTS, row, bits, strict=True):
            places, product_ = a.keys() | b.keys(), sum(a[j] * b.get(j, 0) for j in a)
            low, high = ([pick(a.get(j, 0), b.get(j, 0)) for j in places] for pick in (min, max))
            assert minmax == pytest.approx(sum(low) / sum(high))
            squares = sum(v * v for v in a.values()) + sum(v * v for v in b.values())
            assert tanimoto == pytest.approx(product_ / (squares - product_))


def test_counts_of_any_size_are_compared_by_their_minima() -> None:
    kernel = Fingerprint("minmax")
    counts: list[Any] = [{1: 100}, {1: 200}, {1: 0.5, 9: 1.5}, {1: 10**9}, None]
    found = kernel(counts)
    np.testing.assert_allclose(found[0], [1.0, 0.5, 0.5 / 101.5, 1e-7, 0.0])
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(kernel(counts, counts[::-1]), found[:, ::-1])


@pytest.mark.parametrize("counted", ["subtree", "shortest_path"])
def test_edges_listed_in_both_directions_or_twice_are_one_edge(counted: str) -> None:
    labels = {0: "C", 1: "O", 2: "N"}
    once = ([(0, 1), (1, 2), (2, 2)], labels)
    both = ([(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)], labels)
    twice = ([(1, 2), (0, 1), (0, 1), (2, 2), (2, 2)], labels)
    kernel = GraphFeatures(counted, normalized=False)
    found = kernel([once, both, twice, ([(0, 1), (0, 2)], labels)])
    np.testing.assert_array_equal(found[:3, :3], found[0, 0])
    assert found[0, 3] < found[0, 0]


def test_subtrees_are_counted_as_by_hand() -> None:
    """A triangle and a path of three nodes: labels, then labels with their neighbors."""
    triangle, path = ([(0, 1), (1, 2), (2, 0)], {}), ([(0, 1), (1, 2)], {})
    expected = [[9.0 + 9.0, 9.0 + 3.0], [9.0 + 3.0, 9.0 + 5.0]]
    np.testing.assert_array_equal(GraphFeatures(depth=1, normalized=False)([triangle, path]), expected)
    lengths = GraphFeatures("shortest_path", normalized=False)([triangle, path])
    np.testing.assert_array_equal(lengths, [[9.0, 6.0], [6.0, 5.0]])


@pytest.mark.parametrize(
    ("kernel", "objects", "words"),
    [
        (Ngrams(1), ["a text", "  "], "1 of 2 texts are empty"),
        (Fingerprint(), [{1: -2}], "not negative"),
        (Fingerprint(), [3.5], "got float in row 0"),
        (GraphFeatures(), [([], {})], "in row 0 has no nodes"),
        (GraphFeatures(), ["a-b"], "got str in row 0"),
    ],
)
def test_bad_objects_are_refused_in_words(kernel: ObjectKernel, objects: list[Any], words: str) -> None:
    """The message says what was wrong and where."""
    with pytest.raises(InvalidInputError) as caught:
        kernel(objects)
    assert words in str(caught.value)


def test_smiles_are_read_by_rdkit() -> None:
    """Equal molecules written in two ways are one; what does not parse is told."""
    pytest.importorskip("rdkit")
    np.testing.assert_allclose(Fingerprint()(["CCO", "OCC"]), 1.0)
    with pytest.raises(InvalidInputError, match="1 of 2 SMILES do not parse, first 'C1CC' in row 1"):
        Fingerprint()(["CCO", "C1CC"])


@pytest.mark.parametrize("similarity", ["tanimoto", "minmax"])
def test_kernels_without_features_have_landmarks(similarity: str, tmp_path: Path) -> None:
    """Factors of Tanimoto's and the MinMax kernel make the model that matrices make, and its file holds landmarks."""
    rng = np.random.default_rng(3)
    prints = [{int(j): int(rng.integers(1, 4)) for j in rng.choice(30, 6, replace=False)} for _ in range(80)]
    X, y = pd.DataFrame({"molecule": prints}), np.array([each.get(3, 0) - each.get(7, 0) for each in prints], float)
    bank = KernelBank([("t", Fingerprint(similarity), "molecule"), ("linear", Fingerprint("linear"), "molecule")])
    models = [
        MKLRegressor(bank, alpha=0.01, tol=1e-7, resources={"representation": held}).fit(X, y)
        for held in ("gram", "factored")
    ]
    np.testing.assert_allclose(models[1].predict(X), models[0].predict(X), atol=1e-4)
    assert max(model.dual_gap_ for model in models) <= 1e-7
    save_model(models[1], tmp_path / "model.mkl")
    np.testing.assert_allclose(load_model(tmp_path / "model.mkl").predict(X), models[1].predict(X), rtol=1e-12)


def test_objects_have_no_centers() -> None:
    """Landmarks of k-means are refused in words."""
    X = pd.DataFrame({"molecule": PRINTS})
    bank = KernelBank([("t", Fingerprint(), "molecule")], landmarks_by="k-means")
    with pytest.raises(IncompatibleError, match="k-means needs numbers"):
        MKLRegressor(bank, alpha=0.1, resources={"representation": "factored"}).fit(X, RNG.normal(size=len(PRINTS)))


def test_the_default_bank_sees_sequences() -> None:
    """Long texts of few letters get k-mers, positional ones where all have one length; other texts are refused."""
    X, _ = table(60)
    names = KernelBank.auto().fit(X).names
    assert "dna: kmers(4, unknown=skip)" in names
    assert "dna: kmers(4, positional, shortest=1, unknown=skip)" in names
    with pytest.raises(InvalidInputError, match="'dna'"):
        KernelBank.auto().fit(X.assign(dna=[f"note {i} on patient {i}" for i in range(60)]))


# --- in a bank, and in models ----------------------------------------------------------------------------------------


def table(n: int = 120) -> tuple[pd.DataFrame, Any]:
    """Return sequences, half of which hold a motif, beside a column of numbers."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, n)
    texts = ["".join(row) for row in rng.choice(list("ACGT"), (n, 30))]
    texts = [text[:10] + "GATTACA" + text[17:] if target else text for text, target in zip(texts, y, strict=True)]
    return pd.DataFrame({"age": rng.normal(size=n), "dna": texts}), y


BANK = KernelBank(
    [
        ("1", Kmers(1), "dna"),
        ("4", Kmers(4), "dna"),
        ("place", Kmers(3, positional=True), "dna"),
        ("age", Gaussian(1.0), "age"),
    ]
)


def test_a_bank_evaluates_kernels_of_objects_beside_others() -> None:
    """Blocks are the kernels' own values, for rows of training and for new ones."""
    X, _ = table(40)
    bank = BANK.replace(normalize=None).fit(X[:30])
    block = bank.block(bank.prepare(X[30:]), bank.prepare(X[:30]))
    texts = X["dna"].tolist()
    np.testing.assert_allclose(block[1], Kmers(4)(texts[30:], texts[:30]), atol=1e-14)
    np.testing.assert_allclose(block[3], Gaussian(1.0)(X[["age"]][30:], X[["age"]][:30]), atol=1e-14)


def test_a_sequence_that_is_missing_is_masked() -> None:
    """Its row is zero in the kernels of the column, and in those alone."""
    X, _ = table(20)
    X.loc[3, "dna"] = None
    with pytest.raises(InvalidInputError, match="'dna' \\(1 of 20\\)"):
        BANK.fit(X)
    bank = BANK.replace(missing="mask").fit(X)
    rows = bank.prepare(X)
    block = bank.block(rows, rows)
    assert not block[:3, 3].any()
    assert block[3, 3].all()


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (pd.DataFrame({"age": [1.0, 2.0], "dna": [1.0, 2.0]}), "reads sequences as strings"),
        (pd.DataFrame({"age": [1.0, 2.0]}), "Unknown column 'dna'"),
    ],
)
def test_columns_that_are_no_sequences_are_refused(X: Any, words: str) -> None:
    """By the kernel that reads them."""
    with pytest.raises(InvalidInputError, match=words):
        BANK.fit(X)


def test_arrays_and_centering_and_several_columns_are_refused() -> None:
    """With what to do."""
    X, _ = table(20)
    with pytest.raises(InvalidInputError, match="Pass a DataFrame"):
        KernelBank([("4", Kmers(4), [0])]).fit(np.ones((3, 1)))
    with pytest.raises(InvalidInputError, match="center=False"):
        BANK.replace(center=True).fit(X)
    with pytest.raises(InvalidInputError, match="one column of objects"):
        KernelBank([("4", Kmers(4))]).fit(X)


def test_a_model_finds_the_motif_and_survives_its_file(tmp_path: Any) -> None:
    """From strings to a saved model that predicts the same."""
    X, y = table()
    model = MKLClassifier(BANK, alpha=0.02).fit(X[:80], y[:80])
    assert model.dual_gap_ <= 1e-3
    assert model.score(X[80:], y[80:]) >= 0.95
    save_model(model, tmp_path / "model.zip")
    again = load_model(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.decision_function(X[80:]), model.decision_function(X[80:]))


def test_cross_validation_reads_sequences() -> None:
    """Folds learn what they need of their own rows."""
    X, y = table()
    model = MKLClassifierCV(BANK, cv=3, n_alphas=5).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) >= 0.9
