"""Ends of grids of widths that are the best of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor
from manykernels.inspection import report
from manykernels.inspection.reports.widths import ends_of_width_grids
from manykernels.kernels import MedianWidth


def table() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two columns, of which the target is a function that turns six times."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(150, 2))
    return X, np.sin(10.0 * X[:, 0]) + 0.05 * rng.normal(size=150)


def grid(*factors: float) -> KernelBank:
    """Return Gaussians of so many medians, and a linear kernel."""
    return KernelBank.per_feature([*(Gaussian(MedianWidth(factor)) for factor in factors), Linear()])


def test_a_narrowest_kernel_that_has_most_of_the_norm_is_named(tmp_path: Path) -> None:
    X, y = table()
    model = MKLRegressor(grid(0.5, 1.0, 2.0), alpha=1e-3).fit(X, y)
    ((name, side, share),) = ends_of_width_grids(model, X)
    assert (name, side) == ("x0: gaussian(width=0.5*median)", "narrowest")
    norms = dict(zip(model.kernel_names_, model.kernel_norms_, strict=True))
    assert share == pytest.approx(norms[name] / sum(n for own, n in norms.items() if own.startswith("x0: g")))
    report(model, X, y, tmp_path / "report.html")
    assert "The narrowest kernel of a grid is the best" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_grid_around_the_best_width_is_not(tmp_path: Path) -> None:
    X, y = table()
    model = MKLRegressor(grid(0.02, 0.1, 0.3, 1.0, 4.0), alpha=1e-3).fit(X, y)
    assert list(ends_of_width_grids(model, X)) == []


def test_a_linear_kernel_stands_for_wider_ones() -> None:
    X, _ = table()
    model = MKLRegressor(grid(0.02, 0.05, 0.1), alpha=1e-3).fit(X, X[:, 0])
    assert list(ends_of_width_grids(model, X)) == []
    wide = KernelBank.per_feature([Gaussian(MedianWidth(factor)) for factor in (0.02, 0.05, 0.1)])
    sides = {side for _, side, _ in ends_of_width_grids(MKLRegressor(wide, alpha=1e-3).fit(X, X[:, 0]), X)}
    assert sides == {"widest"}
