"""The problem whose loss couples samples: the same primal, penalty and model, and a dual at gradients of the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses.joint import BoundLoss, JointLoss
from manykernels.objective.problem import Problem
from manykernels.objective.rounding import EPS, growth, joint_dual_rounding, joint_primal_rounding
from manykernels.validation.arrays import Array, check_vector

__all__ = ["JointProblem"]

CLOSE_ENOUGH = 1e-9  # relative gap at the scores of a model beyond which no better dual point is looked for
FAR = 0.5  # share of the coefficients that scores may miss where a better point is looked for
SLOWEST = 0.5  # reduction of what is missing that makes another step worth while
MOST_STEPS = 40
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class _DualPoint:
    """A dual point: its value, coefficients and signed norms before scaling, its scale, the conjugate after it."""

    value: float
    rho: Array
    signed: Array
    scale: float
    conjugate: float


@dataclass(frozen=True, eq=False, repr=False)
class JointProblem(Problem):
    """A multiple kernel learning problem with a loss of all samples together, such as a partial likelihood.

    Primal and dual are::

        P(f)   = L(f_1, ..., f_N) + Omega(t),     t_m = w_m ||f_m||
        D(rho) = - L*(-rho) - Omega*(u),          u_m = sqrt(rho' K_m rho) / w_m

    ``L*`` is known at gradients only. So the certificate of a model takes ``-grad L`` at the scores of that model, or
    at scores near them whose gradient comes closer to the coefficients; it is feasible for the loss. The point is
    scaled until it is feasible for the penalty, and ``L*`` there bounded by the mixture that belongs to it. The better
    of both bounds counts.

    Parameters
    ----------
    stack : GramStack or array of shape (M, N, N)
    y : array of shape (N,)
        The target of the loss.
    loss : JointLoss
    regularizer : Regularizer
    fit_intercept : bool
        Must be False: a shift of all scores changes nothing.
    sample_weight : array of shape (N,), optional
        Positive sample weights ``s``; ones by default.
    kernel_penalties : array of shape (M,), optional
        Positive kernel penalties ``w``; ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.losses import CoxPartial
    >>> from manykernels.objective.regularizers import BlockL1
    >>> problem = JointProblem(np.eye(3)[None], np.array([1.0, -2.0, 3.0]), CoxPartial(), BlockL1(0.1))
    >>> rho, b = problem.zero_model()
    >>> problem.certificate(rho, np.array([0.5]), b).gap > 0
    True
    """

    _: KW_ONLY
    fit_intercept: bool = False

    def _known_loss(self) -> Any:
        if not isinstance(self.loss, JointLoss):
            raise InvalidInputError(f"A JointProblem needs a JointLoss, got {self.loss!r}; use Problem.")
        return self.loss

    def _check_solvable(self) -> None:
        if self.fit_intercept:
            raise InvalidInputError(f"The {self.loss.name} loss has no intercept: set fit_intercept=False.")
        if not np.isfinite(self.loss_at_zero):
            raise InvalidInputError(f"The {self.loss.name} loss overflows at zero scores: rescale sample_weight.")

    @cached_property
    def joint(self) -> BoundLoss:
        """The loss as a function of all scores."""
        loss: Any = self.loss
        return loss.bind(self.y, self.weight)

    def empirical_loss(self, z: Array) -> float:
        """Return ``L(z)``.

        Parameters
        ----------
        z : ndarray of shape (N,)
            Scores.
        """
        return self.joint.value(z)

    def conjugate_loss(self, rho: Array) -> float:
        """Refuse: the conjugate is known at gradients of the loss only.

        Parameters
        ----------
        rho : ndarray of shape (N,)

        Raises
        ------
        IncompatibleError
            Always; ``joint.conjugate_along`` is what there is.
        """
        raise IncompatibleError(f"The conjugate of the {self.loss.name} loss is known at gradients only.")

    def conjugate_of_share(self, rho: Array, scale: float) -> float:
        """Return the conjugate at the share ``scale`` of the dual point of zero scores, whatever ``rho`` is.

        Parameters
        ----------
        rho : ndarray of shape (N,)
        scale : float
            In [0, 1].
        """
        return self.joint.conjugate_along(np.zeros(self.n_samples), scale)

    def feasible_dual(self, rho: Array) -> Array:
        """Return coefficients less their mean in every group, which is what a linear projection can do.

        Parameters
        ----------
        rho : ndarray of shape (N,)
        """
        return self.joint.centered(check_vector(rho, self.n_samples, "rho"))

    def dual(self, rho: Array) -> float:
        """Return ``D`` at ``-grad L(rho)``: ``rho`` are scores here, of any kind.

        Parameters
        ----------
        rho : ndarray of shape (N,)
        """
        return self._dual_at(check_vector(rho, self.n_samples, "rho")).value

    def zero_model(self) -> tuple[Array, float]:
        """Return the dual coefficients of zero scores."""
        return -self.joint.gradient(np.zeros(self.n_samples)), 0.0

    def _dual_at(self, z: Array) -> _DualPoint:
        """Return the dual point of scores, scaled until it is feasible for the penalty."""
        rho = -self.joint.gradient(z)
        signed = self._signed_norms(rho)
        scale = self.regularizer.dual_scale(np.maximum(signed, 0.0))
        conjugate = self.joint.conjugate_along(z, scale)
        value = -conjugate - self.regularizer.conjugate(scale * np.maximum(signed, 0.0))
        return _DualPoint(value, rho, signed, scale, conjugate)

    def _best_dual(self, f: Array, rho: Array, primal: float) -> _DualPoint:
        """Return the better of the dual points of a model's scores and of those that fit its coefficients."""
        point = self._dual_at(f)
        if primal - point.value <= CLOSE_ENOUGH * abs(primal):
            return point
        z = self._scores_behind(self.joint.centered(rho), f)
        other = point if z is f else self._dual_at(z)
        return other if other.value > point.value else point

    def _scores_behind(self, rho: Array, f: Array) -> Array:
        """Return scores near ``f`` with ``grad L = -rho``, by Newton steps with one Hessian; ``f`` if that is far."""
        missing = rho + self.joint.gradient(f)
        size, unit = float(np.abs(missing).sum()), float(np.abs(rho).sum())
        if not EPS * unit < size < FAR * unit:
            return f
        inverse, z = self.joint.inverse_curvature(f), f
        for _ in range(MOST_STEPS):
            tried = z - inverse @ missing
            left = rho + self.joint.gradient(tried)
            if not np.abs(left).sum() < SLOWEST * size:
                break
            z, missing, size = tried, left, float(np.abs(left).sum())
        return z

    def certificate_apart(self, rho: Array, d: Array, b: float) -> tuple[Certificate, Callable[[], Certificate]]:
        """Return the certificate, and a function that returns it again: its bound on rounding costs next to nothing.

        Parameters
        ----------
        rho : ndarray of shape (N,)
            Dual coefficients.
        d : ndarray of shape (M,)
            Kernel weights, non-negative.
        b : float
            Zero.

        Returns
        -------
        Certificate
            With ``dual <= optimum <= primal`` up to rounding.
        callable
            Returns the same.
        """
        found = self._certified(rho, d, b)
        return found, lambda: found

    def _certified(self, rho: Array, d: Array, b: float) -> Certificate:
        """Put both sides of the certificate of a model together."""
        rho, d, b = self._check_model(rho, d, b)
        f, t = self.model_parts(rho, d)
        with np.errstate(over="ignore", invalid="ignore"):
            loss, penalty = self.empirical_loss(f), self.regularizer.value(t)
            primal = loss + penalty
            point = self._best_dual(f, rho, primal)
            u, scale = np.maximum(point.signed, 0.0), point.scale
            denominator = max(abs(primal), self.tiny)
            fitted = float(f @ point.rho) * scale
            kkt = KKTResiduals(
                stationarity=(loss + point.conjugate + fitted) / denominator,
                complementarity=(penalty + self.regularizer.conjugate(scale * u) - fitted) / denominator,
                box=float(np.abs(rho - point.rho).max()) / max(float(np.abs(rho).max()), TINY),
                intercept=0.0,
                scaling=1.0 - scale,
            )
            sizes = float(self.weight @ (1.0 + np.abs(f)))
            rounding = joint_primal_rounding(self, rho, d, f, t, point.rho, growth(self.n_samples) * (loss + sizes))
            rounding += joint_dual_rounding(self, scale * point.rho, scale * point.signed, abs(point.conjugate) + sizes)
            certificate = Certificate.from_values(primal, point.value, denominator, kkt, rounding)
        return replace(certificate, dual_norms=u)
