"""Generators with known answers, and loaders of real data that comes with scikit-learn."""

from manykernels.datasets.breiman import (
    make_ringnorm,
    make_twonorm,
    make_waveform,
    ringnorm_bayes_error,
    twonorm_bayes_error,
    wave_shapes,
)
from manykernels.datasets.mixed import MixedData, load_bundled, make_mixed_table
from manykernels.datasets.multiview import MultiviewData, make_multiview

__all__ = [
    "MixedData",
    "MultiviewData",
    "load_bundled",
    "make_mixed_table",
    "make_multiview",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
    "ringnorm_bayes_error",
    "twonorm_bayes_error",
    "wave_shapes",
]
