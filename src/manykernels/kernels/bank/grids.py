"""Ready-made lists of kernels: width grids, the SimpleMKL protocol, the default bank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import BankEntry, Joint, NamedKernel, PerFeature, as_specs
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.specs.inner import Linear, Polynomial
from manykernels.kernels.specs.radial import Gaussian
from manykernels.kernels.specs.widths import MedianWidth, width_grid

__all__ = ["DEFAULT_SPECS", "DefaultKernels", "simplemkl_specs", "width_grid", "with_gaussians"]

DEFAULT_SPECS: tuple[KernelSpec, ...] = (*(Gaussian(MedianWidth(factor)) for factor in (0.5, 1.0, 2.0)), Linear())
MANY_FEATURES = 200


def simplemkl_specs() -> tuple[KernelSpec, ...]:
    """Return the 27 kernels of the SimpleMKL protocol."""
    widths = (0.1, 0.25, 0.5, 0.75, *range(1, 21))
    return (*(Gaussian(width) for width in widths), *(Polynomial(degree) for degree in (1, 2, 3)))


def with_gaussians(specs: Any, widths: Any) -> tuple[KernelSpec, ...]:
    """Return the kernels followed by one Gaussian per width; at least one kernel in all."""
    single = isinstance(widths, str) or not isinstance(widths, Iterable)
    gaussians = tuple(Gaussian(width) for width in ((widths,) if single else widths))
    nothing = isinstance(specs, tuple) and not specs  # tables and arrays compare entry by entry, or refuse to
    return gaussians if gaussians and nothing else as_specs(specs) + gaussians


@dataclass(frozen=True)
class DefaultKernels(BankEntry):
    """What is used when nobody chose: Gaussians at half, once and twice the median distance, and a linear kernel.

    On every column by itself and on all columns together: ``4 (d + 1)`` kernels for d columns. Beyond 200 columns only
    the linear kernel is taken per column, ``d + 4`` kernels. One column alone gets 4 kernels.
    """

    def expand(self, table: Table) -> list[NamedKernel]:
        """Return the kernels, column by column and then the joint ones."""
        alone = PerFeature(DEFAULT_SPECS if table.n_columns <= MANY_FEATURES else (Linear(),)).expand(table)
        return alone + Joint(DEFAULT_SPECS).expand(table) if table.n_columns > 1 else alone
