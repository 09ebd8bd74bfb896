"""Curves and surfaces of a report: what columns and pairs add, few, in words too, and for models that have them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor, report
from manykernels.inspection.reports.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from manykernels.inspection.reports.document import MOST_CURVES, MOST_SURFACES, functions_of
from manykernels.kernels import Gaussian


def table(n: int = 160) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["age", "net, income", "<b>tall"])
    X["kind"] = rng.choice(["urban", "rural"], n)
    signs = np.where(X["kind"] == "urban", 1.0, -1.0)
    return X, 2 * X["age"] * X["<b>tall"] + signs * X["net, income"] + np.sin(3 * X["age"])


def additive(**options: Any) -> MKLRegressor:
    numbers = ["age", "net, income", "<b>tall"]
    bank = KernelBank.per_feature(widths=[0.5], columns=numbers) + KernelBank.interactions(bins=8)
    return MKLRegressor(bank, **({"alpha": "0.05*max", "tol": 1e-3} | options))


def test_a_report_draws_curves_and_surfaces_and_says_what_they_show(tmp_path: Path) -> None:
    X, y = table()
    model = additive().fit(X, y)
    path = report(model, X, y, tmp_path / "report.html", cv=None, baselines=False, n_draws=20)
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 100_000
    section = text[text.index("What columns and pairs add") : text.index("What was proved")]
    assert "<b>" not in section  # names are escaped
    assert "net, income and kind" in section
    told = re.findall(r'aria-label="([^"]*): From (-[^ ]*) where (.*?) to (\+[^ ]*) where (.*?)\."', section)
    assert len(told) == section.count("crispEdges") == MOST_SURFACES
    assert {name for name, *_ in told[:2]} == {"net, income and kind", "age and &lt;b&gt;tall"}
    kind = next(words for words in told if words[0] == "net, income and kind")
    # The least and the most are at an end of the one column, on the side of the other that its sign says.
    for place, sign in ((kind[2], -1.0), (kind[4], 1.0)):
        found = re.fullmatch(r"net, income is (\S+) and kind is (\w+)", place)
        assert found is not None
        assert sign * float(found[1]) * (1.0 if found[2] == "urban" else -1.0) > 0.6


def test_cells_tile_the_box_and_have_the_color_of_their_sign() -> None:
    X, y = table()
    found = functions_of(additive().fit(X, y), X)
    for surface in found["surfaces"]:
        area = sum(cell.width * cell.height for cell in surface.cells)
        assert area <= (WIDTH - LEFT - RIGHT) * (HEIGHT - TOP - BOTTOM) + 1e-6
        assert all(LEFT <= cell.x <= cell.x + cell.width <= WIDTH - RIGHT + 1e-9 for cell in surface.cells)
        assert all(TOP <= cell.y <= cell.y + cell.height <= HEIGHT - BOTTOM + 1e-9 for cell in surface.cells)
        assert all(0 < cell.opacity <= 1 for cell in surface.cells)
    strongest = [max(cell.opacity for cell in surface.cells) for surface in found["surfaces"]]
    assert max(strongest) == 1.0 > 2 * min(strongest)  # one scale for all
    pair = next(surface for surface in found["surfaces"] if surface.x_label == "age")
    # Two negative numbers, and two positive ones, add: bottom left and top right.
    corners = {(cell.x < WIDTH / 3, cell.y > HEIGHT / 2): cell.color for cell in pair.cells if cell.opacity > 0.6}
    assert corners[True, True] == "orange"
    assert corners[True, False] == "blue"
    (curve,) = [curve for curve in found["curves"] if curve.title == "age"]
    heights = [float(point.split(",")[1]) for point in curve.lines[0].split()]
    assert heights[len(heights) // 4] > heights[3 * len(heights) // 4]  # of sin(3 x), downwards on the page


def test_few_are_drawn_and_the_others_counted() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 6))
    pairs = [(f"{i}{j}", Gaussian(1.0), [i, j]) for i in range(6) for j in range(i)]
    y = X @ rng.normal(size=6) + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=120)
    bank = KernelBank(pairs[:5]) + KernelBank.per_feature(widths=[1.0])
    model = MKLRegressor(bank, penalty="ridge", alpha=0.1).fit(X, y)
    found = functions_of(model, X)
    assert (len(found["curves"]), len(found["surfaces"])) == (MOST_CURVES, MOST_SURFACES)
    assert (found["more_curves"], found["more_surfaces"]) == (6 - MOST_CURVES, 5 - MOST_SURFACES)


@pytest.mark.parametrize("name", ["several classes", "all columns", "precomputed"])
def test_models_without_functions_of_columns_have_none(name: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    if name == "several classes":
        model: Any = MKLClassifier(KernelBank.per_feature(widths=[1.0])).fit(X, rng.integers(3, size=60))
    elif name == "all columns":
        model = MKLRegressor(KernelBank.joint(widths=[1.0])).fit(X, X[:, 0])
    else:
        X = np.stack([Gaussian(1.0)(X), Gaussian(2.0)(X)])
        model = MKLRegressor("precomputed").fit(X, rng.normal(size=60))
    found = functions_of(model, X)
    assert not found["curves"]
    assert not found["surfaces"]
