"""Whether parts read from a model file fit together; nothing else would notice before a wrong prediction."""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, is_classifier

from manykernels.estimators import KernelAligner
from manykernels.estimators.parameters import check_parameters
from manykernels.estimators.selection.held_out import FoldModel
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.importance import units_of
from manykernels.estimators.supervised.posterior import Bands, Levels
from manykernels.grams.expansion import Expansion
from manykernels.grams.factored.cells import grid_parts
from manykernels.grams.factored.prediction import (
    CellFunction,
    FourierSeries,
    KernelPart,
    LandmarkFunction,
    LineFunction,
    SparseFunction,
)
from manykernels.kernels import FittedBank, KernelSpec, ObjectKernel, PreparedRows, Shaped
from manykernels.kernels.bank.normalization import check_normalization
from manykernels.kernels.bank.table_kernels import TableKernels, TablePoints
from manykernels.kernels.pairs.bank import SIGNS, MemberPairs, ProductKernels
from manykernels.kernels.precomputed.bank import PROBE_COLUMNS, StackKernels, StackSamples
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.kernels.tables.encoding import Encoding
from manykernels.kernels.tables.kinds import MISSING, READ_AS
from manykernels.objective import Loss, Regularizer
from manykernels.objective.certificate import Certificate
from manykernels.solvers import IterationRecord, Solution
from manykernels.validation.arrays import Array, check_choice

FRAME_COLUMNS = ["name", "kernel", "columns"]
SCORES = ("best_score_", "stationarity_")  # numbers that pages and reports write, where they are
ANY = None  # a length that nothing else fixes


def wrong_floats(owner: object, **expected: tuple[int | None, ...] | None) -> Iterator[str]:
    """Yield the attributes not finite float64 of the shape expected; None expects None."""
    for name, shape in expected.items():
        value = getattr(owner, name)
        if not (value is None if shape is None else is_float(value, shape)):
            yield name


