"""The Python blocks of the README and of the documentation run as printed, and print what stands below them."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from manykernels.kernels import KERNELS

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", flags=re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
LAST_DIGITS = 2  # units of the last digit that is written by which a number may differ on another machine
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    """Code of all fenced blocks marked as Python, in order."""
    return BLOCK.findall(text)


def run_page(text: str, name: str) -> None:
    """Run the blocks of a page one after the other, as a reader who pastes them would."""
    namespace: dict[str, object] = {"__name__": "__page__"}
    with patch.dict(KERNELS):  # pages register kernels of their own
        for number, (block, shown) in enumerate(SHOWN.findall(text), 1):
            code = compile(block, f"{name}, block {number}", "exec", dont_inherit=True)  # nor this file's annotations
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(code, namespace)
            assert not shown or same_output(shown, printed.getvalue()), f"{name} prints:\n{printed.getvalue()}"


def same_output(shown: str, printed: str) -> bool:
    """Return whether two texts have the same words, and the same numbers but for their last digit."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(abs(float(one) - float(two)) <= LAST_DIGITS * last_digit(one) for one, two in pairs)


def last_digit(number: str) -> float:
    """Return what one is worth in the last place of a number as written; whole numbers must be equal."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])) if "." in digits else 0.0


WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = (".", "guide", "coming_from", "experiments")
WRITTEN += [page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
PAGES = [path for path in WRITTEN if python_blocks(path.read_text())]
# What pages show is tested elsewhere: those of many fits run nightly, what is read first whenever the tests run.
LONG = {"evidence.md", "displays.md", "model_selection.md", "large.md", "pairs.md", "report.md"}
FIRST = {"README.md", "CONTRIBUTING.md", "index.md"}


def run_by(name: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a page by this name."""
    return [pytest.mark.nightly] if name in LONG else [] if name in FIRST else [pytest.mark.example]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=run_by(path.name)) for path in PAGES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(path.read_text(), path.name)


def test_pages_with_code_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "start.md", "kernels.md", "precomputed.md"} <= {path.name for path in PAGES}


@pytest.mark.parametrize("printed", ["a 1.3 b", "a 1.25 c", "1.25 b", "a 1.28 b", "a 2.25 b"])
def test_output_that_is_not_shown_is_noticed(printed: str) -> None:
    assert same_output("a 1.25 b", "a  1.26\nb")
    assert not same_output("a 1.25 b", printed)
    with pytest.raises(AssertionError, match="page prints:"):
        run_page(f"```python\nprint({printed!r})\n```\n\n```text\na 1.25 b\n```\n", "page")


def test_a_wrong_page_fails() -> None:
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        run_page("Text.\n\n```python\na = 1\n```\n\n```python\na / 0\n```\n", "planted.md")
