"""Every program in experiments/ can be run by `make experiments`, and has a page and a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiments.program import command_line

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "experiments").glob("*/*.py"))
PROGRAMS = [path for path in MODULES if not path.name.startswith("_")]
FOLDERS = sorted({path.parent for path in PROGRAMS})


def missing(source: str) -> list[str]:
    """Return what a program lacks."""
    lacks = [] if "= command_line(" in source else ["command_line"]
    return lacks if re.search(r'^if __name__ == "__main__":$', source, re.MULTILINE) else [*lacks, "main"]


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", PROGRAMS, ids=named)
def test_a_program_has_the_common_options(path: Path) -> None:
    """Each in its own source: what another program of the folder takes does not help."""
    assert missing(path.read_text()) == []


def test_the_common_options_are_there(tmp_path: Path) -> None:
    """The folder of results is made where it is asked for, and nowhere else."""
    folder = tmp_path / "made"
    given = command_line("", "nowhere").parse_args(["--quick", "--data", "archives", "--output", str(folder)])
    assert (given.quick, given.data, given.output, given.page) == (True, "archives", folder, None)
    assert folder.is_dir()
    assert not (ROOT / "experiments" / "results" / "nowhere").exists()


@pytest.mark.parametrize("path", [path for path in MODULES if path not in PROGRAMS], ids=named)
def test_a_helper_is_no_program(path: Path) -> None:
    assert "main" in missing(path.read_text())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_publication_has_pages_that_name_its_programs(folder: Path) -> None:
    pages = sorted((ROOT / "experiments" / "pages").glob(f"{folder.name}*.md"))
    page = "".join(page.read_text() for page in pages)
    names = [f"experiments/{named(path)}" for path in PROGRAMS if path.parent == folder]
    assert [name for name in names if name not in page] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_publication_has_a_test(folder: Path) -> None:
    assert [*Path(__file__).parent.glob(f"test_{folder.name}*.py")] != []


def test_the_checks_can_fail() -> None:
    assert missing("print(1)") == ["command_line", "main"]
    assert len(PROGRAMS) >= 1
