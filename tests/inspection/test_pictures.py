"""Pictures of a report: displays as SVG in the colors of the page; curves and surfaces few, and in words too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLRegressorCV, report
from manykernels.inspection.displays.plotting import PALETTE
from manykernels.inspection.reports.pictures import MOST_CURVES, MOST_SURFACES, draw_picture, functions_of
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
    assert path.stat().st_size < 250_000
    section = text[text.index("<h2>Curves and surfaces") : text.index("<h2>Certificate")]
    assert "<b>" not in section  # names are escaped
    told = re.findall(
        r"<figcaption>([^:]*): from (-[^ ]*) where (.*?) to (\+[^ ]*) where (.*?)\.</figcaption>", section
    )
    assert len(told) == MOST_SURFACES
    assert {name for name, *_ in told[:2]} == {"net, income and kind", "age and &lt;b&gt;tall"}
    kind = next(words for words in told if words[0] == "net, income and kind")
    # The least and the most are at an end of the one column, on the side of the other that its sign says.
    for place, sign in ((kind[2], -1.0), (kind[4], 1.0)):
        found = re.fullmatch(r"net, income is (\S+) and kind is (\w+)", place)
        assert found is not None
        assert sign * float(found[1]) * (1.0 if found[2] == "urban" else -1.0) > 0.6


@pytest.mark.nightly
def test_surfaces_have_the_color_of_their_sign_on_one_scale() -> None:
    X, y = table()
    found = functions_of(additive().fit(X, y), X)
    strongest = []
    for picture in found["surfaces"]:
        cells = re.findall(r"fill: var\(--p[01]\)(?:; fill-opacity: ([0-9.]+))?\"", picture.svg)
        strongest.append(max(float(opacity or 1.0) for opacity in cells[: len(cells) - 24]))  # but for the color bar
    assert max(strongest) == 1.0 > min(strongest)
    assert "The shade is the band of 95 %" in found["curves"].text
    assert found["effect"] == "added to the score"


def pages(html: str) -> list[str]:
    """Return the pictures of a page."""
    return re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)


def test_pictures_take_all_colors_from_the_page_and_keep_text_as_text(tmp_path: Path) -> None:
    X, y = table(80)
    bank = KernelBank.per_feature(widths=[0.5], columns=["age", "net, income"])
    model = MKLRegressorCV(bank, penalty="l1", cv=2, n_alphas=4, tol=1e-3).fit(X, y)
    options: dict[str, Any] = {"cv": 2, "n_draws": 20}
    html = report(model, X, y, tmp_path / "one.html", **options).read_text(encoding="utf-8")
    found = pages(html)
    assert len(found) == 5
    defined = set(re.findall(r"(--\w+): #", html))
    ids: list[str] = []
    for svg in found:
        tree = _parsed(svg)
        assert tree.attrib["aria-label"]
        assert set(re.findall(r"var\((--\w+)\)", svg)) <= defined
        assert re.findall(r"#[0-9a-f]{6}\b", svg) == []
        own = re.findall(r'\bid="([^"]*)"', svg)
        assert set(re.findall(r'(?:url\(|href=")#([^")]*)', svg)) <= set(own)
        ids += own
    assert len(ids) == len(set(ids))
    assert ">age</text>" in html


@pytest.mark.nightly
def test_pictures_of_the_same_model_are_the_same(tmp_path: Path) -> None:
    X, y = table(80)
    bank = KernelBank.per_feature(widths=[0.5], columns=["age", "net, income"])
    model = MKLRegressorCV(bank, penalty="l1", cv=2, n_alphas=4, tol=1e-3).fit(X, y)
    once, again = (
        pages(report(model, X, y, tmp_path / f"{name}.html", cv=2, n_draws=20).read_text(encoding="utf-8"))
        for name in ("one", "two")
    )
    assert once
    assert again == once


def test_each_color_of_a_display_has_one_for_the_dark_page(tmp_path: Path) -> None:
    X, y = table(60)
    model = MKLRegressor(KernelBank.per_feature(widths=[0.5], columns=["age"]), alpha=0.01).fit(X, y)
    html = report(model, X, y, tmp_path / "r.html", cv=None, baselines=False).read_text(encoding="utf-8")
    dark = html[html.index("prefers-color-scheme: dark") : html.index("@media print")]
    for number, color in enumerate(PALETTE):
        own = re.search(rf"--p{number}: (#[0-9a-f]{{6}})", dark)
        assert own is not None
        assert _brightness(own[1]) > _brightness(color)


def _parsed(svg: str) -> ElementTree.Element:
    """Return a picture as XML; in HTML the prefix of links needs no declaration."""
    return ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1))


def _brightness(color: str) -> int:
    return sum(int(color[at : at + 2], 16) for at in (1, 3, 5))


def test_names_with_markup_and_formulas_are_text() -> None:
    picture = draw_picture(lambda figure: figure.subplots().set_title(r"a <b> & \$x_1\$ --"), 'says "so" & <so>')
    _parsed(picture.svg)
    assert "a &lt;b&gt; &amp; $x_1$ --</text>" in picture.svg
    assert 'aria-label="says &quot;so&quot; &amp; &lt;so&gt;"' in picture.svg


@pytest.mark.nightly
def test_few_are_drawn_and_the_others_counted() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 6))
    pairs = [(f"{i}{j}", Gaussian(1.0), [i, j]) for i in range(6) for j in range(i)]
    y = X @ rng.normal(size=6) + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=120)
    bank = KernelBank(pairs[:5]) + KernelBank.per_feature(widths=[1.0])
    model = MKLRegressor(bank, penalty="ridge", alpha=0.1).fit(X, y)
    found = functions_of(model, X)
    assert sum(found["curves"].svg.count(f">x{j}</text>") for j in range(6)) == MOST_CURVES
    assert len(found["surfaces"]) == MOST_SURFACES
    assert (found["more_curves"], found["more_surfaces"]) == (6 - MOST_CURVES, 5 - MOST_SURFACES)


def test_those_that_predictions_need_come_first() -> None:
    X, y = table(120)
    bank = KernelBank.per_feature(widths=[0.5], columns=["age", "net, income", "<b>tall"])
    model = MKLRegressor(bank, penalty="ridge", alpha=0.01).fit(X, y)
    ranked = pd.DataFrame({"name": ["<b>tall", "age", "net, income"]})
    svg = functions_of(model, X, ranked)["curves"].svg
    assert svg.index(">&lt;b&gt;tall<") < svg.index(">age<") < svg.index(">net, income<")


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
