"""Reported faults of searches, survival models, memory errors and memory plans."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "3.1", "search on a target without noise, where the weakest strength is best",
        """
X = rng.normal(size=(1500, 3)); y = X.sum(axis=1) + np.sin(X[:, 0])
model = made(MKLRegressorCV, kernels=KernelBank.joint(widths=[1.0, 2.0]), cv=3, representation="gram").fit(X, y)
print(f"fitted, R2 {model.score(X, y):.3f}")
""",
        "tests/estimators/test_mixtures.py",
    ),
)  # fmt: skip
