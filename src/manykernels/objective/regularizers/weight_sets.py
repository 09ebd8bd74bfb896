"""Regularizers given by a set of kernel weights: ``Omega(t) = (lam/2) min_{theta in Theta} sum_m t_m^2 / theta_m``.

Of ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0`` (Citi), both exact sub-problems are solved here.
"""

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Regularizer
from manykernels.objective.regularizers.curve import Curve
from manykernels.validation.arrays import (
    Array,
    check_nonnegative,
    check_nonnegative_vector,
    check_positive,
    check_vector,
)

MOST_STEPS = 60
MOST_DOUBLINGS = 16  # of a bracket of logarithms: the range of float64 takes eight


def elastic_net_scale(theta: Array, eta: float) -> float:
    """Return ``s`` with ``theta / s`` on the boundary of the set."""
    half = 0.5 * eta * float(np.sum(theta))
    return half + float(np.hypot(half, np.sqrt(1.0 - eta) * np.linalg.norm(theta)))


def elastic_net_linear(u: ArrayLike, eta: float) -> Array:
    """Maximize ``theta'u`` over the set (the problem of Citi's Algorithm 3), in closed form after one sort.

    ``max_theta theta'u`` subject to ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0``. With multiplier
    ``1/v``, ``theta_i = (v u_i - eta)_+ / (2 (1 - eta))`` and, if k entries are positive,
    ``v^2 = (4 (1 - eta) + k eta^2) / sum_k u^2``.

    A negative entry of ``u`` gets zero weight like an entry of zero: lowering ``theta_i`` to 0 raises ``theta_i u_i``
    and leaves more room to the rest, since the constraint grows in every entry.

    Parameters
    ----------
    u : array_like of shape (M,)
        Objective; finite numbers.
    eta : float
        Between 0 (2-norm ball) and 1 (simplex).

    Returns
    -------
    ndarray of shape (M,), float64
        The maximizer, on the boundary of the set; zero if no entry of ``u`` is positive. At ``eta = 1`` only the
        first of the largest entries has weight.

    Raises
    ------
    InvalidInputError
        If ``u`` is no vector of finite numbers, or ``eta`` is not between 0 and 1.

    See Also
    --------
    elastic_net_reciprocals : the other sub-problem.

    Notes
    -----
    The subtraction ``v u_i - eta`` cancels as eta tends to 1, so it is rewritten with the differences ``u_max^2 -
    u_i^2``, computed without cancellation.

    References
    ----------
    L. Citi, "A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints", 2015,
    Algorithm 3.

    Examples
    --------
    >>> from manykernels.objective import elastic_net_linear
    >>> elastic_net_linear([3.0, 4.0], 0.0).round(12).tolist()
    [0.6, 0.8]
    >>> elastic_net_linear([-1.0, 2.0], 0.5).tolist()
    [0.0, 1.0]
    """
    eta = check_nonnegative(eta, "eta", upper=1.0)
    return linear_maximizer(np.maximum(check_vector(u, None, "u"), 0.0), eta)


def linear_maximizer(u: Array, eta: float) -> Array:
    """Return `elastic_net_linear` without checks, for trusted callers."""
    theta = np.zeros(u.shape)
    largest = float(np.max(u, initial=0.0))
    if largest == 0:
        return theta
    if eta == 1:
        theta[np.argmax(u)] = 1.0
        return theta
    order = np.argsort(-u, kind="stable")
    theta[order] = _linear_sorted(u[order] / largest, eta)
    return theta / elastic_net_scale(theta, eta)


