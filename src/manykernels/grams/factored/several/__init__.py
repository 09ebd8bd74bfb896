"""Factored kernels of two or three columns."""

from __future__ import annotations

from manykernels.grams.factored.several.window import WindowStack, has_window

__all__ = ["WindowStack", "has_window"]
