"""The scikit-learn face: estimators that fit, predict, and explain which kernels they use."""

from __future__ import annotations

from manykernels.estimators.aligner import KernelAligner
from manykernels.estimators.searches.gaussian import GaussianMKL
from manykernels.estimators.searches.hierarchical import HierarchicalMKL
from manykernels.estimators.searches.nonlinear import NonlinearMKL
from manykernels.estimators.searches.polynomial import PolynomialMKL
from manykernels.estimators.selection.cold_start import ColdStartKFold
from manykernels.estimators.selection.cross_validation import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.nested import NestedScores, nested_cross_validation
from manykernels.estimators.selection.path import RegularizationPath, regularization_path
from manykernels.estimators.supervised.classifier import MKLClassifier
from manykernels.estimators.supervised.regressor import MKLRegressor
from manykernels.estimators.survival.cross_validation import MKLSurvivalCV
from manykernels.estimators.survival.estimator import MKLSurvival
from manykernels.estimators.survival.scores import brier_score, concordance_index
from manykernels.estimators.survival.targets import survival_array

__all__ = [
    "ColdStartKFold",
    "GaussianMKL",
    "HierarchicalMKL",
    "KernelAligner",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLSurvival",
    "MKLSurvivalCV",
    "NestedScores",
    "NonlinearMKL",
    "PolynomialMKL",
    "RegularizationPath",
    "brier_score",
    "concordance_index",
    "nested_cross_validation",
    "regularization_path",
    "survival_array",
]
