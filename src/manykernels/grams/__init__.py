"""Gram matrices: dense, packed, lazy, distinct, rank-one or pairwise stacks with a common interface."""

from manykernels.grams.base import GramStack
from manykernels.grams.counters import GramCounters
from manykernels.grams.dense import DenseStack, as_stack
from manykernels.grams.distinct import DistinctStack
from manykernels.grams.expansion import cross_apply, cross_apply_each, cross_combine, cross_scores
from manykernels.grams.lazy import LazyStack
from manykernels.grams.packed import PackedStack
from manykernels.grams.pair_stack import PairStack
from manykernels.grams.plan import MemoryPlan, plan_stack
from manykernels.grams.rank_one import RankOneStack
from manykernels.grams.training import build_stack

__all__ = [
    "DenseStack", "DistinctStack", "GramCounters", "GramStack", "LazyStack", "MemoryPlan", "PackedStack", "PairStack",
    "RankOneStack", "as_stack", "build_stack", "cross_apply", "cross_apply_each", "cross_combine", "cross_scores",
    "plan_stack",
]  # fmt: skip
