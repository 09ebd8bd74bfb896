"""Losses of several scores per sample, and sums of single-score losses over outputs.

Multinomial: a score per class, of which only differences count.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.base import ClassificationLoss, Loss, float_vector
from manykernels.objective.losses.bound import BoundLoss, OutputSum
from manykernels.objective.losses.pointwise import Logistic
from manykernels.objective.projection import project_box_hyperplane
from manykernels.validation.arrays import Array


@dataclass(frozen=True)
class SharedLoss(abc.ABC):
    """A smooth convex loss ``l(y_i, z_i)`` of the scores ``z_i`` (T,) of a sample, for several samples at once.

    The dual variable is ``r_i = -dl/dz_i`` (T,), and ``conjugate`` is ``l*(y_i, -r_i)``.

    Attributes
    ----------
    name : str
    task : {"classification", "regression"}
    coupled : bool
        Whether the scores of a sample act on each other; if not, the loss is a sum over targets.
    steepness : float
        Of a coupled loss: the sum of the sizes of derivatives in the scores of a sample, at most.
    linear_dual : bool
        Whether the curvature is constant 1, as for the squared loss.
    entropic, kink, piecewise_linear
        As in `Loss`.
    """

    coupled: ClassVar[bool] = False
    steepness: ClassVar[float] = np.inf
    couples_samples: ClassVar[bool] = False
    of_several: ClassVar[bool] = True  # whether it is a loss of several scores a sample
    kink: ClassVar[float] = 0.0
    piecewise_linear: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def each(self) -> Loss:
        """Loss of a single score: the equivalent for a single target or two classes."""

    @property
    def name(self) -> str:
        """Name of the loss, by default the name of the single-score loss."""
        return self.each.name

    @property
    def task(self) -> str:
        """The kind of target."""
        return self.each.task

    @property
    def entropic(self) -> bool:
        """Whether the conjugate is a barrier."""
        return self.each.entropic

    @property
    def linear_dual(self) -> bool:
        """Whether the loss is squared or of the form, with unit curvature."""
        return self.each.linear_dual and self.each.curvature == 1

    @property
    def curvature_bound(self) -> float:
        """No eigenvalue of the second derivatives in ``z_i`` is larger."""
        return self.each.curvature_bound

    @property
    def smooth(self) -> bool:
        """Whether derivatives exist everywhere, by the single-score loss."""
        return self.each.smooth

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Bounded second derivatives; no capabilities of single-target solvers."""
        return frozenset({Capability.BOUNDED_CURVATURE} if np.isfinite(self.curvature_bound) else set())

    def refusal_of_constant(self, y: Array) -> str:
        """Return why no finite constants fit the targets best, in words; empty if some do."""
        for t, column in enumerate(y.T):
            why = self.each.refusal_of_constant(column)
            if why:
                return f"Column {t} of y cannot be learned. {why}"
        return ""

    @abc.abstractmethod
    def check_target(self, y: Array) -> Array:
        """Return ``y`` as float64 (N, T), or raise ``InvalidInputError`` with the invalid values."""

    def bind(self, y: Array, weight: Array) -> BoundLoss:
        """Return the loss as a function of the scores (N, T) of all samples."""
        return OutputSum(self, y, weight)

    @abc.abstractmethod
    def parts(self, y: Array, z: Array) -> Array:
        """Return the independent parts: the loss of every sample and target (N, T), (N, 1) if coupled."""

    def value(self, y: Array, z: Array) -> Array:
        """Loss of every sample, (N,)."""
        return self.parts(y, z).sum(axis=1)

    @abc.abstractmethod
    def derivative(self, y: Array, z: Array) -> Array:
        """``dl/dz`` (N, T)."""

    @abc.abstractmethod
    def curvature(self, y: Array, z: Array) -> Array:
        """Second derivatives (N, T); of coupled losses the ``p`` in ``diag(p) - p p'``."""

    @abc.abstractmethod
    def conjugate(self, y: Array, r: Array) -> Array:
        """``l*(y, -r)`` of every sample, (N,); infinite outside the domain."""

    def conjugate_of(self, y: Array) -> Callable[[Array], Array]:
        """Return `conjugate` as a function of ``r``."""
        return partial(self.conjugate, y)

    @abc.abstractmethod
    def feasible(self, y: Array, rho: Array, weight: Array, *, sums: bool) -> Array:
        """Return dual coefficients (N, T) near ``rho`` inside the domain, with column sums of zero if ``sums``."""

    @abc.abstractmethod
    def best_intercepts(self, y: Array, f: Array, weight: Array) -> Array:
        """Minimizer over ``b`` (T,) of ``sum_i s_i l(y_i, f_i + b)``."""


