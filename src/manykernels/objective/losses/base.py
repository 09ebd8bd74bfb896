"""What every loss is: value, derivatives, conjugate, dual box, with the conventions of sign and domain.

`LossOnRows` are losses of vectors that stay beside rows on workers: their methods are applied there, entry by entry.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.grams.rows.vectors import RowVector, map_rows
from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.bound import BoundLoss, SampleSum, conjugate_between
from manykernels.validation.arrays import Array, check_finite

ROUNDING = 8 * np.finfo(np.float64).eps
"""Doublings of the interval in which an intercept is looked for: a loss that still falls has no minimizer."""


@dataclass(frozen=True)
class Loss(abc.ABC):
    """A convex loss ``l(y, z)`` of a single sample, vectorized over samples, for unit sample weight.

    The dual variable is ``r = -dl/dz``; every conjugate quantity is a function of ``r``: ``conjugate(y, r)`` is ``l*(y,
    -r) = sup_z (-r z - l(y, z))`` and the derivative in ``r`` is ``-z`` at the supremum. A sample weight ``s``
    multiplies the loss, so the dual variable of the weighted sample is ``rho = s r``. Everywhere below, ``y``, ``z``
    and ``r`` have shape (n_samples,).

    Attributes
    ----------
    name : str
        Name in ``LOSSES``.
    task : {"classification", "regression"}
        What the target is: labels in {-1, +1}, or finite numbers.
    smooth : bool
        Whether the loss is differentiable in ``z``.
    support : {"real", "non-negative", "positive"}
        Which numbers targets may be.
    entropic : bool
        Whether the conjugate is the respective barrier (the derivative is infinite at the ends of the dual box).
    kink : float
        Coefficient of ``|r|`` in the conjugate.
    conjugate_form : {"quadratic", "binary_entropy", "general", "kinked"}
        ``"quadratic"``: the conjugate is ``curvature r^2 / 2 - y r + kink |r|`` on the box. ``"binary_entropy"``: it is
        ``p log p + (1 - p) log(1 - p)`` with ``p = y r``. ``"general"``: the methods are all there is to know.
        ``"kinked"``: it has kinks away from zero, so that second-order solvers refuse it.
    curvature : float
        Coefficient of ``r^2 / 2`` in a quadratic conjugate.
    linear_dual : bool
        Whether the optimality conditions of the dual are linear: a quadratic conjugate without box and kink.
    curvature_bound : float
        No second derivative in ``z`` is larger; infinite if the derivative jumps.
    score_unit : float
        The scale of ``z`` on which the loss bends: 1 for margins, ``delta`` for Huber. Sets root-finding tolerances.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss
    >>> loss, y, z = get_loss("logistic"), np.array([1.0]), np.array([0.3])
    >>> r = loss.dual_from_scores(y, z)
    >>> np.allclose(loss.value(y, z) + loss.conjugate(y, r), -r * z)  # Fenchel-Young, with equality
    True
    """

    couples_samples: ClassVar[bool] = False
    of_several: ClassVar[bool] = False  # whether it is a loss of several scores a sample
    name: ClassVar[str]
    task: ClassVar[str]
    smooth: ClassVar[bool]
    support: ClassVar[str] = "real"
    entropic: ClassVar[bool] = False
    conjugate_form: ClassVar[str] = "general"
    curvature: ClassVar[float] = 0.0
    linear_dual: ClassVar[bool] = False

    @property
    def kink(self) -> float:
        """Coefficient of ``|r|`` in the conjugate."""
        return 0.0

    @property
    def curvature_bound(self) -> float:
        """Upper bound of the second derivative in ``z``."""
        return np.inf

    @property
    def piecewise_linear(self) -> bool:
        """Whether loss and conjugate are both piecewise linear."""
        return self.conjugate_form == "quadratic" and self.curvature == 0

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Capabilities of the loss for solvers, derived from the data."""
        linear = self.piecewise_linear and self.kink == 0
        found = {
            Capability.CURVED_CONJUGATE: self.conjugate_form != "kinked",
            Capability.CLOSED_CONJUGATE: self.conjugate_form in ("quadratic", "binary_entropy"),
            Capability.BOUNDED_CURVATURE: bool(np.isfinite(self.curvature_bound)),
            Capability.LINEAR_DUAL: self.linear_dual,
            Capability.HINGE_FORM: linear and self.task == "classification",
        }
        return frozenset(capability for capability, has in found.items() if has)

    @property
    def score_unit(self) -> float:
        """Scale of ``z`` of the curvature of the loss."""
        return 1.0

    @abc.abstractmethod
    def check_target(self, y: ArrayLike) -> Array:
        """Return ``y`` as float64 (N,), or raise ``InvalidInputError`` saying which values cannot be used.

        Parameters
        ----------
        y : array-like of shape (n_samples,)

        Raises
        ------
        InvalidInputError
            If a value cannot be used.
        """

    @property
    def each(self) -> Loss:
        """The loss of a single score: itself."""
        return self

    def refusal_of_constant(self, y: Array) -> str:
        """Return the reason why no finite constant is optimal, in words; empty if one is."""
        return ""

    def bind(self, y: Array, weight: Array) -> BoundLoss:
        """Return the loss as a function of all scores, ``sum_i s_i l(y_i, z_i)``.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            As ``check_target`` returns it.
        weight : ndarray of shape (n_samples,)
            Positive sample weights.
        """
        return SampleSum(self, y, weight)

    def mean(self, z: Array) -> Array:
        """Return what scores predict, in the unit of the target: the inverse link, by default the score itself.

        Parameters
        ----------
        z : ndarray of any shape

        Returns
        -------
        ndarray of the same shape
        """
        return z

    @abc.abstractmethod
    def value(self, y: Array, z: Array) -> Array:
        """Loss ``l(y, z)`` of every sample, (N,).

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Labels -1 and +1, or numbers.
        z : ndarray of shape (n_samples,)
            Scores.
        """

    @abc.abstractmethod
    def derivative(self, y: Array, z: Array) -> Array:
        """``dl/dz`` (N,); at a kink, a single element of the subdifferential."""

    @abc.abstractmethod
    def second_derivative(self, y: Array, z: Array) -> Array:
        """Second derivative ``d2l/dz2`` (N,); 0 at kinks."""

    def conjugate(self, y: Array, r: Array) -> Array:
        """Conjugate ``l*(y, -r)`` (N,); ``inf`` outside the dual box (overshoot by 1e-12 relative is clipped)."""
        return conjugate_between(self._conjugate_inside, y, *self.dual_bounds(y), r)

    def conjugate_of(self, y: Array) -> Callable[[Array], Array]:
        """Return `conjugate` as a function of ``r``: the dual boxes of the targets are found once."""
        if type(self).conjugate is not Loss.conjugate:  # a loss that has it in another way
            return partial(self.conjugate, y)
        return partial(conjugate_between, self._conjugate_inside, y, *self.dual_bounds(y))

    @abc.abstractmethod
    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        """Conjugate for ``r`` inside the dual box."""

    @abc.abstractmethod
    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``d l*(y, -r) / dr`` (N,), equal to ``-z``; with ``sign(0) = 0`` in the part ``kink * |r|``."""

    @abc.abstractmethod
    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """Second derivative in ``r`` of the part without ``kink * |r|`` (N,)."""

    @abc.abstractmethod
    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        """Return the ends ``lo <= r <= hi`` of every dual box, (N,) each, possibly infinite; 0 is always inside.

        Returns
        -------
        lo, hi : ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_loss
        >>> get_loss("hinge").dual_bounds(np.array([-1.0, 1.0]))
        (array([-1.,  0.]), array([0., 1.]))
        """

    def dual_from_scores(self, y: Array, z: Array) -> Array:
        """Dual variable ``r = -dl/dz`` (N,) at scores ``z``."""
        return -self.derivative(y, z)

    def dual_interval(self, y: Array, z: Array) -> tuple[Array, Array]:
        """Return the ends of ``-dl(y, z)``, the dual variables that fit scores ``z``; kinks are met up to rounding.

        Returns
        -------
        lo, hi : ndarray of shape (n_samples,)
        """
        r = self.dual_from_scores(y, z)
        return r, r

    def dual_distance(self, y: Array, z: Array, r: Array) -> Array:
        """Distance of ``r`` to the set ``-dl(y, z)`` (N,); zero exactly when (z, r) satisfies stationarity."""
        lo, hi = self.dual_interval(y, z)
        return np.maximum(np.maximum(lo - r, r - hi), 0.0)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Minimizer over ``b`` of ``sum_i s_i l(y_i, f_i + b)``, always finite.

        On a flat minimum, piecewise linear losses return the middle of the minimizing interval, or the finite end if
        the other is infinite; smooth losses return a single point of it. Unless a loss knows better, the root of the
        slope is looked for between the smallest and the largest ``y_i - f_i``, and farther out if it is not there.

        Parameters
        ----------
        y, f : ndarray of shape (n_samples,)
            Targets, and scores without an intercept.
        sample_weight : ndarray of shape (n_samples,)
            Positive.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_loss
        >>> get_loss("squared").best_intercept(np.array([1.0, 3.0]), np.zeros(2), np.ones(2))
        2.0
        """
        points = y - f
        slope = self._slope(y, f, sample_weight)
        return root_of_slope(slope, float(points.min()), float(points.max()), self.score_unit)

    def _slope(self, y: Array, f: Array, weight: Array) -> Callable[[float], float]:
        """Return the derivative of the weighted loss in the intercept."""
        return lambda b: float(np.dot(weight, self.derivative(y, f + b)))


