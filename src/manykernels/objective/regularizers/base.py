"""Base of regularizers: convex, nondecreasing functions of the vector of block norms, with the conjugate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.curve import Curve
from manykernels.validation.arrays import Array, check_positive

ESSENTIAL = ("value", "conjugate", "prox", "sparse")
"""What a regularizer without a curve cannot be without."""

FORMULAS = ("value", "conjugate", "dual_scale", "norm_bound")
"""What follows from a curve in the same words."""

OPTIONAL = {
    "second_derivative": Capability.CURVATURE,
    "curvature": Capability.CURVATURE,
    "norm_bound": Capability.MULTIPLIERS,
    "weight_limit": Capability.MULTIPLIERS,
    "conjugate_derivative": Capability.SMOOTH_CONJUGATE,
    "derivative": Capability.WEIGHTS_FROM_NORMS,
}
"""Methods that a regularizer without a curve may define, and what it can then do."""


@dataclass(frozen=True)
class Regularizer:
    """A convex, non-decreasing function ``Omega(t)`` of block norms ``t_m = w_m ||f_m||``, and the conjugate.

    ``Omega*(u) = sup_{t >= 0} t'u - Omega(t)`` is a function of ``u_m = sqrt(rho' K_m rho) / w_m``. Everywhere below,
    ``t``, ``u`` and kernel weights ``d`` have shape (M,), a number per kernel.

    A penalty of linear terms, ridge terms and powers only defines the coefficients, `curve`, sufficient for every
    solver on matrices and on factors. Any other penalty defines ``value``, ``conjugate`` and ``prox``, and ``sparse``;
    each of the optional methods, ``derivative``, ``second_derivative`` (`curvature` where it is no sum over kernels),
    ``conjugate_derivative`` and ``norm_bound``, opens more solvers; ``capabilities`` lists the available ones. A
    missing method raises `IncompatibleError`.

    Parameters
    ----------
    strength : float
        Multiplies the whole penalty; positive. Nothing is divided by the number of samples.

    Attributes
    ----------
    name : str
        Name in ``REGULARIZERS``.
    sparse : bool
        Whether optimal kernel weights contain exact zeros.
    separable : bool
        Whether ``Omega`` is a sum over kernels.
    dual_constraint : bool
        Whether the conjugate is infinite somewhere, so that dual variables must be scaled to be feasible.
    inactive_below : float or ndarray of shape (M,)
        Kernels with ``u_m`` below it have zero weight at the optimum; 0 if nothing can be said beforehand.
    curve : Curve or None
        Coefficients of a penalty made of linear terms and ridge terms or powers of norms.
    weight_set : bool
        Whether ``Omega(t)`` is the minimum of ``sum_m t_m^2 / (2 d_m)`` over a set of kernel weights ``d``.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_regularizer
    >>> penalty, t = get_regularizer("elasticnet", 2.0), np.array([0.5, 3.0])
    >>> u = penalty.derivative(t)
    >>> np.isclose(penalty.value(t) + penalty.conjugate(u), t @ u)  # Fenchel-Young, with equality
    np.True_
    """

    strength: float

    name: ClassVar[str]
    penalizes: ClassVar[bool] = True  # whether it is a penalty at all; what stands for none is not
    separable: ClassVar[bool]
    weight_set: ClassVar[bool] = False
    _lacking: ClassVar[tuple[str, ...]] = ESSENTIAL

    def __post_init__(self) -> None:
        if type(self.strength) is not float or not 0.0 < self.strength < np.inf:
            object.__setattr__(self, "strength", check_positive(self.strength, "strength"))
        if self._lacking:
            raise InvalidInputError(
                f"A regularizer gives its `curve`, or {', '.join(ESSENTIAL[:-1])} and {ESSENTIAL[-1]}; "
                f"{type(self).__name__} lacks {', '.join(self._lacking)}."
            )

    def __init_subclass__(cls, **options: object) -> None:
        """Record the missing members of a class once, since searches create many instances."""
        super().__init_subclass__(**options)
        found = () if cls._defines("curve") else ESSENTIAL
        cls._lacking = tuple(name for name in found if not cls._defines(name))

    @classmethod
    def _defines(cls, name: str) -> bool:
        """Return whether a class overrides a member of all regularizers."""
        return getattr(cls, name) is not getattr(Regularizer, name)

    # --- data -------------------------------------------------------------------------------------------------------

    @property
    def curve(self) -> Curve | None:
        """Coefficients of linear terms and ridge terms or powers of norms; None if it is not made of these.

        A `functools.cached_property` computes them once a problem.
        """
        return None

    def multiplied(self, factor: float) -> Regularizer:
        """Return the penalty with a strength so many times as large.

        Parameters
        ----------
        factor : float
            Positive.
        """
        return replace(self, strength=self.strength * factor)

    @cached_property
    def unpenalized(self) -> Array:
        """Positions of unpenalized kernels, possible in mappings only."""
        return np.zeros(0, dtype=np.intp)

    @property
    def rests(self) -> bool:
        """Return whether substitutes for unpenalized kernels are set, if needed."""
        return True

    def resting_on(self, ridge: Array) -> Regularizer:
        """Return the penalty with the ridge terms (M,), read at kernels without a penalty, in the place of none."""
        return self

    @cached_property
    def sparse(self) -> bool:
        """Whether optimal kernel weights contain exact zeros."""
        return self._numbers.sparse

    @cached_property
    def dual_constraint(self) -> bool:
        """Whether the conjugate is infinite somewhere: unless overridden, where a linear term stands alone."""
        return self.curve is not None and self.curve.dual_constraint

    @cached_property
    def inactive_below(self) -> Any:
        """Threshold of ``u_m`` for zero weight: by default the coefficients of linear terms."""
        return 0.0 if self.curve is None else self.curve.linear

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """Capabilities of the regularizer for solvers, derived from the data and from overridden methods."""
        found = {can for name, can in OPTIONAL.items() if self._defines(name)}
        declared = {
            Capability.SELECTION: self.sparse,
            Capability.SEPARABLE: self.separable,
            Capability.FIXED_WEIGHTS: bool(np.all(np.equal(*self.weight_range))),
        }
        if (curve := self.curve) is not None:
            alike = curve.square is not None and not self.weight_set
            declared |= {
                Capability.CURVATURE: True,
                Capability.WEIGHTS_FROM_NORMS: True,
                Capability.MULTIPLIERS: self.weight_set or curve.elastic or not (curve.coupled or curve.slanted),
                Capability.SMOOTH_CONJUGATE: True,
                Capability.SIMPLEX: curve.simplex,
                Capability.CONES: curve.elastic or curve.simplex,
                Capability.SQUARE_FORM: alike,
                Capability.STRONG_CONVEXITY: bool(np.all(curve.ridge)) if curve.elastic else alike,
                Capability.POWER_FORM: curve.norm_power is not None and curve.norm_power[1] > 1,
            }
        found |= {capability for capability, has in declared.items() if has}
        if self.dual_constraint or not self.separable:
            found.discard(Capability.SMOOTH_CONJUGATE)
        return frozenset(found)

    @property
    def _numbers(self) -> Curve:
        """The curve of the regularizer, the default source of all members."""
        if self.curve is None:
            raise IncompatibleError(f"The regularizer '{self.name}' has no curve from which this could be computed.")
        return self.curve

    @cached_property
    def formulas(self) -> Regularizer | Curve:
        """Source of values, conjugates and bounds in loops: the curve, or formulas of the class."""
        own = any(map(self._defines, FORMULAS))
        return self if own or self.curve is None else self.curve

    # --- what the problem is ----------------------------------------------------------------------------------------

    def value(self, t: Array) -> float:
        """``Omega(t)`` for block norms ``t >= 0`` of shape (M,)."""
        return self._numbers.value(t)

    def conjugate(self, u: Array) -> float:
        """``Omega*(u)`` for ``u >= 0`` of shape (M,); possibly infinite."""
        return self._numbers.conjugate(u)

    def dual_scale(self, u: Array) -> float:
        """Return the largest ``c`` in [0, 1] with finite ``conjugate(c u)``."""
        return 1.0 if self.curve is None else self.curve.dual_scale(u)

    def scaled_conjugate(self, u: Array) -> tuple[float, float]:
        """Return the `dual_scale` ``c`` of ``u`` and ``Omega*(c u)``, the terms of a dual bound."""
        scale = self.dual_scale(u)
        return scale, self.conjugate(scale * u)

    def weights(self, t: Array, u: Array) -> Array:
        """Optimal kernel weights ``d`` (M,) for block norms ``t`` and dual norms ``u``.

        Since ``f_m = d_m sum_i rho_i k_m(., x_i)``, ``t_m = w_m^2 d_m u_m``: here ``d = t / u`` for unit penalties
        ``w``, 0 where either is 0; divide by ``w^2`` otherwise.
        """
        curve, ratios = self.curve, np.zeros(np.shape(t))
        if curve is not None and curve.elastic and not curve.slanted:  # fixed ones, also where the norms vanish
            ratios += curve.weight_range[1]
            return ratios
        np.divide(t, u, out=ratios, where=(np.asarray(u) > 0) & (np.asarray(t) > 0))
        return ratios

    def prox(self, t: Array, step: float) -> Array:
        """``argmin_x |x - t|^2 / 2 + step Omega(x)`` over ``x >= 0``, for ``t >= 0`` of shape (M,).

        A separable penalty takes a step per kernel, of shape (M,), as well.

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)
        step : float or ndarray of shape (n_kernels,)
            Positive.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_regularizer
        >>> get_regularizer("l1", 1.0).prox(np.array([0.5, 3.0]), 1.0)
        array([0., 2.])
        """
        return self._numbers.prox(t, step)

    def strength_max(self, u: Array) -> float:
        """Return the smallest strength at which the zero model is optimal, from ``u`` at the zero model.

        Infinite where the penalty is flat at zero (no strength makes the model vanish), 0 if ``u`` is zero.
        """
        if self.curve is not None:
            return float(self.strength * self.curve.strength_max(u))
        return np.inf if np.any(np.asarray(u) > 0) else 0.0

    def relative(self, fraction: float, u: Array, loss: float) -> Self:
        """Return the penalty at a fraction of the strength at which it leaves nothing to gain.

        That strength is `strength_max` where finite. Elsewhere it is the strength at which the conjugate, the most that
        a model of slope ``u`` can gain to first order, is the loss that there is to lose: ``Omega*(u) = loss``. Both
        grow alike with the kernels and with the unit of the target, so the same fraction means the same for all; for
        ridge and squared loss, the strength is the Rayleigh quotient ``rho' (sum_m K_m / w_m^2) rho / rho'rho``.

        Parameters
        ----------
        fraction : float
            Positive.
        u : ndarray of shape (n_kernels,) or (k, n_kernels)
            Dual norms at the zero model, or those of several targets, whose strengths are averaged.
        loss : float
            Loss of the zero model.

        Returns
        -------
        Regularizer
            The strength is ``fraction`` itself if there is nothing to gain at any strength.

        Raises
        ------
        InvalidInputError
            If that strength leaves the range of float64.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_regularizer
        >>> get_regularizer("l1", 1.0).relative(0.1, np.array([3.0, 5.0]), 2.0)
        BlockL1(strength=0.5)
        >>> round(get_regularizer("ridge", 1.0).relative(0.25, np.array([3.0, 5.0]), 2.0).strength, 6)
        2.125
        """
        return replace(self, strength=fraction * (self.average_strength(np.atleast_2d(u), loss) or 1.0))

    def average_strength(self, U: Array, loss: float) -> float:
        """Return the geometric mean of `strengths_of_nothing_to_gain`, or their median where some are zero.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_regularizer
        >>> round(get_regularizer("l1", 1.0).average_strength(np.array([[3.0, 5.0], [0.2, 0.0]]), 2.0), 9)
        1.0
        """
        if len(U) == 1:
            return self.strength_of_nothing_to_gain(U[0], loss)
        strengths = self.strengths_of_nothing_to_gain(U, loss)
        return float(np.exp(np.mean(np.log(strengths))) if (strengths > 0).all() else np.median(strengths))

    def strengths_of_nothing_to_gain(self, U: Array, loss: float) -> Array:
        """Return `strength_of_nothing_to_gain` of every row of dual norms, (k,) for (k, n_kernels).

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_regularizer
        >>> get_regularizer("l1", 1.0).strengths_of_nothing_to_gain(np.array([[3.0, 5.0], [1.0, 0.0]]), 2.0)
        array([5., 1.])
        """
        if self.curve is not None:
            largest = self.strength * self.curve.strengths_max(U)
            if np.isfinite(largest).all():
                return largest
        unit = replace(self, strength=1.0)
        curve = unit.curve
        if curve is not None and unit.formulas is curve and curve.elastic and curve.norm_power and loss > 0:
            return np.asarray(np.square(U / np.sqrt(loss)).sum(axis=1) / (2.0 * curve.ridge))
        return np.array([unit.strength_of_nothing_to_gain(u, loss) for u in U])

    def strength_of_nothing_to_gain(self, u: Array, loss: float) -> float:
        """Return the strength at which nothing is left to gain, see `relative`; 0 if there is nothing at any.

        Parameters
        ----------
        u : ndarray of shape (n_kernels,)
            Dual norms at the zero model.
        loss : float
            Loss of the zero model.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_regularizer
        >>> get_regularizer("l1", 1.0).strength_of_nothing_to_gain(np.array([3.0, 5.0]), 2.0)
        5.0
        """
        largest = self.strength_max(u)
        if np.isfinite(largest) or not loss > 0:
            return largest if np.isfinite(largest) else 0.0
        exponent = self.curve.exponent if self.curve is not None and not self.curve.coupled else 2.0
        # Omega* is homogeneous of degree q / (q - 1): the loss is divided out first, or squares would overflow.
        slopes = np.asarray(u) / loss ** ((exponent - 1.0) / exponent)
        unit = self if self.strength == 1.0 else replace(self, strength=1.0)
        return float(unit.conjugate(slopes) ** (exponent - 1.0))

    def threshold(self, t: Array) -> Any:
        """Return the dual norms below which kernels without a norm stay without one, the rest having norms ``t``.

        Returns
        -------
        float or ndarray of shape (n_kernels,)
        """
        return self.inactive_below if self.curve is None else self.curve.threshold(t)

    def excess(self, t: Array, u: Array) -> Array:
        """Return by how much ``u`` is more than keeps kernels without a norm out, the rest having norms ``t``.

        These are the sizes of the smallest subgradients there: unless overridden, ``(u - dOmega/dt_m)_+``.

        Returns
        -------
        ndarray of shape (n_kernels,)
            Of no account where ``t`` is positive.
        """
        return np.maximum(np.asarray(u) - self.derivative(t), 0.0)

    def on_kernels(self, names: Sequence[Any]) -> Regularizer:
        """Return the regularizer of kernels of the names: itself, unless it is told by names what kernels have.

        Parameters
        ----------
        names : sequence of str
            Positions of kernels that have none.
        """
        return self

    def path_start(self, u: Array) -> float:
        """Return the largest strength of a path: `strength_max`, unless some kernels stay at any strength.

        Parameters
        ----------
        u : ndarray of shape (n_kernels,)
            Dual norms at the zero model.
        """
        return self.strength_max(u)

    def take(self, kernels: slice | Array) -> Regularizer:
        """Return the regularizer of some of the kernels: itself, unless it has coefficients of every kernel.

        Parameters
        ----------
        kernels : slice, mask or positions
        """
        return self

    # --- what more solvers ask for ----------------------------------------------------------------------------------

    def derivative(self, t: Array) -> Array:
        """``dOmega/dt_m`` at ``t >= 0`` (M,); where ``t_m = 0``, the derivative to the right."""
        if self.curve is None:
            raise self._lacks(Capability.WEIGHTS_FROM_NORMS)
        return self.curve.derivative(t)

    def second_derivative(self, t: Array) -> Array:
        """``d2Omega/dt_m^2`` at ``t >= 0`` (M,), infinite where a kernel of zero norm bends."""
        if self.curve is None and not self._defines("curvature"):
            raise self._lacks(Capability.CURVATURE)
        diagonal, coupling = self.curvature(t)
        return diagonal + coupling**2

    def curvature(self, t: Array) -> tuple[Array, Array]:
        """Return ``h`` and ``g`` with the second derivatives ``diag(h) + g g'``; ``g`` is zero in sums over kernels.

        Returns
        -------
        diagonal, coupling : ndarray of shape (n_kernels,)
        """
        if self.curve is None:
            return self.second_derivative(t), np.zeros(np.shape(t))
        return self.curve.curvature(t)

    def hessian(self, t: Array) -> Array:
        """Second derivatives in all block norms (M, M): a diagonal matrix if the penalty is separable."""
        diagonal, coupling = self.curvature(t)
        return np.diag(diagonal) + np.outer(coupling, coupling)

    def weights_from_norms(self, t: Array) -> Array:
        """Return ``argmin_d sum_m t_m^2 / (2 d_m) + h(d)`` (M,), with minimum ``Omega(t)``: ``t / Omega'(t)``."""
        if self.curve is not None:
            return self.curve.weights_from_norms(t)
        slopes, weights = self.derivative(t), np.zeros(np.shape(t))
        np.divide(t, slopes, out=weights, where=slopes > 0)
        return weights

    def on_boundary(self, d: Array) -> Array:
        """Return kernel weights scaled to the boundary of the weight set; unchanged if the penalty has no such set.

        Parameters
        ----------
        d : ndarray of shape (n_kernels,)
            Non-negative, multiplied by the squares of the kernel penalties.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_regularizer
        >>> get_regularizer("simplex", 0.5).on_boundary(np.array([1.0, 2.0, 1.0]))
        array([0.5, 1. , 0.5])
        """
        return d

    def iterated_weights(self, t: Array, start: Array) -> Array:
        """Return `weights_from_norms` by a published iteration from the weights ``start``, if any.

        Parameters
        ----------
        t, start : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)
        """
        return self.weights_from_norms(t)

    def conjugate_derivative(self, u: Array) -> Array:
        """``dOmega*/du_m`` (M,): the block norms of dual norms, for a differentiable conjugate."""
        if self.curve is None:
            raise self._lacks(Capability.SMOOTH_CONJUGATE)
        return self.curve.conjugate_derivative(u)

    def norms_of(self, n_kernels: int) -> tuple[Array, Array] | None:
        """Return the kernels of every norm that the penalty is a sum of, and the factor; None if it is no such sum.

        Returns
        -------
        members, factors : ndarray of shape (n_norms, n_kernels), (n_norms,)
        """
        curve = self.curve
        if curve is None or curve.power or np.any(curve.ridge) or self.weight_set:
            return None
        return np.eye(n_kernels, dtype=bool), np.broadcast_to(curve.linear, n_kernels)

    def norm_bound(self, d: Array) -> tuple[Array, Array]:
        """Return ``B_m(d_m)^2`` and the derivative of ``B_m^2 / 2`` (M,), for kernel weights inside `weight_range`.

        At the optimum ``u_m <= B_m(d_m)``, with equality where ``d_m > 0``: ``B_m(d)`` is the ``u`` that solves
        ``u = dOmega/dt_m (d u)``. It does not fall as ``d`` rises.

        Returns
        -------
        squares, slopes : ndarray of shape (n_kernels,)
        """
        if self.curve is None:
            raise self._lacks(Capability.MULTIPLIERS)
        return self.curve.norm_bound(d)

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """Return ``g'(d)``, ``d g''(d)`` (M,) and what ``sum_m g(d_m)`` lacks, where that sum limits a weight set.

        ``g`` is convex and increasing, in any unit. At the optimum ``u_m^2 <= tau g'(d_m)`` with one ``tau`` for all
        kernels, and equality where ``d_m > 0``.

        Returns
        -------
        slopes, bends : ndarray of shape (n_kernels,)
        missing : float
        """
        raise self._lacks(Capability.MULTIPLIERS)

    @cached_property
    def weight_range(self) -> tuple[Any, Any]:
        """Ends of the interval of every kernel weight, floats or (M,).

        The upper end is infinite, or a pole of the bound; a kernel without linear term has a single weight.
        """
        return (0.0, np.inf) if self.curve is None else self.curve.weight_range

    def _lacks(self, capability: Capability) -> IncompatibleError:
        """Return the error with the missing members of the regularizer."""
        return IncompatibleError(f"The regularizer '{self.name}' does not have {capability.words}.")


def check_regularizer(penalty: object) -> None:
    """Raise ``InvalidInputError`` for an object without the interface of penalties, most often a name."""
    if not hasattr(penalty, "dual_scale"):
        raise InvalidInputError(
            f"regularizer must be a Regularizer such as BlockL1(0.1), got {penalty!r}; "
            "get_regularizer(name, strength) makes one from a name."
        )
