"""Two-stage learning: choose the combination of kernels most like the target, then learn with that kernel."""

from __future__ import annotations

from manykernels.alignment.metrics import (
    CODINGS,
    alignment,
    center_kernel,
    centered_alignment,
    nonnegative_quadratic,
    target_features,
    target_kernel,
)
from manykernels.alignment.weights import METHODS, AlignedWeights, MarginWeights, aligned_weights, margin_weights

__all__ = [
    "CODINGS",
    "METHODS",
    "AlignedWeights",
    "MarginWeights",
    "aligned_weights",
    "alignment",
    "center_kernel",
    "centered_alignment",
    "margin_weights",
    "nonnegative_quadratic",
    "target_features",
    "target_kernel",
]