def _linear_sorted(u: Array, eta: float) -> Array:
    """Maximizer, up to scale, for decreasing ``u`` with first entry 1."""
    gaps = (1.0 - u) * (1.0 + u)
    counts = np.arange(1, u.size + 1)
    # Positive exactly where the last of k entries is positive when k are active.
    excess = 4.0 * (1.0 - eta) * u**2 + eta**2 * (np.cumsum(gaps) - counts * gaps)
    k = int(np.flatnonzero(excess > 0)[-1]) + 1
    squares, active = float(np.sum(u[:k] ** 2)), u[:k]
    v = np.sqrt((4.0 * (1.0 - eta) + k * eta**2) / squares)
    numerator = 4.0 * (1.0 - eta) * active**2 + eta**2 * (np.sum(gaps[:k]) - k * gaps[:k])
    theta = np.zeros(u.shape)
    theta[:k] = np.maximum(numerator, 0.0) / (squares * (v * active + eta) * (1.0 - eta))
    return theta


def elastic_net_reciprocals(beta: ArrayLike, eta: float) -> Array:
    """Minimize ``sum_m beta_m / theta_m`` over the set (the problem of Citi's Algorithm 2).

    ``min_theta sum_m beta_m / theta_m`` subject to ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1, theta >= 0``, the
    weights of kernels whose functions have the squared norms ``beta``.

    Parameters
    ----------
    beta : array_like of shape (M,)
        Non-negative numerators; a zero gets a zero weight (and counts zero in the sum). A negative numerator has no
        minimum: the quotient falls without bound as the weight tends to 0.
    eta : float
        Between 0 (2-norm ball) and 1 (simplex).

    Returns
    -------
    ndarray of shape (M,), float64
        The minimizer, on the boundary of the set; zero if ``beta`` is zero.

    Raises
    ------
    InvalidInputError
        If ``beta`` is no vector of finite non-negative numbers, or ``eta`` is not between 0 and 1.

    See Also
    --------
    elastic_net_linear : the other sub-problem.

    Notes
    -----
    The optimality conditions ``theta^2 (eta + 2 (1 - eta) theta) = nu beta`` and the constraint are solved together by
    Newton's method in the logarithms of ``theta`` and ``nu``: every left side is convex there, with a slope between 2
    and 3, so a handful of steps reaches the last digit for entries of any size.

    References
    ----------
    L. Citi, "A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints", 2015,
    Algorithm 2.

    Examples
    --------
    >>> from manykernels.objective import elastic_net_reciprocals
    >>> elastic_net_reciprocals([1.0, 9.0, 0.0], 1.0).round(12).tolist()
    [0.25, 0.75, 0.0]
    """
    eta = check_nonnegative(eta, "eta", upper=1.0)
    return shifted_reciprocals(np.sqrt(check_nonnegative_vector(beta, None, "beta")), 0.0, eta)


def shifted_reciprocals(t: Array, shift: float, eta: float) -> Array:
    """Minimize ``sum_m t_m^2 / (theta_m + shift)`` over the set; shift 0 is ``elastic_net_reciprocals``, unchecked."""
    theta = np.zeros(t.shape)
    positive = t > 0
    if not positive.any():
        return theta
    t = t[positive] / t.max()
    if t.size == 1:
        theta[positive] = 1.0
        return theta
    if shift == 0:
        theta[positive] = _reciprocals(np.log(t), eta)
        return theta / elastic_net_scale(theta, eta)

    def excess(log_nu: float) -> float:
        return elastic_net_scale(_entries(t, np.exp(log_nu), shift, eta), eta) - 1.0

    # At nu = (1 + shift)^2 (eta + 2 (1 - eta)) the largest entry alone reaches 1, the boundary.
    upper = 2.0 * np.log1p(shift) + np.log(2.0 - eta)
    lower = upper - 1.0
    for _ in range(MOST_DOUBLINGS):
        if not excess(lower) > 0:
            break
        lower -= 2.0 * (upper - lower)
    root = brentq(excess, lower, upper, xtol=1e-15, rtol=1e-15, maxiter=500) if excess(upper) > 0 else upper
    theta[positive] = _entries(t, np.exp(root), shift, eta)
    return theta / elastic_net_scale(theta, eta)