@dataclass(frozen=True)
class Separable(SharedLoss):
    """``l(y_i, z_i) = sum_t l(y_it, z_it)`` for a smooth loss of a single score.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss
    >>> from manykernels.objective.losses.outputs import Separable
    >>> Separable(get_loss("squared")).value(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0]]))
    array([2.5])
    """

    loss: Loss  # squared, Huber, squared hinge,

    @property
    def each(self) -> Loss:
        """The loss."""
        return self.loss

    def check_target(self, y: Array) -> Array:
        """Return ``y`` as float64 (N, T), every column checked by the loss."""
        return np.array([self.loss.check_target(column) for column in _matrix(y).T], dtype=np.float64).T

    def parts(self, y: Array, z: Array) -> Array:
        """``l(y_it, z_it)`` (N, T)."""
        return self.loss.value(y, z)

    def derivative(self, y: Array, z: Array) -> Array:
        return self.loss.derivative(y, z)

    def curvature(self, y: Array, z: Array) -> Array:
        return self.loss.second_derivative(y, z)

    def conjugate(self, y: Array, r: Array) -> Array:
        """``sum_t l*(y_it, -r_it)`` (N,)."""
        return self.loss.conjugate(y, r).sum(axis=1)

    def feasible(self, y: Array, rho: Array, weight: Array, *, sums: bool) -> Array:
        """Return the nearest point of the box, and of the columns with a sum of zero if ``sums``."""
        lo, hi = (weight[:, None] * end for end in self.loss.dual_bounds(y))
        if not sums:
            return np.clip(rho, lo, hi)
        if np.isinf(lo).all() and np.isinf(hi).all():
            once = rho - rho.mean(axis=0)
            return once - once.mean(axis=0)  # a second round removes the rounding of a large mean
        columns = zip(rho.T, lo.T, hi.T, strict=True)
        return np.column_stack([project_box_hyperplane(*column) for column in columns])

    def best_intercepts(self, y: Array, f: Array, weight: Array) -> Array:
        columns = zip(y.T, f.T, strict=True)
        return np.array([self.loss.best_intercept(*column, weight) for column in columns])


