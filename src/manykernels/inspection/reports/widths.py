"""Whether a model would take wider or narrower kernels than it was offered."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from manykernels.estimators.parameters import with_kernels_of
from manykernels.kernels import KernelBank, KernelSpec, Linear, MedianWidth

MOST_OF_A_GRID, MUCH = 0.75, 0.1  # shares of the norms: of an end in its grid, and of the grid in the model


def ends_of_width_grids(model: Any, X: Any) -> Iterator[tuple[str, str, float]]:
    """Yield the name of every kernel with the best width at an end of the grid.

    Parameters
    ----------
    model : estimator with ``kernels``, fitted
    X : table
        The training rows, which determine the kernels.

    Yields
    ------
    name : str
        Of the kernel.
    side : {"narrowest", "widest"}
    share : float
        The part of the norms of all kernels of the grid: at least `MOST_OF_A_GRID`.
    """
    bank = with_kernels_of(model, X).kernels
    if not isinstance(bank, KernelBank):
        return
    norms = dict(zip(model.kernel_names_, np.atleast_2d(model.kernel_norms_).sum(axis=0).tolist(), strict=True))
    whole, grids, linear = sum(norms.values()), dict[Any, list[tuple[float, str]]](), set[tuple[int, ...]]()
    for name, spec, columns in bank.expand(X):
        if isinstance(spec, Linear):
            linear.add(columns)
        elif (width := _width(spec)) is not None and name in norms:
            grids.setdefault((columns, type(spec)), []).append((width, name))
    fewest_widths = 3  # of a grid: two are no grid
    for (columns, _), grid in grids.items():
        grid.sort()
        total = sum(norms[name] for _, name in grid)
        if len(grid) < fewest_widths or total <= MUCH * whole:
            continue
        for side, (_, name) in (("narrowest", grid[0]), ("widest", grid[-1])):
            if norms[name] >= MOST_OF_A_GRID * total and not (side == "widest" and columns in linear):
                yield name, side, norms[name] / total


def _width(spec: KernelSpec) -> float | None:
    """Return the width of a kernel, if any, as a number or in medians."""
    width = getattr(spec, "width", None)
    return width.factor if isinstance(width, MedianWidth) else float(width) if isinstance(width, (int, float)) else None