def _reciprocals(log_t: Array, eta: float) -> Array:
    """Solve ``2 log theta + log(eta + 2 (1 - eta) theta) = log nu + 2 log t`` and the constraint by Newton's method.

    A step changes ``log theta`` by ``(r + d) / g'`` with ``r`` the residuals, ``g'`` the slopes of the left sides and
    ``d`` the change of ``log nu``, which makes the linearized constraint hold.
    """
    start_power = 0.8  # between theta ~ t of the simplex and theta ~ t^(2/3) of the 2-norm ball
    theta = np.exp(start_power * log_t)
    theta /= elastic_net_scale(theta, eta)
    right = 2.0 * log_t
    log_nu = float(2.0 * np.log(theta.max()) + np.log(eta + 2.0 * (1.0 - eta) * theta.max()))
    log_theta = np.log(theta)
    last_step = 1e-7  # change of the logarithms after which the next one would be below rounding
    for _ in range(MOST_STEPS):
        quadratic = 2.0 * (1.0 - eta) * theta
        linear = eta + quadratic
        inverse_slopes = linear / (3.0 * linear - eta)
        change = (log_nu + right - 2.0 * log_theta - np.log(linear)) * inverse_slopes
        value = float(theta @ (linear + eta)) / 2.0
        gradient = theta * linear
        shift = -(value * np.log(value) + float(gradient @ change)) / float(gradient @ inverse_slopes)
        change += shift * inverse_slopes
        log_nu += shift
        log_theta += change
        theta = np.exp(log_theta)
        if np.abs(change).max() <= last_step:
            break
    return theta


def _entries(t: Array, nu: float, shift: float, eta: float) -> Array:
    """Solve ``(theta + shift)^2 (eta + 2 (1 - eta) theta) = nu t^2`` for ``theta >= 0``, 0 where there is no root.

    The left side is convex and increasing, so Newton's method from above decreases to the root.
    """
    roots = np.sqrt(nu) * t
    theta = _start(roots, shift, eta)
    for _ in range(60):
        linear = eta + 2.0 * (1.0 - eta) * theta
        base = theta + shift
        residual = base**2 * linear - roots**2
        slope = 2.0 * base * linear + 2.0 * (1.0 - eta) * base**2
        step = np.divide(residual, slope, out=np.zeros(t.shape), where=slope > 0)
        theta = np.maximum(theta - step, 0.0)
        if np.all(np.abs(step) <= 1e-15 * theta):
            break
    return theta


def _start(roots: Array, shift: float, eta: float) -> Array:
    """Upper bound of every root: every factor of the left side alone."""
    quadratic = np.maximum(roots / np.sqrt(eta) - shift, 0.0) if eta > 0 else np.full(roots.shape, np.inf)
    cubic = np.cbrt(roots**2 / (2.0 * (1.0 - eta))) if eta < 1 else np.full(roots.shape, np.inf)
    return np.minimum(quadratic, cubic)


# Citi's own iteration for the reciprocals, as published: what solvers have as ``weight_update="wsr"``.


SWITCHING_BELOW = 0.25  # of eta: (13a) then overshoots, and (21) alternates with it


@dataclass(frozen=True, eq=False)
class ReciprocalsResult:
    """The answer of `wsr_iterations`."""

    theta: Array  # ndarray of shape (Q,): A point on the boundary of the set
    n_iter: int  # updates (13a) and (21) done
    excess: float  # s/g - 1 at the last (13a) step: the objective at theta is within that factor of the optimum


