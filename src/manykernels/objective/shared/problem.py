"""The problem of several classes or targets with one set of kernel weights; its primal, dual and certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack
from manykernels.objective.certificate import KKTResiduals
from manykernels.objective.problem import Problem
from manykernels.objective.rounding import EPS, FEW, INDEPENDENT, growth, norm_error
from manykernels.objective.shared.losses import get_shared_loss
from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class SharedProblem(Problem):
    """``T`` classes or targets, a function ``f_mt`` for each kernel and target, and one weight a kernel.

    ::

        P(f, b) = sum_i s_i l(y_i, f_i + b) + Omega(t),            t_m = w_m sqrt(sum_t ||f_mt||^2)
        D(R)    = - sum_i s_i l*(y_i, -R_i/s_i) - Omega*(u),       u_m = sqrt(tr(R' K_m R)) / w_m

    with columns of ``R`` that sum to zero if there are intercepts, and the model ``F = sum_m d_m K_m R + b``. A kernel
    is selected for all targets or for none.

    Parameters
    ----------
    stack : GramStack or array of shape (M, N, N)
        The kernels.
    y : array of shape (N, T)
        Targets; for a classification loss, +1 in the column of the class and -1 elsewhere.
    loss : SharedLoss, Loss or str
        The loss; ``"logistic"`` is the multinomial one.
    regularizer : Regularizer
        The penalty, strength included.
    fit_intercept : bool, default=True
        Whether every target has an intercept.
    sample_weight : array of shape (N,), optional
        Positive sample weights ``s``.
    kernel_penalties : array of shape (M,), optional
        Positive kernel penalties ``w``.

    Raises
    ------
    InvalidInputError
        If shapes disagree or values cannot be used.
    IncompatibleError
        If the loss has kinks.

    References
    ----------
    Suzuki and Tomioka, "SpicyMKL", Machine Learning 85 (2011), for one target; the block norms here run over kernel
    times targets.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import get_regularizer
    >>> problem = SharedProblem(np.eye(3)[None], np.eye(3) * 2 - 1, "logistic", get_regularizer("l1", 0.1))
    >>> rho, b = problem.zero_model()
    >>> round(problem.certificate(rho, np.zeros(1), b).primal, 4)  # 3 log 3
    3.2958
    """

    shared: ClassVar[bool] = True
    loss: Any

    def __post_init__(self) -> None:
        super().__post_init__()

    def _known_loss(self) -> Any:
        return get_shared_loss(self.loss)

    @property
    def n_targets(self) -> int:
        """Number of classes or targets T."""
        return self.y.shape[1]

    # --- primal and dual --------------------------------------------------------------------------------------------

    def constant_scores(self, b: Any) -> Array:
        """Scores (N, T) of the model without kernels."""
        return np.broadcast_to(b, self.y.shape).astype(np.float64)

    def conjugate_loss(self, rho: Array) -> float:
        """``sum_i s_i l*(y_i, -R_i / s_i)``; infinite outside the domain."""
        return float(self.weight @ self.loss.conjugate(self.y, rho / self.weight[:, None]))

    def _signed_norms(self, rho: Array) -> Array:
        squares = squared_norms(self.stack, rho)
        return np.copysign(np.sqrt(np.abs(squares)), squares) / self.penalties

    def model_parts(self, rho: Array, d: Array) -> tuple[Array, Array]:
        """Scores ``sum_m d_m K_m R`` (N, T) and block norms ``t`` (M,); reads kernels with ``d_m != 0`` only.

        Parameters
        ----------
        rho : ndarray of shape (N, T)
        d : ndarray of shape (M,)

        Returns
        -------
        f : ndarray of shape (N, T)
        t : ndarray of shape (M,)
        """
        active, norms = np.flatnonzero(d), np.zeros(self.n_kernels)
        squares = np.maximum(squared_norms(self.stack, rho, active), 0.0)
        norms[active] = self.penalties[active] * d[active] * np.sqrt(squares)
        return self.stack.combine(d) @ rho, norms

    def feasible_dual(self, rho: Array) -> Array:
        """Return coefficients near ``rho`` in the domain of the loss, with column sums of zero if there are intercepts.

        Parameters
        ----------
        rho : ndarray of shape (N, T)

        Returns
        -------
        ndarray of shape (N, T)
        """
        return self.loss.feasible(self.y, self._check_rho(rho), self.weight, sums=self.fit_intercept)

    def zero_model(self) -> tuple[Array, Any]:
        """Return the optimal dual coefficients (N, T) and intercepts (T,) of the model without kernels.

        Returns
        -------
        rho : ndarray of shape (N, T)
        b : ndarray of shape (T,)
        """
        b = self._best_constant()
        return self.feasible_dual(-self.weight[:, None] * self.loss.derivative(self.y, self.constant_scores(b))), b

    def _best_constant(self) -> Any:
        if not self.fit_intercept:
            return np.zeros(self.n_targets)
        return self.loss.best_intercepts(self.y, np.zeros(self.y.shape), self.weight)

    # --- certificate ------------------------------------------------------------------------------------------------

    def _compare(
        self, model: tuple[Array, Array, Any], f: Array, t: Array, feasible: Array, signed: Array, scale: float
    ) -> tuple[float, float, float, KKTResiduals, Callable[[], float]]:
        rho, d, b = model
        u, z = np.maximum(signed, 0.0), f + b
        losses = self.weight * self.loss.value(self.y, z)
        conjugates = self.weight * self.loss.conjugate(self.y, feasible / self.weight[:, None])
        penalty, conjugate = self.regularizer.value(t), self.regularizer.conjugate(u)
        primal = float(losses.sum()) + penalty
        denominator = max(abs(primal), self.tiny)
        size = float(np.abs(rho).max()) or 1.0
        nearest = self.loss.feasible(self.y, rho, self.weight, sums=False)
        kkt = KKTResiduals(
            stationarity=float((losses + conjugates + (z * feasible).sum(axis=1)).sum()) / denominator,
            complementarity=(penalty + conjugate - float(np.vdot(f, feasible))) / denominator,
            box=float(np.abs(rho - nearest).max()) / size,
            intercept=float(np.abs(rho.sum(axis=0)).max()) / max(float(np.abs(rho).sum()), self.tiny)
            if self.fit_intercept
            else 0.0,
            scaling=1.0 - scale,
        )

        def rounding() -> float:
            return self._primal_rounding(rho, d, z, t) + self._dual_rounding(feasible, signed, conjugates, z)

        return primal, -float(conjugates.sum()) - conjugate, denominator, kkt, rounding

    def _sizes(self, rho: Array) -> Array:
        """Roots of what the terms of ``tr(R' K_m R)`` add up to in size, (M,)."""
        roots = self.entry_roots
        whole = roots.shape[1] == self.n_samples
        return np.linalg.norm(roots @ np.abs(rho) if whole else roots * np.abs(rho).sum(axis=0), axis=1)

    def _primal_rounding(self, rho: Array, d: Array, z: Array, t: Array) -> float:
        """Return by how much rounding may move the primal value, as `primal_rounding` does for one target."""
        active, sizes = np.flatnonzero(d), self._sizes(rho)
        factors = self.penalties[active] * d[active]
        products = growth(self.n_samples) * (d[active] * sizes[active]) @ self.entry_roots[active]
        scores = np.reshape(products, (-1, 1)) + FEW * EPS * (np.abs(z) + np.abs(self.y))
        slopes = self.weight[:, None] * np.abs(self.loss.derivative(self.y, z))
        fitted = INDEPENDENT * float(np.linalg.norm(slopes * scores)) + growth(self.n_samples) * self.empirical_loss(z)
        worse = t.copy()
        worse[active] += factors * norm_error(t[active] / factors, sizes[active], self.n_samples)
        penalty = self.regularizer.value(t)
        return fitted + max(self.regularizer.value(worse) - penalty, 0.0) + growth(self.n_kernels) * penalty

    def _dual_rounding(self, feasible: Array, signed: Array, conjugates: Array, z: Array) -> float:
        """Return by how much rounding may move the dual value, as `dual_rounding` does for one target."""
        u, sizes = np.maximum(signed, 0.0), self._sizes(feasible) / self.penalties
        worse = u + norm_error(u, sizes, self.n_samples) + 2.0 * np.maximum(-signed, 0.0)
        shrunk, conjugate = self.regularizer.dual_scale(worse), self.regularizer.conjugate(u)
        summed = float(np.vdot(np.abs(self.y) + np.abs(z), np.abs(feasible))) + float(np.abs(conjugates).sum())
        rising = max(self.regularizer.conjugate(shrunk * worse) - conjugate, 0.0)
        return (1.0 - shrunk + growth(self.n_samples)) * summed + rising + growth(self.n_kernels) * conjugate

    def _check_rho(self, rho: Array) -> Array:
        rho = np.asarray(rho, dtype=np.float64)
        if rho.shape != self.y.shape or not np.isfinite(rho).all():
            raise InvalidInputError(
                f"rho must be finite and of the shape {self.y.shape} of y, got shape {rho.shape} with "
                f"{int((~np.isfinite(rho)).sum())} values that are not finite."
            )
        return rho

    def _check_model(self, rho: Array, d: Array, b: Any) -> tuple[Array, Array, Any]:
        rho, intercepts = self._check_rho(rho), np.asarray(b, dtype=np.float64)
        _, d, _ = super()._check_model(np.zeros(self.n_samples), d, 0.0)
        if intercepts.shape != (self.n_targets,) or not np.isfinite(intercepts).all():
            raise InvalidInputError(f"b must be finite and of shape {(self.n_targets,)}, got {intercepts!r}.")
        if intercepts.any() and not self.fit_intercept:
            raise InvalidInputError(f"The intercepts must be 0 without fit_intercept; got {intercepts!r}.")
        return rho, d, intercepts


def squared_norms(stack: GramStack, rho: Array, kernels: Array | None = None) -> Array:
    """``tr(R' K_m R) = <K_m, R R'>`` (m,): a kernel costs no more operations than for one target."""
    between = rho @ rho.T
    chosen = range(stack.n_kernels) if kernels is None else kernels
    return np.array([np.vdot(one_kernel(stack, m), between) for m in chosen])


def one_kernel(stack: GramStack, kernel: int) -> Array:
    """Return ``K_m`` (N, N)."""
    weights = np.zeros(stack.n_kernels)
    weights[kernel] = 1.0
    return stack.combine(weights)
