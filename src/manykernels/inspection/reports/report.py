"""A fitted model in facts, in words and as a card: description, scores, distance to the optimum."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from manykernels.inspection.displays.kernel_table import kernel_table
from manykernels.inspection.displays.plotting import cut_text, short_label
from manykernels.inspection.evidence.selection import noise_doubt
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports.scores import GAP, SURVIVAL, Score, score_held_out, task_of
from manykernels.objective.losses import CoxPartial
from manykernels.solvers import Solution, Status
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.validation.arrays import TableLike
from manykernels.validation.parameters import printable


@dataclass(frozen=True)
class MKLReport:
    """Facts about a fitted model, as a table, as text and as JSON.

    Create with :meth:`from_estimator`.

    Attributes
    ----------
    estimator, task, loss, penalty : str
        The task is ``"classification"``, ``"regression"`` or ``"survival"``; the loss of survival is ``"cox"``.
    alpha : float, tuple of float or None
        None if the penalty is an object with a fixed strength.
    n_samples, n_features, n_support : int
        Training samples, columns, and samples with a nonzero dual coefficient if known.
    n_kept : int
        Training samples stored in the model and the file: the support for matrices; for factors the landmarks of bands,
        or none.
    n_kernels, n_active : int
        Kernels in all, and with a positive weight (for any class or output).
    status : str
        The worst over classes or outputs.
    message : str
        The status in words.
    relative_gap, tol : float
        Largest relative duality gap, and the tolerance.
    tol_measure : str
        Quantity of ``tol``: ``"relative duality gap"``, unless the estimator has another stopping rule.
    tol_reached : float or None
        The value reached; None if unknown.
    solver : str
    passes, newton_steps, elapsed_s : float
        Cost, summed over classes or outputs; zero passes for a search without counts.
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
    n_kept: int
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
        estimator : MKLClassifier, MKLRegressor or MKLSurvival, or a Pipeline around an estimator
            Fitted. Of a pipeline the last step is reported; ``X_test`` goes through the earlier steps.
        X_test, y_test : array-like or None, default=None
            Unseen data; required for scores.

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
            n_test, scores = np.shape(y_test)[0], score_held_out(estimator, X_test, y_test)
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
            n_kept=_n_kept(estimator),
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
        shown_kernels = 20
        return "\n".join([*lines, "", self.weights[columns].head(shown_kernels).to_string(index=False)])

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
        """Return everything as JSON values; a number not finite becomes None.

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
            Passed to :func:`json.dumps`, for example ``indent=2``.
        """
        return json.dumps(self.to_dict(), allow_nan=False, **options)

    def to_html(self) -> str:
        """Return both tables as HTML."""
        return self.frame().to_html(index=False) + self.weights.to_html(index=False)

    _repr_html_ = to_html

    @property
    def kept(self) -> str:
        """What the model keeps of the training samples, in words."""
        if self.solver != FactoredNewton.name:
            return f"{self.n_support:,} support samples"
        return f"{self.n_kept:,} samples kept for bands" if self.n_kept else "no samples kept"

    def _facts(self) -> dict[str, Any]:
        facts = asdict(self)
        del facts["weights"]
        return facts


def _n_kept(estimator: Any) -> int:
    """Return the number of stored training samples."""
    if bands := getattr(estimator, "_bands", ()):
        return max(int(own.rows.n_samples) for own in bands)
    return len(getattr(estimator, "support_", ())) if estimator._expansion.stores_samples else 0


def _name(value: object) -> str:
    if isinstance(value, Mapping):
        return " and ".join(
            f"{_name(part)} ({group if isinstance(group, str) else 'group'})" for group, part in value.items()
        )
    return value if isinstance(value, str) else str(getattr(value, "name", value))


def _loss(estimator: BaseEstimator) -> str:
    """Return the name of the loss, also for hazards."""
    return CoxPartial.name if task_of(estimator) == SURVIVAL else _name(estimator.loss)


def _alpha(estimator: BaseEstimator) -> float | tuple[float, ...]:
    """Return the strength, or the strengths of several targets."""
    found = np.asarray(getattr(estimator, "alpha_", estimator.alpha), dtype=np.float64)
    return float(found) if found.ndim == 0 else tuple(found.tolist())


