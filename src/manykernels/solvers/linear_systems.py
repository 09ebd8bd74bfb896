"""Conjugate gradients for linear systems known by products, and Anderson extrapolation."""

from collections.abc import Callable

import numpy as np

from manykernels.validation.arrays import Array


class ConjugateGradients:
    """Solve ``A x = b`` from zero, a single product with a symmetric positive definite ``A`` a step.

    Parameters
    ----------
    product : callable
        Returns ``A d``.
    right : (n,) array
        ``b``; the residual at any other start gives the change from there.
    precondition : callable, optional
        Returns the product with an approximate inverse of ``A``; symmetric and positive semidefinite.

    Attributes
    ----------
    x, residual, direction : (n,) arrays
        The solution so far, ``b - A x``, and the direction of the next step.
    size : float
        Squared norm of the residual, in the metric of the preconditioner.

    References
    ----------
    M. Hestenes, E. Stiefel, "Methods of conjugate gradients for solving linear systems", Journal of Research of the
    National Bureau of Standards 49 (1952).

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> ConjugateGradients(lambda d: A @ d, np.array([3.0, 4.0])).solve(2, 1e-12).round(9).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self, product: Callable[[Array], Array], right: Array, precondition: Callable[[Array], Array] | None = None
    ) -> None:
        self._product, self._precondition = product, precondition
        self.x, self.residual = np.zeros_like(right), right
        self.direction = right if precondition is None else precondition(right)
        self.size = self._first = float(right @ self.direction)

    def is_within(self, share: float) -> bool:
        """Return whether the norm of the residual is within a share of the first norm."""
        return not self.size > share**2 * self._first

    def step(self) -> float:
        """Take a step and return the length, zero for zero curvature of ``A``."""
        image = self._product(self.direction)
        bend = float(self.direction @ image)
        if not bend > 0.0:
            return 0.0
        length = self.size / bend
        self.x, self.residual = self.x + length * self.direction, self.residual - length * image
        ahead = self.residual if self._precondition is None else self._precondition(self.residual)
        last, self.size = self.size, float(self.residual @ ahead)
        self.direction = ahead + (self.size / last) * self.direction
        return length

    def solve(self, most_steps: int, share: float) -> Array:
        """Take steps until the residual is within a share of the first norm; return the solution."""
        for _ in range(most_steps):
            if self.is_within(share) or not self.step():
                break
        return self.x


def shortest_combination(moves: Array) -> Array:
    """Return the parts (k,), of sum 1, of the shortest combination ``parts @ moves`` of moves (k, n).

    Where an iteration is about linear and takes ``x_k`` to ``x_k + moves_k``, ``sum_k parts_k (x_k + moves_k)`` is near
    the fixed point (Anderson extrapolation).

    References
    ----------
    D. Anderson, "Iterative procedures for nonlinear integral equations", Journal of the ACM 12 (1965).

    Examples
    --------
    >>> import numpy as np
    >>> shortest_combination(np.array([[1.0, 0.5], [-1.0, 0.5]])).round(6).tolist()
    [0.5, 0.5]
    """
    products = moves @ moves.copy().T  # of two arrays: the symmetric product of one takes four times as long
    squares = products.diagonal().copy()
    collinear = 1e-10  # of the sum of squares of moves, which keeps the system for their combination solvable
    np.fill_diagonal(products, squares + max(collinear * float(squares.sum()), 1e-280))
    parts = np.linalg.solve(products, np.ones(len(products)))
    return np.asarray(parts / parts.sum())
