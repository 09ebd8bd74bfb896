"""The command line that all programs of experiments share."""

from __future__ import annotations

import argparse
from pathlib import Path

FETCHED = "folder of archives; without it sets are fetched from OpenML"
SMALL = "small sizes, for a check that everything runs"


def command_line(
    description: str | None, results: str, *, data: str = FETCHED, quick: str = SMALL
) -> argparse.ArgumentParser:
    """Return a parser of what every program is asked for, to which it may add.

    ``data`` and ``quick`` say what these options mean. Results go to the folder of this name below
    ``experiments/results`` unless another is given; parsing makes it.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help=data)
    parser.add_argument("--quick", action="store_true", help=quick)
    default = f"experiments/results/{results}"
    parser.add_argument("--output", type=_made, default=default, help="folder for tables and figures")
    parser.add_argument("--page", type=Path, help="page whose tables and figures, between two comments, are replaced")
    return parser


def _made(folder: str) -> Path:
    """Return a folder, which exists from now on."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path
