"""Looking at fitted models: displays, a report, and the model file."""

from manykernels.inspection.displays.curves import ConvergenceDisplay, CVCurveDisplay, PathDisplay
from manykernels.inspection.displays.decomposition import ContributionsDisplay, DecompositionDisplay, WaterfallDisplay
from manykernels.inspection.displays.gram import AlignmentDisplay, GramDisplay
from manykernels.inspection.displays.weights import (
    IntervalDisplay,
    KernelWeightsDisplay,
    WeightMapDisplay,
    plot_overview,
)
from manykernels.inspection.evidence.comparison import compare
from manykernels.inspection.evidence.importance import (
    conformal_intervals,
    conformal_sets,
    leave_one_out_importance,
    predictive_importance,
)
from manykernels.inspection.evidence.kernel_tests import kernel_tests
from manykernels.inspection.evidence.selection import (
    KnockoffSelection,
    StabilityDisplay,
    StabilitySelection,
    gaussian_knockoffs,
    knockoff_selection,
    noise_doubt,
    noise_selection,
    stability_selection,
)
from manykernels.inspection.export.export import Export, export_model
from manykernels.inspection.functions.shape import SequenceDisplay, ShapeDisplay, bootstrap_refits
from manykernels.inspection.functions.surface import SurfaceDisplay
from manykernels.inspection.model_file.file import load_model, read_metadata, save_model
from manykernels.inspection.model_file.values import register_class
from manykernels.inspection.reports.document import report
from manykernels.inspection.reports.report import MKLReport, summary_html

__all__ = [
    "AlignmentDisplay", "CVCurveDisplay", "ContributionsDisplay", "ConvergenceDisplay", "DecompositionDisplay",
    "Export", "GramDisplay", "IntervalDisplay", "KernelWeightsDisplay", "KnockoffSelection", "MKLReport", "PathDisplay",
    "SequenceDisplay", "ShapeDisplay", "StabilityDisplay", "StabilitySelection", "SurfaceDisplay", "WaterfallDisplay",
    "WeightMapDisplay", "bootstrap_refits", "compare", "conformal_intervals", "conformal_sets", "export_model",
    "gaussian_knockoffs", "kernel_tests", "knockoff_selection", "leave_one_out_importance", "load_model", "noise_doubt",
    "noise_selection", "plot_overview", "predictive_importance", "read_metadata", "register_class", "report",
    "save_model", "stability_selection", "summary_html",
]  # fmt: skip
