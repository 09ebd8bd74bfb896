"""A page at the address of each moved page that leads to the new one, without a script."""

from __future__ import annotations

from html import escape
from pathlib import Path
from posixpath import dirname, relpath
from typing import Any

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={url}"><link rel="canonical" href="{url}"></head>
<body><p>This page moved to <a href="{url}">{url}</a>.</p></body></html>
"""


def page(old: str, new: str) -> str:
    """Return the HTML of the page at an old address, with a relative link to the new one."""
    return PAGE.format(url=escape(relpath(f"{new}.html", dirname(old) or ".")))


def write(app: Any, error: Exception | None) -> None:
    """Write a page for each entry of ``redirects``; refuse targets that do not exist."""
    if error is not None or app.builder.format != "html":
        return
    for old, new in app.config.redirects.items():
        if old in app.env.found_docs or new not in app.env.found_docs:
            raise ValueError(f"redirects: {old!r} exists, or {new!r} does not")
        target = Path(app.outdir, f"{old}.html")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(old, new), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the mapping of old to new pages."""
    app.add_config_value("redirects", {}, "html")
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
