"""Anchors for the links from source code back to the documentation, where one module is documented in two packages.

`sphinx.ext.viewcode` takes every object of a module for one of the package that it met first: `Limits` belongs to
``manykernels.discovery``, `Solution` of the same module to ``manykernels.solvers``. The second gets the anchor that the
first would give it.
"""

from __future__ import annotations

from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx


def add_anchors(app: Sphinx, doctree: Any) -> None:
    """Give signatures the anchors by which pages of source code look for them."""
    known = [entry for entry in getattr(app.env, "_viewcode_modules", {}).values() if entry]
    for signature in doctree.findall(addnodes.desc_signature):
        name = signature.get("fullname", "")
        for _, _, used, package in known:
            anchor = f"{package}.{name}"
            if used.get(name) == app.env.docname and anchor not in signature["ids"]:
                signature["ids"].append(anchor)


def setup(app: Sphinx) -> dict[str, bool]:
    """Run after viewcode."""
    app.connect("doctree-read", add_anchors, priority=900)
    return {"parallel_read_safe": False}
