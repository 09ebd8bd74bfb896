"""The check of layouts sees blocks that overlap and pages that are too wide; skipped where there is no Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs._extensions.layout import browser, complaints, main

CSS = (Path(__file__).parents[2] / "docs" / "_static" / "pages.css").read_text(encoding="utf-8")
PROGRAM = browser()
CARD = (
    '<div class="way docutils container"><p>A card</p>'
    '<div class="highlight-python"><div class="highlight"><pre>code</pre></div></div>'
    '<div class="highlight-text"><div class="highlight"><pre>output</pre></div></div></div>'
)
OVERLAPPING = "<style>.way { display: grid; } .way > div { grid-area: 1 / 1; }</style>"
WIDE = '<div style="width: 3000px">wide</div>'


def page(folder: Path, inside: str) -> Path:
    path = folder / "index.html"
    article = f'<article class="bd-article"><div class="ways docutils container">{inside}</div></article>'
    path.write_text(f"<!DOCTYPE html><html><head><style>{CSS}</style></head><body>{article}</body></html>")
    return path


@pytest.mark.nightly
@pytest.mark.skipif(PROGRAM is None, reason="no Chromium")
def test_cards_of_the_landing_page_do_not_overlap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = page(tmp_path, CARD)
    assert main(str(tmp_path)) == 0
    assert "1 pages at 2 widths, 0 faults" in capsys.readouterr().out
    assert any(
        "overlap: PRE: code | PRE: output" in line
        for line in complaints(page(tmp_path, OVERLAPPING + CARD), 1280, str(PROGRAM))
    )
    assert any("wider than the screen" in line for line in complaints(page(tmp_path, WIDE + CARD), 1280, str(PROGRAM)))
    assert path.exists()


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert main(str(tmp_path)) == int(PROGRAM is not None)
