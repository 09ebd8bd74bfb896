"""Kernels: immutable specifications, banks of them on columns of a table, and precomputed stacks."""

from __future__ import annotations

from manykernels.kernels.bank import FittedBank, KernelBank
from manykernels.kernels.grids import DefaultKernels, width_grid
from manykernels.kernels.patterns import BankEntry, Joint, OnColumns, PerFeature, PerView
from manykernels.kernels.precomputed import KernelStack
from manykernels.kernels.precomputed_bank import FittedPrecomputedBank, PrecomputedBank
from manykernels.kernels.prepared import Group, Prepared
from manykernels.kernels.prepared_kernels import PreparedKernels
from manykernels.kernels.specs import (
    KERNELS,
    ArdGaussian,
    ChiSquared,
    Cosine,
    Dirichlet,
    FromCallable,
    Gaussian,
    Interaction,
    KernelSpec,
    Laplacian,
    Linear,
    Matern,
    Pairwise,
    Polynomial,
    Product,
    Scaled,
    Sum,
    WeightedPolynomial,
    register_kernel,
    spec_from_dict,
)
from manykernels.kernels.widths import MedianWidth

__all__ = [
    "KERNELS",
    "ArdGaussian",
    "BankEntry",
    "ChiSquared",
    "Cosine",
    "DefaultKernels",
    "Dirichlet",
    "FittedBank",
    "FittedPrecomputedBank",
    "FromCallable",
    "Gaussian",
    "Group",
    "Interaction",
    "Joint",
    "KernelBank",
    "KernelSpec",
    "KernelStack",
    "Laplacian",
    "Linear",
    "Matern",
    "MedianWidth",
    "OnColumns",
    "Pairwise",
    "PerFeature",
    "PerView",
    "Polynomial",
    "PrecomputedBank",
    "Prepared",
    "PreparedKernels",
    "Product",
    "Scaled",
    "Sum",
    "WeightedPolynomial",
    "register_kernel",
    "spec_from_dict",
    "width_grid",
]
