"""Formulas as MathML: every current browser shows them without a network and without a script."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(latex: str, *, display: str, where: Any = None) -> str:
    """Return a formula as one ``math`` element; one that cannot be read is a warning, and stays as it was written."""
    try:
        return convert(latex, display=display)
    except Exception as error:
        logger.warning("formula %r cannot be written as MathML: %s", latex, error, location=where)
        return f"<code>{nodes.unescape(latex)}</code>"


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), display="inline", where=node))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula of its own line, which scrolls by itself where the page is narrow."""
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate"))
    translator.body.append(mathml(node.astext(), display="block", where=node))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
