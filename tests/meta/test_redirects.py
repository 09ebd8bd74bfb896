"""Old addresses of the documentation lead to pages that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXTENSION = runpy.run_path(str(DOCS / "_extensions" / "redirects.py"))


def redirects() -> dict[str, str]:
    """Return the mapping in docs/conf.py."""
    text = (DOCS / "conf.py").read_text(encoding="utf-8")
    scope: dict[str, object] = {}
    exec(text[text.index("PAPERS = ") : text.index("\nhtml_theme = ")], scope)
    return scope["redirects"]  # type: ignore[return-value]


@pytest.mark.parametrize(("old", "new"), redirects().items())
def test_a_moved_page_leads_to_one_that_exists(old: str, new: str) -> None:
    assert not (DOCS / f"{old}.md").exists()
    assert (DOCS / f"{new}.md").exists()


def test_links_are_relative() -> None:
    assert re.findall(r'href="([^"]*)"', EXTENSION["page"]("guide/chart", "choosing")) == ["../choosing.html"] * 2
    assert re.findall(r'href="([^"]*)"', EXTENSION["page"]("skm", "solvers")) == ["solvers.html"] * 2
