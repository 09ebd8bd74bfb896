"""The scikit-learn interface: estimators with ``fit``, ``predict``, and explanations of the selected kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manykernels.estimators.aligner import KernelAligner
    from manykernels.estimators.parameters import LossParameters, Resources, Search
    from manykernels.estimators.searches.gaussian import GaussianMKL
    from manykernels.estimators.searches.products import HierarchicalMKL, NonlinearMKL, PolynomialMKL
    from manykernels.estimators.selection.cold_start import ColdStartKFold
    from manykernels.estimators.selection.cross_validation import (
        MKLClassifierCV,
        MKLRegressorCV,
        NestedScores,
        nested_cross_validation,
    )
    from manykernels.estimators.selection.path import RegularizationPath, regularization_path
    from manykernels.estimators.supervised.classifier import MKLClassifier
    from manykernels.estimators.supervised.regressor import MKLRegressor
    from manykernels.estimators.survival import MKLSurvival, MKLSurvivalCV, brier_score, concordance_index

__all__ = [
    "ColdStartKFold", "GaussianMKL", "HierarchicalMKL", "KernelAligner", "LossParameters", "MKLClassifier",
    "MKLClassifierCV", "MKLRegressor", "MKLRegressorCV", "MKLSurvival", "MKLSurvivalCV", "NestedScores", "NonlinearMKL",
    "PolynomialMKL", "RegularizationPath", "Resources", "Search", "brier_score", "concordance_index",
    "nested_cross_validation", "regularization_path",
]  # fmt: skip

# Each name by its module: one estimator needs a third of what all of them do, and importing that takes time.
_HOMES = {
    "aligner": ("KernelAligner",),
    "parameters": ("LossParameters", "Resources", "Search"),
    "searches.gaussian": ("GaussianMKL",),
    "searches.products": ("HierarchicalMKL", "NonlinearMKL", "PolynomialMKL"),
    "selection.cold_start": ("ColdStartKFold",),
    "selection.cross_validation": ("MKLClassifierCV", "MKLRegressorCV", "NestedScores", "nested_cross_validation"),
    "selection.path": ("RegularizationPath", "regularization_path"),
    "supervised.classifier": ("MKLClassifier",),
    "supervised.regressor": ("MKLRegressor",),
    "survival": ("MKLSurvival", "MKLSurvivalCV", "brier_score", "concordance_index"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
