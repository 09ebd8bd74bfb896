"""A Gram stack of one's own: kernels of low rank, kept as their factors.

A stack has to give blocks of entries, the diagonals and its size in memory. Whatever else it can do faster than from
blocks, here products with vectors, it may say.
"""

from __future__ import annotations

import numpy as np

from manykernels import solve
from manykernels.grams import GramStack


class FactorStack(GramStack):
    """Kernels ``K_m = F_m F_m'`` given by their factors, an array of shape (n_kernels, n_samples, rank)."""

    def __init__(self, factors, *, names=None):
        self._factors = np.ascontiguousarray(factors, dtype=np.float64)
        super().__init__(*self._factors.shape[:2], np.float64, names=names)

    @property
    def nbytes(self):
        return self._factors.nbytes

    @property
    def in_memory(self):
        return True

    def diag(self):
        return np.sum(self._factors**2, axis=2)

    def _block(self, rows, cols, kernels):
        chosen = self._factors[kernels]
        return chosen[:, rows] @ chosen[:, cols].transpose(0, 2, 1)

    def _apply_each(self, columns, kernels):
        chosen = self._factors[kernels]
        return chosen @ (chosen.transpose(0, 2, 1) @ columns)


def main() -> None:
    """Find the two of 400 kernels of rank 3 that a target was made of."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((400, 100, 3))
    y = np.sign(factors[7] @ [1.0, -1.0, 0.5] + factors[42] @ [0.5, 1.0, 1.0])
    stack = FactorStack(factors, names=[f"kernel {m}" for m in range(400)])
    solution = solve(stack, y, loss="logistic", penalty="l1", alpha=0.2, tol=1e-8)
    heaviest = np.argsort(-solution.kernel_weights)[:2]
    print(f"gap {solution.certificate.relative_gap:.0e}, {stack.nbytes / 1e6:.1f} MB instead of {400 * 8e4 / 1e6:.0f}")
    print("heaviest:", ", ".join(stack.names[m] for m in heaviest))


if __name__ == "__main__":
    main()
