"""Looking at fitted models: displays, a report, and the model file."""

from __future__ import annotations

from manykernels.inspection.displays import (
    ConvergenceDisplay,
    DecompositionDisplay,
    KernelWeightsDisplay,
    WeightMapDisplay,
)
from manykernels.inspection.displays.overview import plot_overview
from manykernels.inspection.displays.path import PathDisplay
from manykernels.inspection.model_file.file import load_model, read_metadata, save_model
from manykernels.inspection.report.report import MKLReport

__all__ = [
    "ConvergenceDisplay",
    "DecompositionDisplay",
    "KernelWeightsDisplay",
    "MKLReport",
    "PathDisplay",
    "WeightMapDisplay",
    "load_model",
    "plot_overview",
    "read_metadata",
    "save_model",
]
