"""One-class MKL: a region that holds most samples, with kernel weights on the simplex and a duality gap.

    min_{f, r}  (sum_m ||f_m||)^2 / 2 - r + sum_i max(0, r - f(x_i)) / (nu N)
    max_alpha   - max_m alpha'K_m alpha / 2,      0 <= alpha_i <= 1 / (nu N),  sum_i alpha_i = 1

With the hinge loss, all labels one and no intercept, a problem of the library has the same solutions up to scale:
``alpha`` over its sum solves the problem of ``nu = sum_i alpha_i / (C N)``. So the search is for ``C``.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import ConvergenceWarning, InvalidInputError, warn
from manykernels.grams import GramStack, as_stack, build_stack, cross_apply
from manykernels.kernels import KernelBank
from manykernels.objective.problem import Problem
from manykernels.objective.projection import project_box_hyperplane
from manykernels.objective.regularizers import Simplex
from manykernels.solvers import WorkingSet
from manykernels.validation.arrays import Array, check_positive

LARGEST_FACTOR = 60.0  # of the logarithm of C: a bracket beyond which nothing changes
MOST_STEPS = 60


class MKLNovelty(OutlierMixin, BaseEstimator):
    """Learn kernel weights and a region that holds most samples: a one-class support vector machine on their sum.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None
        Kernels on rows; ``"precomputed"`` for kernels as matrices; None for the default bank of every column.
    nu : float, default=0.1
        Bound on the share of training samples outside of the region, in (0, 1].
    tol : float, default=1e-4
        Duality gap to reach, relative to the objective.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        Weights, which add up to one.
    kernel_names_ : tuple of str
    dual_coef_ : ndarray of shape (n_samples,)
        ``alpha``, which adds up to one.
    offset_ : float
        ``r``: samples whose score is below it are outside.
    dual_gap_ : float
        Relative duality gap of this model.

    Notes
    -----
    Rakotomamonjy, Bach, Canu and Grandvalet, "SimpleMKL", JMLR 9 (2008), section 4, pose the problem; section 2.3.1 of
    Afkanpour's thesis names it.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import Gaussian, KernelBank
    >>> from manykernels.papers import MKLNovelty
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> bank = KernelBank([(f"width {w}", Gaussian(w), None) for w in (0.5, 1.0, 3.0)])
    >>> model = MKLNovelty(bank, nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]]).tolist(), bool(model.dual_gap_ <= 1e-4)
    ([1, -1], True)
    """

    def __init__(self, kernels: KernelBank | str | None = None, *, nu: float = 0.1, tol: float = 1e-4) -> None:
        self.kernels = kernels
        self.nu = nu
        self.tol = tol

    def fit(self, X: Any, y: object = None) -> "MKLNovelty":
        """Fit weights and region.

        Parameters
        ----------
        X : DataFrame, array of shape (n_samples, n_columns), or array of shape (n_kernels, n_samples, n_samples)
            Rows, or with ``kernels="precomputed"`` the matrices.
        y : ignored

        Returns
        -------
        MKLNovelty
        """
        check_positive(self.tol, "tol")
        nu = check_positive(self.nu, "nu", upper=1.0)
        stack = self._open_training(X)
        problem, alpha, theta = self._solve(stack, nu)
        self.dual_coef_, self.kernel_weights_ = alpha, theta
        scores = stack.apply(theta, alpha)
        self.offset_, self.dual_gap_ = _certify(problem, alpha, theta, scores, nu)
        if self.dual_gap_ > self.tol:
            warn(f"MKLNovelty stopped at the relative duality gap {self.dual_gap_:.2e}, above tol.", ConvergenceWarning)
        return self

    def score_samples(self, X: Any) -> Array:
        """Return ``f(x)``: large inside of the region.

        Parameters
        ----------
        X : DataFrame or array
            New rows, or kernels between new and training samples, (n_kernels, n, n_samples).

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        if self._bank is None:
            blocks = np.asarray(X, dtype=np.float64)
            shape = (len(self.kernel_weights_), len(self.dual_coef_))
            if blocks.ndim != 3 or (blocks.shape[0], blocks.shape[2]) != shape:
                told = f"({shape[0]}, n, {shape[1]})"
                raise InvalidInputError(f"New samples are kernels of shape {told}, got {blocks.shape}.")
            return np.asarray(np.tensordot(self.kernel_weights_, blocks @ self.dual_coef_, 1))
        rows = self._bank.prepare(X)
        return np.asarray(cross_apply(self._bank, rows, self._rows, self.kernel_weights_, self.dual_coef_))

    def decision_function(self, X: Any) -> Array:
        """Return the score less the offset: negative outside of the region.

        Parameters
        ----------
        X : DataFrame or array
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Array:
        """Return 1 inside of the region and -1 outside.

        Parameters
        ----------
        X : DataFrame or array
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n,), int
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def _open_training(self, X: Any) -> GramStack:
        """Return the kernels of the training samples; keep what new samples need."""
        if isinstance(self.kernels, str):
            if self.kernels != "precomputed":
                raise InvalidInputError(f"kernels must be a KernelBank, 'precomputed' or None, got {self.kernels!r}.")
            self._bank, stack = None, as_stack(X)
            self.kernel_names_ = tuple(f"kernel {m}" for m in range(stack.n_kernels))
            return stack
        bank = KernelBank.per_feature() if self.kernels is None else self.kernels
        self._bank = bank.fit(X)
        self._rows = self._bank.prepare(X)
        self.kernel_names_ = tuple(self._bank.names)
        return build_stack(self._bank, X)

    def _solve(self, stack: GramStack, nu: float) -> tuple[Problem, Array, Array]:
        """Return a problem on the stack, feasible ``alpha``, and ``theta`` on the simplex, for the given ``nu``."""
        n = stack.n_samples
        inner_tol = 1e-2  # of tol: the gap of each problem with the hinge loss
        solver = WorkingSet(tol=max(inner_tol * self.tol, 1e-8))
        last: list[Any] = [None]

        def excess(log_constant: float) -> float:
            problem = Problem(stack, np.ones(n), "hinge", Simplex(np.exp(-log_constant)), fit_intercept=False)
            last[0] = problem, solver.solve(problem)
            return float(last[0][1].dual_coef.sum()) / n - nu

        return _find_root(excess, last, nu, n)


