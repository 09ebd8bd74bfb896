"""Kernels on sequences, precomputed, and cross-validated on both sample axes: which word length carries a motif?"""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from manykernels import KernelStack, MKLClassifier, PrecomputedBank

ALPHABET, MOTIF = "ACGT", "TGAC"


def draw_sequences(n: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Return random sequences of 60 letters; half of them contain the motif twice."""
    y = np.where(rng.random(n) < 0.5, "bound", "free")
    sequences = []
    for label in y:
        letters = rng.choice(list(ALPHABET), size=60)
        for start in rng.choice(14, size=2, replace=False) * 4 if label == "bound" else ():
            letters[start : start + len(MOTIF)] = list(MOTIF)
        sequences.append("".join(letters))
    return sequences, y


def spectrum_kernel(sequences: list[str], length: int) -> np.ndarray:
    """Return the inner products of word counts, for all words of one length."""
    words = ["".join(word) for word in product(ALPHABET, repeat=length)]
    place = {word: j for j, word in enumerate(words)}
    counts = np.zeros((len(sequences), len(words)))
    for i, sequence in enumerate(sequences):
        for start in range(len(sequence) - length + 1):
            counts[i, place[sequence[start : start + length]]] += 1
    return counts @ counts.T


sequences, y = draw_sequences(200, np.random.default_rng(0))
lengths = range(1, 6)
stack = KernelStack(
    [spectrum_kernel(sequences, length) for length in lengths], names=[f"words of {k}" for k in lengths]
)

# The stack is split like an array of 200 samples; centering and scaling are learned on the training part.
model = MKLClassifier(PrecomputedBank(center=True))
search = GridSearchCV(model, {"alpha": [0.01, 0.03, 0.1]}, cv=4)
train, test, y_train, y_test = train_test_split(stack, y, test_size=0.3, random_state=0)
search.fit(train, y_train)
print(f"alpha {search.best_params_['alpha']}, held-out accuracy {search.score(test, y_test):.2f}")
print(search.best_estimator_.weights_frame(active_only=False)[["name", "weight", "norm_share"]].to_string(index=False))

scores = cross_val_score(search.best_estimator_, stack, y, cv=5)
print(f"cross-validated accuracy {scores.mean():.2f} +- {scores.std():.2f}")
