"""Kernels whose factors are columns of the table: the size of their functions."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import Gaussian, KernelBank, Linear
from manykernels.grams.factored import factored_stack

N, GROUPS = 60, 40


@pytest.mark.parametrize("more", [[], [Gaussian(1.0)]], ids=["in place", "beside others"])
def test_functions_are_as_large_as_diagonals_allow(more: list[Gaussian]) -> None:
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(N, 3 * GROUPS)))
    groups = [(f"group {g}", Linear(), [3 * g, 3 * g + 1, 3 * g + 2]) for g in range(GROUPS)]
    kernels = groups + [(f"more {j}", kernel, [j]) for j, kernel in enumerate(more)]
    stack = factored_stack(X, KernelBank(kernels, normalize="mean_diagonal"))
    chosen, start = np.arange(0, stack.n_kernels, 5), np.linspace(0.0, 1.0, N)
    sizes, out = np.random.default_rng(1).uniform(size=len(chosen)), start.copy()
    sizes[1] = 0.0
    stack.add_largest(chosen, sizes, out)
    np.testing.assert_allclose(out, start + sizes @ np.sqrt(stack.diag()[chosen]), rtol=1e-12)
