"""The problem: stack, target, loss and regularizer, with the primal, the dual and the certificate."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams import GramStack, as_stack
from manykernels.grams.base import is_stack
from manykernels.grams.rows.vectors import RowVector
from manykernels.objective import dual_norms
from manykernels.objective.certificate import EPS, FEW, Certificate, KKTResiduals, growth, term_sizes
from manykernels.objective.losses import get_loss, get_shared_loss
from manykernels.objective.losses.base import LossOnRows, rows_weight
from manykernels.objective.losses.bound import BoundLoss, SampleSum
from manykernels.objective.regularizers.base import Regularizer, check_regularizer
from manykernels.validation.arrays import Array, check_positive_vector, check_vector, read_only
from manykernels.validation.parameters import drop_attributes

# cached, of those kernels
OF_UNPENALIZED = "unpenalized", "certificate_bound", "empty_coefficients", "_quads_at_empty", "_norms_at_empty"
OF_KERNELS = "n_kernels", "penalties", "entry_roots", "_free_factors", *OF_UNPENALIZED  # cached, of all of them
OF_TARGET = "bound", "loss_at_zero", "tiny", "best_constant", "_zero_model", *OF_UNPENALIZED  # cached, of a target


@dataclass(frozen=True, eq=False)
class _DualPoint:
    """A dual point: the value, coefficients and signed norms before scaling, the scale, and both scaled conjugates."""

    value: float
    rho: Array
    scores: Array  # behind the coefficients, where conjugates are known at gradients only
    signed: Array
    scale: float
    conjugates: Array | float
    penalty: float


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A multiple kernel learning problem, checked once, never changed.

    Primal and dual are, with the loss ``L`` of all scores,::

        P(F, b) = L(F + b) + Omega(t),             t_m = w_m sqrt(sum_t ||f_mt||^2)
        D(R)    = - L*(-R) - Omega*(u),            u_m = sqrt(tr R' K_m R) / w_m

    with columns of ``R`` that sum to zero if there are intercepts, and the model is ``F = sum_m d_m K_m R + b``. With a
    single output, vectors stand for ``R`` and ``F``; with several, ``y`` of shape (N, T), a kernel is selected for all
    or for none. Most losses are sums over samples, ``L(z) = sum_i s_i l(y_i, z_i)``. Of one that couples samples, for
    example a partial likelihood, ``L*`` is known at gradients only: a certificate takes those at the scores of the
    model, or near them, and scales them until they are feasible for the penalty.

    Parameters
    ----------
    stack : GramStack or array of shape (M, N, N)
        The kernels.
    y : array of shape (N,) or (N, T), or RowVector
        Labels in {-1, +1} or finite targets, whichever the loss asks for; of several outputs in columns, for a
        classification loss +1 in the column of the class and -1 elsewhere. A `RowVector` stays beside rows on workers,
        and so do all vectors over samples.
    loss : Loss, CoupledLoss, SharedLoss or str
        The loss; of several outputs ``"logistic"`` is the multinomial one.
    regularizer : Regularizer
        The penalty, strength included.
    fit_intercept : bool, optional
        Whether the model has an intercept for every output; by default it has, unless the loss couples samples: then a
        shift of all scores changes nothing.
    sample_weight : array of shape (N,), optional
        Positive sample weights ``s``; ones by default.
    kernel_penalties : array of shape (M,), optional
        Positive kernel penalties ``w``; ones by default.

    Raises
    ------
    InvalidInputError
        If shapes disagree, values are not finite or positive, or a classifier with an intercept gets a single class.
    IncompatibleError
        If a loss with kinks is to be that of several outputs, and the kernels are matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.regularizers import BlockL1
    >>> problem = Problem(np.eye(2)[None], np.array([1.0, -1.0]), "logistic", BlockL1(0.1))
    >>> rho = np.array([0.3, -0.3])
    >>> problem.certificate(rho, np.array([1.0]), 0.0).gap >= 0
    True
    """

    shared: ClassVar[bool] = False  # whether vectors over samples have an axis of outputs, which share kernel weights
    n_targets: ClassVar[int] = 1
    # Of the model without kernels, once known: bounds on squared norms; norms, and kernels the stack had replaced
    _quads_at_empty: ClassVar[tuple[Array, Array] | None] = None
    _norms_at_empty: ClassVar[tuple[Array, dict[int, float]] | None] = None

    stack: GramStack
    y: Array
    loss: Any
    regularizer: Regularizer
    _: KW_ONLY
    fit_intercept: bool = None  # type: ignore[assignment]  # decided by the loss
    sample_weight: Array | None = None
    kernel_penalties: Array | None = None

    def __post_init__(self) -> None:
        if not is_stack(self.stack):
            self._set("stack", as_stack(self.stack))
        self._set("loss", self._resolve_loss())
        if self.fit_intercept is None:
            self._set("fit_intercept", not self.loss.couples_samples)
        elif self.fit_intercept and self.loss.couples_samples:
            raise InvalidInputError(f"The {self.loss.name} loss has no intercept: set fit_intercept=False.")
        check_regularizer(self.regularizer)
        y = self.loss.check_target(self.y)
        if isinstance(y, np.ndarray):  # factors take columns in turn
            y = read_only(np.asfortranarray(y) if self.stack.has_factors else y)
        self._set("y", y)
        if self.y.ndim == 2:
            self._set("shared", True)
            self._set("n_targets", self.y.shape[1])
        if len(self.y) != self.n_samples:
            raise InvalidInputError(f"y has {len(self.y)} samples but the kernels have {self.n_samples}.")
        beside = isinstance(self.y, RowVector)
        weight = rows_weight(self.y, self.sample_weight) if beside else self._positive("sample_weight", self.n_samples)
        self._set("sample_weight", weight)
        self._set("kernel_penalties", self._positive("kernel_penalties", self.n_kernels))
        self._check_solvable()
        self._set("regularizer", self._kernel_penalty(self.regularizer))

    def _resolve_loss(self) -> Any:
        """Return the loss, possibly given by name, with as many outputs as the target."""
        if isinstance(self.y, RowVector):
            return LossOnRows(get_loss(self.loss))
        if np.ndim(self.y) == 2:
            return get_shared_loss(self.loss, kinks=self.stack.has_factors)
        return self.loss if hasattr(self.loss, "bind") else get_loss(self.loss)

    def _positive(self, name: str, size: int) -> Array:
        """Return a read-only copy of positive weights, ones by default."""
        values = getattr(self, name)
        return read_only(np.ones(size) if values is None else check_positive_vector(values, size, name).copy())

    def _kernel_penalty(self, regularizer: Regularizer) -> Regularizer:
        """Return the penalty of the kernels, with a tiny substitute for none."""
        found = regularizer.on_kernels(self.kernel_names)
        return found if found.rests else found.resting_on(dual_norms.resting_ridge(self, found.unpenalized))

    @cached_property
    def bound(self) -> BoundLoss:
        """The loss on the target and the sample weights, as a function of all scores."""
        bound: BoundLoss = self.loss.bind(self.y, self.weight)
        bound.zero_sums = self.fit_intercept
        return bound

    @cached_property
    def certificate_bound(self) -> BoundLoss:
        """The bound for certificates, with dual points orthogonal to all unpenalized kernels."""
        if not self.unpenalized.size:
            return self.bound
        bound = copy.copy(self.bound)
        bound.basis = dual_norms.free_directions(self.stack, self.unpenalized, int(self.fit_intercept))
        return bound

    @cached_property
    def unpenalized(self) -> Array:
        """Positions of the kernels without a penalty."""
        return self.regularizer.unpenalized

    def penalized(self, norms: Array) -> Array:
        """Return norms (M,) with zeros for unpenalized kernels, for value and conjugate."""
        if not self.unpenalized.size:
            return norms
        seen = norms.copy()
        seen[self.unpenalized] = 0.0
        return seen

    @property
    def kernel_names(self) -> Sequence[Any]:
        """Names of the kernels, (M,): by default their positions."""
        return self.stack.names or range(self.n_kernels)

    def _forget(self, names: Iterable[str]) -> None:
        """Drop cached values invalid for a copy."""
        drop_attributes(self, names)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_solvable(self) -> None:
        unsolvable = self.loss.refusal_of_constant(self.y) if self.fit_intercept else ""
        if unsolvable and self.loss.task == "classification":
            unsolvable += (
                " (a logistic loss has no minimizer). Give samples of both classes or set fit_intercept=False."
            )
        elif unsolvable:
            unsolvable += ". Give other targets or set fit_intercept=False."
        elif not np.isfinite(self.loss_at_zero):
            unsolvable = (
                f"The {self.loss.name} loss overflows at zero scores: y reaches {np.abs(self.y).max():.3g} and "
                f"sample_weight {self.weight.max():.3g}. Rescale them."
            )
        if unsolvable:
            raise InvalidInputError(unsolvable)

    def check_precision(self) -> None:
        """Check that the squares of the target do not underflow, for searches that any other unit does not matter to.

        Raises
        ------
        InvalidInputError
            If they do; the certificate would be rounded off.
        """
        smallest_loss = 1e-300  # the squares in smaller ones lose digits to underflow
        if self.loss.linear_dual and self.y.any() and self.loss_at_zero < smallest_loss:
            raise InvalidInputError(
                f"The squared loss underflows at zero scores: y reaches only {np.abs(self.y).max():.3g} and "
                f"sample_weight {self.weight.max():.3g}. Rescale them."
            )

    def __repr__(self) -> str:
        return (
            f"Problem(n_kernels={self.n_kernels}, n_samples={self.n_samples}, loss={self.loss!r}, "
            f"regularizer={self.regularizer!r}, fit_intercept={self.fit_intercept})"
        )

    @cached_property
    def n_kernels(self) -> int:
        """Number of kernels M."""
        return self.stack.n_kernels

    @cached_property
    def n_samples(self) -> int:
        """Number of samples N."""
        return self.stack.n_samples

    @cached_property
    def weight(self) -> Array:
        """Sample weights ``s`` (N,), ones by default."""
        assert self.sample_weight is not None
        return self.sample_weight

    @cached_property
    def penalties(self) -> Array:
        """Kernel penalties ``w`` (M,), ones by default."""
        assert self.kernel_penalties is not None
        return self.kernel_penalties

    @cached_property
    def total_weight(self) -> float:
        """Return ``sum_i s_i``."""
        return float(self.weight.sum())

    @cached_property
    def entry_roots(self) -> Array:
        """Roots of the diagonals, (M, N); of their largest entries, (M, 1), where kernels are not held."""
        held = self.stack.in_memory
        return read_only(np.sqrt(np.abs(self.stack.diag() if held else self.stack.largest[:, None])))

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
            constant = self.empirical_loss(self.constant_scores(self.best_constant))
        return max(1e-10 * constant, (FEW * EPS) ** 2 * self.loss_at_zero, float(np.finfo(np.float64).tiny))

    @property
    def dual_box(self) -> tuple[Array, Array]:
        """Ends of the box of ``rho``, of a sum over samples."""
        return cast("SampleSum", self.bound).box

    def with_target(self, y: Array) -> Problem:
        """Return the problem of another target: nothing is checked again, and ``y`` is not copied.

        Parameters
        ----------
        y : ndarray of shape (N,)
            Finite; in single precision it is read as it is.
        """
        problem = copy.copy(self)
        problem._forget(OF_TARGET)
        problem._set("y", y)
        return problem

    def forget_empty(self) -> None:
        """Drop the dual coefficients of the model without kernels, which are as long as the target."""
        self._forget(("_zero_model", "empty_coefficients"))

    def replace_twin(self, twin: GramStack) -> Problem:
        """Return the problem on a twin of the stack, with the same kernels, without new checks."""
        problem = copy.copy(self)
        object.__setattr__(problem, "stack", twin)
        return problem

    def take(self, kernels: slice | Array) -> Problem:
        """Return the problem on the given kernels only."""
        return self.replace_stack(self.stack.take(kernels), kernels)

    def replace_stack(self, stack: GramStack, kernels: slice | Array, penalties: Array | None = None) -> Problem:
        """Return the problem on a stack that holds the given kernels only: nothing is checked again.

        Parameters
        ----------
        stack : GramStack
        kernels : slice, mask or positions
            Which of the kernels of the problem they are.
        penalties : ndarray, optional
            Their penalties, by default those of the problem.
        """
        problem = copy.copy(self)
        problem._forget(OF_KERNELS)
        problem._set("stack", stack)
        problem._set("kernel_penalties", read_only(self.penalties[kernels] if penalties is None else penalties))
        problem._set("regularizer", problem._kernel_penalty(self.regularizer.take(kernels)))
        return problem

    def constant_scores(self, b: float | Array) -> Array:
        """Scores (N,) or (N, T) of the model without kernels.

        Returns
        -------
        ndarray of the shape of y
        """
        return np.full_like(self.y, b, dtype=np.float64)

    @cached_property
    def best_constant(self) -> Any:
        """The intercepts of the model without kernels, zero if there are none."""
        if not self.fit_intercept:
            return np.zeros(self.n_targets) if self.shared else 0.0
        return self.bound.best_intercepts()

    # --- primal and dual --------------------------------------------------------------------------------------------

    def empirical_loss(self, z: Array) -> float:
        """``L(z)``, most often ``sum_i s_i l(y_i, z_i)``.

        Parameters
        ----------
        z : ndarray of shape (N,) or (N, T)
            Scores.
        """
        return self.bound.value(z)

    def conjugate_loss(self, rho: Array) -> float:
        """``L*(-rho)``, most often ``sum_i s_i l*(y_i, -rho_i / s_i)``; infinite outside the domain.

        Parameters
        ----------
        rho : ndarray of shape (N,) or (N, T)

        Raises
        ------
        IncompatibleError
            If the loss couples samples: the conjugate is known at gradients only.
        """
        return self.bound.conjugate(rho)

    def dual_norms(self, rho: Array) -> Array:
        """``u_m = sqrt(tr R' K_m R) / w_m`` (M,), or of many kernels on factors bounds from above: a single pass.

        Squares of small or large coefficients would leave the range of float64: they are scaled by a power of two.
        """
        many = self.n_targets * self.stack.exact_cost * self.n_kernels > dual_norms.PLAIN_BUDGET
        if many or isinstance(rho, RowVector):
            return dual_norms.tightened_norms(self, rho)
        return np.maximum(self._signed_norms(rho), 0.0)

    def _signed_norms(self, rho: Array) -> Array:
        """Return them with the sign of ``rho' K_m rho``, negative where a kernel is not quite definite.

        Those of the model without kernels, which strengths are relative to and fits begin with, are computed once.
        """
        if not np.array_equal(rho, self.empty_coefficients):
            return self._norms_at(rho)
        known, replaced = self._norms_at_empty, self.stack.replaced_kernels
        if known is not None and known[1] == replaced:
            return known[0]
        norms = read_only(self._norms_at(rho))
        self._set("_norms_at_empty", (norms, replaced))
        return norms

    def _norms_at(self, rho: Array) -> Array:
        unit = _unit(rho)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = dual_norms.finite(self.stack.squares(rho / unit))
            return dual_norms.check_range(unit * np.copysign(np.sqrt(np.abs(squares)), squares) / self.penalties)

    def model_parts(self, rho: Array, d: Array) -> tuple[Array, Array]:
        """Scores ``f = sum_m d_m K_m rho`` (N,) and block norms ``t`` (M,); reads kernels with ``d_m != 0`` only.

        Returns
        -------
        f : ndarray of shape (N,)
        t : ndarray of shape (M,)
        """
        if self.stack.shaped:
            raise IncompatibleError(
                "Functions with a shape are not sums of kernel values at samples. Use solution.certificate."
            )
        active = np.flatnonzero(d)
        unit, norms = _unit(rho), np.zeros(self.n_kernels)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = dual_norms.check_range(d[active] * unit)
            if rho.ndim == 1:
                each = self.stack.apply_each(rho / unit, active)
                scores, squares = weights @ each, each @ (rho / unit)
            else:
                scores, squares = self.stack.combine(d) @ rho, self.stack.squares(rho / unit, active)
            roots = np.sqrt(np.maximum(dual_norms.finite(squares), 0.0))
            norms[active] = dual_norms.check_range(self.penalties[active] * (weights * roots))
            for m in np.intersect1d(self.unpenalized, active) if self.unpenalized.size else ():
                norms[m] = self.penalties[m] * self.norm_of_values(m, d[m] * self.stack.apply_each(rho, [m])[0])
            return scores, norms

    def norm_of_values(self, kernel: int, values: Array) -> float:
        """Return the norm of a function of a kernel without a penalty from the values at the samples.

        Quadratic forms of dual coefficients, which are orthogonal to such functions, would be rounding.
        """
        return float(np.linalg.norm(np.linalg.lstsq(self._free_factors(kernel), values, rcond=None)[0]))

    @cached_property
    def _free_factors(self) -> Callable[[int], Array]:
        """Return the columns of an unpenalized kernel, cached."""
        return cache(partial(dual_norms.kernel_factor, self.stack))

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
        return self.empirical_loss(f + b) + self.regularizer.value(self.penalized(t))

    def dual(self, rho: Array) -> float:
        """Return ``D`` of ``rho`` made feasible (projected, then scaled): a lower bound on every primal value.

        Parameters
        ----------
        rho : ndarray of shape (N,) or (N, T)
            Any; where the loss couples samples, scores, whose gradient is the dual point.
        """
        rho, z, bound = self._check_rho(rho), np.asarray(rho), self.certificate_bound
        if bound.couples_samples:
            z = z if bound.basis is None else bound.best_along(z)
            rho = -bound.gradient(z)
        return self._dual_point(bound.feasible(rho), z).value

    def _dual_point(self, rho: Array, z: Array) -> _DualPoint:
        """Return the lower bound of feasible coefficients, scaled for feasibility in the penalty."""
        signed = self.penalized(self._signed_norms(rho))
        u = np.maximum(signed, 0.0)
        scale, penalty = self.regularizer.formulas.scaled_conjugate(u)
        conjugates = self.bound.conjugate_parts(rho, scale, z)
        value = -float(np.sum(conjugates)) - penalty if self.certificate_bound.proves(rho) else -np.inf
        return _DualPoint(value, rho, z, signed, scale, conjugates, penalty)

    def feasible_dual(self, rho: Array) -> Array:
        """Project on the domain of the conjugate loss and, with an intercept, on ``sum rho = 0``; not yet scaled.

        Parameters
        ----------
        rho : ndarray of shape (N,)
            Any finite vector.

        Returns
        -------
        ndarray of shape (N,)
            ``clip(rho - nu, lo, hi)``, the nearest point of the set; ``rho`` itself if it is feasible up to rounding.
        """
        return self.certificate_bound.feasible(self._check_rho(rho))

    def zero_model(self) -> tuple[Array, Any]:
        """Return the optimal dual coefficients and intercept of the model without kernels.

        Returns
        -------
        rho : ndarray of shape (N,)
            The smallest vector in ``-s dl(y, b)`` that sums to zero (with an intercept).
        b : float
            The best constant score; 0 without an intercept.
        """
        rho, b = self._zero_model
        return (rho.copy() if isinstance(rho, np.ndarray) else rho), b

    @cached_property
    def _zero_model(self) -> tuple[Array, Any]:
        """The zero model, cached: independent of kernels and penalty."""
        b = self.best_constant
        return self.bound.coefficients_of(b), b

    @cached_property
    def empty_coefficients(self) -> Array:
        """The dual coefficients of the model without kernels but those without a penalty, where every fit begins.

        They are exact where the loss is smooth, and near elsewhere.
        """
        rho, b = self._zero_model
        bound = self.certificate_bound
        if bound.basis is None:
            return rho
        if self.loss.smooth:
            return -bound.gradient(bound.best_along(self.constant_scores(b)))
        return bound.feasible(rho)

    def strength_max(self) -> float:
        """Return the smallest strength at which the zero model is optimal: a single pass.

        Returns
        -------
        float
            Infinite if no strength makes the model vanish.
        """
        return self.regularizer.strength_max(self.empty_norms())

    def keep_empty_norms(self, norms: Array) -> None:
        """Keep the dual norms of the model without kernels, (M,), from a joint computation."""
        self._set("_norms_at_empty", (read_only(norms), self.stack.replaced_kernels))

    def keep_empty_quads(self, bounds: tuple[Array, Array]) -> None:
        """Keep bounds (M,) on ``rho' K_m rho`` at the model without kernels, where every fit begins."""
        self._set("_quads_at_empty", bounds)

    def release_empty_quads(self) -> tuple[Array, Array] | None:
        """Return the bounds at the model without kernels if known, and release them."""
        bounds = self._quads_at_empty
        self._set("_quads_at_empty", None)
        return bounds

    @property
    def empty_start(self) -> Array:
        """The feasible dual coefficients at the start of a fit, without kernels."""
        return self.bound.inside(self.bound.balance(self.zero_model()[0]))

    def empty_norms(self) -> Array:
        """Return the dual norms (M,) at the optimal dual coefficients of the model without kernels: a single pass."""
        if self.stack.has_factors and not self.bound.couples_samples:
            start = self.empty_coefficients if self.unpenalized.size else self.empty_start
            low, high = bounds = self._quads_at_empty or self.stack.quads(start)
            self.keep_empty_quads(bounds)
            if np.all(high - low <= dual_norms.SHARP * high.max(initial=0.0)):
                return self.penalized(np.sqrt(0.5 * (low + high)) / self.penalties)
        return self.penalized(self.dual_norms(self.empty_coefficients))

    def at_fraction(self, fraction: float) -> Problem:
        """Return the problem with the penalty at a fraction of the strength that leaves nothing to gain: a single pass.

        With the block 1-norm that strength is `strength_max`; see :meth:`Regularizer.relative`. Where the target or all
        kernels are constant there is none, and the fraction is that of the sum of weights.

        Parameters
        ----------
        fraction : float
            Positive.
        """
        norms = self.zero_rounding(self.empty_norms())
        if not norms.any():  # there is nothing to gain, and a fraction of rounding would be no strength
            return self.with_penalty(replace(self.regularizer, strength=fraction * self.total_weight))
        loss = self.empirical_loss(self.constant_scores(self.zero_model()[1]))
        return self.with_penalty(self.regularizer.relative(fraction, norms, loss))

    @property
    def constant_target(self) -> bool:
        """Whether the targets are one value but for rounding, so that dual norms of the empty model are rounding."""
        return bool(np.ptp(self.y, axis=0).max() <= FEW * EPS * np.abs(self.y).max())

    def zero_rounding(self, norms: Array) -> Array:
        """Return norms at the model without kernels, with zeros where they may be rounding.

        Parameters
        ----------
        norms : ndarray of shape (M,)
            Those of `empty_norms`.
        """
        return np.zeros_like(norms) if self.constant_target else np.where(norms <= self.empty_rounding(), 0.0, norms)

    def empty_rounding(self) -> Array:
        """Return what `empty_norms` may be by rounding alone, (M,).

        Returns
        -------
        ndarray of shape (M,)
            Roots of how far rounding of the terms moves a sum that is zero.
        """
        sizes = term_sizes(self.entry_roots, self.empty_coefficients)
        return np.asarray(np.sqrt(growth(self.n_samples)) * sizes / self.penalties)

    def with_penalty(self, regularizer: Regularizer) -> Problem:
        """Return the problem with another penalty: nothing is checked again."""
        problem = copy.copy(self)
        problem._set("regularizer", self._kernel_penalty(regularizer))
        if not np.array_equal(problem.regularizer.unpenalized, self.unpenalized):
            problem._forget(OF_UNPENALIZED)
        return problem

    # --- certificate ------------------------------------------------------------------------------------------------

    def certificate(self, rho: Array, d: Array, b: float) -> Certificate:
        """Return primal, dual, gap and optimality residuals of the very model.

        Costs a single pass for the dual bound and one reading of the kernels with ``d_m != 0``.

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
        """
        return self.certificate_apart(rho, d, b)[1]()

    def certificate_apart(self, rho: Array, d: Array, b: float) -> tuple[Certificate, Callable[[], Certificate]]:
        """Return `certificate` without the bound on rounding, and a function that adds the bound.

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
        z = f + b
        with np.errstate(over="ignore", invalid="ignore"):
            losses, penalty = self.bound.parts(z), self.regularizer.formulas.value(self.penalized(t))
            primal = float(np.sum(losses)) + penalty
            point = self._best_dual(rho, z, primal)
            denominator = max(abs(primal), self.tiny)
            kkt = self._residuals(point, (rho, f, z), losses, penalty, denominator)
        scaled, signed = point.scale * point.rho, point.scale * point.signed
        dual, u = point.value, np.maximum(point.signed, 0.0)

        @cache
        def whole() -> Certificate:
            with np.errstate(over="ignore", invalid="ignore"):
                rounding = self.bound.primal_rounding(self, (rho, d, b), f, t)
                rounding += self.bound.dual_rounding(self, scaled, signed, point.conjugates, point.scores)
                values = primal, dual, denominator, kkt, rounding
                return replace(Certificate.from_values(*values), dual_norms=u, block_norms=t)

        gap = primal - dual
        if not 0.0 <= gap < np.inf:
            return whole(), whole
        return Certificate(primal, dual, gap, gap / denominator, kkt, np.nan, np.nan, u, t), whole

    def _best_dual(self, rho: Array, z: Array, primal: float) -> _DualPoint:
        """Return the best of the candidate dual points of a model, with early stopping."""
        best: _DualPoint | None = None
        close_enough = 1e-9  # relative gap beyond which no better dual point is looked for
        for candidate, scores in self.certificate_bound.candidates(rho, z):
            point = self._dual_point(candidate, scores)
            best = point if best is None or point.value > best.value else best
            if primal - best.value <= close_enough * abs(primal):
                break
        assert best is not None
        return best

    def _residuals(
        self,
        point: _DualPoint,
        model: tuple[Array, Array, Array],
        losses: Array | float,
        penalty: float,
        denominator: float,
    ) -> KKTResiduals:
        """Return the residuals of the optimality conditions of a model, from scores without and with intercept."""
        rho, f, z = model
        scaled, sizes = point.scale * point.rho, np.abs(rho)
        nearest = point.rho if self.bound.couples_samples else self.bound.clip_to_domain(rho)
        sums = np.abs(rho.sum(axis=0)).max() if self.fit_intercept else 0.0
        return KKTResiduals(
            stationarity=float(np.sum(losses + point.conjugates + self.bound.inner(z, scaled))) / denominator,
            complementarity=(penalty + point.penalty - float(np.vdot(f, scaled))) / denominator,
            box=share_of(float(np.abs(rho - nearest).max()), float(sizes.max())),
            intercept=share_of(float(sums), float(np.sum(sizes))),
            scaling=1.0 - point.scale,
        )

    def _check_rho(self, rho: Array) -> Array:
        """Return dual coefficients as float64, or raise an error with the reason."""
        if not self.shared:
            return check_vector(rho, self.n_samples, "rho")
        rho = np.asarray(rho, dtype=np.float64)
        if rho.shape != self.y.shape or not np.isfinite(rho).all():
            raise InvalidInputError(
                f"rho must be finite and of the shape {self.y.shape} of y, got shape {rho.shape} with "
                f"{int((~np.isfinite(rho)).sum())} values that are not finite."
            )
        return rho

    def _check_model(self, rho: Array, d: Array, b: float | Array) -> tuple[Array, Array, Any]:
        """Return the model as float64, or raise an error with the invalid part."""
        rho, d = self._check_rho(rho), check_vector(d, self.n_kernels, "d")
        if np.any(d < 0):
            worst = int(np.argmin(d))
            raise InvalidInputError(f"Kernel weights d must not be negative, but d[{worst}] is {d[worst]:.6g}.")
        if not self.shared:
            if not np.isfinite(b) or (b != 0 and not self.fit_intercept):
                raise InvalidInputError(f"The intercept must be finite, and 0 without fit_intercept; got {b!r}.")
            return rho, d, float(b)
        intercepts = np.asarray(b, dtype=np.float64)
        if intercepts.shape != (self.n_targets,) or not np.isfinite(intercepts).all():
            raise InvalidInputError(f"b must be finite and of shape {(self.n_targets,)}, got {intercepts!r}.")
        if intercepts.any() and not self.fit_intercept:
            raise InvalidInputError(f"The intercepts must be 0 without fit_intercept; got {intercepts!r}.")
        return rho, d, intercepts


def share_of(part: float, whole: float) -> float:
    """Return a part of a whole, zero of nothing."""
    return part / whole if whole > 0 else 0.0


def _unit(values: Array) -> float:
    """Power of two near the largest size, for division without rounding."""
    top = float(np.abs(values).max(initial=0.0))
    return math.ldexp(1.0, min(max(math.frexp(top)[1], -1021), 1023)) if top > 0 else 1.0
