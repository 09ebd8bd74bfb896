"""docs/command_line.md has every command with all of its options, and names no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from manykernels.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")
GROUP = typer.main.get_command(app)
COMMANDS = GROUP.commands  # type: ignore[attr-defined]
EVERYWHERE = {"--help", "--json", "--ascii", "--quiet", "--verbose", "--use"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def sections(page: str) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def options(name: str) -> set[str]:
    """Return the long options of a command, or of all of them."""
    command = GROUP if name == "" else COMMANDS[name]
    found = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return {option for option in found if option.startswith("--")}


def described(name: str) -> set[str]:
    """Return the options that the page describes for a command; some commands take those of fit, too."""
    own = sections(PAGE)[name]
    text = own + (
        sections(PAGE)["fit"] + sections(PAGE)["Tables"] if "[options of fit]" in own or name == "fit" else ""
    )
    return set(OPTION.findall(text))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_on_the_page(name: str) -> None:
    assert sorted(options(name) - described(name) - EVERYWHERE) == []


def test_no_other_option_is_on_the_page() -> None:
    known = {option for name in ("", *COMMANDS) for option in options(name)} | EVERYWHERE
    assert sorted(set(OPTION.findall(PAGE)) - known) == []
