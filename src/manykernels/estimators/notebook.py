"""How a notebook shows a fitted estimator: a card of what was learned, above scikit-learn's diagram."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

# By name, since what looks at models imports what fits them and not the other way; only notebooks ever load it.
CARD = "manykernels.inspection:summary_html"


class NotebookCard:
    """Puts the card of a fitted estimator above the diagram that scikit-learn's estimators show."""

    def _repr_html_inner(self) -> str:
        diagram = estimator_html_repr(self)
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return f"<div>{resolve_name(CARD)(self)}{diagram}</div>"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]  # of scikit-learn's base, beside this mixin
        return {**bundle, "text/html": self._repr_html_inner()} if "text/html" in bundle else bundle
