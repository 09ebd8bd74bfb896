"""Kernels that are found while learning: families too large, or infinite, to be listed."""

from __future__ import annotations

from manykernels.discovery._nonlinear_problem import project_on_ball
from manykernels.discovery.base import Candidate, Discovery, Found, Limits, run_search
from manykernels.discovery.dirichlet_family import DirichletFamily
from manykernels.discovery.families import FiniteFamily, KernelFamily
from manykernels.discovery.first_stage import AlignedKernel, align_family
from manykernels.discovery.gaussian import discover_by_sampling
from manykernels.discovery.greedy import discover_greedily
from manykernels.discovery.hierarchical import HierarchicalDiscovery, discover_hierarchical
from manykernels.discovery.nonlinear import NonlinearDiscovery, discover_nonlinear
from manykernels.discovery.pairs import PairWeights
from manykernels.discovery.polynomial import PolynomialDiscovery, discover_polynomial
from manykernels.discovery.radial_families import (
    ArdGaussianFamily,
    GaussianFamily,
    LaplacianFamily,
    MaternFamily,
    RadialFamily,
)
from manykernels.discovery.search import FamilySearch, Peak, SearchSettings
from manykernels.discovery.target_space import TargetSpace
from manykernels.discovery.two_stage import discover_in_two_stages

__all__ = [
    "AlignedKernel",
    "ArdGaussianFamily",
    "Candidate",
    "DirichletFamily",
    "Discovery",
    "FamilySearch",
    "FiniteFamily",
    "Found",
    "GaussianFamily",
    "HierarchicalDiscovery",
    "KernelFamily",
    "LaplacianFamily",
    "Limits",
    "MaternFamily",
    "NonlinearDiscovery",
    "PairWeights",
    "Peak",
    "PolynomialDiscovery",
    "RadialFamily",
    "SearchSettings",
    "TargetSpace",
    "align_family",
    "discover_by_sampling",
    "discover_greedily",
    "discover_hierarchical",
    "discover_in_two_stages",
    "discover_nonlinear",
    "discover_polynomial",
    "project_on_ball",
    "run_search",
]
