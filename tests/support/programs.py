"""Programs of ``experiments/`` run in this process: to start Python anew for each takes longer than most of them."""

from __future__ import annotations

import io
import os
import runpy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
INSIDE = f"{EXPERIMENTS}{os.sep}"  # of text: thousands of modules are looked at
HIDDEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # as Python itself does


def run_program(script: Path, *arguments: str, draw: bool = False) -> tuple[str, list[str]]:
    """Do what ``python script arguments`` does; return what it prints, and the warnings that a user would see.

    Figures are made, and drawn if that is asked for: `make experiments` and nightly tests draw them.
    """
    printed, drawn = io.StringIO(), nullcontext() if draw else patch.object(Figure, "savefig", _keep_empty)
    with own_modules(script), warnings.catch_warnings(record=True) as caught, redirect_stdout(printed), drawn:
        warnings.simplefilter("default")
        for category in HIDDEN:
            warnings.simplefilter("ignore", category)
        # To move the parts of figures apart takes longer than to draw them.
        with patch.object(sys, "argv", [str(script), *arguments]), patch.object(ConstrainedLayoutEngine, "execute"):
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{script.name} ended with {end.code}") from end
            finally:
                plt.close("all")
    return printed.getvalue(), [str(each.message) for each in caught]


def _keep_empty(figure: Figure, path: str | Path, **options: object) -> None:
    """Write a picture of nothing."""
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n")


@contextmanager
def own_modules(script: Path) -> Iterator[None]:
    """Let the program import its neighbors, whose names those of another experiment may share."""
    others = {name: module for name, module in list(sys.modules.items()) if _is_of_an_experiment(module)}
    for name in others:
        del sys.modules[name]
    with patch.object(sys, "path", [str(script.parent), *sys.path]):
        try:
            yield
        finally:
            for name in [name for name, module in list(sys.modules.items()) if _is_of_an_experiment(module)]:
                del sys.modules[name]
            sys.modules.update(others)


def _is_of_an_experiment(module: object) -> bool:
    """Return whether this is a module of one of the experiments."""
    return (getattr(module, "__file__", None) or "").startswith(INSIDE)
