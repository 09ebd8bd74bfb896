"""What tests of the library are made of: contracts to inherit, small problems, and independent oracles."""

from manykernels.testing.gram_stack import GramStackContract
from manykernels.testing.kernel import KernelContract
from manykernels.testing.loss import LossContract
from manykernels.testing.regularizer import RegularizerContract
from manykernels.testing.solver import SolverContract

__all__ = ["GramStackContract", "KernelContract", "LossContract", "RegularizerContract", "SolverContract"]