@dataclass(frozen=True)
class WeightedLabels(ClassificationLoss):
    """``w l(s, z)`` for targets ``y = w s``: a label ``s`` of -1 or +1 and its positive weight ``w``, entry by entry.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.losses.pointwise import Logistic
    >>> loss = WeightedLabels(Logistic(), 2.0)
    >>> loss.value(np.array([2.0, -1e-8]), np.zeros(2)).round(4).tolist()
    [1.3863, 0.0]
    """

    loss: Loss
    largest: float  # weight

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the loss of a label of weight one."""
        return self.loss.name

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether it has a derivative."""
        return self.loss.smooth

    @property
    def entropic(self) -> bool:  # type: ignore[override]
        """Whether the conjugate is a barrier."""
        return self.loss.entropic

    @property
    def curvature_bound(self) -> float:
        return self.largest * self.loss.curvature_bound

    def check_target(self, y: ArrayLike) -> Array:
        """Return weighted labels as float64 (N,); zeros and other values without a sign are refused."""
        target = float_vector(y)
        if not (np.isfinite(target) & (target != 0)).all():
            raise InvalidInputError("Weighted labels must be finite and not zero: the sign is the label.")
        return target

    def value(self, y: Array, z: Array) -> Array:
        return np.abs(y) * self.loss.value(np.sign(y), z)

    def derivative(self, y: Array, z: Array) -> Array:
        return np.abs(y) * self.loss.derivative(np.sign(y), z)

    def second_derivative(self, y: Array, z: Array) -> Array:
        return np.abs(y) * self.loss.second_derivative(np.sign(y), z)

    def dual_bounds(self, y: Array) -> tuple[Array, Array]:
        low, high = self.loss.dual_bounds(np.sign(y))
        return np.abs(y) * low, np.abs(y) * high

    def _conjugate_inside(self, y: Array, r: Array) -> Array:
        return np.abs(y) * self.loss._conjugate_inside(np.sign(y), r / np.abs(y))

    def conjugate_derivative(self, y: Array, r: Array) -> Array:
        return self.loss.conjugate_derivative(np.sign(y), r / np.abs(y))

    def conjugate_second_derivative(self, y: Array, r: Array) -> Array:
        return self.loss.conjugate_second_derivative(np.sign(y), r / np.abs(y)) / np.abs(y)

    def best_intercept(self, y: Array, f: Array, sample_weight: Array) -> float:
        return self.loss.best_intercept(np.sign(y), f, sample_weight * np.abs(y))


def _matrix(y: Array) -> Array:
    """Return targets as a matrix, or raise an error with the actual form."""
    targets = np.asarray(y)
    if targets.ndim != 2 or 0 in targets.shape:
        raise InvalidInputError(
            f"Shared weights need one column of y a class or target, shape (n_samples, n_targets), got {targets.shape}."
        )
    return targets


SMALLEST = 1e-200  # probability: zero could not be scaled
MOST_STEPS = 200
SUMMED = 2e-15  # of a sum of slopes, for each root of their number, that is rounding as well
EXPLAINED = 0.1  # of the slope, which a Newton step may leave in the model of the Hessian
MOST_SCALINGS = 20  # steps of iterative scaling, which may swing to and fro where probabilities vanish
LONG, FAR = 1.0, 30.0  # changes of intercepts: steps of scaling go on, and exponentials of scores are taken anew
ROUNDED, SLOW = 1e-13, 0.1  # slopes, of the sum of weights, that only rounding keeps from falling to a tenth in a step


def _exponentials(z: Array) -> tuple[Array, Array, Array]:
    """Return scores below the largest of every sample, class by class (T, N), their exponentials, and the sums (N,).

    NumPy takes several times as long to reduce a few neighboring entries of every row.
    """
    columns = np.ascontiguousarray(z.T)
    below = columns - columns.max(axis=0)
    powers = np.exp(below)
    return below, powers, powers.sum(axis=0)


def _softmax(z: Array) -> Array:
    """Return probabilities (N, T), several times faster than SciPy for few scores per sample."""
    _, powers, total = _exponentials(z)
    powers /= total
    return powers.T


