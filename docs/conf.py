"""Sphinx configuration."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "manykernels"
author = "the manykernels developers"
copyright = "2026, the manykernels developers"
release = installed_version("manykernels")
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
templates_path = ["_templates"]
exclude_patterns = ["_build"]
nitpicky = False

# A package's __all__ is its public face: what it names is documented there, wherever it is defined.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = "manykernels"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
