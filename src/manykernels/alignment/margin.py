"""Weights of kernels by the margin they leave between the classes: EasyMKL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.svm import SVC

from manykernels.alignment.targets import target_features
from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack, as_stack
from manykernels.validation.arrays import Array, check_positive

ACCURACY = 1e-8  # of LIBSVM, in the optimality conditions


@dataclass(frozen=True, eq=False)
class MarginWeights:
    """Weights of kernels by their margins, with the certificate of the problem behind them.

    Parameters
    ----------
    weights : ndarray of shape (n_kernels,)
        Non-negative, summing to one.
    primal : float
        Value of the problem, summed over the classes.
    dual : float
        Lower bound on its smallest value, from the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import margin_weights
    >>> x = np.array([1.0, 2.0, -1.0, -2.0])
    >>> margin_weights([np.outer(x, x), np.eye(4)], ["a", "a", "b", "b"]).weights.round(2)
    array([0.67, 0.33])
    """

    weights: Array
    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Proven relative distance from the smallest value, ``(primal - dual) / primal``."""
        return (self.primal - self.dual) / self.primal


def margin_weights(stack: GramStack | Any, y: ArrayLike, *, ridge: float = 0.1) -> MarginWeights:
    r"""Return the weights of EasyMKL: each kernel by the squared distance it leaves between the two classes.

    With :math:`Y = \operatorname{diag}(y)` of labels -1 and 1 and the mean kernel :math:`\bar K`, scaled to a mean
    diagonal of one,

    .. math:: \min_\gamma\; (1-\lambda)\, \gamma' Y \bar K Y \gamma + \lambda \|\gamma\|^2, \qquad
       \gamma \ge 0,\; \sum_{y_i = 1} \gamma_i = \sum_{y_i = -1} \gamma_i = 1,

    is the distance of two points, one in the convex hull of each class, and
    :math:`\theta_m \propto \gamma' Y K_m Y \gamma`. With more than two classes, each is taken against the rest and the
    weights are averaged.

    Parameters
    ----------
    stack : GramStack or array_like of shape (n_kernels, n_samples, n_samples)
        The kernels, in any storage.
    y : array_like of shape (n_samples,)
        Labels of any type, of at least two classes.
    ridge : float, default=0.1
        The :math:`\lambda`, above 0 and below 1: towards 1 the points become the means of the classes.

    Returns
    -------
    MarginWeights
        Weights, and the values that prove the margin problem solved.

    Raises
    ------
    InvalidInputError
        If there is one class only, shapes do not agree, or all kernels are zero.

    Notes
    -----
    The problem is the dual of a support vector machine without slack on the kernel
    :math:`(1-\lambda) \bar K + \lambda I`, up to the scale of :math:`\gamma`: LIBSVM solves it. The dual value is
    :math:`q(\gamma) + \min_{\gamma'} \nabla q(\gamma)'(\gamma' - \gamma)`, which convexity puts below the minimum.

    References
    ----------
    F. Aiolli, M. Donini, "EasyMKL: a scalable multiple kernel learning algorithm", Neurocomputing 169 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.alignment import margin_weights
    >>> x = np.array([1.0, 2.0, -1.0, -2.0])
    >>> bool(margin_weights([np.outer(x, x), np.eye(4)], [1, 1, 2, 2]).gap < 1e-6)
    True
    """
    kernels, share = as_stack(stack), check_positive(ridge, "ridge")
    if share >= 1:
        raise InvalidInputError(f"ridge must be below 1, got {ridge!r}: nothing of the kernels would be left.")
    labels = np.asarray(y)
    if labels.shape != (kernels.n_samples,) or len(np.unique(labels)) < 2:
        raise InvalidInputError(
            f"Margins need one label a sample, of at least two classes; got y of shape {labels.shape} with "
            f"{len(np.unique(labels))} different value(s) for {kernels.n_samples} samples."
        )
    mean = kernels.combine(np.full(kernels.n_kernels, 1.0 / kernels.n_kernels))
    size = float(np.trace(mean)) / len(mean)
    if not size > 0:
        raise InvalidInputError("All kernels are zero: there is no margin to weigh them by.")
    matrix = (1.0 - share) / size * mean
    matrix[np.diag_indices_from(matrix)] += share
    weights, values = np.zeros(kernels.n_kernels), np.zeros(2)
    for signs in target_features(labels, "signs").T:
        gamma, value, bound = _nearest_points(matrix, signs, share)
        found = kernels.quad(signs * gamma)
        weights += found / found.sum()
        values += value, bound
    return MarginWeights(weights / weights.sum(), float(values[0]), float(values[1]))


def _nearest_points(matrix: Array, signs: Array, ridge: float) -> tuple[Array, float, float]:
    """Return the weights of the nearest points of two convex hulls, their squared distance and a bound below it."""
    sides = np.stack([signs > 0, signs < 0])
    # No dual coefficient exceeds N / (2 ridge) then, so that this is a machine without slack.
    machine = SVC(C=len(signs) / ridge, kernel="precomputed", tol=ACCURACY).fit(matrix, signs)
    gamma = np.zeros(len(signs))
    gamma[machine.support_] = _polished(matrix, signs, sides, machine.support_, np.abs(machine.dual_coef_[0]))
    gradient = 2.0 * signs * (matrix @ (signs * gamma))
    value = float(gamma @ gradient) / 2.0
    return gamma, value, float(sum(gradient[side].min() for side in sides)) - value


def _polished(matrix: Array, signs: Array, sides: Array, support: Array, rough: Array) -> Array:
    """Return the best weights of these points in float64; LIBSVM keeps kernels in float32."""
    inside, members = signs[support], sides[:, support].astype(np.float64)
    apart = np.linalg.solve(matrix[np.ix_(support, support)] * np.outer(inside, inside), members.T)
    exact: Array = apart @ np.linalg.solve(members @ apart, np.ones(2))
    return exact if (exact >= 0).all() else rough / (rough @ members.T @ members)
