"""A sparse cone program assembled block by block, and its solution by Clarabel."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, vstack

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array


def import_clarabel() -> Any:
    """Return the module, or say how to install it."""
    try:
        return importlib.import_module("clarabel")
    except ImportError as error:
        raise ImportError(
            "This solver calls Clarabel, which is not installed. Install it with `pip install 'manykernels[conic]'`, "
            "or choose another solver: solver='auto' needs nothing more."
        ) from error


@dataclass(frozen=True)
class ConePoint:
    """Point, multipliers of every block in the order in which blocks were added, and interior-point steps."""

    x: Array
    multipliers: tuple[Array, ...]
    steps: int


@dataclass
class ConeProgram:
    """``minimize x'Px/2 + q'x`` subject to ``offset_k + rows_k x`` in ``cone_k`` for every block k."""

    n_variables: int
    linear: Array = field(init=False)  # ndarray of shape (n_variables,): q
    quadratic: Array = field(init=False)  # ndarray of shape (n_variables,): the diagonal of P
    # ndarray of shape (k, k), optional: added to the part of P that belongs to the leading variables
    dense: Array | None = field(default=None, init=False)
    _rows: list[csc_array] = field(default_factory=list, init=False)
    _offsets: list[Array] = field(default_factory=list, init=False)
    _cones: list[tuple[str, int]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.linear = np.zeros(self.n_variables)
        self.quadratic = np.zeros(self.n_variables)

    def add(self, cone: str, offset: Array, values: Array, columns: Array) -> None:
        """Demand ``offset_i + sum_j values_ij x[columns_ij]`` in the cone."""
        values, columns = np.broadcast_arrays(values, columns)
        index = np.repeat(np.arange(offset.size), values.shape[1])
        entries = (-values.ravel(), (index, columns.ravel()))  # Clarabel writes Ax + s = b with s in the cone
        self._rows.append(csc_array(entries, shape=(offset.size, self.n_variables)))
        self._offsets.append(np.asarray(offset, dtype=np.float64))
        self._cones.append((cone, offset.size))

    def solve(self, **options: object) -> ConePoint:
        """Return the point at which Clarabel stops, whatever it says about it."""
        clarabel = import_clarabel()
        settings = clarabel.DefaultSettings()
        for name, value in {"verbose": False, **options}.items():
            setattr(settings, name, value)
        nothing = csc_array((0, self.n_variables))
        rows = csc_array(vstack([nothing, *self._rows], format="csc"))
        offset = np.concatenate([np.zeros(0), *self._offsets])
        solver = clarabel.DefaultSolver(self._hessian(), self.linear, rows, offset, self._clarabel_cones(), settings)
        found = solver.solve()
        ends = np.cumsum([part.size for part in self._offsets])[:-1]
        return ConePoint(np.array(found.x), tuple(np.split(np.array(found.z), ends)), int(found.iterations))

    def _clarabel_cones(self) -> list[Any]:
        clarabel = import_clarabel()
        cones: list[Any] = []
        for kind, size in self._cones:
            if kind == "Exponential":
                cones += [clarabel.ExponentialConeT()] * (size // 3)
            else:
                cones.append(getattr(clarabel, f"{kind}ConeT")(size))
        return cones

    def _hessian(self) -> csc_array:
        """Return the upper triangle of ``P``, without its zeros."""
        indices = np.flatnonzero(self.quadratic)
        rows, columns, values = indices, indices, self.quadratic[indices]
        if self.dense is not None:
            upper, right = np.triu_indices(self.dense.shape[0])
            rows, columns = np.concatenate([rows, upper]), np.concatenate([columns, right])
            values = np.concatenate([values, self.dense[upper, right]])
        return csc_array((values, (rows, columns)), shape=(self.n_variables, self.n_variables))
