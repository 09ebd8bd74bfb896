"""A fitted estimator as JSON-able values and NumPy arrays, and back: what a model file that is safe to open holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manykernels._validation import check_finite
from manykernels.estimators._prediction import KernelExpansion
from manykernels.estimators._training import PRECOMPUTED, is_precomputed
from manykernels.estimators.classifier import MKLClassifier
from manykernels.estimators.regressor import MKLRegressor
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import FittedBank, FittedPrecomputedBank, Prepared, PreparedKernels
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.solvers import IterationRecord, Solution, Status

Array = NDArray[Any]

ESTIMATORS: dict[str, type[MKLClassifier | MKLRegressor]] = {cls.__name__: cls for cls in (MKLClassifier, MKLRegressor)}
ATTRIBUTES = ("kernel_weights_", "kernel_norms_", "kernel_names_", "dual_coef_", "support_", "intercept_", "dual_gap_",
              "n_iter_", "n_features_in_")  # fmt: skip
OPTIONAL = ("classes_", "feature_names_in_")
PRIVATE = ("_single", "_n_samples")


def model_state(estimator: MKLClassifier | MKLRegressor) -> dict[str, Any]:
    """Return everything a fitted estimator needs to predict and to be looked at.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor
        Fitted.

    Returns
    -------
    dict
        Nested dictionaries and lists of strings, numbers, booleans and None, and NumPy arrays. Class labels are kept as
        an array, or as a list if they are no numbers.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.

    Examples
    --------
    >>> from manykernels import MKLRegressor
    >>> model = MKLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model_from_state(model_state(model)).predict([[1.5]]) == model.predict([[1.5]])
    array([ True])
    """
    check_is_fitted(estimator)
    expansion: KernelExpansion = estimator._expansion
    solutions = (estimator.solution_,) if estimator._single else estimator.solution_
    return {
        "estimator": type(estimator).__name__,
        "parameters": _plain_parameters(estimator),
        "attributes": {name: _plain(getattr(estimator, name)) for name in (*ATTRIBUTES, *PRIVATE)},
        "optional": {name: _plain(getattr(estimator, name)) for name in OPTIONAL if hasattr(estimator, name)},
        "kernels": {name: column.tolist() for name, column in estimator._kernel_frame.items()},
        "precomputed": isinstance(expansion.bank, FittedPrecomputedBank),
        "bank": expansion.bank.to_dict(),
        "support": _support_state(expansion.support),
        "expansion": {name: getattr(expansion, name) for name in ("active", "n_kernels", "weights", "coefficients")},
        "solutions": [_solution_state(solution) for solution in solutions],
    }


def model_from_state(state: Mapping[str, Any]) -> MKLClassifier | MKLRegressor:
    """Build the fitted estimator from :func:`model_state`; no code that the state names is run.

    Parameters
    ----------
    state : mapping

    Returns
    -------
    MKLClassifier or MKLRegressor
        It predicts as the original did. Its ``kernels`` parameter is None or "precomputed": the bank that was fitted is
        kept, the one that could be fitted again is not.

    Raises
    ------
    InvalidInputError
        If parts are missing or do not fit together.
    """
    try:
        return _read(state)
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InvalidInputError(f"The model's state is damaged: {type(error).__name__}: {error}.") from error


def _read(state: Mapping[str, Any]) -> MKLClassifier | MKLRegressor:
    if state["estimator"] not in ESTIMATORS:
        raise InvalidInputError(f"Unknown estimator {state['estimator']!r}. Known: {', '.join(ESTIMATORS)}.")
    estimator = ESTIMATORS[state["estimator"]](**state["parameters"])
    given = {name: state["attributes"][name] for name in (*ATTRIBUTES, *PRIVATE)}
    for name, value in given.items():
        setattr(estimator, name, np.asarray(value) if isinstance(value, np.ndarray) else value)
    for name in OPTIONAL:
        if name in state["optional"]:
            value = state["optional"][name]
            setattr(estimator, name, np.array(value, dtype=object if name == "feature_names_in_" else None))
    estimator._kernel_frame = pd.DataFrame(state["kernels"])
    estimator._expansion = _expansion(state)
    solutions = tuple(_solution(entry) for entry in state["solutions"])
    estimator.solution_ = solutions[0] if estimator._single else solutions
    return estimator


def _expansion(state: Mapping[str, Any]) -> KernelExpansion:
    bank: Any = (FittedPrecomputedBank if state["precomputed"] else FittedBank).from_dict(state["bank"])
    parts, held = state["expansion"], state["support"]
    support: Any = _kernel_support(bank, held) if state["precomputed"] else _row_support(bank, held)
    weights, coefficients = (np.array(parts[name], dtype=np.float64) for name in ("weights", "coefficients"))
    active, n_kernels = np.array(parts["active"], dtype=np.int64), int(parts["n_kernels"])
    shapes = (len(weights), active.size), (len(weights), support.n_samples)
    outside = active.size and not 0 <= active.min() <= active.max() < n_kernels
    if (weights.shape, coefficients.shape) != shapes or len(bank) != max(1, active.size) or outside:
        raise InvalidInputError("The model's state is inconsistent: weights, coefficients, bank and support disagree.")
    for name, array in (("weights", weights), ("coefficients", coefficients)):
        check_finite(array, f"{name} of the model's state")
    return KernelExpansion(bank, support, active, n_kernels, weights, coefficients)


def _support_state(support: Any) -> dict[str, Any]:
    kept = ("ids", "positions") if isinstance(support, PreparedKernels) else ("data", "squared_norms")
    values = {name: getattr(support, name) for name in (*kept, "row_means", "factors")}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _row_support(bank: FittedBank, held: Mapping[str, Any]) -> Prepared:
    data, norms = (tuple(_floats(part) for part in held[name]) for name in ("data", "squared_norms"))
    n_samples = len(norms[0])
    shapes = [(n_samples, len(group.positions)) for group in bank.groups]
    if [part.shape for part in data] != shapes or any(part.shape != (n_samples,) for part in norms):
        raise InvalidInputError("The model's state is inconsistent: the support samples do not fit the bank.")
    keys = tuple(group.key for group in bank.groups)
    return Prepared(bank.names, keys, n_samples, data, norms, **_row_extras(bank, held, n_samples))


def _kernel_support(bank: FittedPrecomputedBank, held: Mapping[str, Any]) -> PreparedKernels:
    ids, positions = (np.array(held[name], dtype=np.int64) for name in ("ids", "positions"))
    if not np.array_equal(ids, bank.training_ids[positions]):
        raise InvalidInputError("The model's state is inconsistent: the support samples are no training samples.")
    return PreparedKernels(bank.names, bank.kernel_ids, None, ids, positions, **_row_extras(bank, held, len(ids)))


def _row_extras(bank: Any, held: Mapping[str, Any], n_samples: int) -> dict[str, Array | None]:
    needed = {"row_means": bool(bank.center), "factors": bank.unit_diagonal}
    extras = {name: None if held[name] is None else _floats(held[name]) for name in needed}
    for name, array in extras.items():
        if needed[name] != (array is not None) or (array is not None and array.shape != (len(bank), n_samples)):
            raise InvalidInputError(f"The model's state is inconsistent: {name} of the support do not fit the bank.")
    return extras


def _solution_state(solution: Solution) -> dict[str, Any]:
    kept = {field.name: getattr(solution, field.name) for field in fields(solution)}
    return {
        **kept,
        "status": str(solution.status),
        "certificate": asdict(solution.certificate),
        "history": [asdict(record) for record in solution.history],
    }


def _solution(state: Mapping[str, Any]) -> Solution:
    certificate = {**state["certificate"], "kkt": KKTResiduals(**state["certificate"]["kkt"])}
    history = tuple(IterationRecord(**record) for record in state["history"])
    status = Status(state["status"])
    return Solution(**{**state, "certificate": Certificate(**certificate), "history": history, "status": status})


def _plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that are text, numbers, booleans or None; of objects, the name; the rest as by default."""
    found: dict[str, Any] = {"kernels": PRECOMPUTED if is_precomputed(estimator.kernels) else None}
    for name, value in estimator.get_params(deep=False).items():
        value = getattr(value, "name", value) if name in ("loss", "penalty", "solver") else _plain(value)
        if name != "kernels" and (value is None or isinstance(value, (str, bool, int, float))):
            found[name] = value
    return found


def _plain(value: Any) -> Any:
    """Return NumPy scalars as Python ones, and arrays that do not hold numbers as lists."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf" else value


def _floats(values: Any) -> Array:
    return np.ascontiguousarray(check_finite(np.asarray(values, dtype=np.float64), "support of the model's state"))
