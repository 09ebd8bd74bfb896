"""Displays of fitted models: compute once with ``from_...``, look at ``frame()``, draw with ``plot``.

All follow scikit-learn: a class method computes, ``__init__`` only keeps data, ``plot(ax=None)`` draws into given or
new axes, sets ``ax_`` and ``figure_`` and returns the display. Only ``plot`` needs matplotlib (the extra ``plot``).
"""

from __future__ import annotations

from manykernels.inspection.displays.convergence import ConvergenceDisplay
from manykernels.inspection.displays.decomposition import ContributionsDisplay, DecompositionDisplay, WaterfallDisplay
from manykernels.inspection.displays.gram import AlignmentDisplay, GramDisplay
from manykernels.inspection.displays.intervals import IntervalDisplay
from manykernels.inspection.displays.path import CVCurveDisplay, PathDisplay
from manykernels.inspection.displays.weights import KernelWeightsDisplay, WeightMapDisplay, plot_overview

__all__ = [
    "AlignmentDisplay",
    "CVCurveDisplay",
    "ContributionsDisplay",
    "ConvergenceDisplay",
    "DecompositionDisplay",
    "GramDisplay",
    "IntervalDisplay",
    "KernelWeightsDisplay",
    "PathDisplay",
    "WaterfallDisplay",
    "WeightMapDisplay",
    "plot_overview",
]
