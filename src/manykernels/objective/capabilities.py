"""Capabilities of losses and regularizers, in the words of error messages."""

from enum import Enum


class Capability(Enum):
    """Something that a loss or a regularizer can do and a solver may need.

    Losses and regularizers derive their ``capabilities`` from declared data and optional methods; a solver lists
    ``needs``. Names play no part, so custom classes are solved by any solver with satisfied needs.

    Examples
    --------
    >>> from manykernels.objective import get_loss
    >>> Capability.HINGE_FORM in get_loss("hinge").capabilities, Capability.HINGE_FORM in get_loss("huber").capabilities
    (True, False)
    """

    CURVED_CONJUGATE = "loss", "a conjugate that is twice differentiable inside its box, but for a kink at zero"
    CLOSED_CONJUGATE = "loss", "a conjugate that is quadratic on its box, but for a kink at zero, or a binary entropy"
    BOUNDED_CURVATURE = "loss", "a bounded second derivative"
    HINGE_FORM = "loss", "labels as targets and a conjugate that is linear on its box, as that of the hinge loss"
    LINEAR_DUAL = "loss", "a quadratic conjugate without box and kink, as that of the squared loss"
    SELECTION = "regularizer", "kernel weights that are exactly zero at the optimum"
    MULTIPLIERS = "regularizer", "bounds on the dual norms of which the kernel weights are the multipliers"
    FIXED_WEIGHTS = "regularizer", "kernel weights that are the same whatever the data, as those of ridge"
    SEPARABLE = "regularizer", "a value that is a sum over kernels"
    CURVATURE = "regularizer", "second derivatives in the block norms"
    SMOOTH_CONJUGATE = "regularizer", "a differentiable conjugate that is a sum over kernels"
    WEIGHTS_FROM_NORMS = "regularizer", "the best kernel weights for given block norms in closed form"
    SIMPLEX = "regularizer", "a set of kernel weights with a linear maximizer (the simplex)"
    CONES = "regularizer", "linear and quadratic terms of the block norms only, or the simplex"
    SQUARE_FORM = "regularizer", "the sum of the block norms and the square of their p-norm, alike for all kernels"
    POWER_FORM = "regularizer", "a power q > 1 of the block norms or of their q-norm (an lp ball with p > 1 has it)"
    STRONG_CONVEXITY = "regularizer", "strong convexity in the block norms (an elastic net with l1_ratio < 1 has it)"

    def __init__(self, owner: str, words: str) -> None:
        self.owner = owner  # who can have it: "loss" or "regularizer"
        self.words = words  # what it is
