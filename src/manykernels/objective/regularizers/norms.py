"""Norm regularizers: linear terms, ridge terms and powers of block norms, every given by the curve alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Array, Regularizer
from manykernels.objective.regularizers.curve import Curve
from manykernels.validation.arrays import check_count, check_nonnegative, check_positive


@dataclass(frozen=True)
class BlockL1(Regularizer):
    """Block 1-norm ``C sum_m t_m``, which selects kernels.

    Parameters
    ----------
    strength : float
        ``C``.

    Examples
    --------
    >>> import numpy as np
    >>> BlockL1(0.5).value(np.array([1.0, 2.0])), BlockL1(0.5).conjugate(np.array([0.5, 0.6]))
    (1.5, inf)
    """

    name: ClassVar[str] = "l1"
    separable: ClassVar[bool] = True

    @cached_property
    def curve(self) -> Curve:
        """``a = C``."""
        return Curve(linear=self.strength)


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """Elastic net ``C sum_m ((1 - lam) t_m + lam t_m^2 / 2)`` with ``l1_ratio = 1 - lam``.

    Parameters
    ----------
    strength : float
        ``C``.
    l1_ratio : float, default=0.5
        1 is the block 1-norm, 0 is ridge.

    Examples
    --------
    >>> import numpy as np
    >>> ElasticNet(1.0, l1_ratio=0.5).value(np.array([2.0]))
    2.0
    """

    l1_ratio: float = 0.5

    name: ClassVar[str] = "elasticnet"
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "l1_ratio", check_nonnegative(self.l1_ratio, "l1_ratio", upper=1.0))

    @cached_property
    def curve(self) -> Curve:
        """``a = C (1 - lam)``, ``r = C lam``."""
        return Curve(linear=self.strength * self.l1_ratio, ridge=self.strength * (1.0 - self.l1_ratio))

    def relative(self, fraction: float, u: Array, loss: float) -> ElasticNet:
        """Scale both terms separately: no common strength suits ``t`` and ``t^2`` in every unit of the target."""
        linear = self.l1_ratio * BlockL1(1.0).relative(fraction, u, loss).strength
        ridge = (1.0 - self.l1_ratio) * Ridge(1.0).relative(fraction, u, loss).strength
        return ElasticNet(linear + ridge, l1_ratio=linear / (linear + ridge))


@dataclass(frozen=True)
class BlockLq(Regularizer):
    """Block q-norm ``(C / q) sum_m t_m^q`` with ``1 < q <= 2``: between selection and uniform weights.

    Parameters
    ----------
    strength : float
        ``C``.
    q : float, default=1.5
        Exponent; use ``BlockL1`` for 1.

    Examples
    --------
    >>> import numpy as np
    >>> BlockLq(2.0, q=2.0).value(np.array([1.0, 2.0]))
    5.0
    """

    q: float = 1.5

    name: ClassVar[str] = "lq"
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "q", check_positive(self.q, "q", upper=2.0))
        if self.q <= 1:
            raise InvalidInputError(
                f"q must satisfy 1 < q <= 2, got {self.q!r}. The block 1-norm (q = 1) is penalty 'l1'."
            )

    @cached_property
    def curve(self) -> Curve:
        """A power not coupled."""
        return Curve(power=self.strength, exponent=self.q)


@dataclass(frozen=True)
class Ridge(Regularizer):
    """Ridge ``(C / 2) sum_m t_m^2``: every kernel has the weight ``1 / C``.

    Parameters
    ----------
    strength : float
        ``C``.

    Examples
    --------
    >>> import numpy as np
    >>> Ridge(2.0).value(np.array([1.0, 2.0])), Ridge(2.0).conjugate(np.array([2.0]))
    (5.0, 1.0)
    """

    name: ClassVar[str] = "ridge"
    separable: ClassVar[bool] = True

    @cached_property
    def curve(self) -> Curve:
        """``r = C``."""
        return Curve(ridge=self.strength)


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
        object.__setattr__(self, "l1_ratio", check_nonnegative(self.l1_ratio, "l1_ratio", upper=1.0))
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

        Examples
        --------
        >>> round(GroupElasticNet.published(0.1, 1.0, 100).q, 4)
        1.1218
        """
        alpha, lam = check_nonnegative(alpha, "alpha"), check_positive(lam, "lam")
        logarithm = 2.0 * np.log(max(check_count(n_kernels, "n_kernels"), 2))
        q = min(logarithm / (logarithm - 1.0), 2.0)
        return cls(alpha + lam, l1_ratio=alpha / (alpha + lam), q=float(q))

    @cached_property
    def curve(self) -> Curve:
        """``a = C r`` and the square of the q-norm times ``C (1 - r) / 2``."""
        linear, square = self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)
        return Curve(linear=linear, power=square, exponent=self.q, coupled=True)

    def relative(self, fraction: float, u: Array, loss: float) -> Self:
        """Scale both terms separately, like the elastic net."""
        net = ElasticNet(1.0, l1_ratio=self.l1_ratio).relative(fraction, u, loss)
        return type(self)(net.strength, l1_ratio=net.l1_ratio, q=self.q)
