"""The Python blocks of the README and of the documentation run as printed."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest

from manykernels.kernels import KERNELS

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    """Code of all fenced blocks marked as Python, in order."""
    return BLOCK.findall(text)


def run_page(text: str, name: str) -> None:
    """Run the blocks of a page one after the other, as a reader who pastes them would."""
    namespace: dict[str, object] = {"__name__": "__page__"}
    with patch.dict(KERNELS):  # pages register kernels of their own
        for number, block in enumerate(python_blocks(text), 1):
            code = compile(block, f"{name}, block {number}", "exec", dont_inherit=True)  # nor this file's annotations
            exec(code, namespace)


WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = (".", "guide", "coming_from", "experiments")
WRITTEN += [page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
PAGES = [path for path in WRITTEN if python_blocks(path.read_text())]
# Many fits each; what they show is tested elsewhere, and the pages nightly.
LONG = {"evidence.md", "displays.md", "model_selection.md", "large.md", "pairs.md"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.nightly] * (path.name in LONG)) for path in PAGES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_page_runs(path: Path) -> None:
    run_page(path.read_text(), path.name)


def test_pages_with_code_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "quickstart.md", "kernels.md", "precomputed.md"} <= {
        path.name for path in PAGES
    }


def test_a_wrong_page_fails() -> None:
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        run_page("Text.\n\n```python\na = 1\n```\n\n```python\na / 0\n```\n", "planted.md")
