"""The scikit-learn face: estimators that fit, predict, and explain which kernels they use."""

from __future__ import annotations

from manykernels.estimators.classifier import MKLClassifier
from manykernels.estimators.cross_validation import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.gaussian import GaussianMKL
from manykernels.estimators.hierarchical import HierarchicalMKL
from manykernels.estimators.kernel_learner import KernelAligner
from manykernels.estimators.nonlinear import NonlinearMKL
from manykernels.estimators.path import RegularizationPath, regularization_path
from manykernels.estimators.polynomial import PolynomialMKL
from manykernels.estimators.regressor import MKLRegressor

__all__ = [
    "GaussianMKL",
    "HierarchicalMKL",
    "KernelAligner",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "NonlinearMKL",
    "PolynomialMKL",
    "RegularizationPath",
    "regularization_path",
]
