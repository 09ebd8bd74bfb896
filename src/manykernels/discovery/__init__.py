"""Kernels found while learning: families too large, or infinite, to be listed."""

from manykernels.discovery.base import Discovery, Found, Limits, SearchProblem, run_search
from manykernels.discovery.families.base import KernelFamily, PairWeights
from manykernels.discovery.families.search import BestMember, FamilySearch, SearchSettings
from manykernels.discovery.families.stationary import (
    ArdGaussianFamily,
    DirichletFamily,
    GaussianFamily,
    LaplacianFamily,
    MaternFamily,
    RadialFamily,
)
from manykernels.discovery.hierarchical.discovery import HierarchicalDiscovery, discover_hierarchical
from manykernels.discovery.nonlinear import NonlinearDiscovery, discover_nonlinear, project_on_ball
from manykernels.discovery.one_stage.discovery import discover_by_sampling, discover_greedily
from manykernels.discovery.polynomial.discovery import PolynomialDiscovery, discover_polynomial
from manykernels.discovery.two_stage.discovery import discover_in_two_stages, graded_settings
from manykernels.discovery.two_stage.first_stage import AlignedKernel, AscentSettings, TargetSpace, align_family

__all__ = [
    "AlignedKernel", "ArdGaussianFamily", "AscentSettings", "BestMember", "DirichletFamily", "Discovery",
    "FamilySearch", "Found", "GaussianFamily", "HierarchicalDiscovery", "KernelFamily", "LaplacianFamily", "Limits",
    "MaternFamily", "NonlinearDiscovery", "PairWeights", "PolynomialDiscovery", "RadialFamily", "SearchProblem",
    "SearchSettings", "TargetSpace", "align_family", "discover_by_sampling", "discover_greedily",
    "discover_hierarchical", "discover_in_two_stages", "discover_nonlinear", "discover_polynomial", "graded_settings",
    "project_on_ball", "run_search",
]  # fmt: skip
