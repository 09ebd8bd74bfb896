"""The state of a fitted bank as JSON-able values and NumPy arrays, and back with checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.normalization import check_normalization
from manykernels.kernels.specs.base import spec_from_dict
from manykernels.validation.arrays import check_finite

Array = NDArray[Any]

ARRAYS = ("scales", "column_means", "column_scales", "shifts", "grand_means", "reference")


def write_state(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a fitted bank as lists, dictionaries, scalars and arrays."""
    names = fields["feature_names"]
    return {
        **fields,
        "names": list(fields["names"]),
        "specs": [spec.to_dict() for spec in fields["specs"]],
        "positions": [list(columns) for columns in fields["positions"]],
        "feature_names": None if names is None else list(names),
    }


def read_state(state: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Return the fields of a fitted bank from what :func:`write_state` wrote."""
    if set(state) != known:
        raise InvalidInputError(f"The bank's state lacks or adds key(s): {sorted(set(state) ^ known)}.")
    names = state["feature_names"]
    fields = {
        **state,
        **{name: _read_array(state[name], name) for name in ARRAYS},
        "names": tuple(str(name) for name in state["names"]),
        "specs": tuple(spec_from_dict(spec) for spec in state["specs"]),
        "positions": tuple(tuple(int(j) for j in columns) for columns in state["positions"]),
        "feature_names": None if names is None else tuple(str(name) for name in names),
        "normalize": check_normalization(state["normalize"]),
        "n_features": int(state["n_features"]),
    }
    _check_consistent(fields)
    return fields


def _check_consistent(fields: Mapping[str, Any]) -> None:
    n_kernels, used = len(fields["names"]), {j for columns in fields["positions"] for j in columns}
    shapes = {name: np.shape(fields[name]) for name in ARRAYS if fields[name] is not None}
    expected: dict[str, Any] = dict.fromkeys(("scales", "grand_means"), (n_kernels,))
    expected |= dict.fromkeys(("column_means", "column_scales", "shifts"), (len(used),))
    wrong = [name for name in shapes if name != "reference" and shapes[name] != expected[name]]
    wrong += [name for name in ("specs", "positions") if len(fields[name]) != n_kernels]
    wrong += ["reference"] if shapes.get("reference", (1, len(used)))[1:] != (len(used),) else []
    wrong += ["positions"] if not used or min(used) < 0 or max(used) >= fields["n_features"] else []
    wrong += [name for name in ("reference", "grand_means") if bool(fields["center"]) != (name in shapes)]
    wrong += (
        ["feature_names"] if len(fields["feature_names"] or range(fields["n_features"])) != fields["n_features"] else []
    )
    if wrong:
        raise InvalidInputError(
            f"The bank's state is inconsistent: {', '.join(dict.fromkeys(wrong))} do not fit the rest."
        )


def _read_array(value: Any, name: str) -> Array | None:
    return None if value is None else check_finite(np.array(value, dtype=np.float64), f"{name} of the bank's state")
