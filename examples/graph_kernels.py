"""Graphs: kernels by GraKeL, weighed and certified here; which of them tells rings from chains?

Run with ``python examples/graph_kernels.py``; needs ``python -m pip install 'manykernels[graphs]'``.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
from sklearn.model_selection import cross_val_score

from manykernels import KernelStack, MKLClassifier

if importlib.util.find_spec("grakel") is None:
    print("This example needs GraKeL: python -m pip install 'manykernels[graphs]'.")
    sys.exit(0)
from grakel import Graph
from grakel.kernels import ShortestPath, VertexHistogram, WeisfeilerLehman

rng = np.random.default_rng(0)


def draw(ring: bool) -> Graph:
    """Return a chain or a ring of some atoms of two kinds; one bond of every third is left to chance."""
    size = int(rng.integers(6, 11))
    bonds = {(i, (i + 1) % size) for i in range(size if ring else size - 1)}
    if rng.random() < 1 / 3:
        bonds.add((0, int(rng.integers(2, size - 1))))
    atoms = {i: str(rng.choice(["C", "N"])) for i in range(size)}
    return Graph([*bonds, *((b, a) for a, b in bonds)], node_labels=atoms)


rings = rng.random(80) < 0.5
graphs = [draw(bool(ring)) for ring in rings]
kernels = {
    "counts of atoms": VertexHistogram(),
    "neighborhoods (Weisfeiler-Lehman)": WeisfeilerLehman(n_iter=3, base_graph_kernel=VertexHistogram),
    "shortest paths": ShortestPath(),
}
stack = KernelStack(np.stack([kernel.fit_transform(graphs) for kernel in kernels.values()]), names=list(kernels))

model = MKLClassifier("precomputed")
print(f"accuracy in folds: {cross_val_score(model, stack, rings, cv=4).mean():.2f}")
model.fit(stack, rings)
print(f"gap {model.dual_gap_:.0e}")
print(model.weights_frame()[["name", "norm_share"]].to_string(index=False))