def wsr_iterations(
    beta: Array, eta: float, start: Array | None = None, *, tol: float = 1e-12, max_iter: int = 10_000
) -> ReciprocalsResult:
    """Minimize ``sum_k beta_k / theta_k`` over the elastic-net ball by Citi's Algorithm 2, from a positive start.

    With ``q_i = ds/dx_i`` of the norm ``s`` whose unit ball is the set, ``x_i <- sqrt(beta_i / q_i)`` (13a); for
    ``eta < 0.25`` every other step is ``x_i <- (x_i beta_i / q_i)^(1/3)`` (21). The stop ``s/g - 1 <= tol``,
    ``g = sum beta_i / x_i``, proves the accuracy, but only directly after a (13a) step.
    """
    theta, n_iter, excess = np.zeros(beta.size), 0, 0.0
    if not beta.any():
        return ReciprocalsResult(theta, n_iter, excess)
    beta = beta / beta.max()
    used = beta > 0  # after the division: what vanishes in it would be divided by itself
    beta, x = beta[used], np.ones(used.sum()) if start is None else start[used] / start[used].max()
    for n_iter in range(1, max_iter + 1):
        if eta < SWITCHING_BELOW and n_iter % 2 == 0:
            x = np.cbrt(x * beta / norm_slope(x, eta))
            continue
        x = np.sqrt(beta / norm_slope(x, eta))
        excess = elastic_net_scale(x, eta) / float(np.sum(beta / x)) - 1.0
        if excess <= tol:
            break
    theta[used] = x / elastic_net_scale(x, eta)
    return ReciprocalsResult(theta, n_iter, excess)


def norm_slope(x: Array, eta: float) -> Array:
    """Gradient of the norm ``s``, (13b)."""
    total = float(x.sum())
    root = float(np.hypot(eta / 2 * total, np.sqrt(1 - eta) * np.linalg.norm(x)))
    return eta / 2 + ((eta / 2) ** 2 * total + (1 - eta) * x) / root


