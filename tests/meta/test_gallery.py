"""The gallery, whose scripts `make docs` runs, is complete; those of the first hour are short."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from docs._extensions.promises import PROMISES, broken

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*/*.py"))


def code_lines(source: str) -> int:
    """Return how many lines have code: comments, blank lines and the docstring are not counted."""
    tree = ast.parse(source)
    statements = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    return sum(len({n for node in [one] for n in range(node.lineno, node.end_lineno + 1)}) for one in statements)


def page(printed: str) -> str:
    """Return the part of a page of sphinx-gallery that shows what a script printed."""
    block = "".join(f"    {line}\n" for line in printed.splitlines())
    return f"Text with bmi.\n\n.. rst-class:: sphx-glr-script-out\n\n .. code-block:: none\n\n{block}\n\nMore text.\n"


def test_broken_promises_and_missing_pages_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "2_understand"
    folder.mkdir()
    (folder / "path.rst").write_text(page("no column"))
    (folder / "how_sure.rst").write_text(page("bmi\np_value"))
    told = broken(tmp_path)
    assert "path: does not print 'bmi: gaussian'" in told
    assert not any(line.startswith("how_sure") for line in told)
    assert len(told) == len(PROMISES) - 1
    assert "outliers: has no page" in told


def test_there_are_enough_scripts_and_each_promises_something() -> None:
    assert len(SCRIPTS) >= 15
    assert {path.stem for path in SCRIPTS} == set(PROMISES)


@pytest.mark.parametrize("path", sorted(GALLERY.glob("1_first_hour/*.py")), ids=lambda path: path.stem)
def test_first_hour_takes_fifteen_lines(path: Path) -> None:
    assert code_lines(path.read_text()) <= 15  # imports and prints included


def test_lines_are_counted() -> None:
    assert code_lines('"""Title."""\n\nimport a\n\n# a comment\nb = [\n    1,\n]\n') == 4


def test_asks_name_sixty_threads() -> None:
    rows = [line for line in (ROOT / "docs" / "guide" / "asks.md").read_text().splitlines() if line.startswith("| [")]
    threads = {re.match(r"\| \[[^]]+\]\((https://[^)]+)\)", row).group(1) for row in rows}
    assert len(threads) == len(rows) >= 60
    answers = [row.split(" | ")[-1] for row in rows]
    assert all("](" in answer or "not available" in answer or "`" in answer for answer in answers)


def test_asks_are_called_what_they_link_to() -> None:
    text = (ROOT / "docs" / "guide" / "asks.md").read_text()
    links = re.findall(r"\[([^]]+?) #(\d+)\]\((https?://[^)]+)\)", text)
    assert len(links) >= 60
    for repository, number, address in links:
        found = re.fullmatch(r"https://github\.com/[\w.-]+/([\w.-]+)/(issues|pull|discussions)/(\d+)", address)
        assert found is not None, address
        assert (found[1].lower(), found[3]) == (repository.lower(), number), address
