"""Kernels: immutable specifications, banks of them on columns of a table, and precomputed stacks."""

from manykernels.kernels.bank.bank import KernelBank
from manykernels.kernels.bank.contract import Group, PreparedRows
from manykernels.kernels.bank.fitted import FittedBank
from manykernels.kernels.bank.grids import DefaultKernels, Interactions, OnLandmarks
from manykernels.kernels.bank.patterns import BankEntry, Joint, OnColumns, PerFeature, PerGroup, PerView, Spare
from manykernels.kernels.pairs.bank import PairKernels
from manykernels.kernels.pairs.data import Pairs
from manykernels.kernels.precomputed.bank import PrecomputedBank
from manykernels.kernels.precomputed.stack import KernelStack
from manykernels.kernels.specs.base import (
    KERNELS,
    KernelOfFeatures,
    KernelSpec,
    Product,
    Scaled,
    Sum,
    register_kernel,
    spec_from_dict,
)
from manykernels.kernels.specs.categorical import ArdOverlap, Binned, Missing, Ordinal, Overlap
from manykernels.kernels.specs.distances import MedianWidth, width_grid
from manykernels.kernels.specs.inner import Cosine, Linear, Polynomial, Tanimoto, WeightedPolynomial
from manykernels.kernels.specs.interaction import ColumnPower, Interaction
from manykernels.kernels.specs.kmers import Kmers
from manykernels.kernels.specs.landmarks import Landmarks, Shaped
from manykernels.kernels.specs.objects import Fingerprint, GraphFeatures, Ngrams, ObjectKernel
from manykernels.kernels.specs.radial import (
    ArdGaussian,
    ChiSquared,
    Dirichlet,
    FromCallable,
    Gaussian,
    Laplacian,
    Matern,
    Pairwise,
    Periodic,
)
from manykernels.kernels.tables.views import ViewImputer, Views

__all__ = [
    "KERNELS", "ArdGaussian", "ArdOverlap", "BankEntry", "Binned", "ChiSquared", "ColumnPower", "Cosine",
    "DefaultKernels", "Dirichlet", "Fingerprint", "FittedBank", "FromCallable", "Gaussian", "GraphFeatures", "Group",
    "Interaction", "Interactions", "Joint", "KernelBank", "KernelOfFeatures", "KernelSpec", "KernelStack", "Kmers",
    "Landmarks", "Laplacian", "Linear", "Matern", "MedianWidth", "Missing", "Ngrams", "ObjectKernel", "OnColumns",
    "OnLandmarks", "Ordinal", "Overlap", "PairKernels", "Pairs", "Pairwise", "PerFeature", "PerGroup", "PerView",
    "Periodic", "Polynomial", "PrecomputedBank", "PreparedRows", "Product", "Scaled", "Shaped", "Spare", "Sum",
    "Tanimoto", "ViewImputer", "Views", "WeightedPolynomial", "register_kernel", "spec_from_dict", "width_grid",
]  # fmt: skip
