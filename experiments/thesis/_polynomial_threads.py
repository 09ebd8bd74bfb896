"""One thread: to be imported before NumPy, which reads the number of threads when it is loaded."""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # CPU seconds of several threads say little
