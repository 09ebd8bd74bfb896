"""A motif that mutates: kernels of words that may differ in a letter, beside kernels of exact words.

Run with ``python examples/sequence_mismatches.py``.

A mismatch kernel (Leslie et al., 2004) counts, for every word of k letters, the places of a sequence where a word
stands that differs from it in m letters at most; m = 0 is the spectrum kernel.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.model_selection import cross_val_score

from manykernels import KernelStack, MKLClassifier, PrecomputedBank

ALPHABET, MOTIF = "ACGT", "TGACGT"


def mismatch_kernel(sequences: list[str], length: int, mismatches: int) -> np.ndarray:
    """Return inner products of counts of words that differ from those of the sequences in a few letters at most."""
    codes = np.array(list(product(range(len(ALPHABET)), repeat=length)))
    differing = (codes[:, None] != codes).sum(axis=2)
    numbers = {letter: number for number, letter in enumerate(ALPHABET)}
    powers = len(ALPHABET) ** np.arange(length - 1, -1, -1)
    exact = np.zeros((len(sequences), len(codes)))
    for row, sequence in zip(exact, sequences, strict=True):
        letters = np.array([numbers[letter] for letter in sequence])
        words = np.lib.stride_tricks.sliding_window_view(letters, length) @ powers
        np.add.at(row, words, 1.0)
    counts = exact @ (differing <= mismatches)
    return counts @ counts.T


rng = np.random.default_rng(0)
bound = rng.random(160) < 0.5
sequences = []
for carries in bound:
    letters = rng.choice(list(ALPHABET), size=60)
    for start in rng.choice(9, size=3, replace=False) * 6 if carries else ():
        copy = list(MOTIF)
        copy[rng.integers(len(MOTIF))] = str(rng.choice(list(ALPHABET)))  # one letter of every copy is anything
        letters[start : start + len(MOTIF)] = copy
    sequences.append("".join(letters))

shapes = [(2, 0), (4, 0), (5, 0), (4, 1), (5, 1)]
names = [f"words of {length}" + (f", {wrong} wrong" if wrong else "") for length, wrong in shapes]
kernels = np.stack([mismatch_kernel(sequences, *shape) for shape in shapes])
stack = KernelStack(kernels, names=names)
model = MKLClassifier(PrecomputedBank(center=True))
for m, name in enumerate(names):
    alone = KernelStack(kernels[m : m + 1], names=[name])
    print(f"{name:20} alone: accuracy {cross_val_score(model, alone, bound, cv=4).mean():.2f}")
print(f"all together: accuracy {cross_val_score(model, stack, bound, cv=4).mean():.2f}")
print(model.fit(stack, bound).weights_frame()[["name", "norm_share"]].to_string(index=False))