@dataclass(frozen=True)
class Multinomial(SharedLoss):
    """``l(y, z) = log sum_t exp(z_t) - z_c`` for the class ``c``, the column of ``y`` that is +1.

    The dual variable is ``r = e_c - p`` with probabilities ``p``; the conjugate ``l*(y, -r)`` is ``sum_t p_t log p_t``
    for ``p = e_c - r`` in the simplex, infinite elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> y, z = np.array([[1.0, -1.0, -1.0]]), np.array([[1.0, 0.0, -1.0]])
    >>> loss, r = Multinomial(), -Multinomial().derivative(y, z)
    >>> np.allclose(loss.value(y, z) + loss.conjugate(y, r), -(r * z).sum(axis=1))  # Fenchel-Young, with equality
    True
    """

    coupled: ClassVar[bool] = True
    steepness: ClassVar[float] = 2.0
    name: ClassVar[str] = "multinomial"
    each: ClassVar[Loss] = Logistic()
    curvature_bound: ClassVar[float] = 0.5  # D. Boehning, Ann. Inst. Stat. Math. 44, 1992

    def check_target(self, y: Array) -> Array:
        """Return ``y`` as float64 (N, T): +1 in the column of the class, -1 elsewhere."""
        target = np.asarray(y, dtype=np.float64, order="F")  # class by class, as scores are
        if target.ndim != 2 or 0 in target.shape:
            raise InvalidInputError(
                f"The multinomial loss needs one column of y a class, shape (n_samples, n_classes), got {target.shape}."
            )
        wrong = ~(np.isin(target, (-1.0, 1.0)).all(axis=1) & ((target == 1).sum(axis=1) == 1))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InvalidInputError(
                f"The multinomial loss needs +1 in the column of the class and -1 in all others, but row {first} of y "
                f"is {target[first].tolist()[:10]}, and {int(wrong.sum())} rows are wrong in all."
            )
        return target

    def parts(self, y: Array, z: Array) -> Array:
        """Loss of every sample, (N, 1)."""
        below, _, total = _exponentials(z)
        return (np.log(total) - np.where(y.T > 0, below, 0.0).sum(axis=0))[:, None]

    def derivative(self, y: Array, z: Array) -> Array:
        """``p - e_c`` (N, T)."""
        p = _softmax(z)
        p -= y > 0
        return p

    def curvature(self, y: Array, z: Array) -> Array:
        """``p`` (N, T): the matrix of second derivatives is ``diag(p) - p p'``."""
        return _softmax(z)

    def conjugate(self, y: Array, r: Array) -> Array:
        """``sum_t p_t log p_t`` (N,) with ``p = e_c - r``."""
        p: Array = np.ascontiguousarray(((y > 0) - r).T)
        slack = 1e-11  # by which rounding may leave the simplex
        inside = (p.min(axis=0) >= -slack) & (np.abs(p.sum(axis=0) - 1.0) <= slack * len(p))
        np.clip(p, 0.0, 1.0, out=p)
        p *= np.log(np.maximum(p, SMALLEST))  # SciPy's product of the two takes several times as long
        return np.where(inside, p.sum(axis=0), np.inf)

    def feasible(self, y: Array, rho: Array, weight: Array, *, sums: bool) -> Array:
        """Return ``s (e_c - p)`` with ``p`` scaled by a factor a class, so the columns sum to zero if ``sums``."""
        p = (y > 0) - rho / weight[:, None]
        near = SUMMED * y.shape[1]
        if p.min() >= 0.0 and np.abs(p.T.sum(axis=0) - 1.0).max() <= near:  # slopes where sums were zero before
            left = np.abs(rho.sum(axis=0)).max() if sums else 0.0
            if left <= _round_to_zero(weight):
                return rho
        logs = self.scores_behind(y, rho, weight)
        shift = self.best_intercepts(y, logs, weight) if sums else np.zeros(y.shape[1])
        return -weight[:, None] * self.derivative(y, logs + shift)

    def scores_behind(self, y: Array, rho: Array, weight: Array) -> Array:
        """Return scores ``log p`` with slopes ``-rho``, approximately for nonpositive probabilities."""
        return np.log(np.maximum((y > 0) - rho / weight[:, None], SMALLEST))

    def best_intercepts(self, y: Array, f: Array, weight: Array) -> Array:
        """Minimizer over ``b`` with a mean of zero, by Newton's method; the optimality is ``sum_i s_i (e_c - p) = 0``.

        The first step, and further long steps, scale the probabilities of every class to the target sums: iterative
        scaling, a guaranteed descent. Exponentials of ``f`` are reused for small steps. All classes must occur, or
        there is no minimizer.
        """
        totals, unit, rounded = weight @ (y > 0), float(weight.sum()), _round_to_zero(weight)
        base = b = np.zeros(y.shape[1])
        powers = _exponentials(f)[1]

        def evaluate(b: Array) -> tuple[float, Array]:
            """Return the loss, less the contribution of scores ``f``, and the probabilities (T, N)."""
            with np.errstate(over="ignore", invalid="ignore"):  # of a step that is too long the value is no number
                p = powers * np.exp(b - base)[:, None]
                total = p.sum(axis=0)
                p /= total
                return float(weight @ np.log(total) - totals @ (b - base)), p

        (value, p), size, scales = evaluate(b), np.inf, True
        for number in range(MOST_STEPS):
            sums = p @ weight
            slope = sums - totals
            last, size = size, float(np.abs(slope).max())
            if size <= 4e-16 * unit or (size <= rounded and size > SLOW * last):
                break
            if scales:
                step = np.log(totals / np.maximum(sums, SMALLEST))
                b, scales = b + step, number < MOST_SCALINGS and bool(np.abs(step).max() > LONG)
                value, p = evaluate(b)
            else:
                step = _newton_step(p, weight, sums, slope)
                before = b
                if step is not None:
                    b, value, p = _move(evaluate, b, value, p, step, float(slope @ step), unit)
                else:  # hardly any probability can change, and the Hessian is rounding
                    b = b + _balancing_sweep(f + b, weight, totals)
                    base, powers = b, _exponentials(f + b)[1]
                    value, p = evaluate(b)
                if np.array_equal(b, before):
                    break
            if np.abs(b - base).max() > FAR:
                base, powers = b, _exponentials(f + b)[1]
                value, p = evaluate(b)
        return b - b.mean()


