"""Python values as JSON-able nodes plus arrays, and back: only values of a fixed list of types, never code.

JSON scalars and lists stand for themselves. Everything else is an object with one key that says what it is:
``{"array": name}``, ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"labels": [...]}`` (an object array of
text and numbers), ``{"float": "inf"}``, ``{"slice": [...]}``, ``{"table": {column: [...]}}``, ``{"kernel": {...}}``,
``{"PerFeature": {field: ...}}`` (an object of a class of the list).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manykernels.discovery import (
    ArdGaussianFamily,
    DirichletFamily,
    FiniteFamily,
    GaussianFamily,
    LaplacianFamily,
    MaternFamily,
)
from manykernels.exceptions import InvalidInputError, ModelFileError
from manykernels.kernels import (
    DefaultKernels,
    Joint,
    KernelBank,
    KernelSpec,
    OnColumns,
    PerFeature,
    PerView,
    PrecomputedBank,
    spec_from_dict,
)
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS
from manykernels.solvers import IterationRecord, Solution, Status
from manykernels.solvers.registry import SOLVERS

Array = NDArray[Any]
Decoder = Callable[[Any, Mapping[str, Array]], Any]

BANKS = (KernelBank, PrecomputedBank, OnColumns, PerFeature, PerView, Joint, DefaultKernels)
FAMILIES = (GaussianFamily, LaplacianFamily, MaternFamily, ArdGaussianFamily, DirichletFamily, FiniteFamily)
RESULTS = (Solution, Certificate, KKTResiduals, IterationRecord)
CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (*BANKS, *RESULTS, *FAMILIES, *LOSSES.values(), *REGULARIZERS.values(), *SOLVERS.values())
}
SCALARS = (str, bool, int, float, type(None))


class Encoder:
    """Turns values into nodes and collects their arrays; an array that occurs twice is kept once.

    Attributes
    ----------
    arrays : dict of str to ndarray
        What the nodes refer to.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[int, str] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return the node of ``value``; ``where`` says in messages what it is."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if isinstance(value, SCALARS):
            return str(value) if isinstance(value, str) else value
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, KernelSpec):
            return {"kernel": plain_kernel(value, where)}
        if is_dataclass(value) and CLASSES.get(type(value).__name__) is type(value):
            return {type(value).__name__: self._fields(value, where)}
        return self._container(value, where)

    def state(self, value: Any, where: str) -> Any:
        """Return a ``to_dict`` state with references in place of its arrays; dictionaries stay dictionaries."""
        if isinstance(value, Mapping):
            return {str(key): self.state(item, f"{where}.{key}") for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.state(item, where) for item in value]
        return self.encode(value, where)

    def _container(self, value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if isinstance(value, Mapping):
            pairs = [[self.encode(key, where), self.encode(item, f"{where}[{key!r}]")] for key, item in value.items()]
            return {"dict": pairs}
        if isinstance(value, slice):
            return {"slice": [self.encode(end, where) for end in (value.start, value.stop, value.step)]}
        if isinstance(value, pd.DataFrame):
            return {"table": {str(name): self.encode(list(value[name]), where) for name in value.columns}}
        raise ModelFileError(_refusal(value, where))

    def _fields(self, value: Any, where: str) -> dict[str, Any]:
        return {
            field.name: self.encode(getattr(value, field.name), f"{where}.{field.name}")
            for field in fields(value)
            if field.init
        }

    def _array(self, value: Array, where: str) -> dict[str, Any]:
        if value.dtype.kind in "OT":
            return {"labels": self._labels(value, where)}
        if value.dtype.kind not in "biufSU":
            raise ModelFileError(f"{where} has the dtype {value.dtype}, which a model file cannot hold.")
        if id(value) not in self._names:
            name = f"{len(self.arrays):04d}_{where.rsplit('.', 1)[-1].split('[')[0]}"
            self._names[id(value)], self.arrays[name] = name, value
        return {"array": self._names[id(value)]}

    def _labels(self, value: Array, where: str) -> list[Any]:
        items = [item.item() if isinstance(item, np.generic) else item for item in value.tolist()]
        if value.ndim != 1 or not all(isinstance(item, SCALARS) for item in items):
            raise ModelFileError(f"{where} holds Python objects; a model file can hold text, numbers and booleans.")
        return [self.encode(item, where) for item in items]


def plain_kernel(kernel: KernelSpec, where: str) -> dict[str, Any]:
    """Return a kernel as plain JSON, or say why it cannot be saved."""
    try:
        return json.loads(json.dumps(kernel.to_dict(), allow_nan=False))
    except InvalidInputError as error:
        raise ModelFileError(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{where}: the kernel {kernel.label!r} cannot be saved: {error}.") from error


def decode(node: Any, arrays: Mapping[str, Array]) -> Any:
    """Return the value of a node."""
    if isinstance(node, list):
        return [decode(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) != 1:
        raise ValueError(f"an object with the keys {sorted(node)[:5]} means nothing")
    ((kind, content),) = node.items()
    if kind in DECODERS:
        return DECODERS[kind](content, arrays)
    if kind not in CLASSES:
        raise ValueError(f"{kind!r} is no part of a model known to this version")
    return _decode_object(CLASSES[kind], content, arrays)


def decode_state(node: Any, arrays: Mapping[str, Array]) -> Any:
    """Return a ``to_dict`` state from what :meth:`Encoder.state` wrote."""
    if isinstance(node, list):
        return [decode_state(item, arrays) for item in node]
    if isinstance(node, dict) and set(node) not in ({"array"}, {"float"}):
        return {key: decode_state(item, arrays) for key, item in node.items()}
    return decode(node, arrays)


def _decode_object(cls: type[Any], content: Any, arrays: Mapping[str, Array]) -> Any:
    values = {name: decode(item, arrays) for name, item in content.items()}
    if cls is Solution:
        values["status"] = Status(values["status"])
    return cls(**values)


def _decode_labels(content: Any, arrays: Mapping[str, Array]) -> Array:
    labels = np.empty(len(content), dtype=object)
    labels[:] = [decode(item, arrays) for item in content]
    return labels


def _decode_table(content: Any, arrays: Mapping[str, Array]) -> pd.DataFrame:
    return pd.DataFrame({name: decode(column, arrays) for name, column in content.items()})


def _decode_float(content: Any, arrays: Mapping[str, Array]) -> float:
    return float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[content])


DECODERS: dict[str, Decoder] = {
    "array": lambda content, arrays: arrays[content],
    "dict": lambda content, arrays: {decode(key, arrays): decode(item, arrays) for key, item in content},
    "float": _decode_float,
    "kernel": lambda content, arrays: spec_from_dict(content),
    "labels": _decode_labels,
    "slice": lambda content, arrays: slice(*(decode(end, arrays) for end in content)),
    "table": _decode_table,
    "tuple": lambda content, arrays: tuple(decode(item, arrays) for item in content),
}


def _refusal(value: Any, where: str) -> str:
    if callable(value):
        return (
            f"{where} is a function ({getattr(value, '__name__', type(value).__name__)}), and a model file holds no "
            "code. Give columns by name or position and kernels by name, or pickle the estimator."
        )
    return f"{where} is a {type(value).__name__}, which a model file cannot hold. Use plain values, or pickle instead."
