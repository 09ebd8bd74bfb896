"""From the kernels found for each target to one bank and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

import numpy as np

from manykernels.discovery import Discovery, Found
from manykernels.kernels import ArdGaussian, FittedBank, PreparedRows
from manykernels.kernels.bank.table_kernels import TablePoints
from manykernels.solvers import Solution
from manykernels.validation.arrays import Array

MOST_WIDTHS = 3  # in the name of a kernel


def union(found: Sequence[Discovery]) -> list[Found]:
    """Return the kernels of all targets, each once."""
    return list(dict.fromkeys(kernel for part in found for kernel in part.kernels))


def unique_names(kernels: Sequence[Found]) -> list[str]:
    """Return the names, with a number after those that another kernel of another target already has."""
    names: dict[str, None] = {}
    for kernel in kernels:
        # A column may be called as a numbered name is.
        numbered = (f"{kernel.name} ({number})" for number in count(2))
        names[next(name for name in chain([kernel.name], numbered) if name not in names)] = None
    return list(names)


def with_widths(part: Discovery, names: Sequence[str]) -> Discovery:
    """Return the kernels of many widths under names that tell the smallest ones, of the columns that matter most."""
    kernels = tuple(
        replace(kernel, name=_widths_text(kernel.spec, names)) if isinstance(kernel.spec, ArdGaussian) else kernel
        for kernel in part.kernels
    )
    return replace(part, kernels=kernels)


def _widths_text(spec: ArdGaussian, names: Sequence[str]) -> str:
    if len(spec.widths) <= MOST_WIDTHS:
        return spec.label
    shown = np.argsort(spec.widths, kind="stable")[:MOST_WIDTHS]
    widths = ", ".join(f"{names[j]}={spec.widths[j]:.3g}" for j in shown)
    return f"{spec.kind}({widths}, {len(spec.widths) - MOST_WIDTHS} more)"


def on_bank(part: Discovery, kernels: Sequence[Found], n_kernels: int) -> Solution:
    """Return the solution of one target on the kernels of all; weights of a kernel found twice add up."""
    place = {kernel: m for m, kernel in enumerate(kernels)}
    weights = np.zeros(n_kernels)
    np.add.at(weights, [place[kernel] for kernel in part.kernels], part.solution.kernel_weights)
    return replace(part.solution, kernel_weights=weights)


def kernel_norms(bank: FittedBank, prepared: PreparedRows[TablePoints], weights: Array, rho: Array) -> Array:
    """Return ``||f_m|| = d_m sqrt(rho'K_m rho)``, (M,)."""
    norms = np.zeros(len(weights))
    for m in np.flatnonzero(weights):
        gram = bank.block(prepared, prepared, kernels=[m])[0]
        norms[m] = weights[m] * np.sqrt(max(float(rho @ gram @ rho), 0.0))
    return norms
