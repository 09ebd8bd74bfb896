"""What classifier and regressor share: from checked targets to a fitted, certified model, and what it tells."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from manykernels.estimators.parameters import check_parameters, shape_of
from manykernels.estimators.supervised.prediction import KernelExpansion
from manykernels.estimators.supervised.problems import Fit, build_problems, solve_problems
from manykernels.estimators.supervised.targets import invalid_input, kernel_factors
from manykernels.estimators.supervised.training import as_kernel_stack, is_precomputed, open_training
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.objective.constants import strength_from_alpha
from manykernels.objective.losses import LOSSES, Loss, get_loss
from manykernels.objective.regularizers import REGULARIZERS, Regularizer, get_regularizer
from manykernels.solvers import Solution, Status

Array = NDArray[Any]


class BaseMKL(BaseEstimator):
    """Base of the estimators; not meant to be used by itself."""

    fitted_extras: ClassVar[tuple[str, ...]] = ()  # attributes of the fitted estimator that only this class has

    _task: str
    _other: str
    _target_word: str
    _single: bool
    _n_samples: int

    @property
    def _takes_kernels(self) -> bool:
        """Whether X holds kernels, not features."""
        return is_precomputed(getattr(self, "kernels", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._takes_kernels
        return tags

    def weights_frame(self, *, active_only: bool = True) -> pd.DataFrame:
        """Return the kernels with their weights, the heaviest first.

        Parameters
        ----------
        active_only : bool, default=True
            Only kernels with a positive weight.

        Returns
        -------
        DataFrame
            One row a kernel: ``name``, ``kernel``, ``columns``, ``weight`` (``d_m``), ``norm`` (``||f_m||``) and
            ``share`` (of the sum of norms); with several classes or targets, a row for each, led by ``class`` or
            ``output``.
        """
        check_is_fitted(self)
        weights, norms = np.atleast_2d(self.kernel_weights_, self.kernel_norms_)
        frames = [self._weights_of(d, t) for d, t in zip(weights, norms, strict=True)]
        if self.kernel_weights_.ndim == 2:
            for label, frame in zip(self._target_labels(), frames, strict=True):
                frame.insert(0, self._target_word, label)
        frame = pd.concat(frames, ignore_index=True)
        return frame[frame["weight"] > 0].reset_index(drop=True) if active_only else frame

    def _weights_of(self, weights: Array, norms: Array) -> pd.DataFrame:
        total = norms.sum()
        frame = self._kernel_frame.assign(weight=weights, norm=norms, share=norms / total if total > 0 else norms)
        return frame.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    # --- fitting ----------------------------------------------------------------------------------------------------

    def _checked_rows(self, X: Any, *, reset: bool) -> Any:
        """Return X as it can be given to the bank, and keep or compare its number and names of columns."""
        if self._takes_kernels:
            stack = as_kernel_stack(X, square=reset)
            if reset:
                self.n_features_in_ = stack.n_samples
            return stack
        data = Table.of(X).data
        with invalid_input():
            validate_data(self, X if isinstance(X, pd.DataFrame) else data, reset=reset, skip_check_array=True)
        return data

    def _checked_loss(self) -> Loss:
        """Return the loss with its parameters, after a look at all parameters, also those that nothing uses."""
        given = self.get_params(deep=False)
        check_parameters(given)
        named = isinstance(self.loss, str)
        loss = get_loss(self.loss, **_own(LOSSES[self.loss], given)) if named else get_loss(self.loss)
        if loss.task != self._task:
            raise InvalidInputError(
                f"The loss {loss.name!r} is for {loss.task}, but this is an {type(self).__name__}; use {self._other}, "
                f"or one of the losses for {self._task}."
            )
        return loss

    def _checked_penalty(self, total_weight: float) -> Regularizer:
        if isinstance(self.penalty, Regularizer):
            return self.penalty
        own = _own(REGULARIZERS[self.penalty], self.get_params(deep=False))
        return get_regularizer(self.penalty, strength_from_alpha(self.alpha, total_weight), **own)

    def _fit_targets(self, X: Any, targets: Array, weight: Array, loss: Loss) -> Self:
        """Solve one problem a column of ``targets`` (N, K) on samples of positive weight, and keep the model."""
        kept = np.flatnonzero(weight)
        regularizer = self._checked_penalty(float(weight.sum()))
        if len(kept) < len(weight):
            X, targets, weight = _safe_indexing(X, kept), targets[kept], weight[kept]
        n_targets = targets.shape[1]
        training = open_training(
            self.kernels, X, memory_budget=self.memory_budget, n_jobs=self.n_jobs if n_targets == 1 else None,
            n_targets=n_targets,
        )  # fmt: skip
        problems = build_problems(
            training.stack,
            targets,
            loss,
            regularizer,
            fit_intercept=self.fit_intercept,
            sample_weight=weight,
            kernel_penalties=kernel_factors(self.kernel_penalties, training.bank.names),
        )
        settings = {"tol": self.tol, "max_iter": self.max_iter, "verbose": self.verbose}
        fit = solve_problems(problems, self.solver, self.n_jobs, random_state=self.random_state, **settings)
        self._expansion = KernelExpansion.of(
            training.bank,
            training.prepared,
            np.array([found.kernel_weights for found in fit.solutions]),
            np.array([found.dual_coef for found in fit.solutions]),
        )
        self._keep(training.bank, fit, kept)
        return self

    def _keep(self, bank: Any, fit: Fit, kept: Array) -> None:
        """Set the fitted attributes; ``kept`` are the positions of the samples that took part."""
        solutions, rho = fit.solutions, self._expansion.coefficients
        self._kernel_frame = bank.frame()[["name", "kernel", "columns"]]
        self.kernel_names_ = list(bank.names)
        self.support_ = kept[np.flatnonzero(np.any([found.dual_coef != 0 for found in solutions], axis=0))]
        self.dual_gap_ = max(float(found.certificate.relative_gap) for found in solutions)
        self.n_iter_ = max(1, *(found.n_iter for found in solutions))
        weights = np.array([found.kernel_weights for found in solutions])
        intercepts = np.array([found.intercept for found in solutions])
        whole = tuple(_on_all_samples(found, kept, self._n_samples) for found in solutions)
        every: Any = (weights, fit.norms, rho, intercepts, whole)
        values = (part[0] for part in every) if self._single else every
        self.kernel_weights_, self.kernel_norms_, self.dual_coef_, self.intercept_, self.solution_ = values
        if self._single:
            self.intercept_ = float(self.intercept_)
        self._warn(fit)

    def _warn(self, fit: Fit) -> None:
        """Say once what the solutions lack."""
        unfinished = [found for found in fit.solutions if found.status is not Status.CONVERGED]
        if unfinished:
            worst = max(unfinished, key=lambda found: found.certificate.relative_gap)
            rest = len(unfinished) - 1
            more = f" So did {rest} more of the {len(fit.solutions)} problems." if rest else ""
            warnings.warn(worst.message + more, ConvergenceWarning, stacklevel=5)
        elif not any(found.kernel_weights.any() for found in fit.solutions):
            warnings.warn(f"No kernel was selected: {self._why_none(fit)}", UserWarning, stacklevel=5)

    def _why_none(self, fit: Fit) -> str:
        total = fit.problems[0].total_weight
        alpha, largest = (
            fit.problems[0].regularizer.strength / total,
            max(problem.strength_max() for problem in fit.problems) / total,
        )
        if largest == 0:
            return "none of them can improve on the best constant. Is y constant, or are all kernels zero?"
        if alpha < largest:
            return f"at alpha={alpha:g} the best constant is optimal within tol={self.tol:g}. Decrease alpha or tol."
        return (
            f"alpha={alpha:g} is not below alpha_max={largest:.6g}, where the model becomes constant. Decrease alpha."
        )

    # --- predicting -------------------------------------------------------------------------------------------------

    def _scores(self, X: Any) -> Array:
        """Return the decision values of new rows, (n, K) float64."""
        check_is_fitted(self)
        return self._expansion.scores(self._checked_rows(X, reset=False)) + self.intercept_

    def _contributions(self, X: Any) -> Array:
        check_is_fitted(self)
        parts = self._expansion.contributions(self._checked_rows(X, reset=False))
        return parts[:, :, 0] if self._single else parts


def _own(kind: type[Loss] | type[Regularizer], given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that this loss or penalty has, as far as the estimator has them too."""
    return {name: given[name] for name in shape_of(kind) if name in given}


def _on_all_samples(solution: Solution, kept: Array, n_samples: int) -> Solution:
    """Return the solution with a dual coefficient for every sample, zero for those that took no part."""
    if len(kept) == n_samples:
        return solution
    whole = np.zeros(n_samples)
    whole[kept] = solution.dual_coef
    return replace(solution, dual_coef=whole)
