"""Kernels of pairs, such as drugs and targets, as products of kernels of their members: never formed."""

from __future__ import annotations

from manykernels.grams.pairs.stack import PairStack
from manykernels.kernels.pairs.index import PairIndex

__all__ = ["PairIndex", "PairStack"]
