"""Every kernel specification in one place; see the modules named after the families for the definitions."""

from __future__ import annotations

from manykernels.kernels.specs.algebra import Product, Scaled, Sum
from manykernels.kernels.specs.base import KERNELS, KernelSpec, register_kernel, spec_from_dict
from manykernels.kernels.specs.categorical import Binned, Missing, Ordinal, Overlap
from manykernels.kernels.specs.general import ChiSquared, Dirichlet, FromCallable, Pairwise
from manykernels.kernels.specs.inner import Cosine, Linear, Polynomial, Tanimoto, WeightedPolynomial
from manykernels.kernels.specs.interaction import ColumnPower, Interaction
from manykernels.kernels.specs.kmers import Kmers
from manykernels.kernels.specs.landmarks import Landmarks
from manykernels.kernels.specs.molecules import Fingerprint, GraphFeatures
from manykernels.kernels.specs.objects import Ngrams, ObjectKernel
from manykernels.kernels.specs.radial import ArdGaussian, Gaussian, Laplacian, Matern, Periodic
from manykernels.kernels.specs.shaped import Shaped

__all__ = [
    "KERNELS",
    "ArdGaussian",
    "Binned",
    "ChiSquared",
    "ColumnPower",
    "Cosine",
    "Dirichlet",
    "Fingerprint",
    "FromCallable",
    "Gaussian",
    "GraphFeatures",
    "Interaction",
    "KernelSpec",
    "Kmers",
    "Landmarks",
    "Laplacian",
    "Linear",
    "Matern",
    "Missing",
    "Ngrams",
    "ObjectKernel",
    "Ordinal",
    "Overlap",
    "Pairwise",
    "Periodic",
    "Polynomial",
    "Product",
    "Scaled",
    "Shaped",
    "Sum",
    "Tanimoto",
    "WeightedPolynomial",
    "register_kernel",
    "spec_from_dict",
]
