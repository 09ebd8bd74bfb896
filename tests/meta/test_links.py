"""The check of links in built pages sees files and anchors that are missing, and lets everything else pass."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BUILT = {"benchmarks/results", "experiments/results", "docs/gallery", "docs/_build/html"}
ALIKE = '<a href="guide/b.html#one">b</a><a href="#top">up</a><a href="guide/">all</a><img src="c%20d.png"><i id="top">'


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("links", ROOT / "docs" / "_extensions" / "links.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "links", module)
    spec.loader.exec_module(module)
    return module


def build(folder: Path, first: str) -> str:
    (folder / "guide").mkdir()
    (folder / "a.html").write_text(first)
    (folder / "guide" / "b.html").write_text('<p id="one"><a href="../a.html">a</a><a href="https://x.org/none">x</a>')
    (folder / "guide" / "index.html").write_text('<p id="two"></p><p id="two"></p>')
    (folder / "c d.png").write_bytes(b"")
    return str(folder)


def test_whole_pages_pass(tmp_path: Path, checker: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert checker.main(build(tmp_path, ALIKE)) == 0
    assert capsys.readouterr().out.startswith("3 pages, 5 links inside them, 0 broken; 1 addresses elsewhere")


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ('<a href="guide/none.html">', "a.html: guide/none.html: there is no such file"),
        ('<a href="guide/b.html#none">', "has 0 elements with the id 'none'"),
        ('<a href="guide/#two">', "has 2 elements with the id 'two'"),
        ('<img srcset="c%20d.png 1x, none.png 2x">', "a.html: none.png: there is no such file"),
    ],
)
def test_a_broken_link_is_seen(
    tmp_path: Path, checker: ModuleType, capsys: pytest.CaptureFixture[str], planted: str, said: str
) -> None:
    assert checker.main(build(tmp_path, ALIKE + planted)) == 1
    assert said in capsys.readouterr().out


def test_no_page_at_all_is_no_success(tmp_path: Path, checker: ModuleType) -> None:
    assert checker.main(str(tmp_path)) == 1


def markdown(folder: str) -> list[Path]:
    """Return the pages in a folder of the repository and below, without those that were built."""
    found = (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
    return [path for path in found if not {"_build", "generated", "results"} & set(path.parts)]


def missing_files(page: str, folder: Path, parts: str) -> list[str]:
    """Return the files and folders that a page names in code, below some parts of a folder, and that are not there."""
    named = re.findall(rf"`(?:python |pytest )?((?:{parts})[\w./-]*[\w/])(?=[` ])", page)
    return sorted({name for name in named if not (folder / name).exists()} - BUILT)


def test_files_that_pages_name_in_code_are_there() -> None:
    parts = r"(?:benchmarks|experiments|examples|tests|lint|docs|src|\.ci)/"
    found = {path.name: missing_files(path.read_text(), ROOT, parts) for path in [*markdown("."), *markdown("docs")]}
    assert {name: missing for name, missing in found.items() if missing and name != "CHANGELOG.md"} == {}
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "src" / "manykernels"
    folders = "|".join(sorted(path.name for path in package.iterdir() if path.is_dir() and "__" not in path.name))
    assert missing_files(architecture, package, rf"(?:{folders})/") == []
    assert missing_files("`solvers/run.py` and `solvers/none.py`", package, r"(?:solvers)/") == ["solvers/none.py"]


def test_files_that_markdown_of_the_repository_names_are_there() -> None:
    """Pages of the gallery are written when the documentation is built, and checked then."""
    pages = [path for folder in (".", "docs", "benchmarks", "experiments") for path in markdown(folder)]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", page.read_text())]
    inside = [(page, link) for page, link in links if not re.match(r"\w+:", link) and "gallery/" not in link]
    assert len(inside) > 100
    assert [(page.name, link) for page, link in inside if not (page.parent / link).exists()] == []