def root_of_slope(slope: Callable[[float], float], lo: float, hi: float, unit: float) -> float:
    """Return a root of a nondecreasing function, between two points or farther out."""
    most_widenings = 60
    for _ in range(most_widenings):
        slopes = (slope(lo), slope(hi))
        low, high = (found * side > 0 for found, side in zip(slopes, (1.0, -1.0), strict=True))
        if not (low or high):
            break
        width = max(hi - lo, unit)
        lo, hi = lo - width * low, hi + width * high
    return root_between(slope, lo, hi, unit)


def root_between(slope: Callable[[float], float], lo: float, hi: float, unit: float) -> float:
    """Return a root between two points, or the nearer end."""
    if not slope(lo) < 0 or lo >= hi:
        return lo
    if not slope(hi) > 0:
        return hi
    return float(brentq(slope, lo, hi, xtol=1e-16 * unit, rtol=1e-15, maxiter=10_000))


class QuadraticConjugate(Loss):
    """A loss whose conjugate is ``curvature r^2 / 2 - y r + kink |r|`` on the box; it says the two numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss
    >>> get_loss("huber").conjugate_derivative(np.array([1.0, 2.0]), np.array([0.5, -0.5])).tolist()
    [-0.5, -2.5]
    """

    conjugate_form: ClassVar[str] = "quadratic"

    @property
    def curvature_bound(self) -> float:
        """The inverse curvature of the conjugate; infinite if piecewise linear."""
        return 1.0 / self.curvature if self.curvature else np.inf

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        values = r * (0.5 * self.curvature * r - y) if self.curvature else -y * r
        return values + self.kink * np.abs(r) if self.kink else values

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        """``curvature r - y + kink sign(r)``."""
        slopes = self.curvature * r - y
        return slopes + self.kink * np.sign(r) if self.kink else slopes

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        """Return the curvature."""
        return np.full(np.broadcast(y, r).shape, self.curvature)


