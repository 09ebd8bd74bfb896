"""Numbers of the solver on factors that follow from no theorem: they decide the time, not what is certified.

Those of the working sets were chosen with `benchmarks/factored.py` at N = 1e5, 9,990 kernels.
"""

from __future__ import annotations

# Working sets
COARSE, FINEST = 1e-3, 1e-13  # share of the trace that factors leave, first and last
REFINE = 0.01  # what finer factors leave of it
COARSE_SHARE = 0.5  # of the largest violation, on kernels in use: finer factors are needed
NEW_KERNELS = 16  # that may enter in one round, or a third of those in use
NEGLIGIBLE = 0.05  # of the gap: kernels that together add less to the conjugate need not enter
INNER = 0.1  # part of the certified gap to which a working set is solved
NEXT_GAP = 0.2  # part of the gap that the next round is meant to leave
SMOOTHING = 0.2  # part of that which the smoothing of a kinked loss may make up
FIRST_SMOOTHING = 0.5
NEWTON_STEPS = 60
FALLBACK_SAMPLES = 1000  # up to which N x N matrices of all active kernels are cheap
LAZY_ENTRY = 2e-8  # seconds of an entry of one kernel in a fit that evaluates kernels as it asks for them
LITTLE = 0.2  # seconds of such a fit in place of one with more coefficients than samples
MATRIX_FACTORS = 1e-9  # share of the trace that factors leave of kernels that N x N matrices are not formed of
SINGLE_PRECISION_TOL = 2e-5  # loosest gap that single precision of matrices could be felt in

# Model
CHUNK = 16384
