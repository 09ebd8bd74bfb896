"""Kernels of pairs, such as drugs and targets, as products of kernels of their members: never formed."""

from __future__ import annotations

from manykernels.grams.pairs.index import PairIndex
from manykernels.grams.pairs.stack import PairStack

__all__ = ["PairIndex", "PairStack"]