class PiecewiseLinear(QuadraticConjugate):
    """A loss without curvature: the slopes are the ends of the box beyond the kink, and zero before."""

    smooth: ClassVar[bool] = False

    def second_derivative(self, y: Array, z: Array) -> Array:
        """Zero."""
        return np.zeros(np.broadcast(y, z).shape)

    def dual_interval(self, y: Array, z: Array) -> tuple[Array, Array]:
        """Return the ends of the box beyond the kink and zero before; at the kink, up to rounding, the interval."""
        (least, most), slack = self.dual_bounds(y), y - z
        rounding = ROUNDING * np.maximum(np.abs(y), np.abs(z))  # of that difference
        lo = np.where(slack > self.kink + rounding, most, np.where(slack > rounding - self.kink, 0.0, least))
        hi = np.where(slack < -self.kink - rounding, least, np.where(slack < self.kink - rounding, 0.0, most))
        return lo, hi

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        """Weighted-median step: the slope jumps on both sides of the kink by the ends of the box."""
        lo, hi = self.dual_bounds(y)
        points = np.concatenate([y - f - self.kink, y - f + self.kink])
        jumps = np.concatenate([sample_weight * hi, sample_weight * -lo])
        return piecewise_linear_minimizer(points, jumps, -float(sample_weight @ hi))


class ClassificationLoss(Loss):
    """A loss of the margin ``y z`` with labels in {-1, +1}."""

    task: ClassVar[str] = "classification"

    def check_target(self, y: ArrayLike) -> Array:
        """Return labels as float64 (N,); anything but -1 and +1 is refused."""
        target = float_vector(y)
        bad = np.abs(target) != 1.0
        if bad.any():
            shown = np.unique(target[bad])[:5].tolist()
            raise InvalidInputError(
                f"The {self.name} loss needs labels -1 and +1, but y contains {shown}. Encode the labels."
            )
        return target

    def refusal_of_constant(self, y: Array) -> str:
        """For a single class the best constant is infinite or undefined."""
        if y.min() < y.max():
            return ""
        return f"Every label is {y[0]:+g}: with one class and an intercept there is nothing to learn"