@dataclass(frozen=True)
class WeightSet(Regularizer, abc.ABC):
    """``Omega(t) = (lam/2) min_{theta in Theta} sum_m t_m^2/theta_m``, ``Omega*(u) = max_theta theta'u^2 / (2 lam)``.

    The kernel weights of the model are ``d = theta / lam``. A set without a curve is given by its `weight_limit`, from
    which derivatives follow, and by value, conjugate and prox.

    Parameters
    ----------
    strength : float
        ``lam``.
    """

    separable: ClassVar[bool] = False
    weight_set: ClassVar[bool] = True

    @abc.abstractmethod
    def best_theta(self, t: Array) -> Array:
        """Return the minimizer over the set of ``sum_m t_m^2 / theta_m`` (M,); zero where ``t`` is zero."""

    def weights(self, t: Array, u: Array) -> Array:
        """``theta / lam`` with ``theta`` the minimizer for ``t``; ``u`` is not needed."""
        return self.weights_from_norms(t)

    def weights_from_norms(self, t: Array) -> Array:
        """``theta / lam`` with ``theta`` the minimizer for ``t``."""
        return self.best_theta(np.asarray(t, dtype=np.float64)) / self.strength

    def on_boundary(self, d: Array) -> Array:
        """``d`` over `scale`; unchanged if zero, or without a `weight_limit`."""
        return d / self.scale(self.strength * d) if d.any() and self._defines("weight_limit") else d

    def scale(self, theta: Array) -> float:
        """Return ``s`` with ``theta / s`` on the boundary of the set; by default a root of `weight_limit`."""

        def missing(log_scale: float) -> float:
            return self.weight_limit(theta * (np.exp(-log_scale) / self.strength))[2]

        low, high = -1.0, 1.0
        for _ in range(MOST_DOUBLINGS):
            if missing(low) < 0 < missing(high):
                break
            low, high = 2.0 * low, 2.0 * high
        return float(np.exp(brentq(missing, low, high, xtol=1e-15, rtol=1e-15, maxiter=500)))

    def derivative(self, t: Array) -> Array:
        """``lam t / theta``, equal to ``sqrt(tau g'(d))`` even for zero ``t``."""
        return self.curve.derivative(t) if self.curve is not None else self._slopes(t)[2]

    def curvature(self, t: Array) -> tuple[Array, Array]:
        """From ``u^2 = tau g'(d)`` and ``t = d u``, whose differentials leave one number, ``dtau``, to all kernels."""
        if self.curve is not None:
            return self.curve.curvature(t)
        d, tau, u = self._slopes(t)
        slopes, bends, _ = self.weight_limit(d)
        both = np.maximum(2.0 * u**2 + tau * bends, np.finfo(np.float64).tiny)
        rise = np.divide(bends, d, out=np.full(d.shape, np.inf), where=d > 0)
        shares = max(float(np.sum(d * slopes**2 / both)), np.finfo(np.float64).tiny)
        return tau * rise / both, np.sqrt(2.0 / shares) * u * slopes / both

    def threshold(self, t: Array) -> float:
        """``sqrt(tau g'(0))``."""
        return self._slopes(t)[1] ** 0.5 * float(self.weight_limit(np.zeros(1))[0][0]) ** 0.5

    def _slopes(self, t: Array) -> tuple[Array, float, Array]:
        """Return the best weights, ``tau`` and the derivatives ``u``."""
        d = self.weights_from_norms(t)
        slopes, active = self.weight_limit(d)[0], d > 0
        root = float(np.max(t[active] / d[active] / np.sqrt(slopes[active]), initial=0.0))
        return d, root**2, root * np.sqrt(slopes)

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of every regularizer, plus the best weights."""
        found = super().capabilities | {Capability.WEIGHTS_FROM_NORMS}
        smooth = self.curve is not None or self._defines("weight_limit")
        return found if smooth else found - {Capability.CURVATURE}


@dataclass(frozen=True)
class NormBall(WeightSet):
    """Weights in a ball ``||theta||_p <= 1``: ``Omega(t) = (lam/2) ||t||_q^2`` with ``q = 2p/(p+1)``."""

    @property
    @abc.abstractmethod
    def _p(self) -> float:
        """Return the exponent ``p``."""

    @cached_property
    def curve(self) -> Curve:
        """The square of the norm with ``q = 2p/(p+1)``, in [1, 2)."""
        return Curve(power=self.strength, exponent=2.0 * self._p / (self._p + 1.0), coupled=True)

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """``g(d) = (lam d)^p / (lam p)``, of sum ``1 / (lam p)``."""
        theta = self.strength * np.asarray(d)
        slopes = theta ** (self._p - 1.0)
        return slopes, (self._p - 1.0) * slopes, (1.0 - float(theta @ slopes)) / (self._p * self.strength)

    def scale(self, theta: Array) -> float:
        """``||theta||_p``."""
        top = float(theta.max())
        return top * float(np.sum((theta / top) ** self._p)) ** (1.0 / self._p)

    def best_theta(self, t: Array) -> Array:
        """``t^(2/(p+1)) / (sum t^q)^(1/p)``."""
        top = float(np.max(t, initial=0.0))
        if top == 0:
            return np.zeros(np.shape(t))
        powers = (t / top) ** (2.0 / (self._p + 1.0))
        return powers / np.sum(powers**self._p) ** (1.0 / self._p)


@dataclass(frozen=True)
class Simplex(NormBall):
    """The simplex: ``Omega(t) = (lam/2) (sum t)^2``, the squared block 1-norm of group-lasso MKL and SimpleMKL.

    Parameters
    ----------
    strength : float
        ``lam``; an SVM with constant C has ``lam = 1/C``.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex(1.0).value(np.array([1.0, 2.0])), Simplex(1.0).conjugate(np.array([1.0, 2.0]))
    (4.5, 2.0)
    """

    name: ClassVar[str] = "simplex"
    _p: ClassVar[float] = 1.0


@dataclass(frozen=True)
class LpBall(NormBall):
    """The lp ball ``||theta||_p <= 1``: ``Omega(t) = (lam/2) ||t||_q^2`` with ``q = 2p/(p+1)`` (Kloft et al. 2011).

    Parameters
    ----------
    strength : float
        ``lam``.
    p : float, default=2.0
        At least 1, which is the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> round(LpBall(1.0, p=2.0).conjugate(np.array([1.0, 1.0])), 12)
    0.707106781187
    """

    p: float = 2.0

    name: ClassVar[str] = "lp_ball"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", check_positive(self.p, "p"))
        if self.p < 1:
            raise InvalidInputError(f"p must be at least 1, got {self.p!r}: below 1 the penalty is not convex.")

    @property
    def _p(self) -> float:
        return self.p


@dataclass(frozen=True)
class ElasticNetBall(WeightSet):
    """The elastic-net ball ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1`` (Citi).

    Parameters
    ----------
    strength : float
        ``lam``.
    eta : float, default=0.5
        1 is the simplex, 0 the 2-norm ball.

    Examples
    --------
    >>> import numpy as np
    >>> round(ElasticNetBall(1.0, eta=0.0).conjugate(np.array([1.0, 1.0])), 12)
    0.707106781187
    """

    eta: float = 0.5

    name: ClassVar[str] = "elasticnet_ball"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eta", check_nonnegative(self.eta, "eta", upper=1.0))

    @property
    def sparse(self) -> bool:
        """Whether the set has a corner, ``eta > 0``."""
        return self.eta > 0

    @cached_property
    def curve(self) -> Curve | None:
        """The curve of the simplex for eta 1: other balls have no closed form."""
        return Curve(power=self.strength, exponent=1.0, coupled=True) if self.eta == 1 else None

    def weight_limit(self, d: Array) -> tuple[Array, Array, float]:
        """``g(d) = eta d + (1 - eta) lam d^2``, of sum ``1 / lam``."""
        bends = 2.0 * (1.0 - self.eta) * self.strength * np.asarray(d)
        return self.eta + bends, bends, 1.0 / self.strength - float(np.sum(d * (self.eta + bends / 2)))

    def scale(self, theta: Array) -> float:
        """Return the norm with the set as the unit ball."""
        return elastic_net_scale(theta, self.eta)

    def iterated_weights(self, t: Array, start: Array) -> Array:
        """Return the result of Citi's original iteration (Algorithm 2)."""
        return wsr_iterations((t / t.max()) ** 2, self.eta, start).theta / self.strength

    def best_theta(self, t: Array) -> Array:
        """Solution of Citi's reciprocals problem."""
        return shifted_reciprocals(t, 0.0, self.eta)

    def value(self, t: Array) -> float:
        """``(lam/2) sum t^2 / theta``, on ``t / max(t)`` so squares neither overflow nor vanish."""
        top = float(np.max(t, initial=0.0))
        kept = np.asarray(t)[np.asarray(t) > 0] / top
        if not kept.size:
            return 0.0
        return 0.5 * self.strength * top * (top * float(np.sum(kept / shifted_reciprocals(kept, 0.0, self.eta) * kept)))

    def conjugate(self, u: Array) -> float:
        """``max_theta theta'u^2 / (2 lam)``."""
        top = float(np.max(u, initial=0.0))
        squares = (np.asarray(u) / top) ** 2 if top > 0 else np.zeros(np.shape(u))
        return 0.5 * top * (top / self.strength) * float(np.dot(linear_maximizer(squares, self.eta), squares))

    def prox(self, t: Array, step: float) -> Array:
        """Given theta, ``x = t theta / (theta + strength)``; then theta minimizes ``sum t^2/(theta + strength)``."""
        t = np.asarray(t, dtype=np.float64)
        top, strength = float(np.max(t, initial=0.0)), step * self.strength
        if not (top > 0 and strength > 0):
            return t.copy()
        theta = shifted_reciprocals(t / top, strength, self.eta)
        return top * (t / top * (theta / (theta + strength)))
