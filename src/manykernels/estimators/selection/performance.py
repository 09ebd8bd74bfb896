"""How well the models of a path predict rows that they did not learn from: a score and its deviation over splits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from manykernels.estimators.selection.cross_validation import MKLClassifierCV, MKLRegressorCV
from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack
from manykernels.solvers import Solver, get_solver

if TYPE_CHECKING:
    from manykernels.estimators.selection.penalties import PenaltyFamily
    from manykernels.objective.losses import Loss
    from manykernels.validation.arrays import Array

MEASURES = {"neg_root_mean_squared_error": ("rmse", -1.0), "accuracy": ("accuracy", 1.0)}
DEFAULTS = {"regression": "neg_root_mean_squared_error", "classification": "accuracy"}


@dataclass(frozen=True)
class Splits:
    """In which splits a path is followed, and what is measured there.

    Attributes
    ----------
    cv : int, splitter, iterable or None
        None measures nothing.
    scoring : str, callable or None
        None is the root mean squared error (``rmse``), for classes the accuracy.
    solver : str or Solver
    parameters : dict
        Of a solver given by name.
    settings : dict
        Of the estimator with built-in cross-validation, which follows the path in every split.
    """

    cv: Any
    scoring: Any
    solver: str | Solver
    parameters: dict[str, Any]
    settings: dict[str, Any]

    def measure(
        self, X: Any, y: Any, sample_weight: Any, alphas: Array, loss: Loss, family: PenaltyFamily
    ) -> pd.DataFrame | None:
        """Return ``alpha``, the mean of the measure over the splits, its standard deviation, and its value on each."""
        if self.cv is None:
            return None
        if isinstance(X, GramStack):
            raise InvalidInputError(
                "cv needs rows, or a KernelStack with kernels='precomputed': a GramStack cannot be split. Leave cv out."
            )
        if loss.task not in DEFAULTS:
            raise InvalidInputError(
                f"cv measures paths of regression and classification, and the loss '{loss.name}' is neither: "
                "MKLSurvivalCV follows such paths in folds. Leave cv out."
            )
        scoring = DEFAULTS[loss.task] if self.scoring is None else self.scoring
        model = self._estimator(alphas, loss, family, scoring)
        with warnings.catch_warnings():
            # The path has warned of what did not converge; which strength is best is not asked here.
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y, sample_weight)
        found = model.cv_results_
        name, sign = MEASURES.get(scoring, ("score", 1.0)) if isinstance(scoring, str) else ("score", 1.0)
        columns = {"alpha": found["alpha"], name: sign * found["mean_score"], f"{name}_std": found["std_score"]}
        splits = {f"{name}_{k}": sign * found[f"score_{k}"] for k in range(model.n_folds_)}
        return pd.DataFrame(columns | splits)

    def _estimator(self, alphas: Array, loss: Loss, family: PenaltyFamily, scoring: Any) -> Any:
        solver, parameters = self.solver, self.parameters
        if isinstance(solver, str) and solver != "auto" and parameters:
            solver, parameters = get_solver(solver)(**parameters), {}
        penalty = {"penalty": "elasticnet", "mus": family.mu} if family.mu is not None else {"penalty": family.at(1, 1)}
        kind = MKLClassifierCV if loss.task == "classification" else MKLRegressorCV
        given = {"loss": loss, "alphas": alphas, "cv": self.cv, "scoring": scoring, "solver": solver}
        return kind(**given, **penalty, **self.settings, **parameters)
