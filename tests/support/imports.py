"""The imports of a module, wherever in it they stand."""

from __future__ import annotations

import ast
from functools import cache
from typing import Any

Import = ast.Import | ast.ImportFrom


@cache
def imports(text: str) -> list[tuple[bool, Import]]:
    """Return the imports of a module, and whether each is inside a function; several tests look at the package's."""
    found: list[tuple[bool, Import]] = []
    left: list[tuple[bool, Any]] = [(False, ast.parse(text))]
    while left:
        inside, node = left.pop()
        if isinstance(node, Import):
            found.append((inside, node))
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        # No expression holds an import, and most of a tree is expressions.
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            left.extend((inside, part) for part in getattr(node, blocks, ()))
    return found
