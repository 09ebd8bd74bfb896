"""A fitted model as a card for notebooks: what it is, how far from optimal, and the kernels that carry it."""

from __future__ import annotations

from html import escape

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from manykernels.inspection.displays.kernel_table import kernel_table
from manykernels.inspection.displays.plotting import cut_text, short_label
from manykernels.inspection.evidence.noise import noise_doubt
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports.report import MKLReport
from manykernels.inspection.reports.words import percent

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
    strength = f", {facts.strength}" if facts.strength else ""
    lines = [
        f"<b>{escape(facts.estimator)}</b> <span style='{MUTED}'>{escape(facts.loss)} loss, {escape(facts.penalty)} "
        f"penalty{escape(strength)}</span>",
        f"{facts.n_samples:,} samples, {facts.n_features:,} columns; <b>{facts.n_active:,} of {facts.n_kernels:,}</b> "
        f"kernels, {facts.kept}",
        *_choice(model),
        _proof(facts),
        *_noise(model),
        _kernels(model, facts.n_active),
        f"<details><summary style='{MUTED}'>parameters</summary><code>{escape(_parameters(model))}</code></details>",
    ]
    return f'<div style="{CARD}">' + "".join(f"<div>{line}</div>" for line in lines) + "</div>"


def _parameters(model: BaseEstimator) -> str:
    return model.__repr__(N_CHAR_MAX=2000)


def _choice(model: BaseEstimator) -> list[str]:
    """Return how the strength was chosen, if it was."""
    if not np.isfinite(getattr(model, "best_score_", np.nan)):
        return []  # nothing was chosen, or there was no time for it
    return [f"strength chosen by {model.n_folds_} folds, mean score {model.best_score_:.3f}"]


def _proof(facts: MKLReport) -> str:
    if facts.status == "converged":
        return f"optimal to within {escape(percent(max(facts.relative_gap, 0.0)))} (relative duality gap)"
    return (
        f"<div style='{WARNING}'>not finished ({escape(facts.status)}): the objective may fall by up to "
        f"{escape(percent(max(facts.relative_gap, 0.0)))}</div>"
    )


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
