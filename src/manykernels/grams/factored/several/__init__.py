"""Factored kernels of two or three columns."""

from __future__ import annotations

from manykernels.grams.factored.several.cells import (
    CellOperator,
    axis_codes,
    cells_of,
    grid_levels,
    grid_parts,
    on_grid,
    sees_cells,
)
from manykernels.grams.factored.several.grid import GridStack, mean_diagonals
from manykernels.grams.factored.several.window import WindowStack, has_window

__all__ = [
    "CellOperator",
    "GridStack",
    "WindowStack",
    "axis_codes",
    "cells_of",
    "grid_levels",
    "grid_parts",
    "has_window",
    "mean_diagonals",
    "on_grid",
    "sees_cells",
]
