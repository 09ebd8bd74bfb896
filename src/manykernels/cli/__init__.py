"""The ``manykernels`` command."""

import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; ``--version`` alone is answered before anything large is imported."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"manykernels {version('manykernels')}\n")
    elif find_spec("typer") is None:
        sys.exit("The command needs typer. Install it with: python -m pip install 'manykernels[cli]'.")
    else:
        import_module("manykernels.cli.commands").app()


def __getattr__(name: str) -> Any:
    """Import the commands on first access."""
    if name == "app":
        return import_module("manykernels.cli.commands").app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
