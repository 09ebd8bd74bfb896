"""Estimators at the end of a pipeline: what is reported is the last step, on rows as it gets them."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a pipeline; another model as it is."""
    return last_step(model[-1]) if isinstance(model, Pipeline) else model


def as_last_step_gets(model: Any, X: Any) -> Any:
    """Return rows after the steps before the last one of a pipeline; for another model as they are."""
    if not isinstance(model, Pipeline) or X is None:
        return X
    return as_last_step_gets(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
