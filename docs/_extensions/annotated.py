"""What functions take and return where docstrings do not say it: as the method that is overridden, or as annotated."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from sphinx.application import Sphinx

SECTION = re.compile(r"^(Parameters|Returns|Yields|Raises|See Also|Notes|References|Examples)\n-+\n", re.MULTILINE)
WORDS = {"Array": "ndarray", "ArrayLike": "array-like", "pd.DataFrame": "DataFrame", "pd.Series": "Series"}


def sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their titles."""
    parts = SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def overridden(function: Callable[..., Any]) -> str:
    """Return the docstring of what a method overrides; empty if that is nothing."""
    owner, _, name = function.__qualname__.rpartition(".")
    cls = getattr(sys.modules.get(function.__module__), owner, object)
    texts = (inspect.getdoc(vars(base)[name]) for base in cls.__mro__[1:] if name in vars(base))
    return next((text for text in texts if text), "")


def as_written(function: Callable[..., Any]) -> dict[str, str]:
    """Return annotations as the source has them: evaluated ones spell out what names of types stand for."""
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except OSError:  # a dataclass wrote it
        return {}
    assert isinstance(node, ast.FunctionDef)
    own = node.args
    each = [*own.posonlyargs, *own.args, own.vararg, *own.kwonlyargs, own.kwarg]
    kinds = {arg.arg: arg.annotation for arg in each if arg is not None} | {"return": node.returns}
    return {name: ast.unparse(kind) for name, kind in kinds.items() if kind is not None}


def annotated(function: Callable[..., Any], cls: str) -> dict[str, str]:
    """Return the sections that annotations make, with types as pages call them."""
    words = WORDS | {"Self": cls}
    written = as_written(function).items()
    kinds = {name: re.sub(r"[\w.]+", lambda word: words.get(word[0], word[0]), kind) for name, kind in written}
    returned = kinds.pop("return", "None")
    found = {"Parameters": "\n".join(f"{name} : {kind}" for name, kind in kinds.items())}
    return found | {"Returns": "" if returned == "None" else returned}


def add_sections(app: Sphinx, what: str, name: str, obj: Any, options: object, lines: list[str]) -> None:
    """Add what a docstring of a function or method leaves out."""
    function = inspect.unwrap(getattr(obj, "fn", obj))  # below available_if
    function = getattr(function, "__func__", function)
    if what not in ("function", "method") or not inspect.isfunction(function):
        return
    said = sections("\n".join(lines))
    theirs = sections(overridden(function))
    for title, text in annotated(function, name.split(".")[-2]).items():
        if title not in said and not (title == "Returns" and "Yields" in said) and (text := theirs.get(title, text)):
            lines += ["", title, "-" * len(title), *text.strip().split("\n"), ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc, which puts sections into their order."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", add_sections, priority=100)
    return {"parallel_read_safe": True}