def _balancing_sweep(z: Array, weight: Array, totals: Array) -> Array:
    """Return changes (T,) of intercepts by coordinate optimization: ``sum_i s_i p_ic`` reaches the total."""
    z, changes = z.copy(), np.zeros(z.shape[1])
    beyond = 50.0  # of the largest or smallest score of a class, where its probabilities are all zero or one
    for c, total in enumerate(totals.tolist()):
        ahead = z[:, c] - logsumexp(np.delete(z, c, axis=1), axis=1)
        ends = -float(ahead.max()) - beyond, -float(ahead.min()) + beyond
        changes[c] = brentq(lambda d, a=ahead, t=total: float(weight @ expit(a + d)) - t, *ends, xtol=1e-13)
        z[:, c] += changes[c]
    return changes


def _round_to_zero(weight: Array) -> float:
    """Return sums of slopes that are zero up to rounding."""
    return max(ROUNDED, SUMMED * float(np.sqrt(len(weight)))) * float(weight.sum())


def _newton_step(p: Array, weight: Array, sums: Array, slope: Array) -> Array | None:
    """Return Newton's step of the intercepts; none where the Hessian, being rounding, does not say how far to go."""
    hessian = np.diag(sums) - (p * weight) @ p.T
    hessian += hessian.trace() / len(slope) ** 2  # a multiple of 11' for the null vector, which changes no probability
    step = -np.linalg.lstsq(hessian, slope, rcond=1e-15)[0]
    explained = np.abs(hessian @ step + slope).max() <= EXPLAINED * np.abs(slope).max()
    return step if explained and float(slope @ step) < 0 and np.abs(step).max() <= FAR else None


def _move(
    at: Callable[[Array], tuple[float, Array]], b: Array, value: float, p: Array, step: Array, slope: float, unit: float
) -> tuple[Array, float, Array]:
    """Return ``b``, value and probabilities after the longest halving with a gain; near the optimum the full step."""
    near, length = -slope <= 1e-13 * max(abs(value), unit), 1.0
    most_halvings = 60
    enough_decrease = 1e-4  # of what the slope promises
    for _ in range(most_halvings):
        trial, there = at(b + length * step)
        if near or trial <= value + enough_decrease * length * slope:
            return b + length * step, trial, there
        length /= 2
    return b, value, p
