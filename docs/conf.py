"""Sphinx configuration."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "manykernels"
author = "the manykernels developers"
copyright = "2026, the manykernels developers"
release = installed_version("manykernels")
version = release

extensions = [
    "annotated",
    "backlinks",
    "mathml",
    "redirects",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
# Neither MathJax nor any other script from elsewhere: the pages are read offline, too.
html_math_renderer = "mathml"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
nitpicky = False

# A package's __all__ is its public face: what it names is documented there, wherever it is defined.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

# Every script below examples/gallery runs when the pages are built, and its output is shown.
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"[/\\]\w+\.py$",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "reset_modules": ("matplotlib",),
    "default_thumb_file": str(HERE / "_static" / "demo.png"),
}

# Pages that were moved or joined to others: old addresses lead to the new ones.
PAPERS = ("beyond", "citi", "every_figure", "pfbs", "skm", "spicymkl", "thesis", "thesis_chapter3", "thesis_greedy")
redirects = {
    **{f"experiments/{name}": "experiments/index" for name in PAPERS},
    **{f"experiments/thesis_{name}": "experiments/index" for name in ("polynomial", "real_data", "sampling")},
    "faults": "changelog",
    "guide/chart": "choosing",
    "guide/comparison": "coming_from/index",
    "guide/dense_or_sparse": "choosing",
    "guide/encoding_models": "shared_weights",
    "guide/multi_omics": "views",
    "guide/pandas": "tables",
    "hierarchical": "guide/interactions",
    "nonlinear": "guide/interactions",
    "polynomial": "guide/interactions",
    "skm": "solvers",
    "spicymkl": "solvers",
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = "manykernels"
html_css_files = ["pages.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    # Pages of the gallery have room for code instead. The patterns must not overlap.
    "secondary_sidebar_items": {
        "gallery/**": [],
        **{pages: ["page-toc", "sourcelink"] for pages in ("[!g]**", "gu**", "gen**")},
    },
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
