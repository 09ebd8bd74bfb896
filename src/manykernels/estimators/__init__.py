"""The scikit-learn face: estimators that fit, predict, and explain which kernels they use."""

from __future__ import annotations

from manykernels.estimators.classifier import MKLClassifier
from manykernels.estimators.regressor import MKLRegressor

__all__ = ["MKLClassifier", "MKLRegressor"]