class RegressionLoss(Loss):
    """A loss of the residual ``y - z`` with real targets."""

    task: ClassVar[str] = "regression"

    def check_target(self, y: ArrayLike) -> Array:
        """Return targets as float64 (N,); NaN and infinite values are refused."""
        return check_finite(float_vector(y), "y")


def float_vector(y: ArrayLike) -> Array:
    """Return ``y`` as a fresh float64 vector, or raise an error with the actual form."""
    try:
        target = np.array(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"y must contain numbers, got {type(y).__name__} that cannot be converted: {error}"
        ) from error
    if target.ndim != 1 or target.size == 0:
        raise InvalidInputError(f"y must be a non-empty vector of shape (n_samples,), got shape {target.shape}.")
    return target


def piecewise_linear_minimizer(points: Array, jumps: Array, start: float) -> float:
    """Minimize a convex piecewise linear function of a single variable."""
    order = np.argsort(points, kind="stable")
    slopes = start + np.cumsum(jumps[order])
    tolerance = 1e-13 * float(np.sum(jumps))
    left = int(np.argmax(slopes >= -tolerance)) if slopes[-1] >= -tolerance else len(points) - 1
    rising = slopes > tolerance
    right = int(np.argmax(rising)) if rising.any() else left
    first, last = float(points[order[left]]), float(points[order[right]])
    if start >= -tolerance:
        return last if rising.any() else 0.0
    return first + (last - first) / 2


ENTRY_BY_ENTRY = {"value", "derivative", "second_derivative", "conjugate", "dual_from_scores"}
PAIRS = {"dual_bounds", "dual_interval"}


class LossOnRows:
    """A loss of vectors beside their rows, with methods applied in place."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._loss, name)
        if name in PAIRS:
            return lambda *vectors: tuple(map_rows(partial(_one_of, found, at), *vectors) for at in (0, 1))
        return partial(map_rows, found) if name in ENTRY_BY_ENTRY else found

    def __repr__(self) -> str:
        return repr(self._loss)

    def bind(self, y: Any, weight: Any) -> SampleSum:
        """Return the loss as a function of the scores of all rows, with distributed vectors."""
        return SampleSum(self, y, weight)

    def conjugate_of(self, y: RowVector) -> Callable[[Any], Any]:
        """Return `conjugate` as a function of ``r``."""
        return partial(self.conjugate, y)

    def check_target(self, y: RowVector) -> RowVector:
        """Return targets as numbers, with parts checked in place."""
        return map_rows(partial(_check_part, self._loss), y).compute()

    def refusal_of_constant(self, y: RowVector) -> str:
        """Say why no constant fits best; the smallest and the largest target tell."""
        return self._loss.refusal_of_constant(np.array([y.min(), y.max()]))

    def best_intercept(self, y: RowVector, f: RowVector, weight: RowVector) -> float:
        """Return the best constant without other scores, for ``f = 0``."""
        if self._loss.task == "classification":  # two samples, each with the weight of its class
            classes = np.array([float(weight[y < 0].sum()), float(weight[y > 0].sum())])
            return self._loss.best_intercept(np.array([-1.0, 1.0]), np.zeros(2), classes)
        if self._loss.linear_dual:
            return float(weight @ y) / float(weight.sum())

        def slope(b: float) -> float:
            return float(weight @ self.derivative(y, f + b))

        return root_of_slope(slope, float(y.min()), float(y.max()), self._loss.score_unit)


def rows_weight(y: Any, weight: Any) -> Any:
    """Return positive sample weights beside the rows of a target, ones by default."""
    weight = (np.ones_like(y) if weight is None else map_rows(_numbers, y.source.vector(weight))).compute()
    if not weight.min() > 0 or not np.isfinite(weight.max()):
        raise InvalidInputError("sample_weight must be positive and finite numbers.")
    return weight


def _one_of(function: Callable[..., Any], at: int, *parts: Array) -> Array:
    """Return a component of the pair returned by a method of a loss."""
    return np.asarray(function(*parts)[at])


def _check_part(loss: Loss, part: Array) -> Array:
    return loss.check_target(part) if len(part) else np.zeros(0)


def _numbers(part: Array) -> Array:
    return np.asarray(part, dtype=np.float64)