def _find_root(excess: Any, last: list[Any], nu: float, n: int) -> tuple[Problem, Array, Array]:
    """Return the model at the constant that ``nu`` asks for."""
    low, high, step = 0.0, 0.0, 1.0
    if excess(0.0) < 0:
        while low > -LARGEST_FACTOR and excess(low) < 0:  # at most LARGEST_FACTOR
            low, step = low - step, 2 * step
    else:
        while high < LARGEST_FACTOR and excess(high) > 0:  # at most LARGEST_FACTOR
            high, step = high + step, 2 * step
    if excess(low) > 0 > excess(high):
        excess(brentq(excess, low, high, xtol=1e-9, rtol=1e-12, maxiter=MOST_STEPS, disp=False))
    problem, solution = last[0]
    mean, most = 1.0 / n, 1.0 / (nu * n)
    shares = solution.dual_coef / solution.dual_coef.sum()
    alpha = project_box_hyperplane(shares - mean, np.full(n, -mean), np.full(n, most - mean)) + mean
    alpha = np.clip(alpha, 0.0, most)
    return problem, alpha, solution.kernel_weights / solution.kernel_weights.sum()


def _certify(problem: Problem, alpha: Array, theta: Array, scores: Array, nu: float) -> tuple[float, float]:
    """Return the best offset and the relative gap of the model ``f_m = theta_m K_m alpha``."""
    u = problem.dual_norms(alpha)
    n = len(scores)
    candidates = np.sort(scores)
    offset = float(candidates[min(int(np.ceil(nu * n)), n) - 1])
    primal = (theta @ u) ** 2 / 2 - offset + float(np.maximum(offset - scores, 0.0).sum()) / (nu * n)
    dual = -(float(u.max()) ** 2) / 2
    return offset, float((primal - dual) / max(abs(float(primal)), float(np.finfo(np.float64).tiny)))
