"""What kind of question a model answers."""

from __future__ import annotations

from sklearn.base import BaseEstimator, is_classifier

from manykernels.estimators import MKLSurvival
from manykernels.inspection.pipelines import last_step

SURVIVAL = "survival"


def task_of(model: BaseEstimator) -> str:
    """Return ``"classification"``, ``"regression"`` or ``"survival"``, of a pipeline that of its last step."""
    estimator = last_step(model)
    if isinstance(estimator, MKLSurvival):
        return SURVIVAL
    return "classification" if is_classifier(estimator) else "regression"
