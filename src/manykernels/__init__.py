"""Multiple kernel learning: a predictor, and which kernels matter, with a proof of optimality."""

from importlib import import_module
from importlib.metadata import version as _version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from manykernels.wings import WAITING

if TYPE_CHECKING:  # who checks types looks names up in the wings, as `__getattr__` does
    from manykernels.estimators import *
    from manykernels.exceptions import *
    from manykernels.inspection import *
    from manykernels.kernels import *
    from manykernels.objective import *
    from manykernels.solvers import *

__version__ = _version("manykernels")

WAITING.append(f"{__name__}.papers")

__all__ = [
    "ArdGaussian", "Binned", "ChiSquared", "ColdStartKFold", "ConvergenceWarning", "Cosine", "Dirichlet",
    "FromCallable", "Gaussian", "GaussianMKL", "HierarchicalMKL", "Interaction", "InvalidInputError", "KernelAligner",
    "KernelBank", "KernelSpec", "KernelStack", "Landmarks", "Laplacian", "Linear", "MKLClassifier", "MKLClassifierCV",
    "MKLRegressor", "MKLRegressorCV", "MKLSurvival", "MKLSurvivalCV", "Matern", "MedianWidth", "Missing",
    "NonlinearMKL", "Ordinal", "Overlap", "PairKernels", "Pairs", "Pairwise", "Periodic", "Polynomial", "PolynomialMKL",
    "PrecomputedBank", "Product", "Scaled", "Solution", "Sum", "Tanimoto", "ViewImputer", "Views", "WeightedPolynomial",
    "__version__", "compare", "leave_one_out_importance", "load_model", "nested_cross_validation", "open_rows",
    "predictive_importance", "register_kernel", "register_loss", "register_penalty", "register_solver",
    "regularization_path", "report", "save_model", "solve", "stability_selection", "survival_array",
]  # fmt: skip

# In this order they are looked through, and imported, for a name; the estimators import one another when asked for.
_WINGS = ("exceptions", "kernels", "objective", "solvers", "estimators", "inspection")


def __getattr__(name: str) -> Any:
    """Import a public name or a part of the package when it is first asked for: ``--version`` needs none."""
    if name in __all__:
        homes = (import_module(f"{__name__}.{wing}") for wing in _WINGS)
        value = next(getattr(home, name) for home in homes if name in home.__all__)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
