"""Displays of fitted models: compute once with ``from_...``, look at ``frame()``, draw with ``plot``.

All follow scikit-learn: a class method computes, ``__init__`` only keeps data, ``plot(ax=None)`` draws into given or
new axes, sets ``ax_`` and ``figure_`` and returns the display. Only ``plot`` needs matplotlib (the extra ``plot``).
"""

from __future__ import annotations

from manykernels.inspection.convergence_display import ConvergenceDisplay
from manykernels.inspection.decomposition_display import DecompositionDisplay
from manykernels.inspection.weight_map_display import WeightMapDisplay
from manykernels.inspection.weights_display import KernelWeightsDisplay

__all__ = ["ConvergenceDisplay", "DecompositionDisplay", "KernelWeightsDisplay", "WeightMapDisplay"]
