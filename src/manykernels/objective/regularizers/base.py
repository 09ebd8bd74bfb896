"""What every regularizer is: a convex, non-decreasing function of the vector of block norms, with its conjugate."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.objective.capabilities import Capability
from manykernels.validation.arrays import check_positive

__all__ = ["Regularizer"]

Array = NDArray[Any]


OPTIONAL = {
    "second_derivative": Capability.CURVATURE,
    "norm_bound": Capability.MULTIPLIERS,
    "weight_limit": Capability.MULTIPLIERS,
    "conjugate_derivative": Capability.SMOOTH_CONJUGATE,
    "derivative": Capability.WEIGHTS_FROM_NORMS,
}
"""Methods that a regularizer may define, and what it can then do."""


@dataclass(frozen=True)
class Regularizer(abc.ABC):
    """A convex, non-decreasing function ``Omega(t)`` of block norms ``t_m = w_m ||f_m||``, and its conjugate.

    ``Omega*(u) = sup_{t >= 0} t'u - Omega(t)`` is a function of ``u_m = sqrt(rho' K_m rho) / w_m``.

    The abstract methods say what the problem is. Each of the optional ones, ``derivative``, ``second_derivative``,
    ``conjugate_derivative`` and ``norm_bound``, opens more solvers; ``capabilities`` lists what there is.

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
    linear_and_ridge : tuple of two floats or two ndarrays of shape (M,), or None
        ``(a, r)`` if ``Omega(t) = sum_m a_m t_m + r_m t_m^2 / 2``.
    square_form : tuple of three floats or None
        ``(a, c, p)`` if ``Omega(t) = a sum t + (c / 2) ||t||_p^2``.
    norm_exponent : float or None
        ``q`` if ``Omega`` is ``(C / q) sum_m t_m^q`` (separable) or ``(C / 2) ||t||_q^2`` (not separable).
    weight_set : bool
        Whether ``Omega(t)`` is the minimum of ``sum_m t_m^2 / (2 d_m)`` over a set of kernel weights ``d``.
    simplex_size : float or None
        ``1 / lam`` if ``Omega(t) = (lam / 2) (sum t)^2``, whose kernel weights sum to it.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import get_regularizer
    >>> penalty, t = get_regularizer("elasticnet", 2.0), np.array([0.5, 3.0])
    >>> u = penalty.derivative(t)
    >>> np.isclose(penalty.value(t) + penalty.conjugate(u), t @ u)  # Fenchel-Young, with equality
    np.True_
    """

    strength: float

    name: ClassVar[str]
    separable: ClassVar[bool]
    weight_set: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", check_positive(self.strength, "strength"))

    # --- data -------------------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def sparse(self) -> bool:
        """Whether optimal kernel weights contain exact zeros."""

    @property
    def dual_constraint(self) -> bool:
        """Whether the conjugate is infinite somewhere: unless overridden, where a linear term stands alone."""
        return self.linear_and_ridge is not None and not np.all(self.linear_and_ridge[1])

    @property
    def inactive_below(self) -> Any:
        """Kernels with ``u_m`` below it have zero weight: unless overridden, the coefficients of linear terms."""
        return 0.0 if self.linear_and_ridge is None else self.linear_and_ridge[0]

    @property
    def linear_and_ridge(self) -> tuple[Any, Any] | None:
        """Coefficients of a penalty made of linear and quadratic terms."""
        return None

    @property
    def square_form(self) -> tuple[float, float, float] | None:
        """Coefficients of a penalty made of the 1-norm and a squared p-norm: p = 2 if its terms are alike."""
        form = self.linear_and_ridge
        if form is None or np.ndim(form[0]) or np.ndim(form[1]):
            return None
        return float(form[0]), float(form[1]), 2.0

    @property
    def norm_exponent(self) -> float | None:
        """Exponent of a penalty that is a power of norms."""
        return None

    @property
    def simplex_size(self) -> float | None:
        """Sum of the kernel weights where their set is a simplex."""
        return None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What solvers may ask of this regularizer, derived from its data and from the methods that it defines."""
        found = {can for name, can in OPTIONAL.items() if getattr(type(self), name) is not getattr(Regularizer, name)}
        form, exponent, simplex = self.linear_and_ridge, self.norm_exponent, self.simplex_size is not None
        square = self.square_form
        alike = form is not None and np.ndim(form[0]) == 0 and np.ndim(form[1]) == 0
        declared = {
            Capability.SELECTION: self.sparse,
            Capability.SEPARABLE: self.separable,
            Capability.FIXED_WEIGHTS: bool(np.all(np.equal(*self.weight_range))),
            Capability.SIMPLEX: simplex,
            Capability.CONES: form is not None or simplex,
            Capability.ELASTIC_FORM: alike,
            Capability.SQUARE_FORM: square is not None,
            Capability.STRONG_CONVEXITY: bool(np.all(np.asarray(form[1]) > 0))
            if form is not None
            else square is not None and square[1] > 0 and square[2] > 1,
            Capability.POWER_FORM: exponent is not None and exponent > 1,
        }
        found |= {capability for capability, has in declared.items() if has}
        if self.dual_constraint or not self.separable:
            found.discard(Capability.SMOOTH_CONJUGATE)
        return frozenset(found)

    # --- what the problem is ----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def value(self, t: Array) -> float:
        """``Omega(t)`` for block norms ``t >= 0`` of shape (M,).

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)

        Returns
        -------
        float
        """

    @abc.abstractmethod
    def conjugate(self, u: Array) -> float:
        """``Omega*(u)`` for ``u >= 0`` of shape (M,); possibly infinite.

        Parameters
        ----------
        u : ndarray of shape (n_kernels,)

        Returns
        -------
        float
        """

    def dual_scale(self, u: Array) -> float:
        """Return the largest ``c`` in [0, 1] for which ``conjugate(c u)`` is finite.

        Parameters
        ----------
        u : ndarray of shape (n_kernels,)

        Returns
        -------
        float
        """
        return 1.0

    def weights(self, t: Array, u: Array) -> Array:
        """Optimal kernel weights ``d`` (M,) for block norms ``t`` and dual norms ``u``.

        Since ``f_m = d_m sum_i rho_i k_m(., x_i)``, ``t_m = w_m^2 d_m u_m``: here ``d = t / u`` for unit penalties
        ``w``, 0 where either is 0; divide by ``w^2`` otherwise.

        Parameters
        ----------
        t, u : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)
        """
        weights = np.zeros(np.shape(t))
        np.divide(t, u, out=weights, where=(np.asarray(u) > 0) & (np.asarray(t) > 0))
        return weights

    @abc.abstractmethod
    def prox(self, t: Array, step: float) -> Array:
        """``argmin_x |x - t|^2 / 2 + step Omega(x)`` over ``x >= 0``, for ``t >= 0`` of shape (M,).

        A separable penalty takes one step a kernel, of shape (M,), as well.

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)
        step : float or ndarray of shape (n_kernels,)
            Positive.

        Returns
        -------
        ndarray of shape (n_kernels,)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_regularizer
        >>> get_regularizer("l1", 1.0).prox(np.array([0.5, 3.0]), 1.0)
        array([0., 2.])
        """

    def strength_max(self, u: Array) -> float:
        """Return the smallest strength at which the zero model is optimal, from ``u`` at the zero model.

        Infinite where the penalty is flat at zero (no strength makes the model vanish), 0 if ``u`` is zero.

        Parameters
        ----------
        u : ndarray of shape (n_kernels,)

        Returns
        -------
        float
        """
        return np.inf if np.any(np.asarray(u) > 0) else 0.0

    def relative(self, fraction: float, u: Array, loss: float) -> Self:
        """Return this penalty at a fraction of the strength at which it leaves nothing to gain.

        That strength is `strength_max` where it is finite. Elsewhere it is the strength at which the conjugate, the
        most that a model of slope ``u`` can gain to first order, is the loss that there is to lose:
        ``Omega*(u) = loss``. Both grow alike with the kernels and with the unit of the target, so that the same
        fraction means the same for all of them; for ridge and squared loss, the strength is the Rayleigh quotient
        ``rho' (sum_m K_m / w_m^2) rho / rho'rho``.

        Parameters
        ----------
        fraction : float
            Positive.
        u : ndarray of shape (n_kernels,)
            Dual norms at the zero model.
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
        >>> from manykernels import get_regularizer
        >>> get_regularizer("l1", 1.0).relative(0.1, np.array([3.0, 5.0]), 2.0)
        BlockL1(strength=0.5)
        >>> round(get_regularizer("ridge", 1.0).relative(0.25, np.array([3.0, 5.0]), 2.0).strength, 6)
        2.125
        """
        return replace(self, strength=fraction * (self._reference(u, loss) or 1.0))

    def _reference(self, u: Array, loss: float) -> float:
        """Return the strength at which nothing is left to gain; 0 if there is nothing to gain at any."""
        largest = self.strength_max(u)
        if np.isfinite(largest) or not loss > 0:
            return largest if np.isfinite(largest) else 0.0
        exponent = self.norm_exponent if self.separable and self.norm_exponent is not None else 2.0
        # Omega* is homogeneous of degree q / (q - 1): the loss is divided out first, or squares would overflow.
        slopes = np.asarray(u) / loss ** ((exponent - 1.0) / exponent)
        return float(replace(self, strength=1.0).conjugate(slopes) ** (exponent - 1.0))

    def take(self, kernels: Any) -> Regularizer:
        """Return the regularizer of some of the kernels: itself, unless it has coefficients of each kernel.

        Parameters
        ----------
        kernels : slice, mask or positions

        Returns
        -------
        Regularizer
        """
        return self

    # --- what more solvers ask for ----------------------------------------------------------------------------------

    def derivative(self, t: Array) -> Array:
        """``dOmega/dt_m`` at ``t >= 0`` (M,); where ``t_m = 0``, the derivative to the right.

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)

        Raises
        ------
        IncompatibleError
            If this regularizer does not have it; so in the other optional methods.
        """
        raise self._lacks(Capability.WEIGHTS_FROM_NORMS)

    def second_derivative(self, t: Array) -> Array:
        """``d2Omega/dt_m^2`` at ``t >= 0`` (M,), infinite where a kernel of zero norm bends.

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)

        Raises
        ------
        IncompatibleError
            If this regularizer does not have it.
        """
        raise self._lacks(Capability.CURVATURE)

    def hessian(self, t: Array) -> Array:
        """Second derivatives in all block norms (M, M): a diagonal matrix if the penalty is separable.

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels, n_kernels)
        """
        return np.diag(self.second_derivative(t))

    def weights_from_norms(self, t: Array) -> Array:
        """Return ``argmin_d sum_m t_m^2 / (2 d_m) + h(d)`` (M,), whose minimum is ``Omega(t)``: ``t / Omega'(t)``.

        Parameters
        ----------
        t : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)
        """
        slopes, weights = self.derivative(t), np.zeros(np.shape(t))
        np.divide(t, slopes, out=weights, where=slopes > 0)
        return weights

    def iterated_weights(self, t: Array, start: Array) -> Array:
        """Return `weights_from_norms` by a published iteration from the weights ``start``, if there is one.

        Parameters
        ----------
        t, start : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)
        """
        return self.weights_from_norms(t)

    def conjugate_derivative(self, u: Array) -> Array:
        """``dOmega*/du_m`` (M,): the block norms that belong to dual norms, where the conjugate is differentiable.

        Parameters
        ----------
        u : ndarray of shape (n_kernels,)

        Returns
        -------
        ndarray of shape (n_kernels,)

        Raises
        ------
        IncompatibleError
            If this regularizer does not have it.
        """
        raise self._lacks(Capability.SMOOTH_CONJUGATE)

    def norm_bound(self, d: Array) -> tuple[Array, Array]:
        """Return ``B_m(d_m)^2`` and the derivative of ``B_m^2 / 2`` (M,), for kernel weights inside `weight_range`.

        At the optimum ``u_m <= B_m(d_m)``, with equality where ``d_m > 0``: ``B_m(d)`` is the ``u`` that solves
        ``u = dOmega/dt_m (d u)``. It does not fall as ``d`` rises.

        Parameters
        ----------
        d : ndarray of shape (n_kernels,)

        Returns
        -------
        squares, slopes : ndarray of shape (n_kernels,)

        Raises
        ------
        IncompatibleError
            If this regularizer does not have it.
        """
        raise self._lacks(Capability.MULTIPLIERS)

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """Return ``g'(d)``, ``d g''(d)`` (M,) and what ``sum_m g(d_m)`` lacks, where that sum limits a weight set.

        ``g`` is convex and increasing, in any unit. At the optimum ``u_m^2 <= tau g'(d_m)`` with one ``tau`` for all
        kernels, and equality where ``d_m > 0``.

        Parameters
        ----------
        d : ndarray of shape (n_kernels,)

        Returns
        -------
        slopes, bends : ndarray of shape (n_kernels,)
        missing : float

        Raises
        ------
        IncompatibleError
            If this regularizer does not have it.
        """
        raise self._lacks(Capability.MULTIPLIERS)

    @property
    def weight_range(self) -> tuple[Any, Any]:
        """Ends of the interval of each kernel weight, floats or (M,).

        The upper end is infinite, or a pole of the bound; a kernel without linear term has a single weight.
        """
        if self.linear_and_ridge is None:
            return 0.0, np.inf
        linear, ridge = (np.asarray(part, dtype=np.float64) for part in self.linear_and_ridge)
        pole = np.divide(1.0, ridge, out=np.full(ridge.shape, np.inf), where=ridge > 0)
        return np.where(linear > 0, 0.0, pole), pole

    def _lacks(self, capability: Capability) -> IncompatibleError:
        """Return the error that says what this regularizer has not been given."""
        return IncompatibleError(f"The regularizer '{self.name}' does not have {capability.words}.")
