"""Numbers of the working set that follow from no theorem: they decide the time, not what is certified.

`benchmarks/solvers.py` and `benchmarks/auto.py` measure what they cost.
"""

from __future__ import annotations

# Working sets
INNER_SHARE = 0.3  # of tol: how closely a working set is solved, to leave room for violations outside
INNER_PROGRESS = 0.05  # of the current gap: there is no point in solving a wrong working set exactly
FIRST_GAP = 0.1  # of the first working set
NEARLY_VIOLATED = 0.995  # kernels this close to the bound are taken in along with the violators
NEARLY_ACTIVE = 0.98  # kernels this close to the bound stay
MOST_INNER_STEPS = 60
DENSE_START = 20  # regularizers without a hard dual constraint keep many kernels: start with this part of all
STEPS_FOR_ZEROS = 3  # spent, once a working set is solved, on making its inactive kernels negligible
CLOSER = 0.05  # factor by which each of them comes closer to the boundary
MOST_TRIMS = 3
GROWTH = 3  # most kernels added to a working set, in sizes of it
WORTH_DROPPING = 0.25  # share of the working set below which copying the rest costs more than it saves
SLOW = 0.7  # a gap that shrinks by less calls for solving more closely and for dropping no kernel

# Copies
SINGLE_PRECISION_GAP = 1e-5  # loosest gap that single precision of a copy could be felt in
