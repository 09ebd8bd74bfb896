"""The polynomial kernel with a weight a column, which non-linear multiple kernel learning finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.specs.base import MOST_DEGREE, KernelSpec, as_pair, as_points, register_kernel
from manykernels.validation.arrays import Array, check_count, check_positive


@register_kernel
@dataclass(frozen=True)
class WeightedPolynomial(KernelSpec):
    """Polynomial kernel with a weight a column, ``k(x, z) = (sum_j weights_j x_j z_j + offset)^degree``.

    It is the sum of all products of ``degree`` linear kernels of single columns, each with the product of its weights.

    Parameters
    ----------
    degree : int
        At least 1.
    weights : sequence of float
        One non-negative weight per column of the selection, in its order.
    offset : float, default=0.0
        Non-negative; the weight of the constant kernel, which brings in products of fewer columns.

    Raises
    ------
    InvalidInputError
        If a parameter is negative or not finite, or all weights and the offset are zero.

    Examples
    --------
    >>> from manykernels import WeightedPolynomial
    >>> WeightedPolynomial(2, (1.0, 0.5))([[1.0, 2.0]], [[3.0, 4.0]])
    array([[49.]])

    Notes
    -----
    Cortes, Mohri, Rostamizadeh, "Learning non-linear combinations of kernels", NIPS 2009.
    """

    kind: ClassVar[str] = "weighted_polynomial"
    degree: int
    weights: tuple[float, ...]
    offset: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", check_count(self.degree, "degree", most=MOST_DEGREE))
        if np.ndim(self.weights) != 1 or len(self.weights) == 0:
            raise InvalidInputError(f"weights must be a non-empty sequence of numbers, got {self.weights!r}.")
        weights = tuple(check_positive(weight, "every weight", allow_zero=True) for weight in self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "offset", check_positive(self.offset, "offset", allow_zero=True))
        if not any(self.weights) and self.offset == 0:
            raise InvalidInputError("A weighted polynomial needs a positive weight or offset; all of them are zero.")

    @property
    def label(self) -> str:
        """Short text: the degree and how many columns have a weight."""
        return f"weighted_polynomial(degree={self.degree}, {np.count_nonzero(self.weights)} weights)"

    def check_columns(self, n_columns: int, name: str = "the kernel") -> None:
        """Raise ``InvalidInputError`` if the number of columns is not the number of weights."""
        if n_columns != len(self.weights):
            raise InvalidInputError(
                f"{name}: {len(self.weights)} weights for {n_columns} column(s); give one weight per column."
            )

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values."""
        first, second = as_pair(A, B)
        self.check_columns(first.shape[1])
        # The root on both sides, so that the matrix of a set with itself is exactly symmetric.
        roots = np.sqrt(self.weights)
        left = first * roots
        return self._power(left @ (left if B is None else second * roots).T)

    def diag(self, A: Array) -> Array:
        """Return ``k(a, a)`` for every row, (n,)."""
        return self._power(as_points(A) ** 2 @ np.array(self.weights))

    def _power(self, products: Array) -> Array:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            base = products + self.offset
            values = base.copy()
            for _ in range(self.degree - 1):
                values *= base
        return values
