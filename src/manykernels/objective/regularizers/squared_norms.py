"""A 1-norm of block norms plus the square of another norm of them: the penalty of UFO-MKL as it was published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Array, Regularizer
from manykernels.objective.regularizers.norms import ElasticNet
from manykernels.objective.regularizers.weight_sets import LpBall
from manykernels.validation.arrays import check_count, check_positive

__all__ = ["GroupElasticNet"]


@dataclass(frozen=True)
class GroupElasticNet(Regularizer):
    r"""UFO-MKL's penalty, linear in the 1-norm and quadratic in the q-norm of the block norms (Orabona and Jie 2011).

    .. math:: \Omega(t) = C \Big( r \sum_m t_m + \frac{1 - r}{2} \lVert t \rVert_q^2 \Big), \qquad
              \Omega^*(u) = \frac{\lVert (u - C r)_+ \rVert_{q'}^2}{2 C (1 - r)}, \qquad \frac1q + \frac1{q'} = 1

    At q = 2 it is the elastic net, at r = 0 the lp ball of kernel weights with ``p = q / (2 - q)``.

    Parameters
    ----------
    strength : float
        ``C``.
    l1_ratio : float, default=0.5
        ``r``, at least 0 and below 1, which is the block 1-norm.
    q : float, default=1.5
        Exponent, above 1 and at most 2. The published one depends on the number of kernels: see `published`.

    References
    ----------
    F. Orabona, L. Jie, "Ultra-fast optimization algorithm for sparse multi kernel learning", ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> penalty = GroupElasticNet(2.0, l1_ratio=0.5, q=1.5)
    >>> penalty.value(np.array([1.0, 0.0])), penalty.conjugate(np.array([3.0, 1.0]))
    (1.5, 2.0)
    """

    l1_ratio: float = 0.5
    q: float = 1.5

    name: ClassVar[str] = "group_elasticnet"
    separable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "l1_ratio", check_positive(self.l1_ratio, "l1_ratio", allow_zero=True, upper=1.0))
        object.__setattr__(self, "q", check_positive(self.q, "q", upper=2.0))
        if self.l1_ratio == 1 or self.q <= 1:
            raise InvalidInputError(
                f"l1_ratio must be below 1 and q above 1, got l1_ratio={self.l1_ratio!r} and q={self.q!r}: the block "
                "1-norm (l1_ratio = 1) is penalty 'l1', its square (l1_ratio = 0, q = 1) penalty 'simplex'."
            )

    @classmethod
    def published(cls, alpha: float, lam: float, n_kernels: int) -> Self:
        """Return ``alpha sum t + (lam / 2) ||t||_q^2`` with the paper's ``q = 2 log M / (2 log M - 1)``.

        Parameters
        ----------
        alpha, lam : float
            Coefficients of both terms; lam positive.
        n_kernels : int
            ``M``; below 3 kernels q is 2, since the formula leaves the range in which the norm is strongly convex.

        Returns
        -------
        GroupElasticNet

        Examples
        --------
        >>> round(GroupElasticNet.published(0.1, 1.0, 100).q, 4)
        1.1218
        """
        alpha, lam = check_positive(alpha, "alpha", allow_zero=True), check_positive(lam, "lam")
        logarithm = 2.0 * np.log(max(check_count(n_kernels, "n_kernels"), 2))
        q = min(logarithm / (logarithm - 1.0), 2.0)
        return cls(alpha + lam, l1_ratio=alpha / (alpha + lam), q=float(q))

    @property
    def square_form(self) -> tuple[float, float, float]:
        """``(C r, C (1 - r), q)``."""
        return self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio), self.q

    @property
    def sparse(self) -> bool:
        """True unless ``r = 0``."""
        return self.l1_ratio > 0

    @property
    def inactive_below(self) -> float:
        """``C r``."""
        return self.square_form[0]

    def value(self, t: Array) -> float:
        """``C (r sum t + (1 - r) / 2 ||t||_q^2)``."""
        linear, square, _ = self.square_form
        size = _norm(t, self.q)  # floats of Python, whose product becomes infinite where a power would raise
        with np.errstate(over="ignore"):
            return linear * float(np.sum(t)) + 0.5 * square * size * size

    def conjugate(self, u: Array) -> float:
        """``||(u - C r)_+||^2 / (2 C (1 - r))`` with the norm of exponent ``q / (q - 1)``."""
        linear, square, q = self.square_form
        size = _norm(np.maximum(np.asarray(u) - linear, 0.0), q / (q - 1.0))
        return 0.5 * size * (size / square)

    def prox(self, t: Array, step: float) -> Array:
        """Shrink by ``step C r``, then as the lp ball with the same norm does."""
        linear, square, q = self.square_form
        shifted = np.maximum(np.asarray(t, dtype=np.float64) - step * linear, 0.0)
        if q == 2:
            return shifted / (1.0 + step * square)
        return LpBall(square, p=q / (2.0 - q)).prox(shifted, step)

    def strength_max(self, u: Array) -> float:
        """``max u / r``; infinite for r = 0."""
        return float(np.max(u, initial=0.0)) / self.l1_ratio if self.sparse else super().strength_max(u)

    def relative(self, fraction: float, u: Array, loss: float) -> Self:
        """Scale both terms, each by its own, as the elastic net does."""
        net = ElasticNet(1.0, l1_ratio=self.l1_ratio).relative(fraction, u, loss)
        return type(self)(net.strength, l1_ratio=net.l1_ratio, q=self.q)

    def derivative(self, t: Array) -> Array:
        """``C (r + (1 - r) ||t||_q^(2 - q) t^(q - 1))``."""
        linear, square, q = self.square_form
        return linear + square * _gradient(np.asarray(t, dtype=np.float64), q)

    def conjugate_derivative(self, u: Array) -> Array:
        """``||v||^(2 - q') v^(q' - 1) / (C (1 - r))`` with ``v = (u - C r)_+``."""
        linear, square, q = self.square_form
        return _gradient(np.maximum(np.asarray(u) - linear, 0.0), q / (q - 1.0)) / square


def _norm(x: Array, exponent: float) -> float:
    """Return ``||x||`` of that exponent, without overflow."""
    top = float(np.max(x, initial=0.0))
    return top * float(np.sum((np.asarray(x) / top) ** exponent)) ** (1.0 / exponent) if top > 0 else 0.0


def _gradient(x: Array, exponent: float) -> Array:
    """Return the gradient of half the squared norm of that exponent."""
    size = _norm(x, exponent)
    return size * (x / size) ** (exponent - 1.0) if size > 0 else np.zeros(x.shape)
