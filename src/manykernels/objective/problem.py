"""The problem: stack, target, loss and regularizer, with its primal, its dual and the one certificate."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack, as_stack
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import get_loss
from manykernels.objective.losses.base import Loss
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.regularizers.base import Regularizer
from manykernels.objective.rounding import EPS, FEW, dual_rounding, growth, primal_rounding, term_sizes
from manykernels.validation.arrays import check_positive_vector, check_vector

__all__ = ["Certificate", "KKTResiduals", "Problem"]

Array = NDArray[Any]

SMALLEST_LOSS = 1e-300  # the squares in smaller ones lose digits to underflow


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A multiple kernel learning problem, checked once, never changed.

    Primal and dual are::

        P(f, b) = sum_i s_i l(y_i, f_i + b) + Omega(t),                    t_m = w_m ||f_m||
        D(rho)  = - sum_i s_i l*(y_i, -rho_i/s_i) - Omega*(u),             u_m = sqrt(rho' K_m rho) / w_m

    with ``sum rho = 0`` if there is an intercept, and the model is ``f = sum_m d_m K_m rho + b``.

    Parameters
    ----------
    stack : GramStack or array of shape (M, N, N)
        The kernels.
    y : array of shape (N,)
        Labels in {-1, +1} or finite targets, whichever the loss asks for.
    loss : Loss or str
        The loss.
    regularizer : Regularizer
        The penalty, strength included.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    sample_weight : array of shape (N,), optional
        Positive sample weights ``s``; ones by default.
    kernel_penalties : array of shape (M,), optional
        Positive kernel penalties ``w``; ones by default.

    Raises
    ------
    InvalidInputError
        If shapes disagree, values are not finite or positive, or a classifier with an intercept gets one class.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.regularizers import BlockL1
    >>> problem = Problem(np.eye(2)[None], np.array([1.0, -1.0]), "logistic", BlockL1(0.1))
    >>> rho = np.array([0.3, -0.3])
    >>> problem.certificate(rho, np.array([1.0]), 0.0).gap >= 0
    True
    """

    shared: ClassVar[bool] = False  # whether several targets share the kernel weights

    stack: GramStack
    y: Array
    loss: Loss
    regularizer: Regularizer
    _: KW_ONLY
    fit_intercept: bool = True
    sample_weight: Array | None = None
    kernel_penalties: Array | None = None

    def __post_init__(self) -> None:
        self._set("stack", as_stack(self.stack))
        self._set("loss", self._known_loss())
        if not isinstance(self.regularizer, Regularizer):
            raise InvalidInputError(
                f"regularizer must be a Regularizer such as BlockL1(0.1), got {self.regularizer!r}; "
                "get_regularizer(name, strength) makes one from a name."
            )
        self._set("y", _frozen(self.loss.check_target(self.y)))
        if len(self.y) != self.n_samples:
            raise InvalidInputError(f"y has {len(self.y)} samples but the kernels have {self.n_samples}.")
        self._set("sample_weight", _positive(self.sample_weight, self.n_samples, "sample_weight"))
        self._set("kernel_penalties", _positive(self.kernel_penalties, self.n_kernels, "kernel_penalties"))
        self._check_solvable()

    def _known_loss(self) -> Any:
        """Return the loss, which may be given by name."""
        return get_loss(self.loss)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_solvable(self) -> None:
        unsolvable = self.loss.why_no_constant(self.y) if self.fit_intercept else ""
        if unsolvable and self.loss.task == "classification":
            raise InvalidInputError(
                f"{unsolvable} (a logistic loss has no minimizer). Give samples of both classes or set "
                "fit_intercept=False."
            )
        if unsolvable:
            raise InvalidInputError(f"{unsolvable}. Give other targets or set fit_intercept=False.")
        if not np.isfinite(self.loss_at_zero):
            raise InvalidInputError(
                f"The {self.loss.name} loss overflows at zero scores: y reaches {np.abs(self.y).max():.3g} and "
                f"sample_weight {self.weight.max():.3g}. Rescale them."
            )

    def check_precision(self) -> None:
        """Check that the squares of the target do not underflow, for searches that any other unit does not matter to.

        Raises
        ------
        InvalidInputError
            If they do; the certificate would be rounded off.
        """
        if self.loss.linear_dual and self.y.any() and self.loss_at_zero < SMALLEST_LOSS:
            raise InvalidInputError(
                f"The squared loss underflows at zero scores: y reaches only {np.abs(self.y).max():.3g} and "
                f"sample_weight {self.weight.max():.3g}. Rescale them."
            )

    def __repr__(self) -> str:
        return (
            f"Problem(n_kernels={self.n_kernels}, n_samples={self.n_samples}, loss={self.loss!r}, "
            f"regularizer={self.regularizer!r}, fit_intercept={self.fit_intercept})"
        )

    # --- data -------------------------------------------------------------------------------------------------------

    @property
    def n_kernels(self) -> int:
        """Number of kernels M."""
        return self.stack.n_kernels

    @property
    def n_samples(self) -> int:
        """Number of samples N."""
        return self.stack.n_samples

    @property
    def weight(self) -> Array:
        """Sample weights ``s`` (N,), ones if none were given."""
        assert self.sample_weight is not None
        return self.sample_weight

    @property
    def penalties(self) -> Array:
        """Kernel penalties ``w`` (M,), ones if none were given."""
        assert self.kernel_penalties is not None
        return self.kernel_penalties

    @cached_property
    def total_weight(self) -> float:
        """Return ``sum_i s_i``."""
        return float(self.weight.sum())

    @cached_property
    def entry_roots(self) -> Array:
        """Roots of the diagonals, (M, N); of their largest entries, (M, 1), where kernels are not held."""
        roots = np.sqrt(np.abs(self.stack.diag()))
        return _frozen(roots if self.stack.in_memory else roots.max(axis=1, keepdims=True))

    @cached_property
    def loss_at_zero(self) -> float:
        """Weighted loss of the scores 0."""
        return self.empirical_loss(self.constant_scores(0.0))

    @cached_property
    def tiny(self) -> float:
        """Floor of the denominator of the relative gap: 1e-10 times the loss of the best constant.

        Not less than what rounding makes of a loss that is zero: scores are off by a few units in the last place.
        """
        constant = self.loss_at_zero
        if self.fit_intercept and np.ptp(self.y, axis=0).any():  # a constant target is fitted up to rounding
            constant = self.empirical_loss(self.constant_scores(self._best_constant()))
        return max(1e-10 * constant, (FEW * EPS) ** 2 * self.loss_at_zero, float(np.finfo(np.float64).tiny))

    @cached_property
    def dual_box(self) -> tuple[Array, Array]:
        """Ends of the box of ``rho``: ``s`` times that of the loss."""
        lo, hi = self.loss.dual_bounds(self.y)
        return _frozen(self.weight * lo), _frozen(self.weight * hi)

    def over(self, twin: GramStack) -> Problem:
        """Return the problem on a twin of its stack, which holds the same kernels: nothing is checked again.

        Parameters
        ----------
        twin : GramStack

        Returns
        -------
        Problem
        """
        problem = copy.copy(self)
        object.__setattr__(problem, "stack", twin)
        return problem

    def take(self, kernels: Any) -> Problem:
        """Return the problem on the given kernels only.

        Parameters
        ----------
        kernels : slice, mask or positions

        Returns
        -------
        Problem
        """
        penalties, regularizer = self.penalties[kernels], self.regularizer.take(kernels)
        return replace(self, stack=self.stack.take(kernels), kernel_penalties=penalties, regularizer=regularizer)

    def constant_scores(self, b: float) -> Array:
        """Scores (N,) of the model without kernels.

        Parameters
        ----------
        b : float

        Returns
        -------
        ndarray of shape (N,)
        """
        return np.full_like(self.y, b)

    def _best_constant(self) -> Any:
        """Return the intercept of the model without kernels, or 0 if there is none."""
        if not self.fit_intercept:
            return 0.0
        return self.loss.best_intercept(self.y, np.zeros_like(self.y), self.weight)

    # --- primal and dual --------------------------------------------------------------------------------------------

    def empirical_loss(self, z: Array) -> float:
        """``sum_i s_i l(y_i, z_i)``.

        Parameters
        ----------
        z : ndarray of shape (N,)
            Scores.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> problem.empirical_loss(np.zeros(2))
        5.0
        """
        with np.errstate(over="ignore"):
            return float(np.dot(self.weight, self.loss.value(self.y, z)))

    def conjugate_loss(self, rho: Array) -> float:
        """``sum_i s_i l*(y_i, -rho_i / s_i)``; infinite outside the dual box.

        Parameters
        ----------
        rho : ndarray of shape (N,)

        Returns
        -------
        float
        """
        return float(np.sum(self.weight * self.loss.conjugate(self.y, rho / self.weight)))

    def dual_norms(self, rho: Array) -> Array:
        """``u_m = sqrt(rho' K_m rho) / w_m`` (M,): one pass.

        Squares of small or large coefficients would leave the range of float64: they are scaled by a power of two.

        Parameters
        ----------
        rho : ndarray of shape (N,)

        Returns
        -------
        ndarray of shape (M,)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> problem.dual_norms(np.array([3.0, 4.0]))
        array([5.])
        """
        return np.maximum(self._signed_norms(rho), 0.0)

    def _signed_norms(self, rho: Array) -> Array:
        """Return them with the sign of ``rho' K_m rho``, negative where a kernel is not quite definite."""
        unit = _unit(rho)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = _finite(self.stack.quad(rho / unit))
            return _in_range(unit * np.copysign(np.sqrt(np.abs(squares)), squares) / self.penalties)

    def model_parts(self, rho: Array, d: Array) -> tuple[Array, Array]:
        """Scores ``f = sum_m d_m K_m rho`` (N,) and block norms ``t`` (M,); reads kernels with ``d_m != 0`` only.

        Parameters
        ----------
        rho : ndarray of shape (N,)
        d : ndarray of shape (M,)

        Returns
        -------
        f : ndarray of shape (N,)
        t : ndarray of shape (M,)
        """
        active = np.flatnonzero(d)
        unit = _unit(rho)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = _in_range(d[active] * unit)
            each = self.stack.apply_each(rho / unit, active)
            roots = np.sqrt(np.maximum(_finite(each @ (rho / unit)), 0.0))
            norms = np.zeros(self.n_kernels)
            norms[active] = _in_range(self.penalties[active] * (weights * roots))
            return weights @ each, norms

    def primal(self, rho: Array, d: Array, b: float) -> float:
        """Return ``P`` of the model ``sum_m d_m K_m rho + b``, as it is given.

        Parameters
        ----------
        rho : ndarray of shape (N,)
            Dual coefficients.
        d : ndarray of shape (M,)
            Kernel weights, non-negative.
        b : float
            Intercept.
        """
        rho, d, b = self._check_model(rho, d, b)
        f, t = self.model_parts(rho, d)
        return self.empirical_loss(f + b) + self.regularizer.value(t)

    def dual(self, rho: Array) -> float:
        """Return ``D`` of ``rho`` made feasible (projected, then scaled): a lower bound on every primal value.

        Parameters
        ----------
        rho : ndarray of shape (N,)
            Any.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> problem.dual(np.array([5.0, -2.0])) <= problem.primal(*problem.zero_model()[:1], np.zeros(1), 2.0)
        True
        """
        feasible = self.feasible_dual(rho)
        u = self.dual_norms(feasible)
        scale = self.regularizer.dual_scale(u)
        return -self.conjugate_loss(scale * feasible) - self.regularizer.conjugate(scale * u)

    def feasible_dual(self, rho: Array) -> Array:
        """Project on the box and, with an intercept, on ``sum rho = 0``; not yet scaled.

        Parameters
        ----------
        rho : ndarray of shape (N,)
            Any finite vector.

        Returns
        -------
        ndarray of shape (N,)
            ``clip(rho - nu, lo, hi)``, the nearest point of the set; ``rho`` itself if it is feasible up to rounding.
        """
        rho = check_vector(rho, self.n_samples, "rho")
        lo, hi = self.dual_box
        return project_box_hyperplane(rho, lo, hi) if self.fit_intercept else np.clip(rho, lo, hi)

    def zero_model(self) -> tuple[Array, float]:
        """Return the optimal dual coefficients and intercept of the model without kernels.

        Returns
        -------
        rho : ndarray of shape (N,)
            The smallest vector in ``-s dl(y, b)`` that sums to zero (with an intercept).
        b : float
            The best constant score; 0 without an intercept.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> rho, b = problem.zero_model()
        >>> rho, round(b, 6)
        (array([-1.,  1.]), 2.0)
        """
        f, b = np.zeros(self.n_samples), self._best_constant()
        lo, hi = self.loss.dual_interval(self.y, f + b)
        lo, hi = self.weight * lo, self.weight * hi
        return self.feasible_dual(project_box_hyperplane(f, lo, hi) if self.fit_intercept else np.clip(f, lo, hi)), b

    def strength_max(self) -> float:
        """Return the smallest strength at which the zero model is optimal: one pass.

        Returns
        -------
        float
            Infinite if no strength makes the model vanish.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> round(problem.strength_max(), 6)  # sqrt(rho'rho) with rho = (-1, 1)
        1.414214
        """
        return self.regularizer.strength_max(self.empty_norms())

    def empty_norms(self) -> Array:
        """Return the dual norms (M,) at the optimal dual coefficients of the model without kernels: one pass.

        Returns
        -------
        ndarray of shape (M,)
        """
        return self.dual_norms(self.zero_model()[0])

    def at_fraction(self, fraction: float) -> Problem:
        """Return the problem with its penalty at a fraction of the strength that leaves nothing to gain: one pass.

        With the block 1-norm that strength is `strength_max`; see :meth:`Regularizer.relative`. Where the target is
        constant there is none, and the fraction is that of the sum of weights.

        Parameters
        ----------
        fraction : float
            Positive.

        Returns
        -------
        Problem

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> round(problem.at_fraction(0.5).regularizer.strength, 6)
        0.707107
        """
        if np.ptp(self.y, axis=0).max() <= FEW * EPS * np.abs(self.y).max():
            return self.with_penalty(replace(self.regularizer, strength=fraction * self.total_weight))
        norms = self.empty_norms()
        norms = np.where(norms <= self.empty_rounding(), 0.0, norms)
        if not norms.any():  # X says nothing: a fraction of rounding would be no strength
            return self.with_penalty(replace(self.regularizer, strength=fraction * self.total_weight))
        loss = self.empirical_loss(self.constant_scores(self.zero_model()[1]))
        return self.with_penalty(self.regularizer.relative(fraction, norms, loss))

    def empty_rounding(self) -> Array:
        """Return what `empty_norms` may be by rounding alone, (M,).

        Returns
        -------
        ndarray of shape (M,)
            Roots of how far rounding of its terms moves a sum that is zero.
        """
        largest = getattr(self.stack, "largest", None)  # of factors, whose diagonals may be long
        roots = self.entry_roots if largest is None else np.sqrt(largest)[:, None]
        rho = np.abs(self.zero_model()[0]).reshape(self.n_samples, -1)
        sizes = np.linalg.norm([term_sizes(roots, own) for own in rho.T], axis=0)
        return np.asarray(np.sqrt(growth(self.n_samples)) * sizes / self.penalties)

    def with_penalty(self, regularizer: Regularizer) -> Problem:
        """Return the problem with another penalty: nothing is checked again.

        Parameters
        ----------
        regularizer : Regularizer

        Returns
        -------
        Problem
        """
        problem = copy.copy(self)
        object.__setattr__(problem, "regularizer", regularizer)
        return problem

    # --- certificate ------------------------------------------------------------------------------------------------

    def certificate(self, rho: Array, d: Array, b: float) -> Certificate:
        """Return primal, dual, gap and optimality residuals of this very model.

        Costs one pass for the dual bound and one reading of the kernels with ``d_m != 0``.

        Parameters
        ----------
        rho : ndarray of shape (N,)
            Dual coefficients; need not be feasible.
        d : ndarray of shape (M,)
            Kernel weights, non-negative.
        b : float
            Intercept; 0 without one.

        Returns
        -------
        Certificate
            With ``dual <= optimum <= primal`` up to rounding.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> problem = Problem(np.eye(2)[None], np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
        >>> rho, b = problem.zero_model()
        >>> problem.certificate(rho, np.zeros(1), b).primal
        1.0
        """
        return self.certificate_apart(rho, d, b)[1]()

    def certificate_apart(self, rho: Array, d: Array, b: float) -> tuple[Certificate, Callable[[], Certificate]]:
        """Return `certificate` without its bound on rounding, and a function that adds the bound.

        A run certifies every iteration, and only the last needs the bound, which costs a small problem as much as the
        rest. A negative gap is judged by it here and now.

        Parameters
        ----------
        rho : ndarray of shape (N,)
        d : ndarray of shape (M,)
        b : float
            As in `certificate`.

        Returns
        -------
        Certificate
            With ``rounding`` nan, unless the gap is negative.
        callable
            Returns the whole certificate; it costs no pass.
        """
        rho, d, b = self._check_model(rho, d, b)
        f, t = self.model_parts(rho, d)
        feasible = self.feasible_dual(rho)
        signed = self._signed_norms(feasible)
        u = np.maximum(signed, 0.0)
        scale = self.regularizer.dual_scale(u)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = self._compare((rho, d, b), f, t, scale * feasible, scale * signed, scale)
        primal, dual, denominator, kkt, rounding = parts

        @cache
        def whole() -> Certificate:
            with np.errstate(over="ignore", invalid="ignore"):
                return replace(Certificate.from_values(primal, dual, denominator, kkt, rounding()), dual_norms=u)

        gap = primal - dual
        if not 0.0 <= gap < np.inf:
            return whole(), whole
        return Certificate(primal, dual, gap, gap / denominator, kkt, np.nan, np.nan, u), whole

    def _compare(
        self, model: tuple[Array, Array, Any], f: Array, t: Array, feasible: Array, signed: Array, scale: float
    ) -> tuple[float, float, float, KKTResiduals, Callable[[], float]]:
        """Return primal, dual, denominator, residuals and what bounds the rounding.

        ``feasible`` and ``signed`` norms are scaled, the model is as it was given.
        """
        rho, d, b = model
        u = np.maximum(signed, 0.0)
        z = f + b
        values = self.loss.value(self.y, z)
        losses = self.weight * values
        conjugates = self.weight * self.loss.conjugate(self.y, feasible / self.weight)
        penalty, conjugate = self.regularizer.value(t), self.regularizer.conjugate(u)
        primal = float(np.sum(losses)) + penalty
        denominator = max(abs(primal), self.tiny)
        sizes = np.abs(rho)
        kkt = KKTResiduals(
            stationarity=float(np.sum(losses + conjugates + z * feasible)) / denominator,
            complementarity=(penalty + conjugate - float(np.dot(f, feasible))) / denominator,
            box=_ratio(float(np.max(np.abs(rho - np.clip(rho, *self.dual_box)))), float(sizes.max())),
            intercept=_ratio(abs(float(np.sum(rho))), float(np.sum(sizes))) if self.fit_intercept else 0.0,
            scaling=1.0 - scale,
        )

        def rounding() -> float:
            moved = primal_rounding(self, rho, d, f, b, t, values)
            return moved + dual_rounding(self, feasible, signed, conjugates, z)

        return primal, -float(np.sum(conjugates)) - conjugate, denominator, kkt, rounding

    def _check_model(self, rho: Array, d: Array, b: float) -> tuple[Array, Array, float]:
        """Return the model as float64, or say which part of it cannot be one."""
        rho, d = check_vector(rho, self.n_samples, "rho"), check_vector(d, self.n_kernels, "d")
        if np.any(d < 0):
            worst = int(np.argmin(d))
            raise InvalidInputError(f"Kernel weights d must not be negative, but d[{worst}] is {d[worst]:.6g}.")
        if not np.isfinite(b) or (b != 0 and not self.fit_intercept):
            raise InvalidInputError(f"The intercept must be finite, and 0 without fit_intercept; got {b!r}.")
        return rho, d, float(b)


