"""From a fitted model to a program of few operations.

The functions of kernels on the same columns are summed. For one or two columns the sum becomes polynomials on cells
(`curves`). Kernels of more columns, and kernels of two columns with few points, keep their points (`points`) if the
format permits.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.exceptions import IncompatibleError
from manykernels.inspection.displays.kernel_table import feature_names
from manykernels.inspection.export.columns import UNITS, Columns
from manykernels.inspection.export.curves import as_term, split_by_column, spread
from manykernels.inspection.export.points import check_size, kernel_term
from manykernels.inspection.export.program import Axis, KernelTerm, Program, Term
from manykernels.inspection.functions.shape import rows_of
from manykernels.kernels import FittedBank
from manykernels.validation.arrays import TableLike

ADDITIVE = ("linear", "overlap")  # kernels of several columns that are sums over columns


def _exportable(model: BaseEstimator) -> Any:
    """Return the functions of a model on columns; reject others."""
    expansion = getattr(model, "_expansion", None)
    bank = getattr(expansion, "bank", None)
    if not isinstance(bank, FittedBank) or not bank.on_columns:
        raise IncompatibleError(
            f"{type(model).__name__} cannot be exported: models of columns can, fitted by an estimator of this library "
            "or by solve(bank, y, X=X, ...) and not on precomputed kernels or pairs. Of a pipeline export the last "
            "step, and apply the steps before it to the rows."
        )
    if bank.table.sparse:
        raise IncompatibleError("Models of sparse rows cannot be exported; fit on dense columns.")
    if bank.table.object_columns:
        raise IncompatibleError("Kernels of sequences and of other objects cannot be exported; save_model keeps them.")
    return expansion


def _kind_of_probabilities(model: BaseEstimator) -> str:
    """Return how probabilities follow from scores; nothing where a model has none."""
    if not hasattr(model, "predict_proba"):
        return ""
    if np.ndim(model.intercept_) == 0:
        return "sigmoid"
    if np.ndim(getattr(model, "classes_", 0)) == 2:
        return "labels"
    return "softmax" if getattr(model, "_shares_weights", False) else "shares"


def _link_of(model: Any) -> str:
    """Return how predictions follow from scores."""
    if getattr(model, "_levels", None) is not None:
        return "sort"
    return "exp" if getattr(model, "_task", "") == "regression" and model._loss.support != "real" else "identity"


def program_of(
    model: BaseEstimator, *, rows: TableLike | None = None, tol: float = 1e-6, with_points: bool
) -> tuple[Program, Columns]:
    """Return a fitted model of kernels on columns as a program, and the columns.

    ``rows`` have the occurring numbers; None takes the stored points. ``tol`` is the total error of terms relative to
    the variation of the scores; ``with_points`` keeps the points of kernels of several columns.
    """
    expansion = _exportable(model)
    names = feature_names(model)
    named = hasattr(model, "feature_names_in_")
    columns = Columns(expansion, names, named=named, rows=None if rows is None else rows_of(model, rows))
    terms, kernels = _terms(columns, tol, with_points=with_points)
    read = {axis.column for term in terms for axis in term.axes} | {name for part in kernels for name in part.columns}
    positions = tuple(j for j, name in enumerate(names) if name in read)
    labels = np.ndim(getattr(model, "classes_", 0)) == 2  # of 0 and 1, one a score
    classes = (0, 1) if labels else tuple(model.classes_.tolist()) if hasattr(model, "classes_") else None
    single = np.ndim(model.intercept_) == 0
    encodings = {names[column]: encoding for column, encoding in columns.encodings.items()}
    program = Program(
        columns=tuple(names[j] for j in positions),
        features=tuple(names),
        named=named,
        positions=positions,
        units={name: UNITS[encodings[name].kind] for name in read if encodings[name].kind in UNITS},
        terms=terms,
        kernels=kernels,
        intercept=np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)),
        labels=() if single else tuple(np.asarray(model._target_labels()).tolist()),
        classes=classes,
        probabilities=_kind_of_probabilities(model),
        link=_link_of(model),
        single=single,
        masks=columns.masks,
    )
    return program, columns


def _terms(columns: Columns, tol: float, *, with_points: bool) -> tuple[tuple[Term, ...], tuple[KernelTerm, ...]]:
    """Return the model as terms with an error of at most ``tol`` of the variation of the scores."""
    if not columns.expansion.active.size:
        return (), ()
    groups: dict[Any, list[int]] = {}
    terms: list[Term] = []
    for m, (spec, positions) in enumerate(zip(columns.table.specs, columns.table.positions, strict=True)):
        # A gap in one column takes the parts of all columns away: then they are no sum of functions of one.
        whole = columns.masks or columns.bank.unit_diagonal  # what a column adds depends on the others
        additive = spec.family == "missing" or (spec.kind in ADDITIVE and not whole)
        if additive and len(positions) > 1:
            terms += split_by_column(columns, m)
        else:
            groups.setdefault(columns.key(m), []).append(m)
    axes_of = {
        key: [columns.axis(members, place, *each) for place, each in enumerate(zip(*key, strict=True))]
        for key, members in groups.items()
    }
    tol *= sum(spread(columns, members, axes_of[key]) for key, members in groups.items()) / max(len(groups), 1)
    at_points: list[int] = []
    for key, members in groups.items():
        if not _keeps_points(columns, axes_of[key], members, with_points):
            try:
                terms.append(as_term(columns, axes_of[key], members, tol))
                continue
            except IncompatibleError:
                if not with_points or len(axes_of[key]) == 1:
                    raise
        at_points += members
    check_size(columns, at_points)
    return tuple(terms), tuple(kernel_term(columns, m) for m in at_points)


def _keeps_points(columns: Columns, axes: list[Axis], members: list[int], with_points: bool) -> bool:
    """Return whether kernels of several columns keep their points; raise for formats without points."""
    smooth = sum(axis.kind == "pieces" for axis in axes)
    if smooth <= 2 and (not smooth or len(axes) <= 2):
        few_points = 1000  # so many points of a pair of columns are cheaper than a grid
        few = smooth == 2 and sum(len(columns.points(m)) for m in members) <= few_points
        return with_points and few
    if with_points:
        return True
    raise IncompatibleError(
        f"Kernel {columns.bank.names[members[0]]!r} reads {len(axes)} columns, too many to be tabulated. Export to "
        f".onnx or .py, which keep its points, or fit kernels of one or two columns, such as "
        "KernelBank.per_feature(widths=['median']) or KernelBank.interactions()."
    )
