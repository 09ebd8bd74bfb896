"""Solvers of one target on N x N matrices: the registry but for what small problems of arrays do not reach."""

from __future__ import annotations

from manykernels.solvers import SOLVERS

ELSEWHERE = ("shared_newton", "factored")
ON_MATRICES = {name: cls for name, cls in SOLVERS.items() if name not in ELSEWHERE}