def _finite(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# What the facts say, in words, and as a card for notebooks.


WHY_STOPPED = {
    "max_iter": "it reached the largest number of iterations (max_iter)",
    "time_limit": "it reached the time limit",
    "stalled": "the iteration made no more progress",
    "interrupted": "it was interrupted",
    "numerical_error": "a computation failed",
}
METHODS = {
    "enumeration": "all products of the family were looked at",
    "identity": "an exact formula covers all products of the family",
    "bound": "an upper bound covers all products of the family",
}


def number(value: float) -> str:
    """Return a score as text: three decimals, or four significant digits for large scores."""
    if math.isnan(value):
        return "not defined"
    text = f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text


def interval(score: Score) -> str:
    """Return the ends of the interval of a score as text; none where the rows tell none."""
    return "no interval" if math.isnan(score.low) else f"{number(score.low)} to {number(score.high)}"


def percent(share: float) -> str:
    """Return a share as text with two significant digits: 0.00004 is ``0.004 %``."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def certificate_words(facts: MKLReport, model: BaseEstimator) -> list[str]:
    """Return sentences on the certificate of the optimization, and its limits."""
    if facts.tol_measure == "stationarity":
        known = facts.tol_reached is not None
        reached = f"{facts.tol_reached:.2g} was reached, tol is {facts.tol:g}" if known else ""
        return [
            "The problem is not convex: the solution is a stationary point, and another start may end at a lower "
            "objective.",
            f"tol bounds the {facts.tol_measure}; {reached}.",
        ]
    lines = [_gap_words(facts)]
    if facts.tol_measure != GAP:
        lines.append(f"The search itself stopped by the {facts.tol_measure} (tol {facts.tol:g}), not by this gap.")
    method = METHODS.get(getattr(model, "certificate_method_", ""))
    if method:
        lines.append(f"The proof holds over {model.n_family_kernels_:,} products of columns: {method}.")
    lines.append(
        "This is a proof about the fit, not about new samples: the scores above measure how well the model predicts. "
        "It does not show that a kernel is a cause."
    )
    return lines


def _gap_words(facts: MKLReport) -> str:
    share = max(facts.relative_gap, 0.0)
    if facts.status == "converged" or share <= facts.tol:
        asked = f" (tol is {percent(facts.tol)})" if facts.tol_measure == GAP else ""
        return (
            f"Optimal to within {percent(share)}: no other weights for these kernels, with this loss and penalty, "
            f"lower the objective by more than that{asked}. The gap can be recomputed from the model."
        )
    why = WHY_STOPPED.get(facts.status, facts.message)
    return (
        f"Not finished: the solver stopped because {why}. The objective may still fall by up to {percent(share)}, "
        f"while tol is {percent(facts.tol)}; small weights may still become zero, or zeros positive."
    )


def again_words(counts: list[int | None], n_folds: int) -> str:
    """Return how sure a selection is, from how often the kernels were selected in the refits."""
    known = [count for count in counts if count is not None]
    if not known or not n_folds:
        return ""
    always = sum(count == n_folds for count in known)
    never = sum(count == 0 for count in known)
    ends = f"{always:,} of the {len(known):,} selected kernels were selected again in every one of {n_folds} refits"
    lost = f", {never:,} in none" if never else ""
    return (
        f"{ends}{lost}. The refits share most of their samples, so this indicates stability and is not an error rate. "
        "Which of several similar kernels is selected is a matter of chance."
    )


def comparison_words(name: str, better: Score, metric: str) -> str:
    """Return a comparison with a simpler model in words, with the uncertainty."""
    if math.isnan(better.value):
        return f"not compared with the {name}: {metric} is not defined where these rows have one value of the target"
    size = f"{abs(better.value):.3f} in {metric} ({better.low:+.3f} to {better.high:+.3f})"
    if better.low > 0:
        return f"better than the {name} by {size}"
    if better.high < 0:
        return f"worse than the {name} by {size}"
    apart = f"difference {better.value:+z.3f} ({better.low:+.3f} to {better.high:+.3f})"
    return f"not distinguishable from the {name} on these rows: {apart}"


# Colors that a light and a dark page both show; text has the color of the page.
CARD = (
    "font-family:system-ui,sans-serif;font-size:13px;line-height:1.5;max-width:44em;padding:.7em 1em;"
    "border:1px solid #8888;border-radius:6px;overflow-wrap:anywhere"
)
BAR = "height:.75em;background:#0072b2;border-radius:1px;min-width:2px"
MUTED = "opacity:.7"
WARNING = "border-left:3px solid #d55e00;padding-left:.6em;margin:.4em 0"


def summary_html(model: BaseEstimator) -> str:
    """Return a fitted estimator as a small card of HTML, for the ``_repr_html_`` of notebooks.

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor, MKLSurvival, their CV variants or a search, or a Pipeline around an estimator
        An unfitted model gives the parameters only.

    Returns
    -------
    str
        A ``div`` with inline styles; every text is escaped, and nothing is loaded from elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import summary_html
    >>> X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    >>> card = summary_html(MKLRegressor().fit(X, np.sin(X[:, 1])))
    >>> card.startswith("<div"), "x1: gaussian" in card
    (True, True)
    """
    try:
        check_is_fitted(model)
    except NotFittedError:
        return f'<div style="{CARD}"><code>{escape(_parameters(last_step(model)))}</code><br><i>not fitted</i></div>'
    model, _ = unwrapped(model)
    facts = MKLReport.from_estimator(model)
    strength, gap = f", {facts.strength}" if facts.strength else "", escape(percent(max(facts.relative_gap, 0.0)))
    was_chosen = np.isfinite(getattr(model, "best_score_", np.nan))  # not where there was no time for it
    lines = [
        f"<b>{escape(facts.estimator)}</b> <span style='{MUTED}'>{escape(facts.loss)} loss, {escape(facts.penalty)} "
        f"penalty{escape(strength)}</span>",
        f"{facts.n_samples:,} samples, {facts.n_features:,} columns; <b>{facts.n_active:,} of {facts.n_kernels:,}</b> "
        f"kernels, {facts.kept}",
        *([f"strength chosen by {model.n_folds_} folds, mean score {model.best_score_:.3f}"] if was_chosen else []),
        f"optimal to within {gap} (relative duality gap)"
        if facts.status == "converged"
        else f"<div style='{WARNING}'>not finished ({escape(facts.status)}): the objective may fall by up to {gap}"
        "</div>",
        *_noise(model),
        _kernels(model, facts.n_active),
        f"<details><summary style='{MUTED}'>parameters</summary><code>{escape(_parameters(model))}</code></details>",
    ]
    return printable(f'<div style="{CARD}">' + "".join(f"<div>{line}</div>" for line in lines) + "</div>", "\n")


def _parameters(model: BaseEstimator) -> str:
    return model.__repr__(N_CHAR_MAX=2000)


def _noise(model: BaseEstimator) -> list[str]:
    """Return how the selection compares with what noise would have given."""
    above = getattr(model, "above_noise_", None)
    if above is None:
        return []
    doubt = noise_doubt(model)
    if doubt is not None:
        return [f"<div style='{WARNING}'>{escape(doubt)}</div>"]
    used = np.atleast_2d(model.kernel_weights_) > 0
    clear = int((np.atleast_2d(above) & used).any(axis=0).sum())
    return [f"{clear:,} of the {int(used.any(axis=0).sum()):,} are, each by itself, more than noise reaches (95 %)"]


def _kernels(model: BaseEstimator, n_active: int) -> str:
    """Return the kernels of largest share as bars."""
    table = kernel_table(model)
    most_kernels = 6
    used = table[table["weight"] > 0].sort_values("norm_share", ascending=False, kind="stable").head(most_kernels)
    if used.empty:
        return f"<div style='{WARNING}'>No kernel was selected; the model is a constant.</div>"
    largest = float(used["norm_share"].max()) or 1.0
    longest = 60
    rows = [
        f"<tr><td style='text-align:left;padding:0'>{escape(cut_text(short_label(row['name']), longest))}</td>"
        f"<td style='width:8em;padding:0 .6em'>"
        f"<div style='{BAR};width:{100 * row['norm_share'] / largest:.0f}%'></div></td>"
        f"<td style='text-align:right;white-space:nowrap'>{100 * row['norm_share']:.1f} %</td></tr>"
        for row in used.to_dict("records")
    ]
    more = f"<div style='{MUTED}'>and {n_active - len(used):,} more</div>" if n_active > len(used) else ""
    return f"<table style='margin:.4em 0;font:inherit;color:inherit'>{''.join(rows)}</table>{more}"
