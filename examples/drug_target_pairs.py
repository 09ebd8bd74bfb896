"""Drugs and targets: which products of kernels matter, and what the model says of drugs and targets it never met.

Run with ``python examples/drug_target_pairs.py``.
"""

import numpy as np

from manykernels import ColdStartKFold, solve
from manykernels.grams import PairStack

N_DRUGS, N_TARGETS = 120, 60
rng = np.random.default_rng(0)
structure, effects = rng.normal(size=(N_DRUGS, 3)), rng.normal(size=(N_DRUGS, 3))
sequence, tissue = rng.normal(size=(N_TARGETS, 3)), rng.normal(size=(N_TARGETS, 3))


def gaussian(points):
    """Return a Gaussian kernel with unit diagonal."""
    return np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 6)


drugs = np.stack([gaussian(structure), gaussian(effects)])
targets = np.stack([gaussian(sequence), gaussian(tissue)])
pairs = np.argwhere(rng.random((N_DRUGS, N_TARGETS)) < 0.7)
truth = np.sin(structure[pairs[:, 0], 0]) * sequence[pairs[:, 1], 0] + 0.5 * effects[pairs[:, 0], 0]
y = truth + 0.5 * rng.normal(size=len(pairs))

products = [(a, b) for a in (0, 1, None) for b in (0, 1, None)][:-1]
words = {"drug": ("structure", "effects"), "target": ("sequence", "tissue")}
names = [
    " x ".join(words[kind][k] for kind, k in zip(("drug", "target"), pair, strict=True) if k is not None)
    for pair in products
]
stack = PairStack(drugs, targets, pairs, products=products, names=names)
options = {"loss": "squared", "regularizer": "l1", "strength": 60.0, "tol": 1e-4}
solution = solve(stack, y, **options)
print(f"{len(pairs)} pairs, {stack.nbytes / 1e6:.1f} MB, not {8e-6 * len(names) * len(pairs) ** 2:.0f}; ", end="")
print(f"gap {solution.certificate.relative_gap:.0e}")
for m in np.argsort(-solution.kernel_weights)[: len(solution.active)]:
    print(f"  {names[m]:22} {solution.kernel_weights[m] / solution.kernel_weights.sum():.2f}")

for new in ("left", "right", "both"):
    train, test = next(ColdStartKFold(4, new=new, random_state=0).split(pairs))
    part = stack.restrict(train)
    model = solve(part, y[train], **options)
    scores = part.cross_apply(pairs[test], model.kernel_weights, model.dual_coef)
    what = {"left": "new drugs", "right": "new targets", "both": "both new"}[new]
    print(f"{what}: correlation with the truth {np.corrcoef(scores, truth[test])[0, 1]:.2f}")
