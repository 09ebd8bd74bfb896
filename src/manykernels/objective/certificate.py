"""The certificate: distance of a model to the optimum, rounding errors, and excluded kernels.

Every sum of n terms is taken to be off by ``(8 + sqrt(n))/2`` units of rounding times the sum of the sizes of the
terms: the worst case grows like n, which no sum reaches whose roundings point in different directions. For the same
reason the errors of different scores add up like independent ones. ``|K_ij| <= sqrt(K_ii K_jj)``, so nothing here costs
a pass over the kernels.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from manykernels.grams.base import GramStack
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import Array


class Sizes(Protocol):
    """The parameters of a problem in a certificate."""

    @property
    def regularizer(self) -> Regularizer:
        """The penalty."""

    @property
    def loss(self) -> Any:
        """The loss."""

    @property
    def weight(self) -> Array:
        """Sample weights ``s`` (N,)."""

    @property
    def y(self) -> Array:
        """The target (N,)."""

    @property
    def n_samples(self) -> int:
        """Number of samples N."""

    @property
    def n_kernels(self) -> int:
        """Number of kernels M."""

    @property
    def fit_intercept(self) -> bool:
        """Whether dual coefficients sum to zero."""

    @property
    def penalties(self) -> Array:
        """Kernel penalties ``w`` (M,)."""

    @property
    def entry_roots(self) -> Array:
        """Roots of the diagonals, (M, N), or of their largest entries, (M, 1)."""

    @property
    def stack(self) -> GramStack:
        """The kernels."""


@dataclass(frozen=True)
class KKTResiduals:
    """Optimality residuals of a model; all are free of scale and zero at the optimum.

    The first two add up to the relative gap: the gap is a sum of Fenchel-Young gaps, one a sample and one for the
    penalty. (The distance of ``rho_i`` to ``-s_i dl`` would jump by ``s_i`` on a hinge whose margin is 1 + 1e-15.)

    Attributes
    ----------
    stationarity : float
        ``sum_i s_i [l(y_i, z_i) + l*(y_i, -r_i) + r_i z_i]`` over ``max(|P|, tiny)``: how badly scores and dual
        coefficients fit each other.
    complementarity : float
        ``[Omega(t) + Omega*(u) - rho'f]`` over ``max(|P|, tiny)``: how badly kernel weights and dual norms fit.
    box : float
        Largest excess of ``rho`` over the dual box, relative to ``max |rho|``.
    intercept : float
        ``|sum rho| / sum |rho|``; 0 without an intercept.
    scaling : float
        ``1 - c`` for the scaling ``c`` that made ``rho`` dual feasible.
    """

    stationarity: float
    complementarity: float
    box: float
    intercept: float
    scaling: float

    def to_dict(self) -> dict[str, float]:
        """Return the residuals by name."""
        return asdict(self)


@dataclass(frozen=True)
class Certificate:
    """Primal value of a model, a lower bound on the optimum, and the gap between them.

    Attributes
    ----------
    primal : float
        Objective of the model unchanged.
    dual : float
        Dual objective of the dual coefficients, made feasible: no model is below it.
    gap : float
        ``primal - dual``, as computed: rounding may leave it slightly negative.
    relative_gap : float
        ``gap / max(|primal|, tiny)``; 0 for a negative gap within ``rounding``, and the size of a negative gap beyond
        it, which no rounding explains. Infinite if either value is not finite.
    kkt : KKTResiduals
        Which condition is missed, and by how much.
    rounding, relative_rounding : float
        By how much rounding in float64 may have moved the gap, and that over ``max(|primal|, tiny)``: gaps below it say
        nothing more.
    dual_norms : ndarray of shape (n_kernels,)
        ``u_m`` of the projected dual coefficients before scaling: what the pass over the kernels was for, kept
        because the working set and screening need it again.
    block_norms : ndarray of shape (n_kernels,)
        ``t_m = w_m ||f_m||`` of the model, as the primal value has them; empty where functions tell their norms.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt: KKTResiduals
    rounding: float = 0.0
    relative_rounding: float = 0.0
    dual_norms: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    block_norms: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    @property
    def crossed(self) -> bool:
        """Whether the lower bound is above the objective by more than rounding: one of both is wrong.

        Kernels and features may be stored in float32, which moves both bounds.
        """
        return self.gap < -max(self.rounding, STORAGE_ROUNDING * abs(self.primal))

    @classmethod
    def from_values(
        cls, primal: float, dual: float, denominator: float, kkt: KKTResiduals, rounding: float = 0.0
    ) -> Certificate:
        """Build the certificate from both values, the denominator of the relative gap and the bound on rounding.

        Examples
        --------
        >>> Certificate.from_values(2.0, 1.0, 2.0, KKTResiduals(0.5, 0.0, 0.0, 0.0, 0.0)).relative_gap
        0.5
        """
        gap = primal - dual
        if not np.isfinite(gap):
            return cls(primal, dual, gap, np.inf, kkt, np.inf, np.inf)
        rounding = np.inf if np.isnan(rounding) else rounding
        size = max(gap, 0.0) if gap >= -rounding else -gap
        return cls(primal, dual, gap, size / denominator, kkt, rounding, rounding / denominator)


# --- what the gap proves ----------------------------------------------------------------------------------------------


def proved_inactive(problem: Sizes, certificate: Certificate) -> Array:
    r"""Return which kernels have weight zero in every optimal model, as the duality gap proves.

    The losses have second derivatives of at most :math:`L`, hence the dual is strongly concave, and the maximizer
    :math:`\rho^*` lies in a ball around the feasible dual point :math:`\rho` of the certificate:

    .. math:: \sum_i (\rho^*_i - \rho_i)^2 / s_i \le 2 L (P - D), \qquad
       \sqrt{\rho^{*\prime} K_m \rho^*} \le \sqrt{\rho' K_m \rho} + \sqrt{2 L (P - D) \sum_i s_i (K_m)_{ii}} .

    A kernel whose right-hand side, over the factor :math:`w_m`, is below the threshold of the penalty is zero.

    Parameters
    ----------
    problem : Problem
        With an L1 or elastic net penalty and a loss of bounded curvature; for others nothing is proved.
    certificate : Certificate
        Of any model of that problem.

    Returns
    -------
    ndarray of shape (n_kernels,), bool
        False says that nothing was proved; a smaller gap proves more.

    Notes
    -----
    The bound on rounding that the certificate carries is added to the gap. The sum of diagonal entries bounds the
    largest eigenvalue of the weighted kernel; no pass over the stack is needed.

    References
    ----------
    E. Ndiaye, O. Fercoq, A. Gramfort, J. Salmon, "Gap Safe screening rules for sparsity enforcing penalties", JMLR 18
    (2017), Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> stack = np.stack([np.eye(2), 0.01 * np.eye(2)])
    >>> problem = Problem(stack, np.array([1.0, 3.0]), get_loss("squared"), get_regularizer("l1", 0.5))
    >>> proved_inactive(problem, problem.certificate(np.array([-0.35, 0.35]), np.array([1.857, 0.0]), 2.0))
    array([False,  True])
    """
    threshold = np.asarray(problem.regularizer.inactive_below)
    able = Capability.BOUNDED_CURVATURE in problem.loss.capabilities
    gap = certificate.gap + certificate.rounding
    if not threshold.any() or not able or not np.isfinite(gap) or len(certificate.dual_norms) != problem.n_kernels:
        return np.zeros(problem.n_kernels, dtype=bool)
    largest = problem.stack.diag_sums(problem.weight)
    radii = np.sqrt(2.0 * problem.loss.curvature_bound * max(gap, 0.0) * np.maximum(largest, 0.0)) / problem.penalties
    scale = 1.0 - certificate.kkt.scaling
    return np.asarray(scale * certificate.dual_norms + radii < threshold)


# --- how far rounding alone may move a certificate: running error bounds of both values ---

EPS = float(np.finfo(np.float64).eps)
INDEPENDENT = 4.0  # standard deviations of a sum of independent errors
STORAGE_ROUNDING = 1e-6  # of the objective: what entries in float32, each off by 6e-8, may move it by
FEW = 8.0  # roundings on the way of one number that is not a sum: scaling, root, product with a weight


def inner(x: Array, y: Array) -> float:
    """Return the sum of the products of all entries of two vectors or two matrices."""
    return float(x @ y) if x.ndim == 1 else float(x.T.ravel() @ y.T.ravel())


def growth(n_terms: int) -> float:
    """Relative rounding error of a sum of so many terms, in units of the sum of their sizes."""
    return 0.5 * EPS * (FEW + float(np.sqrt(n_terms)))


def term_sizes(roots: Array, vector: Array) -> Array:
    """Roots of what the terms of ``vector' K_m vector`` add up to in size, (M,), from those of the entries.

    Of several outputs, (N, T), the terms of all count.
    """
    sizes = np.abs(vector)
    whole = roots.shape[1] == len(sizes)
    if sizes.ndim == 1:
        return roots @ sizes if whole else roots[:, 0] * float(sizes.sum())
    return np.linalg.norm(roots @ sizes if whole else roots * sizes.sum(axis=0), axis=1)


def norm_error(norms: Array, sizes: Array, n_samples: int) -> Array:
    """Return the effect of rounding on ``norms``, (M,), the roots of sums of terms with the given `term_sizes`."""
    error = np.sqrt(growth(n_samples)) * sizes  # of the square: its square
    total = norms + np.hypot(norms, error)
    return np.divide(error * error, total, out=np.zeros_like(total), where=total > 0) + FEW * EPS * norms


def primal_rounding(problem: Sizes, rho: Array, d: Array, f: Array, b: float, t: Array, losses: Array) -> float:
    """Return by how much rounding may move the primal value."""
    scores = score_errors(problem, rho, d) + FEW * EPS * (np.abs(f) + abs(b) + np.abs(problem.y))
    rising = np.zeros_like(f)
    for moved in (f + b - scores, f + b + scores):
        rising = np.maximum(rising, problem.loss.value(problem.y, moved) - losses)
    fitted = growth(problem.n_samples) * float(problem.weight @ losses)
    fitted += INDEPENDENT * float(np.linalg.norm(problem.weight * rising))
    return fitted + _penalty_rounding(problem, rho, d, t)


def coupled_primal_rounding(problem: Sizes, rho: Array, d: Array, t: Array, moved: Array, summed: float) -> float:
    """Return the same where the loss is no sum over scores."""
    return summed + INDEPENDENT * float(np.linalg.norm(moved)) + _penalty_rounding(problem, rho, d, t)


def score_errors(problem: Sizes, rho: Array, d: Array) -> Array:
    """Return by how much rounding may move the scores of a model, (N,)."""
    active = np.flatnonzero(d)
    roots = problem.entry_roots[active]
    return np.asarray(growth(problem.n_samples) * ((d[active] * term_sizes(roots, rho)) @ roots))


def _penalty_rounding(problem: Sizes, rho: Array, d: Array, t: Array) -> float:
    """Return by how much rounding may move the penalty of a model."""
    active = np.flatnonzero(d)
    factors, sizes = problem.penalties[active] * d[active], term_sizes(problem.entry_roots[active], rho)
    worse = t.copy()
    worse[active] += factors * norm_error(t[active] / factors, sizes, problem.n_samples)
    value = problem.regularizer.formulas.value
    penalty = value(t)
    return max(value(worse) - penalty, 0.0) + growth(problem.n_kernels) * penalty


def dual_rounding(problem: Sizes, feasible: Array, signed: Array, summed: float) -> float:
    """Return by how much rounding may have moved the dual value up, for feasible coefficients and their norms.

    Negative norms belong to kernels indefinite by float32 rounding. The nearest definite kernel has larger norms by the
    same amount, and likewise the model: hence twice.
    """
    formulas, u = problem.regularizer.formulas, np.maximum(signed, 0.0)
    sizes = term_sizes(problem.entry_roots, feasible) / problem.penalties
    worse = u + norm_error(u, sizes, problem.n_samples) + 2.0 * np.maximum(-signed, 0.0)
    shrunk = formulas.dual_scale(worse)
    conjugate = formulas.conjugate(u)
    rising = max(formulas.conjugate(shrunk * worse) - conjugate, 0.0)
    return (1.0 - shrunk + growth(problem.n_samples)) * summed + rising + growth(problem.n_kernels) * conjugate
