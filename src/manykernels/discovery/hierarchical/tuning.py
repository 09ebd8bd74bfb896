"""Numbers of the hierarchical search that follow from no theorem: they decide the time, not what is certified.

Shares and factors are those of the gap that is being closed.
"""

from __future__ import annotations

# Course of the search
CLOSER = 0.1  # the share of the gap over the family that the gap over the hull is brought to
HULL_SHARE = 0.3  # the share of tol that suffices for the gap over the hull
NEWTON_SHARE = 0.3  # of that, which the Newton iteration may leave; the rest is for setting small weights to zero
OUTSIDE_SHARE = 0.5  # the share of tol that bounds on sources may cost
FEWEST_ADDED = 10  # sources a round
ADDED_SHARE = 0.25  # of the size of the hull, if that is more
NEW_SHARE = 1e-3  # of the smallest group weight, which the group weight of a node gets that was not yet solved for
PRUNING_SHARE = 0.1  # of the gap, which setting small weights to zero may cost

# Newton iteration on a hull
START_SHARE = 0.3  # of the gap per pair, which the first step aims at
FAST, SLOW = 0.1, 0.5  # the same after a step that was almost whole, and after any other
FULL = 0.9  # of a step that counts as almost whole
LIFT = 0.1  # of the last gap, which complementarity products are raised to when nodes are added
MOST_STEPS = 200  # on one hull
WANTED_SHARE = 0.1  # of the wanted gap, below which complementarity products need not fall

# Group weights
MOST_GROWTH = 10.0  # of a group weight in one step, and most that it may shrink
FARTHEST = 3.0  # factor that a complementarity product may be off its target
SMALLEST_RELATIVE_SLACK = 0.02  # of the multiplier of the simplex, at the start
JITTERS = (0.0, 1e-14, 1e-12, 1e-10)  # relative to the unit diagonal

# Memory
BATCH = 1000  # sources bounded at once
LARGEST_CACHE = 2**30  # bytes of Gram matrices kept; others are multiplied out again when they are needed
