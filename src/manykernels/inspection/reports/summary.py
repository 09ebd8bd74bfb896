"""A fitted model in words: what the certificate proves, how sure a selection is, and a card for notebooks."""

from html import escape

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from manykernels.inspection.displays.kernel_table import kernel_table
from manykernels.inspection.displays.plotting import cut_text, short_label
from manykernels.inspection.evidence.selection import noise_doubt
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports.report import GAP, MKLReport
from manykernels.inspection.reports.scores import Score

WHY_STOPPED = {
    "max_iter": "it reached the largest number of iterations (max_iter)",
    "time_limit": "it reached the time limit",
    "stalled": "it could not make further progress in the precision of numbers",
    "interrupted": "it was interrupted",
    "numerical_error": "a computation failed",
}
METHODS = {
    "enumeration": "all products of the family were looked at",
    "identity": "an exact formula covers all products of the family",
    "bound": "an upper bound covers all products of the family",
}


def number(value: float) -> str:
    """Return a score as text: three digits after the point, or four in all of what is large."""
    text = f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text


def percent(share: float) -> str:
    """Return a share as text with two digits that count: 0.00004 is ``0.004 %``."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def certificate_words(facts: MKLReport, model: BaseEstimator) -> list[str]:
    """Return sentences on what was proved about the optimization, and what was not."""
    if facts.tol_measure == "stationarity":
        known = facts.tol_reached is not None
        reached = f"{facts.tol_reached:.2g} was reached, {facts.tol:g} was asked for" if known else ""
        return [
            "The kernel was shaped by descent on a problem with many valleys: the solution is a point where no small "
            "step improves it, and there is no proof that another start would not end lower.",
            f"What tol asked for is the {facts.tol_measure}; {reached}.",
        ]
    lines = [_gap_words(facts)]
    if facts.tol_measure != GAP:
        lines.append(f"The search itself stopped by the {facts.tol_measure} (tol {facts.tol:g}), not by this gap.")
    method = METHODS.get(getattr(model, "certificate_method_", ""))
    if method:
        lines.append(f"The proof holds over {model.n_family_kernels_:,} products of columns: {method}.")
    lines.append(
        "This is a proof about the fit, not about new samples: how well the model predicts is measured above, and "
        "nothing here says that a kernel is a cause."
    )
    return lines


def _gap_words(facts: MKLReport) -> str:
    share = max(facts.relative_gap, 0.0)
    if facts.status == "converged" or share <= facts.tol:
        asked = f" ({percent(facts.tol)} was asked for)" if facts.tol_measure == GAP else ""
        return (
            f"Optimal to within {percent(share)}: no other weights for these kernels, with this loss and penalty, "
            f"reach an objective that is lower by more than that{asked}. Anyone can recompute this from the model."
        )
    why = WHY_STOPPED.get(facts.status, facts.message)
    return (
        f"Not finished: the solver stopped because {why}. The objective may still fall by up to {percent(share)}, "
        f"where {percent(facts.tol)} was asked for; weights near zero may still change sides."
    )


def again_words(counts: list[int | None], n_folds: int) -> str:
    """Return how sure a selection is, from how often its kernels were selected in the refits."""
    known = [count for count in counts if count is not None]
    if not known or not n_folds:
        return ""
    always = sum(count == n_folds for count in known)
    never = sum(count == 0 for count in known)
    ends = f"{always:,} of the {len(known):,} selected kernels were selected again in every one of {n_folds} refits"
    lost = f", {never:,} in none" if never else ""
    return (
        f"{ends}{lost}. Each refit leaves out one fold and shares most samples with the others, so that this is a "
        "sign of stability and no error rate; among kernels that say the same, which one is taken is chance."
    )


def comparison_words(name: str, better: Score, metric: str) -> str:
    """Return whether the model is better than a simpler one, as far as the rows can tell."""
    size = f"{abs(better.value):.3f} in {metric} ({better.low:+.3f} to {better.high:+.3f})"
    if better.low > 0:
        return f"better than the {name} by {size}"
    if better.high < 0:
        return f"worse than the {name} by {size}"
    apart = f"difference {better.value:+.3f} ({better.low:+.3f} to {better.high:+.3f})"
    return f"not told apart from the {name} by these rows: {apart}"


MOST_KERNELS = 6
LONGEST = 60
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
    model : MKLClassifier, MKLRegressor, MKLSurvival, their CV variants or a search, or a Pipeline that ends in one
        One that is not fitted gives its parameters only.

    Returns
    -------
    str
        One ``div`` with styles of its own; every text is escaped, and nothing is loaded from elsewhere.

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
    return f'<div style="{CARD}">' + "".join(f"<div>{line}</div>" for line in lines) + "</div>"


def _parameters(model: BaseEstimator) -> str:
    return model.__repr__(N_CHAR_MAX=2000)


def _noise(model: BaseEstimator) -> list[str]:
    """Return how the selection compares with what noise would have given."""
    above = getattr(model, "above_noise_", None)
    if above is None:
        return []
    doubt = noise_doubt(model)
    if doubt is not None and "alpha" in model.get_params(deep=False):
        return [f"<div style='{WARNING}'>{escape(doubt)}</div>"]
    used = np.atleast_2d(model.kernel_weights_) > 0
    clear = int((np.atleast_2d(above) & used).any(axis=0).sum())
    return [f"{clear:,} of the {int(used.any(axis=0).sum()):,} are, each by itself, more than noise reaches (95 %)"]


def _kernels(model: BaseEstimator, n_active: int) -> str:
    """Return the kernels of largest share as bars."""
    table = kernel_table(model)
    used = table[table["weight"] > 0].sort_values("norm_share", ascending=False, kind="stable").head(MOST_KERNELS)
    if used.empty:
        return f"<div style='{WARNING}'>No kernel was selected; the model is a constant.</div>"
    largest = float(used["norm_share"].max()) or 1.0
    rows = [
        f"<tr><td style='text-align:left;padding:0'>{escape(cut_text(short_label(row['name']), LONGEST))}</td>"
        f"<td style='width:8em;padding:0 .6em'>"
        f"<div style='{BAR};width:{100 * row['norm_share'] / largest:.0f}%'></div></td>"
        f"<td style='text-align:right;white-space:nowrap'>{100 * row['norm_share']:.1f} %</td></tr>"
        for row in used.to_dict("records")
    ]
    more = f"<div style='{MUTED}'>and {n_active - len(used):,} more</div>" if n_active > len(used) else ""
    return f"<table style='margin:.4em 0;font:inherit;color:inherit'>{''.join(rows)}</table>{more}"
