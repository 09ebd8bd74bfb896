"""What the polynomial experiments share: strengths that are chosen on a validation part."""

from __future__ import annotations

import _polynomial_threads  # noqa: F401 - before NumPy

# isort: split
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _tasks import Task
from numpy.typing import NDArray

Array = NDArray[Any]
Maker = Callable[[float], Any]

MEASURED = ("error", "valid", "cpu_s", "slowest_s", "all_s", "alpha", "gap", "kernels")


def squared_error(values: Array, y: Array) -> float:
    """Return the mean squared error."""
    return float(np.mean((values - y) ** 2))


def misclassified(scores: Array, y: Array) -> float:
    """Return the share of wrong signs."""
    return float(np.mean(np.where(scores > 0, 1.0, -1.0) != y))


def tuned(make: Maker, alphas: Sequence[float], task: Task, measure: Callable[[Array, Array], float]) -> dict[str, Any]:
    """Return the test error of the strength that is best on the validation part, and CPU seconds.

    Of equally good strengths the largest is taken.
    """
    fits = []
    for alpha in sorted(alphas, reverse=True):
        started = time.process_time()
        model = make(alpha).fit(*task.train)
        spent = time.process_time() - started
        fits.append((measure(model.predict(task.valid[0]), task.valid[1]), spent, alpha, model))
    valid, spent, alpha, model = min(fits, key=lambda fit: fit[0])
    return {
        "error": measure(model.predict(task.test[0]), task.test[1]),
        "valid": valid,
        "cpu_s": spent,
        "slowest_s": max(fit[1] for fit in fits),
        "all_s": sum(fit[1] for fit in fits),
        "alpha": alpha,
        "gap": model.dual_gap_,
        "kernels": len(model.kernel_names_),
    }
