"""One page about a fitted model: what it is, how well it does, how far from optimal, and which kernels it uses."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from manykernels.inspection.pipelines import unwrapped
from manykernels.inspection.reports.scores import SURVIVAL, held_out_scores, task_of
from manykernels.objective.losses import CoxPartial
from manykernels.solvers import Solution, Status
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.validation.arrays import TableLike

SHOWN_KERNELS = 20
GAP = "relative duality gap"


@dataclass(frozen=True)
class MKLReport:
    """Facts about a fitted model, as a table, as text and as JSON.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    estimator, task, loss, penalty : str
        The task is ``"classification"``, ``"regression"`` or ``"survival"``; the loss of survival is ``"cox"``.
    alpha : float, tuple of float or None
        None if the penalty is an object with its own strength.
    n_samples, n_features, n_support : int
        Training samples, columns, samples with a nonzero dual coefficient; the last is 0 for kernels held as factors,
        of which a model keeps no samples.
    n_kernels, n_active : int
        Kernels in all, and with a positive weight (for any class or output).
    status : str
        The worst over classes or outputs.
    message : str
        The status in words.
    relative_gap, tol : float
        Largest relative duality gap, and what was asked for.
    tol_measure : str
        Of what ``tol`` was asked for: ``"relative duality gap"``, unless the estimator stops on something else.
    tol_reached : float or None
        The value of that which was reached; None if the estimator does not keep it.
    solver : str
    passes, newton_steps, elapsed_s : float
        Cost, summed over classes or outputs; zero passes where a search does not count them.
    n_test : int
        Test samples; 0 without test data.
    scores : dict of str to float or None
        On test data; None where a score is not defined.
    weights : DataFrame
        Active kernels, the heaviest first.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import MKLReport
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> y = np.sin(X[:, 1])
    >>> report = MKLReport.from_estimator(MKLRegressor().fit(X[:40], y[:40]), X[40:], y[40:])
    >>> report.status, report.n_kernels, report.scores["r2"] > 0.9
    ('converged', 12, True)
    """

    estimator: str
    task: str
    loss: str
    penalty: str
    alpha: float | tuple[float, ...] | None
    n_samples: int
    n_features: int
    n_support: int
    n_kernels: int
    n_active: int
    status: str
    message: str
    relative_gap: float
    tol: float
    tol_measure: str
    tol_reached: float | None
    solver: str
    passes: float
    newton_steps: int
    elapsed_s: float
    n_test: int
    scores: dict[str, float | None] = field(default_factory=dict)
    weights: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X_test: TableLike | None = None, y_test: ArrayLike | None = None
    ) -> Self:
        """Collect the facts.

        Parameters
        ----------
        estimator : MKLClassifier, MKLRegressor or MKLSurvival, or a Pipeline that ends in one
            Fitted. Of a pipeline the last step is reported; ``X_test`` goes through the steps before it.
        X_test, y_test : array-like or None, default=None
            Data that the estimator has not seen; without them there are no scores.

        Raises
        ------
        AttributeError
            If the estimator is not fitted.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> from manykernels.inspection import MKLReport
        >>> MKLReport.from_estimator(MKLRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])).n_samples
        3
        """
        estimator, X_test = unwrapped(estimator, X_test)
        n_test, scores = 0, dict[str, float | None]()
        if X_test is not None and y_test is not None:
            n_test, scores = np.shape(y_test)[0], held_out_scores(estimator, X_test, y_test)
        found = estimator.solution_
        solutions = (found,) if isinstance(found, Solution) else tuple(found)
        worst = max(solutions, key=lambda one: (one.status is not Status.CONVERGED, one.certificate.relative_gap))
        penalty = getattr(estimator, "penalty", None) or estimator.penalty_name
        measure = getattr(estimator, "tol_measure", GAP)
        return cls(
            estimator=type(estimator).__name__,
            task=task_of(estimator),
            loss=_loss(estimator),
            penalty=_name(penalty),
            alpha=_alpha(estimator) if isinstance(penalty, (str, Mapping)) else None,
            n_samples=int(getattr(estimator, "_n_samples", len(solutions[0].dual_coef))),
            n_features=int(estimator.n_features_in_),
            n_support=len(getattr(estimator, "support_", ())),
            n_kernels=len(estimator.kernel_names_),
            n_active=len({int(m) for one in solutions for m in one.active}),
            status=str(worst.status),
            message=worst.message,
            relative_gap=float(estimator.dual_gap_),
            tol=float(getattr(getattr(estimator, "solver", None), "tol", estimator.tol)),
            tol_measure=measure,
            tol_reached=float(estimator.dual_gap_) if measure == GAP else getattr(estimator, "tol_reached", None),
            solver=worst.solver,
            passes=float(sum(one.passes for one in solutions)),
            newton_steps=int(sum(one.newton_steps for one in solutions)),
            elapsed_s=float(sum(one.elapsed_s for one in solutions)),
            n_test=n_test,
            scores=scores,
            weights=estimator.weights_frame(),
        )

    def frame(self) -> pd.DataFrame:
        """Return the facts as a table with the columns ``fact`` and ``value``, scores last."""
        facts = {name: value for name, value in self._facts().items() if name != "scores"}
        facts |= {f"test {name}": value for name, value in self.scores.items()}
        return pd.DataFrame({"fact": list(facts), "value": pd.Series(list(facts.values()), dtype=object)})

    def summary(self) -> str:
        """Return the facts as a few lines of text, followed by the heaviest kernels."""
        strength = f", {self.strength}" if self.strength else ""
        lines = [
            f"{self.estimator} ({self.task}): {self.loss} loss, {self.penalty} penalty{strength}",
            f"{self.n_samples} samples, {self.n_features} columns; {self.n_active} of {self.n_kernels} kernels active, "
            f"{self.kept}",
            f"{self.status}: {GAP} {self.relative_gap:.2e} ({self.asked}), {self.cost}",
        ]
        if self.scores:
            texts = {name: "undefined" if value is None else f"{value:.4f}" for name, value in self.scores.items()}
            shown = ", ".join(f"{name} {text}" for name, text in texts.items())
            lines.append(f"on {self.n_test} test samples: {shown}")
        columns = [name for name in ("class", "output", "name", "weight", "norm_share") if name in self.weights]
        return "\n".join([*lines, "", self.weights[columns].head(SHOWN_KERNELS).to_string(index=False)])

    @property
    def strength(self) -> str:
        """The strength as text, the smallest and the largest of several; empty for a penalty that is an object."""
        if self.alpha is None:
            return ""
        low, high = f"{np.min(self.alpha):.4g}", f"{np.max(self.alpha):.4g}"
        return f"alpha {low}" if low == high else f"alpha {low} to {high}"

    @property
    def asked(self) -> str:
        """What ``tol`` asked for, as text."""
        if self.tol_measure == GAP:
            return f"tol {self.tol:.0e}"
        reached = "" if self.tol_reached is None else f", {self.tol_reached:.2e} reached"
        return f"tol {self.tol:.0e} is the {self.tol_measure}{reached}"

    @property
    def cost(self) -> str:
        """Cost as text."""
        passes = f"{self.passes:.1f} passes over the kernels, " if self.passes else ""
        return f"{passes}{self.newton_steps} Newton steps, {self.elapsed_s:.2f} s ({self.solver})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON knows; a number that is not finite becomes None.

        Returns
        -------
        dict
            Strings, numbers, lists and dicts.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> from manykernels.inspection import MKLReport
        >>> MKLReport.from_estimator(MKLRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])).to_dict()["status"]
        'converged'
        """
        return {**_finite(self._facts()), "weights": _finite(self.weights.to_dict("records"))}

    def to_json(self, **options: Any) -> str:
        """Return everything as JSON text.

        Parameters
        ----------
        **options
            Passed to :func:`json.dumps`, such as ``indent=2``.
        """
        return json.dumps(self.to_dict(), allow_nan=False, **options)

    def to_html(self) -> str:
        """Return both tables as HTML."""
        return self.frame().to_html(index=False) + self.weights.to_html(index=False)

    _repr_html_ = to_html

    @property
    def kept(self) -> str:
        """What the model keeps of the training samples, in words."""
        return f"{self.n_support:,} support samples" if self.solver != FactoredNewton.name else "no samples kept"

    def _facts(self) -> dict[str, Any]:
        facts = asdict(self)
        del facts["weights"]
        return facts


def _name(value: object) -> str:
    if isinstance(value, Mapping):
        return " and ".join(
            f"{_name(part)} ({group if isinstance(group, str) else 'group'})" for group, part in value.items()
        )
    return value if isinstance(value, str) else str(getattr(value, "name", value))


def _loss(estimator: BaseEstimator) -> str:
    """Return the name of the loss; hazards have one only."""
    return CoxPartial.name if task_of(estimator) == SURVIVAL else _name(estimator.loss)


def _alpha(estimator: BaseEstimator) -> float | tuple[float, ...]:
    """Return the strength that was used, or those of several targets."""
    found = np.asarray(getattr(estimator, "alpha_", estimator.alpha), dtype=np.float64)
    return float(found) if found.ndim == 0 else tuple(found.tolist())


def _finite(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
