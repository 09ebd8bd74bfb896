"""Where Gram matrices live: dense, packed or lazy stacks with the same few operations."""

from __future__ import annotations

from manykernels.grams.base import GramCounters, GramStack
from manykernels.grams.dense import DenseStack, as_stack
from manykernels.grams.packed import PackedStack

__all__ = ["DenseStack", "GramCounters", "GramStack", "PackedStack", "as_stack"]
