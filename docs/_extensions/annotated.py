"""What functions return, from their annotations: a docstring says it only where the annotation does not say all."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

SAYS_SO = re.compile(r"^(Returns|Yields)$")
WORDS = {"Array": "ndarray", "pd.DataFrame": "DataFrame", "pd.Series": "Series"}


def returned(obj: object, path: str) -> str:
    """Return the type of what a function or method comes back with, as pages call it; empty if it returns nothing."""
    annotation = str(getattr(obj, "__annotations__", {}).get("return", "None"))
    if annotation == "None":
        return ""
    words = WORDS | {"Self": path.split(".")[-2]}
    return re.sub(r"[\w.]+", lambda found: words.get(found[0], found[0]), annotation)


def add_returns(app: Sphinx, what: str, name: str, obj: Any, options: object, lines: list[str]) -> None:
    """Add a section on what is returned to docstrings of functions and methods that have none."""
    if what not in ("function", "method") or any(SAYS_SO.match(line) for line in lines):
        return
    function = inspect.unwrap(getattr(obj, "fn", obj))  # below available_if
    if kind := returned(getattr(function, "__func__", function), name):
        lines += ["", "Returns", "-------", kind, ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc, which puts sections into their order."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", add_returns, priority=100)
    return {"parallel_read_safe": True}
