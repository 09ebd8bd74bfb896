"""What tests of the library are made of: contracts to inherit, problems and oracles. It needs pytest."""

try:
    import pytest  # noqa: F401
except ImportError as error:
    raise ImportError(
        "manykernels.testing holds classes of tests for pytest, which is not installed. Install it with: "
        "python -m pip install pytest."
    ) from error

from manykernels.testing.estimators import EstimatorContract
from manykernels.testing.kernels import GramStackContract, KernelContract
from manykernels.testing.objective import LossContract, RegularizerContract
from manykernels.testing.solver import SolverContract

__all__ = [
    "EstimatorContract",
    "GramStackContract",
    "KernelContract",
    "LossContract",
    "RegularizerContract",
    "SolverContract",
]
