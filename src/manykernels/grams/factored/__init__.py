"""Gram stacks that are linear in the number of samples: kernels with factors, and bounds on what factors miss."""

from __future__ import annotations

from manykernels.grams.factored.base import FactoredStack, FactorOperator
from manykernels.grams.factored.columns import ColumnTable
from manykernels.grams.factored.composite import CompositeStack, factored_stack, served_by
from manykernels.grams.factored.explicit import ExplicitStack
from manykernels.grams.factored.fourier import FourierStack
from manykernels.grams.factored.nystroem import NystroemStack
from manykernels.grams.factored.scan import ScanStack

__all__ = [
    "ColumnTable",
    "CompositeStack",
    "ExplicitStack",
    "FactorOperator",
    "FactoredStack",
    "FourierStack",
    "NystroemStack",
    "ScanStack",
    "factored_stack",
    "served_by",
]
