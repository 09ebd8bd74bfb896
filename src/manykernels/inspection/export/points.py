"""Kernels of several columns as kernels at points: support samples, or landmarks of kernels held as factors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.prediction import LandmarkFunction
from manykernels.inspection.export.columns import Columns
from manykernels.inspection.export.curves import SAFETY
from manykernels.inspection.export.evaluate import kernel_values
from manykernels.inspection.export.program import Axis, KernelTerm
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.validation.arrays import Array

MOST_NUMBERS = 2**22  # of the points of all kernels: a Python file of about 80 MB, an ONNX file of 32 MB
MISSED = 1e-6  # of the values of a kernel: by which its points may be off before it counts as another kernel
PROBES = 64
EXPORTED = "Gaussian, Matern, Laplacian, periodic, linear, polynomial, overlap, ordinal and weighted polynomial kernels"


def _create_axis(columns: Columns, j: int) -> Axis:
    encoding = columns.encodings[j]
    kind = "pieces" if encoding.read_as == "number" else "levels"
    axis = Axis(columns.names[j], j, kind, levels=encoding.levels)
    return replace(axis, text=any(isinstance(level, str) for level in encoding.levels), tails=encoding.tails)


def kernel_term(columns: Columns, m: int) -> KernelTerm:
    """Return a kernel of several columns with the points, compared with the values of the model."""
    spec, positions = columns.table.specs[m], columns.table.positions[m]
    encodings = [columns.encodings[column] for column in positions]
    numeric = [encoding.read_as == "number" for encoding in encodings]
    axes = tuple(_create_axis(columns, j) for j in positions)
    codes = tuple(None if number else _codes(encoding) for encoding, number in zip(encodings, numeric, strict=True))
    means, scales = columns.statistics(positions)
    points, weights = columns.points(m), weights_of(columns, m)
    if spec.kind == "landmarks":  # of rows drawn once: its base at these
        units, _, basis, _ = spec._factors
        points, weights = np.array(spec.points), basis @ (spec.features(points).T @ weights)
        base = expression(spec.base, columns.bank.names[m], len(positions))
        kernel = {"kernel": "sum", "units": units.tolist(), "parts": [base]}
    else:
        kernel = expression(spec, columns.bank.names[m], len(positions))
    part = KernelTerm(axes, codes, means, scales, points, weights, np.zeros(weights.shape[1]), kernel, columns.masks)
    raw = probes(columns, m, points)
    wanted = columns.function([m], positions)(raw)
    rows = {axis.column: values for axis, values in zip(axes, raw, strict=True)}
    computed = kernel_values(part.plain(), rows)
    known = np.isfinite(wanted).all(axis=1)
    part = replace(part, offsets=np.mean((wanted - computed)[known], axis=0))  # of a centered kernel
    missed = float(np.abs((computed + part.offsets - wanted)[known]).max(initial=0.0))
    if missed > MISSED * max(float(np.abs(wanted[known]).max(initial=0.0)), np.finfo(np.float64).tiny):
        raise IncompatibleError(
            f"Kernel {columns.bank.names[m]!r} of several columns is centered without an intercept or divided by its "
            f"diagonal row by row, which cannot be exported. Fit with normalize='mean_diagonal'."
        )
    return replace(part, error=SAFETY * missed)


def check_size(columns: Columns, members: Sequence[int]) -> None:
    """Raise if the points of the kernels would make too large a file."""
    sizes = {m: columns.points(m).size for m in members}
    total = sum(sizes.values())
    if total > MOST_NUMBERS:
        m = max(sizes, key=lambda each: sizes[each])
        raise IncompatibleError(
            f"The kernels of several columns have points of {total} numbers, {columns.bank.names[m]!r} alone "
            f"{len(columns.points(m))} points of {len(columns.table.positions[m])} columns; an exported file holds at "
            f"most {MOST_NUMBERS}. Fit with fewer points: KernelBank.joint(Landmarks(Gaussian('median'), count=500)), "
            "or kernels of single columns, KernelBank.per_feature()."
        )


def probes(columns: Columns, m: int, points: Array, n: int = PROBES) -> list[Any]:
    """Return rows near the points of a kernel, as columns of values as given."""
    rng = np.random.default_rng(0)
    chosen = points[rng.integers(len(points), size=n)] if len(points) else np.zeros((n, points.shape[1]))
    for values, own in zip(chosen.T, points.T, strict=True):  # points of categories may have a level of one column only
        known, lost = own[own != UNSEEN], values == UNSEEN
        if len(known):
            values[lost] = rng.choice(known, int(lost.sum()))
    near = chosen + 0.3 * rng.normal(size=chosen.shape) * (np.arange(n) % 2)[:, None]
    numeric = [columns.encodings[column].read_as == "number" for column in columns.table.positions[m]]
    raw = columns.raw_points(m, np.where(numeric, near, chosen))
    for place, column in enumerate(columns.table.positions[m]):
        if columns.encodings[column].kind == "boolean":
            raw[place] = np.round(np.clip(raw[place], 0.0, 1.0))
    return [list(values) for values in raw]


def weights_of(columns: Columns, m: int) -> Array:
    """Return the coefficients of the points of a kernel, (r, K)."""
    expansion = columns.expansion
    if expansion.support is not None:
        weights = expansion.coefficients.T * expansion.weights[:, m] * columns.bank.scales[m]
        factors = expansion.support.factors
        return np.asarray(weights if factors is None else weights * factors[m][:, None])
    own = [part for part in expansion.parts if part.kernel == m]
    out, start = np.zeros((len(columns.points(m)), expansion.n_targets)), 0
    for part in own:
        if not isinstance(part.function, LandmarkFunction):
            raise IncompatibleError(
                f"Kernel {columns.bank.names[m]!r} of several columns has no points to export; fit with "
                "resources={'representation': 'gram'}."
            )
        stop = start + len(part.function.landmarks)
        out[start:stop, part.target] = part.function.coefficients
        start = stop
    return out


def expression(spec: Any, name: str, n_columns: int) -> dict[str, Any]:
    """Return a kernel in the form of exported programs."""

    def express(part: Any, width: int = n_columns) -> dict[str, Any]:
        return expression(part, name, width)

    match spec.kind:
        case "linear":
            return {"kernel": "polynomial", "degree": 1, "scale": 1.0, "offset": 0.0}
        case "polynomial":
            return {"kernel": "polynomial", "degree": spec.degree, "scale": spec.scale, "offset": spec.offset}
        case "weighted_polynomial":
            own = {"kernel": "polynomial", "degree": spec.degree, "scale": 1.0, "offset": spec.offset}
            return own | {"units": np.sqrt(spec.weights).tolist()}
        case "column_power":
            own = {"kernel": "power", "degree": spec.degree, "center": spec.center, "scale": spec.scale}
            return own | {"units": [1.0 / spec.unit] * n_columns}
        case "gaussian" | "laplacian":
            return {"kernel": spec.kind, "units": [1.0 / spec.width] * n_columns}
        case "ard_gaussian":
            return {"kernel": "gaussian", "units": [1.0 / width for width in spec.widths]}
        case "matern":
            return {"kernel": "matern", "nu": spec.nu, "units": [1.0 / spec.width] * n_columns}
        case "periodic":
            return {"kernel": "periodic", "period": spec.period, "width": spec.width}
        case "ard_overlap":  # of codes that differ in column j a factor exp(-1 / (2 w_j^2)), else one
            apart = np.exp(-0.5 / np.square(spec.widths)).tolist()
            parts = [_either(factor) | {"columns": [j]} for j, factor in enumerate(apart)]
            return {"kernel": "product", "parts": parts}
        case "overlap" | "ordinal":
            return {"kernel": spec.kind}
        case "sum" | "product":
            return {"kernel": spec.kind, "parts": [express(part) for part in spec.parts]}
        case "scaled":
            return {"kernel": "sum", "factor": spec.factor, "parts": [express(spec.base)]}
        case "interaction" if spec.parts:
            parts = [express(part, len(at)) | {"columns": list(at)} for part, at in spec.parts]
            return {"kernel": "product", "parts": parts}
    raise IncompatibleError(
        f"Kernel {name!r} of several columns cannot be exported: of those, {EXPORTED}, their "
        "sums and products, and landmarks of them can, to .onnx and .py. save_model keeps every kernel."
    )


def _either(factor: float) -> dict[str, Any]:
    """Return the kernel of a column with the value 1 for equal codes, else a factor."""
    constant = {"kernel": "polynomial", "degree": 1, "scale": 0.0, "offset": factor}
    equal = {"kernel": "sum", "factor": 1.0 - factor, "parts": [{"kernel": "overlap"}]}
    return {"kernel": "sum", "parts": [constant, equal]}


def _codes(encoding: Any) -> Array:
    """Return the numbers of the levels of a column."""
    codes = np.arange(len(encoding.levels), dtype=np.float64)
    return codes / max(len(codes) - 1, 1) if encoding.kind == "ordered" else codes
