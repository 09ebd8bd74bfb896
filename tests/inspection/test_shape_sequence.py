"""Words and places of sequences: what was planted is found, by factors and by matrices, and drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, Linear, MKLClassifier
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import SequenceDisplay
from manykernels.kernels import Kmers

MOTIF, PLACE = "GATTA", 8


def planted(n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    """Return sequences of one class with five letters at one place."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    dna = ["".join(row) for row in rng.choice(list("ACGT"), (n, 20))]
    dna = [text[:PLACE] + MOTIF + text[PLACE + 5 :] if own else text for text, own in zip(dna, y, strict=True)]
    return pd.DataFrame({"age": rng.normal(size=n), "dna": dna}), y


KERNELS: list[Any] = [("words", Kmers(5), "dna"), ("where", Kmers(3, positional=True), "dna")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("held", ["gram", "factored"])
def test_what_was_planted_is_found(held: str) -> None:
    """The planted word has the strongest effect, for the class that has it, and its places matter most."""
    X, y = planted()
    words, where = (
        SequenceDisplay.from_estimator(
            MKLClassifier(KernelBank([kernel]), alpha=0.02, resources={"representation": held}).fit(X, y), X, n_rows=20
        )
        for kernel in KERNELS
    )
    first = words.frame().iloc[0]
    assert first["word"] == MOTIF
    assert first["effect"] > 0
    assert first["share"] == pytest.approx(X["dna"].str.contains(MOTIF).mean())
    strongest = where.places.nlargest(5, "effect")["place"]
    assert set(strongest) == set(range(PLACE, PLACE + 5))


def test_the_effect_of_a_word_is_the_function_at_it() -> None:
    """Of one kernel of k-mers, the score of a sequence that is the word, less the intercept."""
    X, y = planted()
    model = MKLClassifier(KernelBank(KERNELS[:1]), alpha=0.02).fit(X, y)
    seen = SequenceDisplay.from_estimator(model, X, n_rows=1, n_words=5)
    alone = model.decision_function(pd.DataFrame({"age": 0.0, "dna": seen.words["word"]})) - model.intercept_
    np.testing.assert_allclose(seen.words["effect"], alone, atol=1e-12)


def test_the_effect_of_a_place_is_that_of_all_other_letters() -> None:
    """By hand, for one place of three sequences of unequal length, one of them too short."""
    X, y = planted()
    X.loc[2, "dna"] = X.loc[2, "dna"][:9]
    model = MKLClassifier(KernelBank(KERNELS), alpha=0.02).fit(X, y)
    seen = SequenceDisplay.from_estimator(model, X, n_rows=3)
    changes = []
    for row in (0, 1):
        text = X.loc[row, "dna"]
        texts = [text[:10] + letter + text[11:] for letter in "ACGT" if letter != text[10]]
        scores = model.decision_function(pd.DataFrame({"age": 0.0, "dna": [text, *texts]}))
        changes += list(scores[1:] - scores[0])
    assert seen.places["effect"].iloc[10] == pytest.approx(np.sqrt(np.mean(np.square(changes))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [None, "words", "places"])
def test_both_are_drawn(kind: str | None) -> None:
    """Words by default, if there are any."""
    pytest.importorskip("matplotlib")
    X, y = planted()
    model = MKLClassifier(KernelBank(KERNELS[:1]), alpha=0.02).fit(X, y)
    seen = SequenceDisplay.from_estimator(model, X, n_rows=3, n_words=4).plot(kind=kind)
    assert len(seen.ax_.patches) == (20 if kind == "places" else 4)


def test_without_words_there_are_places() -> None:
    """Of positional kernels alone."""
    X, y = planted()
    model = MKLClassifier(KernelBank(KERNELS[1:]), alpha=0.02).fit(X, y)
    assert list(SequenceDisplay.from_estimator(model, X, n_rows=2).frame()) == ["place", "effect"]


def test_models_without_sequences_are_refused() -> None:
    """And columns that no kernel of k-mers reads."""
    X, y = planted()
    with pytest.raises(InvalidInputError, match="none does"):
        SequenceDisplay.from_estimator(MKLClassifier(KernelBank([("age", Linear(), "age")])).fit(X, y), X)
    model = MKLClassifier(KernelBank(KERNELS), alpha=0.02).fit(X, y)
    with pytest.raises(InvalidInputError, match="read \\['dna'\\], and not 'age'"):
        SequenceDisplay.from_estimator(model, X, column="age")
    for name in ("length", "n_rows", "n_words"):
        with pytest.raises(InvalidInputError, match=f"{name} must be an integer of at least 1, got -5"):
            SequenceDisplay.from_estimator(model, X, **{name: -5})
