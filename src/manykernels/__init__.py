"""Multiple kernel learning: a predictor, and which kernels matter, with a proof of optimality."""

from __future__ import annotations

from importlib.metadata import version as _version

from manykernels.alignment import AlignedWeights, aligned_weights, centered_alignment, target_kernel
from manykernels.estimators import (
    GaussianMKL,
    HierarchicalMKL,
    KernelAligner,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    NonlinearMKL,
    PolynomialMKL,
    regularization_path,
)
from manykernels.exceptions import (
    ConvergenceWarning,
    IncompatibleError,
    InvalidInputError,
    MemoryBudgetError,
    ModelFileError,
    NotPSDError,
)
from manykernels.inspection import load_model, save_model
from manykernels.kernels import (
    ArdGaussian,
    ChiSquared,
    Cosine,
    Dirichlet,
    FromCallable,
    Gaussian,
    Interaction,
    KernelBank,
    KernelSpec,
    KernelStack,
    Laplacian,
    Linear,
    Matern,
    MedianWidth,
    Pairwise,
    Polynomial,
    PrecomputedBank,
    Product,
    Scaled,
    Sum,
    WeightedPolynomial,
)
from manykernels.objective.losses import get_loss
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import Solution, solve

__version__ = _version("manykernels")

__all__ = [
    "AlignedWeights",
    "ArdGaussian",
    "ChiSquared",
    "ConvergenceWarning",
    "Cosine",
    "Dirichlet",
    "FromCallable",
    "Gaussian",
    "GaussianMKL",
    "HierarchicalMKL",
    "IncompatibleError",
    "Interaction",
    "InvalidInputError",
    "KernelAligner",
    "KernelBank",
    "KernelSpec",
    "KernelStack",
    "Laplacian",
    "Linear",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "Matern",
    "MedianWidth",
    "MemoryBudgetError",
    "ModelFileError",
    "NonlinearMKL",
    "NotPSDError",
    "Pairwise",
    "Polynomial",
    "PolynomialMKL",
    "PrecomputedBank",
    "Product",
    "Scaled",
    "Solution",
    "Sum",
    "WeightedPolynomial",
    "__version__",
    "aligned_weights",
    "centered_alignment",
    "get_loss",
    "get_regularizer",
    "load_model",
    "regularization_path",
    "save_model",
    "solve",
    "target_kernel",
]
