"""The problems of every paper, as a loss, a regularizer and a factor of the one objective of the library.

A published objective equals ``factor * (sum_i l(y_i, z_i) + Omega(t))`` for every model, so both have the same
minimizers. ``posed.problem(stack, y)`` poses it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import get_loss
from manykernels.objective.losses.base import Loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import (
    BlockL1,
    BlockLq,
    ElasticNet,
    ElasticNetBall,
    GroupElasticNet,
    LpBall,
    Simplex,
)
from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import check_nonnegative, check_positive

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PaperProblem:
    """A published problem in the form of this library.

    Attributes
    ----------
    loss : Loss
        Loss of one sample, sample weights 1.
    regularizer : Regularizer
        Penalty, strength included.
    factor : float
        Published objective divided by the objective of this library.
    fit_intercept : bool
        Whether the published model has an intercept.
    kernel_penalties : ndarray of shape (M,) or None
        Penalties ``w`` of the kernels.
    """

    loss: Loss
    regularizer: Regularizer
    factor: float
    fit_intercept: bool = True
    kernel_penalties: Array | None = None

    def problem(self, stack: Any, y: Any) -> Problem:
        """Pose the problem on a stack of kernels and a target."""
        return Problem(
            stack,
            y,
            self.loss,
            self.regularizer,
            fit_intercept=self.fit_intercept,
            kernel_penalties=self.kernel_penalties,
        )


def spicymkl(constant: float, loss: str | Loss = "logistic") -> PaperProblem:
    """SpicyMKL, block 1-norm: ``sum l + C sum ||f_m||`` (Suzuki and Tomioka 2011, (4))."""
    return PaperProblem(get_loss(loss), BlockL1(constant), 1.0)


def spicymkl_elastic_net(constant: float, lam: float, loss: str | Loss = "logistic") -> PaperProblem:
    """SpicyMKL, elastic net: ``sum l + C sum ((1 - lam) ||f_m|| + (lam/2) ||f_m||^2)``."""
    return PaperProblem(get_loss(loss), ElasticNet(constant, l1_ratio=1.0 - lam), 1.0)


def spicymkl_lq(constant: float, q: float, loss: str | Loss = "logistic") -> PaperProblem:
    """SpicyMKL, block q-norm: ``sum l + (C/q) sum ||f_m||^q``."""
    return PaperProblem(get_loss(loss), BlockLq(constant, q=q), 1.0)


def spicymkl_squared(constant: float, loss: str | Loss = "logistic") -> PaperProblem:
    """SpicyMKL, squared form: ``sum l + (Ct/2) (sum ||f_m||)^2`` (5)."""
    return PaperProblem(get_loss(loss), Simplex(constant), 1.0)


def simplemkl(constant: float, loss: str | Loss = "hinge") -> PaperProblem:
    """SimpleMKL, SILP, group-lasso MKL: ``C sum l + (1/2) (sum ||f_m||)^2``, weights on the simplex."""
    return _weight_constrained(constant, loss, Simplex(_inverse(constant)))


def kloft(constant: float, p: float, loss: str | Loss = "hinge") -> PaperProblem:
    """Lp-norm MKL: ``C sum l + (1/2) min_theta sum ||f_m||^2 / theta_m`` over ``||theta||_p <= 1`` (Kloft 2011)."""
    return _weight_constrained(constant, loss, LpBall(_inverse(constant), p=p))


def citi(constant: float, eta: float, loss: str | Loss = "hinge") -> PaperProblem:
    """Elastic-net constrained MKL: ``C sum l + (1/2) min_theta sum ||f_m||^2 / theta_m`` (Citi 2015, (1)).

    The set is ``eta ||theta||_1 + (1 - eta) ||theta||_2^2 <= 1``.
    """
    return _weight_constrained(constant, loss, ElasticNetBall(_inverse(constant), eta=eta))


def skm(constant: float, penalties: Array, loss: str | Loss = "hinge") -> PaperProblem:
    """Support kernel machine: ``(1/2) (sum d_j ||w_j||)^2 + C sum xi_i`` (Bach, Lanckriet and Jordan 2004)."""
    weights = np.array(penalties, dtype=np.float64)
    return PaperProblem(get_loss(loss), Simplex(_inverse(constant)), float(constant), True, weights)


def pfbs(tau: float, mu: float, n_samples: int) -> PaperProblem:
    """PFBS of GURLS: ``(1/n) sum (z_i - y_i)^2 + mu sum ||f_j||^2 + 2 tau sum ||f_j||``, no intercept (Liu 2012).

    ``C (1 - lam) = n tau`` and ``C lam = n mu``, with the factor ``2/n``.
    """
    tau, mu = check_nonnegative(tau, "tau"), check_nonnegative(mu, "mu")
    total = check_positive(tau + mu, "tau + mu")
    return PaperProblem(
        get_loss("squared"), ElasticNet(n_samples * total, l1_ratio=tau / total), 2.0 / n_samples, False
    )


def thesis(p: float, n_samples: int, penalties: Array | None = None, loss: str | Loss = "squared") -> PaperProblem:
    """One-stage problem (2.9): ``(1/n) sum l + (1/2) min_theta sum rho_i^2 ||w_i||^2 / theta_i`` (Afkanpour 2013).

    ``theta`` is in the ball of the nu-norm with ``nu = p / (2 - p)``; equivalently the penalty is
    ``(1/2) (sum (rho_i ||w_i||)^p)^(2/p)``. No intercept. The strength is ``n``, the factor ``1/n``.
    """
    if not 1 <= p < 2:
        raise InvalidInputError(f"p must satisfy 1 <= p < 2, got {p!r}: nu = p / (2 - p).")
    weights = None if penalties is None else np.array(penalties, dtype=np.float64)
    return PaperProblem(get_loss(loss), LpBall(n_samples, p=p / (2.0 - p)), 1.0 / n_samples, False, weights)


def ufo_mkl(alpha: float, lam: float, n_kernels: int, n_samples: int, loss: str | Loss = "hinge") -> PaperProblem:
    """UFO-MKL: ``(lam/2) ||w||_{2,p}^2 + alpha ||w||_{2,1} + (1/N) sum l`` (Orabona and Jie 2011), no intercept.

    ``p = 2 log M / (2 log M - 1)``.
    """
    regularizer = GroupElasticNet.published(n_samples * alpha, n_samples * lam, n_kernels)
    return PaperProblem(get_loss(loss), regularizer, 1.0 / n_samples, False)


def obscure(lam: float, n_kernels: int, n_samples: int, loss: str | Loss = "hinge") -> PaperProblem:
    """OBSCURE: ``(lam/2) ||w||_{2,q}^2 + (1/N) sum l`` (Orabona, Jie and Caputo 2010), no intercept.

    ``q = 2 log M / (2 log M - 1)`` for at least three kernels: the lp ball with ``p = log M / (log M - 1)``.
    """
    if n_kernels < 3:
        raise InvalidInputError(f"n_kernels must be at least 3, got {n_kernels!r}: q would not be below 2.")
    logarithm = float(np.log(n_kernels))
    regularizer = LpBall(n_samples * check_positive(lam, "lam"), p=logarithm / (logarithm - 1.0))
    return PaperProblem(get_loss(loss), regularizer, 1.0 / n_samples, False)


def squared_constant(constant: float, norms: Array) -> float:
    """Return the ``Ct`` for which the squared form has the solution of the block 1-norm with ``C``.

    ``Ct = C / sum ||f_m||`` at the solution; (6) of the paper multiplies instead, a misprint.
    """
    return check_positive(constant, "constant") / check_positive(float(np.sum(norms)), "The sum of block norms")


def block_constant(constant: float, norms: Array) -> float:
    """Return the ``C`` of the block 1-norm with the solution of the squared form with ``Ct``."""
    return check_positive(constant, "constant") * check_positive(float(np.sum(norms)), "The sum of block norms")


def alpha_from_svm_constant(constant: float, total_weight: float) -> float:
    """Return the ``alpha`` of a weight-set penalty for the constant ``C`` of a support vector machine."""
    return 1.0 / (check_positive(constant, "constant") * check_positive(total_weight, "total_weight"))


def paper_weights(regularizer: Regularizer, d: Array) -> Array:
    """Return kernel weights in the papers' normalization: strength times ``d``.

    For a weight set this is ``theta``. For a norm regularizer it is Table 3 of the SpicyMKL paper: ``||f||`` for the
    block 1-norm, ``||f|| / (1 - lam + lam ||f||)`` for the elastic net, ``||f||^(2-q)`` for the q-norm.
    """
    return regularizer.strength * np.asarray(d, dtype=np.float64)


def normalized_weights(d: Array) -> Array:
    """Return kernel weights divided by their sum; zeros stay zeros."""
    weights = np.asarray(d, dtype=np.float64)
    total = float(np.sum(weights))
    return weights / total if total > 0 else weights.copy()


def tikhonov_exponent(q: float) -> float:
    """Return ``p = q / (2 - q)``: the exponent on weights equivalent to the block q-norm (Table 3, corrected)."""
    if not 1 <= q <= 2:
        raise InvalidInputError(f"q must be between 1 and 2, got {q!r}.")
    return q / (2.0 - q) if q < 2 else float("inf")


def _inverse(constant: float) -> float:
    return 1.0 / check_positive(constant, "constant")


def _weight_constrained(constant: float, loss: str | Loss, regularizer: Regularizer) -> PaperProblem:
    return PaperProblem(get_loss(loss), regularizer, float(constant))
