"""The ``manykernels`` command."""

from __future__ import annotations

from manykernels.cli.app import app, main

__all__ = ["app", "main"]
