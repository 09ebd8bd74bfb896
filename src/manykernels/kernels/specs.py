"""Every kernel specification in one place; see the modules named after the families for the definitions."""

from __future__ import annotations

from manykernels.kernels.algebra import Product, Scaled, Sum
from manykernels.kernels.base import KERNELS, KernelSpec, register_kernel, spec_from_dict
from manykernels.kernels.general import ChiSquared, Dirichlet, FromCallable, Pairwise
from manykernels.kernels.inner import Cosine, Linear, Polynomial
from manykernels.kernels.interaction import Interaction
from manykernels.kernels.radial import ArdGaussian, Gaussian, Laplacian, Matern
from manykernels.kernels.weighted_polynomial import WeightedPolynomial

__all__ = [
    "KERNELS",
    "ArdGaussian",
    "ChiSquared",
    "Cosine",
    "Dirichlet",
    "FromCallable",
    "Gaussian",
    "Interaction",
    "KernelSpec",
    "Laplacian",
    "Linear",
    "Matern",
    "Pairwise",
    "Polynomial",
    "Product",
    "Scaled",
    "Sum",
    "WeightedPolynomial",
    "register_kernel",
    "spec_from_dict",
]
