"""Gram stacks of linear cost in the samples: kernels with factors, and bounds on the approximation error."""

from manykernels.grams.factored.banks import factored_stack, reads_rows, served_by
from manykernels.grams.factored.base import FactoredStack, FactorOperator
from manykernels.grams.factored.chunked import ChunkedTable, open_table
from manykernels.grams.factored.composite import CompositeStack
from manykernels.grams.factored.explicit import ExplicitStack
from manykernels.grams.factored.fourier import FourierStack
from manykernels.grams.factored.nystroem import NystroemStack
from manykernels.grams.factored.scan import ScanStack
from manykernels.grams.factored.window import WindowStack
from manykernels.grams.rows.columns import ColumnTable

__all__ = [
    "ChunkedTable", "ColumnTable", "CompositeStack", "ExplicitStack", "FactorOperator", "FactoredStack", "FourierStack",
    "NystroemStack", "ScanStack", "WindowStack", "factored_stack", "open_table", "reads_rows", "served_by",
]  # fmt: skip
