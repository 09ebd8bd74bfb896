"""Which parts of a fitted estimator a model file holds, and whether parts that were read fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier

from manykernels.estimators.supervised.prediction import KernelExpansion
from manykernels.exceptions import ModelFileError
from manykernels.inspection.model_file.codec import Encoder, decode_state
from manykernels.kernels import FittedBank, FittedPrecomputedBank, Prepared, PreparedKernels
from manykernels.solvers import Solution

Array = NDArray[Any]

PRIVATE = ("_kernel_frame", "_n_samples", "_single")
COMMON = (
    "dual_coef_",
    "dual_gap_",
    "intercept_",
    "kernel_names_",
    "kernel_norms_",
    "kernel_weights_",
    "n_features_in_",
    "n_iter_",
    "solution_",
    "support_",
)
CLASSIFIER = ("classes_",)
OPTIONAL = ("feature_names_in_",)
FRAME_COLUMNS = ["name", "kernel", "columns"]


def optional_names() -> set[str]:
    """Return the attributes that a fitted estimator may lack."""
    return set(OPTIONAL)


def attribute_names(estimator: Any, *, every: bool = False) -> list[str]:
    """Return the fitted attributes that a model file holds, besides the expansion."""
    known = [*PRIVATE, *COMMON, *estimator.fitted_extras, *(CLASSIFIER if is_classifier(estimator) else ())]
    foreign = [name for name in vars(estimator) if name.endswith("_") and name not in (*known, *OPTIONAL)]
    if foreign:
        raise ModelFileError(f"The attributes {foreign} are not part of a model file; delete them before saving.")
    return known + [name for name in OPTIONAL if every or hasattr(estimator, name)]


def encode_expansion(expansion: KernelExpansion, encoder: Encoder) -> dict[str, Any]:
    """Return bank, support samples and coefficients of a fitted model as nodes."""
    precomputed = isinstance(expansion.bank, FittedPrecomputedBank)
    names = ("ids", "positions", "row_means", "factors") if precomputed else _PREPARED
    support = {name: getattr(expansion.support, name) for name in names}
    if precomputed:
        support["kernel_ids"] = expansion.support.kernel_ids
    return {
        "precomputed": precomputed,
        "n_kernels": expansion.n_kernels,
        **{name: encoder.encode(getattr(expansion, name), name) for name in _COEFFICIENTS},
        "bank": encoder.state(expansion.bank.to_dict(), "bank"),
        "support": encoder.state(support, "support"),
    }


_PREPARED = ("n_samples", "data", "squared_norms", "row_means", "factors")
_COEFFICIENTS = ("active", "weights", "coefficients")


def decode_expansion(node: Mapping[str, Any], arrays: Mapping[str, Array]) -> KernelExpansion:
    """Return the expansion from what :func:`encode_expansion` wrote."""
    state, support = decode_state(node["bank"], arrays), decode_state(node["support"], arrays)
    bank: FittedBank | FittedPrecomputedBank
    rows: Prepared | PreparedKernels
    if node["precomputed"]:
        bank = FittedPrecomputedBank.from_dict(state)
        rows = PreparedKernels(names=bank.names, stack=None, **support)
    else:
        bank = FittedBank.from_dict(state)
        lists: dict[str, Any] = {name: tuple(support.pop(name)) for name in ("data", "squared_norms")}
        rows = Prepared(names=bank.names, keys=tuple(group.key for group in bank.groups), **lists, **support)
    parts = {name: decode_state(node[name], arrays) for name in _COEFFICIENTS}
    return KernelExpansion(bank=bank, support=rows, n_kernels=node["n_kernels"], **parts)


def check_model(estimator: Any) -> None:
    """Raise ``ValueError`` naming the first parts of a model that do not fit each other."""
    expansion = estimator._expansion
    wrong = [*_wrong_expansion(expansion), *_wrong_support(expansion), *_wrong_attributes(estimator, expansion)]
    if wrong:
        raise ValueError(f"these parts do not fit the rest: {', '.join(wrong)}")


def _wrong_expansion(expansion: KernelExpansion) -> Iterator[str]:
    active, weights, rho = expansion.active, expansion.weights, expansion.coefficients
    n_active, n_kernels = len(active), expansion.n_kernels
    if not isinstance(n_kernels, int) or n_kernels < 1:
        yield "n_kernels"
    elif not _is_index(active, n_active, n_kernels) or (np.diff(active) <= 0).any():
        yield "active"
    if n_active and len(expansion.bank) != n_active:
        yield "bank"
    if not _is_float(weights, (len(weights), n_active)):
        yield "weights"
    if not _is_float(rho, (len(weights), expansion.support.n_samples)):
        yield "coefficients"


def _wrong_support(expansion: KernelExpansion) -> Iterator[str]:
    bank, rows = expansion.bank, expansion.support
    n_rows, n_kernels = rows.n_samples, len(bank)
    for name in ("row_means", "factors"):
        needed = bank.center if name == "row_means" else bank.unit_diagonal
        if (getattr(rows, name) is not None) != needed or (
            needed and not _is_float(getattr(rows, name), (n_kernels, n_rows))
        ):
            yield f"support.{name}"
    if isinstance(rows, PreparedKernels):
        yield from _wrong_precomputed(bank, rows)
    elif not (isinstance(n_rows, int) and len(rows.data) == len(rows.squared_norms) == len(bank.groups)):
        yield "support.data"
    else:
        shapes = [(n_rows, len(group.positions)) for group in bank.groups]
        if not all(_is_float(points, shape) for points, shape in zip(rows.data, shapes, strict=True)):
            yield "support.data"
        if not all(_is_float(norms, (n_rows,)) for norms in rows.squared_norms):
            yield "support.squared_norms"


def _wrong_precomputed(bank: FittedPrecomputedBank, rows: PreparedKernels) -> Iterator[str]:
    n_training = len(bank.training_ids)
    if not _is_index(rows.kernel_ids, len(bank), bank.n_stack_kernels):
        yield "support.kernel_ids"
    if rows.ids.shape != (rows.n_samples,) or rows.ids.dtype.kind != "i":
        yield "support.ids"
    if rows.positions is not None and not _is_index(rows.positions, rows.n_samples, n_training):
        yield "support.positions"


def _wrong_attributes(estimator: Any, expansion: KernelExpansion) -> Iterator[str]:
    n_kernels, n_targets = expansion.n_kernels, len(expansion.weights)
    single, n_support = estimator._single, expansion.coefficients.shape[1]
    head = () if single is True else (n_targets,)
    shapes = {"kernel_weights_": n_kernels, "kernel_norms_": n_kernels, "dual_coef_": n_support}
    for name, length in shapes.items():
        if not _is_float(getattr(estimator, name), (*head, length)):
            yield name
    if not isinstance(single, bool) or (single and n_targets != 1):
        yield "_single"
    if np.shape(estimator.intercept_) != head or not np.isfinite(np.asarray(estimator.intercept_, dtype=float)).all():
        yield "intercept_"
    if is_classifier(estimator) and not _fits_classes(estimator.classes_, single, n_targets):
        yield "classes_"
    solutions = (estimator.solution_,) if single else estimator.solution_
    if len(solutions) != n_targets or not all(_fits_solution(found, estimator) for found in solutions):
        yield "solution_"
    yield from _wrong_names(estimator, expansion)


def _wrong_names(estimator: Any, expansion: KernelExpansion) -> Iterator[str]:
    n_features, frame = expansion.bank.n_features_in_, estimator._kernel_frame
    if not _is_index(estimator.support_, expansion.coefficients.shape[1], estimator._n_samples):
        yield "support_"
    if len(estimator.kernel_names_) != expansion.n_kernels:
        yield "kernel_names_"
    if not _fits_frame(frame, expansion.n_kernels):
        yield "_kernel_frame"
    if estimator.n_features_in_ != n_features:
        yield "n_features_in_"
    if len(getattr(estimator, "feature_names_in_", range(n_features))) != n_features:
        yield "feature_names_in_"


def _fits_frame(frame: Any, n_kernels: int) -> bool:
    return isinstance(frame, pd.DataFrame) and len(frame) == n_kernels and list(frame.columns) == FRAME_COLUMNS


def _fits_classes(classes: Array, single: bool, n_targets: int) -> bool:
    return classes.shape == ((2,) if single else (n_targets,))


def _fits_solution(solution: Any, estimator: Any) -> bool:
    return (
        isinstance(solution, Solution)
        and np.shape(solution.dual_coef) == (estimator._n_samples,)
        and np.shape(solution.kernel_weights) == (estimator._expansion.n_kernels,)
    )


def _is_float(value: Any, shape: tuple[int, ...]) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == shape
        and bool(np.isfinite(value).all())
    )


def _is_index(value: Any, length: int, size: int) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "i" or value.shape != (length,):
        return False
    return length == 0 or bool(value.min() >= 0 and value.max() < size)
