"""Numbers of a fit in plain words: what the certificate proves, and how sure a selection is."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from manykernels.inspection.reports.report import GAP, MKLReport

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
        return [
            "The kernel was shaped by descent on a problem with many valleys: the solution is a point where no small "
            "step improves it, and there is no proof that another start would not end lower.",
            f"What tol asked for is the {facts.tol_measure}; {_reached(facts)}.",
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


def _reached(facts: MKLReport) -> str:
    return f"{facts.tol_reached:.2g} was reached, {facts.tol:g} was asked for" if facts.tol_reached is not None else ""


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


def comparison_words(name: str, better: Any, metric: str) -> str:
    """Return whether the model is better than a simpler one, as far as the rows can tell."""
    size = f"{abs(better.value):.3f} in {metric} ({better.low:+.3f} to {better.high:+.3f})"
    if better.low > 0:
        return f"better than the {name} by {size}"
    if better.high < 0:
        return f"worse than the {name} by {size}"
    apart = f"difference {better.value:+.3f} ({better.low:+.3f} to {better.high:+.3f})"
    return f"not told apart from the {name} by these rows: {apart}"
