"""Kernels that are found while learning: families too large, or infinite, to be listed."""

from __future__ import annotations

from manykernels.discovery.base import Candidate, Discovery, Found, Limits, run_search

__all__ = ["Candidate", "Discovery", "Found", "Limits", "run_search"]