def unmet(conditions: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of unmet conditions."""
    yield from (name for name, holds in conditions.items() if not holds)


def is_float(value: object, shape: tuple[int | None, ...]) -> bool:
    """Tell whether a value is a finite array of floats of a shape, in which None stands for any length."""
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float64, np.float32) or value.ndim != len(shape):
        return False
    fits = all(length in (ANY, size) for size, length in zip(value.shape, shape, strict=True))
    return fits and bool(np.isfinite(value).all())


def are_points(value: object, shape: tuple[int, int]) -> bool:
    """Tell whether a value holds points of a shape: a finite array, or sparse rows."""
    if not isinstance(value, SparsePoints):
        return is_float(value, shape)
    ends, n_stored = value.indptr, len(value.data)
    whole = tuple(value.shape) == shape and is_float(value.data, (ANY,)) and is_index(value.indices, n_stored, shape[1])
    if not whole or not is_index(ends, shape[0] + 1, n_stored + 1):
        return False
    return bool(ends[0] == 0 and ends[-1] == n_stored and (np.diff(ends) >= 0).all())


def is_index(value: object, length: int, size: int | None) -> bool:
    """Tell whether a value is a vector of positions below ``size``."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "i" or value.shape != (length,):
        return False
    return size is None or length == 0 or bool(value.min() >= 0 and value.max() < size)


def all_are(values: Any, cls: type[Any], length: int | None = None) -> bool:
    """Return whether a tuple or list has items of a single type, in the expected number."""
    fits = isinstance(values, (tuple, list)) and length in (None, len(values))
    return fits and all(isinstance(value, cls) and not isinstance(value, bool) for value in values)


def is_number(value: object, size: int) -> bool:
    """Tell whether a value is a position below ``size``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size


# --- whether the parts of an object fit each other ---


def check_parts(value: object) -> None:
    """Raise ``ValueError`` with the names of inconsistent parts of an object."""
    wrong = [name for cls, parts in RULES.items() if isinstance(value, cls) for name in parts(value)]
    if wrong:
        raise ValueError(f"these parts do not fit the rest: {', '.join(wrong)}")


def check_types(value: object) -> None:
    """Raise ``ValueError`` with the names of parts of an undeclared type."""
    try:
        hints = get_type_hints(type(value), localns={"Array": Array})
    except NameError:  # a type that is imported for checking only; constructors check these
        return
    state = vars(value)
    declared = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar and name in state}
    wrong = [name for name, hint in declared.items() if not is_of(state[name], hint)]
    if wrong:
        raise ValueError(f"these parts of {type(value).__name__} have other types than they should: {', '.join(wrong)}")


def is_of(value: object, hint: Any) -> bool:
    """Return whether a value is of a declared type, as far as the type can be resolved."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(is_of(value, part) for part in inner)
    if origin is tuple and inner:
        if not isinstance(value, tuple):
            return False
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return len(each) == len(value) and all(map(is_of, value, each))
    if origin is list:
        return isinstance(value, list) and all(is_of(item, inner[0]) for item in value)
    if hint in (int, float):
        check_range = hint is int or not isinstance(value, int) or abs(value) <= sys.float_info.max
        return check_range and isinstance(value, (int, hint)) and not isinstance(value, bool)
    cls = origin or hint
    plain = isinstance(cls, type) and cls is not Any and cls is not type and not getattr(cls, "_is_protocol", False)
    return isinstance(value, cls) if plain else True


def _bank(bank: FittedBank) -> Iterator[str]:
    n_kernels = len(bank)
    check_normalization(bank.normalize)
    yield from wrong_floats(bank, scales=(n_kernels,), grand_means=(n_kernels,) if bank.center else None)
    if not all_are(bank.names, str):
        yield "names"
    if bank.on_columns:
        n_used = len(bank.table.used)
        yield from wrong_floats(bank.table, reference=(ANY, n_used) if bank.center else None)


def _table_kernels(kernels: TableKernels) -> Iterator[str]:
    n_kernels, n_used, names = len(kernels.names), len(kernels.used), kernels.feature_names
    yield from wrong_floats(kernels, column_means=(n_used,), column_scales=(n_used,), shifts=(n_used,))
    check_choice(kernels.missing, MISSING, "missing")
    gaps, reference, encodings = kernels.reference_gaps, kernels.reference, kernels.encodings
    whole = all_are(kernels.positions, tuple, n_kernels) and all(all_are(places, int) for places in kernels.positions)
    marked = gaps is None or (reference is not None and gaps.dtype == bool and gaps.shape == reference.shape)
    yield from unmet({
        "reference_gaps": marked,
        "encodings": not encodings or (all_are(encodings, Encoding, n_used) and all(map(_is_encoding, encodings))),
        "specs": all_are(kernels.specs, KernelSpec, n_kernels),
        "positions": whole and n_used and kernels.used[0] >= 0 and kernels.used[-1] < kernels.n_features,
        "names": names is None or all_are(names, str, kernels.n_features),
    })  # fmt: skip
    for spec, columns in zip(kernels.specs, kernels.positions, strict=False):
        spec.check_columns(len(columns))


def _is_encoding(encoding: Encoding) -> bool:
    """Tell whether an encoding is one that a column may have."""
    levels = encoding.levels
    plain = isinstance(levels, tuple) and all(isinstance(level, (str, bool, int, float)) for level in levels)
    tails = encoding.tails
    bent = isinstance(tails, tuple) and len(tails) == 2 and all(isinstance(own, float) for own in tails)
    known = tails is None or (bent and encoding.kind == "number" and tails[1] > 0)
    return encoding.kind in READ_AS and plain and len(set(levels)) == len(levels) and known


def _stack_kernels(kernels: StackKernels) -> Iterator[str]:
    n_kernels, n_training = len(kernels.names), len(kernels.training_ids)
    yield from wrong_floats(kernels, probe=(n_kernels, min(PROBE_COLUMNS, n_training)))
    known = is_index(kernels.kernel_ids, n_kernels, kernels.n_stack_kernels)
    yield from unmet({"kernel_ids": known, "training_ids": is_index(kernels.training_ids, n_training, None)})


def _product_kernels(kernels: ProductKernels) -> Iterator[str]:
    if kernels.symmetry not in SIGNS or (kernels.symmetry is not None and kernels.right is not None):
        yield "symmetry"
    if len(kernels.products) != len(kernels.names):
        yield "names"
    elif not all(
        product != (None, None)
        and all(
            kernel is None or is_number(kernel, len(part))
            for kernel, part in zip(product, (kernels.left, kernels.second), strict=True)
        )
        for product in kernels.products
    ):
        yield "products"


def _wrong_rows(bank: FittedBank, rows: PreparedRows[Any]) -> Iterator[str]:
    """Yield the inconsistent parts of prepared rows."""
    if not isinstance(rows, PreparedRows):
        yield "support"
        return
    n_rows, n_kernels = rows.n_samples, len(bank)
    shape = (n_kernels, n_rows)
    # Rows may lack columns whatever the normalization.
    scaled = bank.unit_diagonal or (bank.on_columns and rows.factors is not None)
    yield from wrong_floats(rows, row_means=shape if bank.center else None, factors=shape if scaled else None)
    if rows.names != bank.names:
        yield "support.names"
    for kernels, data, parts in WRONG_DATA:
        if isinstance(bank.raw, kernels):
            yield from parts(bank.raw, rows.data) if isinstance(rows.data, data) else ["support.data"]


def _wrong_points(kernels: TableKernels, points: TablePoints) -> Iterator[str]:
    """Yield the points that do not match the groups of kernels."""
    widths = [len(group.positions) if group.features is None else group.features.n_places for group in kernels.groups]
    shapes = [(points.n_samples, width) for width in widths]
    if points.keys != tuple(group.key for group in kernels.groups) or len(points.groups) != len(shapes):
        yield "support.keys"
    elif not all(are_points(part, shape) for part, shape in zip(points.groups, shapes, strict=True)):
        yield "support.groups"
    elif not all(is_float(norms, shape[:1]) for norms, shape in zip(points.squared_norms, shapes, strict=True)):
        yield "support.squared_norms"


def _wrong_stack_samples(kernels: StackKernels, samples: StackSamples) -> Iterator[str]:
    """Yield the samples absent from the stack of kernels."""
    n_rows, places = samples.n_samples, samples.positions
    known = is_index(samples.kernel_ids, len(kernels.names), kernels.n_stack_kernels)
    yield from unmet({
        "support.kernel_ids": known and samples.stack is None,
        "support.ids": is_index(samples.ids, n_rows, None),
        "support.positions": places is None or is_index(places, n_rows, len(kernels.training_ids)),
    })  # fmt: skip


def _wrong_pairs(kernels: ProductKernels, data: MemberPairs) -> Iterator[str]:
    """Yield the pairs with unknown members."""
    if (data.right is None) != (kernels.right is None):
        yield "support.right"
        return
    for part, members in ((kernels.left, data.left), (kernels.right, data.right)):
        if part is not None and members is not None:
            yield from _wrong_rows(part, members)
    pairs, shape = data.pairs, data.shape
    if (
        not isinstance(pairs, np.ndarray)
        or pairs.ndim != 2
        or pairs.shape[1] != 2
        or not all(is_index(pairs[:, k], len(pairs), shape[k]) for k in (0, 1))
    ):
        yield "support.pairs"


WRONG_DATA: tuple[tuple[type[Any], type[Any], Callable[[Any, Any], Iterator[str]]], ...] = (
    (TableKernels, TablePoints, _wrong_points),
    (StackKernels, StackSamples, _wrong_stack_samples),
    (ProductKernels, MemberPairs, _wrong_pairs),
)


def _expansion(expansion: Expansion) -> Iterator[str]:
    active, n_active, n_kernels = expansion.active, len(expansion.active), expansion.n_kernels
    if not isinstance(n_kernels, int) or n_kernels < 1:
        yield "n_kernels"
    elif not is_index(active, n_active, n_kernels) or (np.diff(active) <= 0).any():
        yield "active"
    bank, rows = expansion.bank, expansion.support
    if not isinstance(bank, FittedBank) or len(bank) != max(n_active, 1) or not (rows is not None or bank.on_columns):
        yield "bank"
        return
    if rows is None:
        yield from wrong_floats(expansion, weights=(ANY, n_active), coefficients=(0, 0))
    else:
        n_targets = len(expansion.coefficients)
        n_sets = 1 if len(expansion.weights) == 1 else n_targets
        yield from wrong_floats(expansion, weights=(n_sets, n_active), coefficients=(n_targets, rows.n_samples))
        yield from _wrong_rows(bank, rows)
    fits = all_are(expansion.parts, KernelPart) and all(
        is_number(part.target, expansion.n_targets)
        and is_number(part.kernel, len(expansion.active))
        and isinstance(part.offset, float)
        and _reads(part.function, len(expansion.bank.table.positions[part.kernel]))
        for part in expansion.parts
    )
    if not fits or (expansion.parts and rows is not None):
        yield "parts"


def _reads(function: object, n_columns: int) -> bool:
    """Return whether a function reads the given number of columns."""
    if isinstance(function, FourierSeries):
        numbers = (function.middle, function.reach, function.omega)
        n = len(function.cosines)
        whole = all(isinstance(value, float) and np.isfinite(value) for value in numbers)
        return n_columns == 1 and whole and not any(wrong_floats(function, cosines=(n,), sines=(n,)))
    if isinstance(function, CellFunction):
        return _reads_cells(function, n_columns)
    if isinstance(function, SparseFunction):
        n = len(function.weights)
        known = isinstance(function.spec, ObjectKernel) and is_index(function.places, n, function.spec.n_places)
        return n_columns == 1 and known and is_float(function.weights, (n,))
    if not isinstance(function, LandmarkFunction) or not isinstance(function.spec, KernelSpec):
        return False
    n, spec = len(function.coefficients), function.spec
    width = spec.n_places if isinstance(spec, ObjectKernel) else n_columns
    if isinstance(spec, ObjectKernel) != isinstance(function.landmarks, SparsePoints):
        return False
    if isinstance(function, LineFunction) and not (isinstance(spec, Shaped) and len(spec.points or ()) == n):
        return False
    whole = are_points(function.landmarks, (n, width)) and is_float(function.coefficients, (n,))
    return whole and isinstance(function.unit_diagonal, bool)


def _reads_cells(function: CellFunction, n_columns: int) -> bool:
    """Return whether a function on cells has a value in every cell, and reads the given number of columns."""
    parts = grid_parts(function.spec) if isinstance(function.spec, KernelSpec) else None
    if parts is None or not isinstance(function.levels, tuple) or len(parts) != len(function.levels):
        return False
    if max(column for _, column in parts) >= n_columns or not all(
        is_float(levels, (ANY,)) for levels in function.levels
    ):
        return False
    binned = [getattr(part, "shares", None) for part, _ in parts]
    sizes = [
        len(levels) if shares is None else len(shares) for shares, levels in zip(binned, function.levels, strict=True)
    ]
    known = all(part.kind != "binned" or shares is not None for (part, _), shares in zip(parts, binned, strict=True))
    return known and is_float(function.values, tuple(sizes))


def _solution(solution: Solution) -> Iterator[str]:
    several = np.ndim(solution.dual_coef) == 2  # with shared weights
    yield from wrong_floats(solution, dual_coef=(ANY, ANY) if several else (ANY,), kernel_weights=(ANY,))
    if not is_float(np.asarray(solution.intercept), solution.dual_coef.shape[1:]):
        yield "intercept"
    if not isinstance(solution.certificate, Certificate) or not all_are(solution.history, IterationRecord):
        yield "certificate"
    functions, n_targets = solution.functions, np.size(solution.intercept)
    if functions is not None and not (
        isinstance(functions, Expansion)
        and (functions.n_kernels, functions.n_targets) == (len(solution.kernel_weights), n_targets)
        and np.array_equal(functions.active, solution.active)
    ):
        yield "functions"


def _model(model: BaseMKL) -> Iterator[str]:
    expansion, single, n_samples = model._expansion, model._single, model._n_samples
    if not isinstance(expansion, Expansion) or not isinstance(single, bool):
        yield "_expansion"
        return
    n_kernels, n_targets = expansion.n_kernels, expansion.n_targets
    head, shared = () if single else (n_targets,), model._shares_weights
    rows = () if shared else head
    yield from wrong_floats(model, kernel_weights_=(*rows, n_kernels), kernel_norms_=(*rows, n_kernels))
    yield from _wrong_samples(model, expansion, head, n_samples)
    yield from _wrong_importances(model, expansion)
    above, ratio = getattr(model, "above_noise_", None), np.asarray(getattr(model, "noise_ratio_", 0.0))
    folds = getattr(model, "_fold_models", [])
    sizes = (n_samples if expansion.stores_samples else 0, n_kernels)
    solutions = (model.solution_,) if single or shared else model.solution_
    solved = all_are(solutions, Solution, 1 if shared else n_targets)
    strength = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
    classes = ((2,),) if single else ((n_targets,), (n_targets, 2))
    is_strength = np.size(strength) and np.asarray(strength).dtype.kind in "fi"
    yield from unmet({
        "above_noise_": above is None or _are_marks(above, model.kernel_weights_.shape),
        "_fold_models": all_are(folds, FoldModel)
        and all(len(fold.own) == n_targets for fold in folds)
        and all(each.n_kernels == n_kernels for fold in folds for each in fold.expansions),
        "noise_ratio_": ratio.dtype.kind in "fi" and ratio.shape in ((), (n_targets,)),
        "_noise_p_value": isinstance(getattr(model, "_noise_p_value", 0.0), float),
        "intercept_": is_float(np.asarray(model.intercept_), head) and not (single and n_targets != 1),
        "classes_": not is_classifier(model) or model.classes_.shape in classes,
        "solution_": solved and all((len(one.dual_coef), len(one.kernel_weights)) == sizes for one in solutions),
        "dual_gap_": isinstance(model.dual_gap_, (int, float)),
        "_loss": getattr(model, "_loss", None) is not None,
        **{name: isinstance(getattr(model, name, 0.0), float) for name in SCORES},
        "alpha_": not isinstance(getattr(model, "penalty", ""), (str, Mapping)) or is_strength,
    })  # fmt: skip
    parameters = model._all_parameters()
    searched = hasattr(model, "cv") and isinstance(parameters.get("penalty"), str) and parameters["penalty"] == "auto"
    check_parameters({name: part for name, part in parameters.items() if not (searched and name == "penalty")})
    kinds: dict[str, tuple[type[Any], ...]] = {"loss": (str, Loss), "penalty": (str, Mapping, Regularizer)}
    yield from (name for name, kind in kinds.items() if not isinstance(getattr(model, name, kind[0]()), kind))
    yield from (name for name in model.fitted_extras if not hasattr(model, name))
    yield from _wrong_names(model, expansion.bank, n_kernels)


def _wrong_importances(model: BaseMKL, expansion: Expansion) -> Iterator[str]:
    """Yield the errors in leave-one-out importances."""
    n_active, beyond = expansion.active.size, getattr(model, "_beyond_noise", None)
    sizes = {"columns": len(units_of(expansion.bank, n_active)), "kernel": n_active}
    lost = getattr(model, "_lost_by", {name: np.zeros((size, 2)) for name, size in sizes.items()})
    bends = getattr(model, "_norm_bends", np.zeros((0, 2, n_active)))
    yield from unmet({
        "_beyond_noise": beyond is None or _are_marks(beyond, (expansion.n_kernels,)),
        "_norm_bends": is_float(bends, (ANY, 2, n_active)),
        "_importance_method": isinstance(getattr(model, "_importance_method", ""), str),
        "_lost_by": isinstance(lost, dict)
        and is_float(lost.get("rows", np.zeros(1)), (1,))
        and all(is_float(lost.get(name), (n, 2)) for name, n in sizes.items()),
    })  # fmt: skip


def _are_marks(value: object, shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "b" and value.shape == shape


def _fold_model(fold: FoldModel) -> Iterator[str]:
    n_rows, n_models = len(fold.rows), len(fold.expansions)
    if not is_index(fold.rows, n_rows, None) or (n_rows and fold.rows.min() < 0):
        yield "rows"
    if not any(is_float(fold.shown, (n_rows, *more)) for more in ((), (ANY,))):
        yield "shown"
    if not all(isinstance(each, Expansion) for each in fold.expansions) or not n_models:
        yield "expansions"
    elif not is_index(fold.own, fold.expansions[0].n_targets, n_models):
        yield "own"
    elif len(fold.intercepts) != n_models or not all(is_float(each, (len(fold.own),)) for each in fold.intercepts):
        yield "intercepts"


def _wrong_bands(bank: FittedBank, bands: Bands) -> Iterator[str]:
    """Yield the parts of what bands are computed from that are wrong."""
    yield from _wrong_rows(bank, bands.rows)
    units, landmarks = bands.units, bands.landmarks
    known = isinstance(units, tuple) and isinstance(landmarks, tuple) and len(units) == len(landmarks)
    places = [(own, len(bank)) for own in units] + [(own, bands.rows.n_samples) for own in landmarks] if known else []
    if not known or not all(isinstance(own, np.ndarray) and is_index(own, own.size, most) for own, most in places):
        yield "_bands"
        return
    rank = sum(map(len, landmarks)) + 1
    yield from wrong_floats(bands, covariance=(rank, rank))
    if not isinstance(bands.dispersion, float) or not np.isfinite(bands.dispersion):
        yield "_bands.dispersion"
    if not isinstance(bands.levels, tuple) or not all_are(bands.levels, Levels):
        yield "_bands.levels"
        return
    for own in bands.levels:
        n_levels, n_centers = np.size(own.values), len(np.atleast_1d(own.centers))
        if not isinstance(own.kernel, int) or own.kernel not in range(len(bank)) or n_centers not in (1, n_levels):
            yield "_bands.levels"
        shapes = {"centers": (n_centers, rank)}
        yield from wrong_floats(own, **dict.fromkeys(("values", "information", "factors"), (n_levels,)), **shapes)


def _wrong_samples(model: BaseMKL, expansion: Expansion, head: tuple[int, ...], n_samples: int) -> Iterator[str]:
    """Yield the inconsistent parts with a value per sample; models of factors may have none."""
    if not expansion.stores_samples:
        bands = getattr(model, "_bands", ())
        if bands and not (all_are(bands, Bands) and len(bands) == expansion.n_targets):
            yield "_bands"
            return
        for own in bands:
            yield from _wrong_bands(expansion.bank, own)
        if not isinstance(n_samples, int):
            yield "_n_samples"
        elif hasattr(model, "support_") or hasattr(model, "dual_coef_"):
            n_support = int(np.size(getattr(model, "support_", ())))
            yield from wrong_floats(model, dual_coef_=(*head, n_support))
            if not is_index(getattr(model, "support_", None), n_support, n_samples):
                yield "support_"
        return
    n_support = expansion.coefficients.shape[1]
    yield from wrong_floats(model, dual_coef_=(*head, n_support))
    if not is_index(model.support_, n_support, n_samples):
        yield "support_"
    shapes = {"_support_targets": (n_support, expansion.n_targets), "_support_weights": (n_support,)}
    yield from wrong_floats(model, **{name: shape for name, shape in shapes.items() if hasattr(model, name)})


def _aligner(aligner: KernelAligner) -> Iterator[str]:
    n_kernels = len(aligner.kernel_weights_)
    yield from wrong_floats(aligner, kernel_weights_=(n_kernels,), _active_weights=(len(aligner._bank),))
    yield from _wrong_rows(aligner._bank, aligner._train)
    yield from _wrong_names(aligner, aligner._bank, n_kernels)


def _wrong_names(estimator: BaseEstimator, bank: Any, n_kernels: int) -> Iterator[str]:
    n_features, frame = bank.n_features_in_, estimator._kernel_frame
    if not all_are(estimator.kernel_names_, str, n_kernels):
        yield "kernel_names_"
    whole = isinstance(frame, pd.DataFrame) and len(frame) == n_kernels and list(frame.columns) == FRAME_COLUMNS
    texts = whole and all(all_are(frame[column].tolist(), str) for column in FRAME_COLUMNS)
    if not texts or frame["name"].tolist() != estimator.kernel_names_:
        yield "_kernel_frame"
    if estimator.n_features_in_ != n_features:
        yield "n_features_in_"
    if hasattr(estimator, "feature_names_in_"):
        names, known = list(estimator.feature_names_in_), bank.raw.column_names
        if not all_are(names, str, n_features) or (known is not None and names != list(known)):
            yield "feature_names_in_"


RULES: dict[type[Any], Callable[[Any], Iterator[str]]] = {
    FittedBank: _bank,
    TableKernels: _table_kernels,
    StackKernels: _stack_kernels,
    ProductKernels: _product_kernels,
    Expansion: _expansion,
    Solution: _solution,
    BaseMKL: _model,
    FoldModel: _fold_model,
    KernelAligner: _aligner,
}