def _frozen(array: Array) -> Array:
    """Return a read-only view: what a problem holds is not written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _positive(values: Any, size: int, name: str) -> Array:
    """Return a read-only copy of positive weights, ones if there are none."""
    return _frozen(np.ones(size) if values is None else check_positive_vector(values, size, name).copy())


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _unit(values: Array) -> float:
    """Power of two near the largest size: dividing by it rounds nothing."""
    top = float(np.abs(values).max(initial=0.0))
    return float(2.0 ** np.clip(np.frexp(top)[1], -1021, 1023)) if top > 0 else 1.0


def _in_range(values: Array) -> Array:
    """Refuse norms and weights that overflow: such a model cannot be evaluated."""
    if not np.all(np.isfinite(values)):
        m = int(np.argmax(~np.isfinite(values)))
        raise InvalidInputError(
            f"The norm of kernel {m} overflows: its entries, its weight or the dual coefficients are too large. "
            "Normalize the kernels, for instance to unit trace."
        )
    return values


def _finite(squares: Array) -> Array:
    """Refuse ``rho' K_m rho`` that overflow."""
    if not np.all(np.isfinite(squares)):
        m = int(np.argmax(~np.isfinite(squares)))
        raise InvalidInputError(
            f"rho' K_m rho is {squares[m]} for kernel {m}: its entries or the dual coefficients overflow. "
            "Normalize the kernels, for instance to unit trace."
        )
    return squares
