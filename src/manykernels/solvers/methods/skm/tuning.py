"""Numbers of the support kernel machine that follow from no theorem: they decide the time, not what is certified.

`benchmarks/solvers.py --solvers skm` measures what they cost.
"""

from __future__ import annotations

# Course of the run
VIOLATION_SHARE = 0.2  # of tol: how closely the optimality interval is met in the end
SMOOTHING_SHARE = 0.02  # of kappa: how closely it is met on the way there
STEPS_PER_SAMPLE = 50  # of an iteration at one kappa
LOWEST_KAPPA = 1e-7
SIGMA_GROWTH = 10.0
LARGEST_SIGMA = 1e6  # beyond it, the rounding of the norms spoils the weights
USELESS_ROUNDS = 5  # of pairs and Newton steps that do not halve the violation: rounding, or the center is to blame
POLISH_STEPS = 8
POLISH_SIGMA = 1e6
POLISH_SHARE = 0.01  # of tol: a gap at which polishing ends
NEARLY_ACTIVE = 0.8  # of the threshold: kernels with smaller norms leave the working set
WORTH_DROPPING = 0.5  # share of the working set below which a smaller one pays for its new rows

# Descent
NEWTON_ACCURACY = 1e-12  # of the derivative along a Newton direction
PATIENCE = 8  # Newton steps without any progress: the support of the weights may change a few times
PROXIMAL = 1e-13  # of the mean diagonal, for the directions that no kernel sees
LONGEST_PERIOD = 1000  # steps between two looks at what can be left out
