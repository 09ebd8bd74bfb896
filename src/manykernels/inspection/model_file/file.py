"""The model file: a fitted estimator as arrays and a JSON document in one file that is safe to open."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import model_selection
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels import discovery, estimators
from manykernels.alignment import AlignedWeights
from manykernels.discovery import KernelFamily
from manykernels.estimators.selection.penalties import PenaltyFamily
from manykernels.estimators.supervised.factored import FactoredExpansion, KernelPart
from manykernels.estimators.supervised.prediction import KernelExpansion
from manykernels.exceptions import InvalidInputError, ModelFileError
from manykernels.grams.portable.functions import CellFunction, FourierSeries, LandmarkFunction
from manykernels.inspection.model_file.archive import PLAIN_KINDS, damaged, not_a_model, read_archive, write_archive
from manykernels.inspection.model_file.checks import check_parts
from manykernels.kernels import (
    DefaultKernels,
    FittedBank,
    FittedPairBank,
    FittedPrecomputedBank,
    Interactions,
    Joint,
    KernelBank,
    KernelSpec,
    OnColumns,
    OnLandmarks,
    PairKernels,
    PerFeature,
    PerGroup,
    PerView,
    PrecomputedBank,
    Prepared,
    PreparedKernels,
    PreparedPairs,
    spec_from_dict,
)
from manykernels.kernels.sparse.points import SparsePoints
from manykernels.kernels.tables.encoding import Encoding
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import JOINT_LOSSES, LOSSES
from manykernels.objective.regularizers import REGULARIZERS
from manykernels.solvers import IterationRecord, Solution, Status
from manykernels.solvers.registry import SOLVERS

__all__ = ["load_model", "read_metadata", "save_model"]


# Python values as JSON-able nodes plus arrays, and back: only values of a fixed list of types, never code.
#
# JSON scalars and lists stand for themselves. Everything else is an object with one key that says what it is:
# ``{"array": name}``, ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"labels": [...]}`` (an object
#     array of
# text and numbers), ``{"float": "inf"}``, ``{"slice": [...]}``, ``{"table": {column: [...]}}``, ``{"kernel": {...}}``,
# ``{"PerFeature": {parameter: ...}}`` (an object of a class of the list, by the arguments of its constructor, so that
# every check of the constructor holds for files too; an estimator has its fitted attributes beside them).


Array = NDArray[Any]

ESTIMATORS: dict[str, type[Any]] = {
    name: cls
    for name in estimators.__all__
    if isinstance(cls := getattr(estimators, name), type) and issubclass(cls, BaseEstimator)
}
BANKS = (
    KernelBank, PrecomputedBank, PairKernels, OnColumns, PerFeature, PerView, PerGroup, Joint, Interactions,
    OnLandmarks, DefaultKernels, Encoding,
)  # fmt: skip
FITTED = (
    KernelExpansion, FactoredExpansion, KernelPart, FourierSeries, LandmarkFunction, CellFunction, FittedBank, Prepared,
    FittedPrecomputedBank, PreparedKernels, FittedPairBank, PreparedPairs, SparsePoints, AlignedWeights, PenaltyFamily,
)  # fmt: skip
RESULTS = (Solution, Certificate, KKTResiduals, IterationRecord)
FAMILIES = tuple(cls for cls in vars(discovery).values() if isinstance(cls, type) and issubclass(cls, KernelFamily))
SPLITTERS = tuple(
    getattr(model_selection, name)
    for name in ("KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "ShuffleSplit", "LeaveOneOut",
                 "StratifiedShuffleSplit", "GroupShuffleSplit", "LeaveOneGroupOut", "TimeSeriesSplit")
)  # fmt: skip
CALLBACK = "callback"  # of estimators and solvers
SCALARS = (str, bool, int, float, type(None))
ATTRIBUTE = re.compile(r"_[a-z]\w*|[a-z]\w*_")  # what estimators call what they learned
MOST_DEEP = 100  # nodes inside one another


def known_classes() -> dict[str, type[Any]]:
    """Return the classes whose objects a model file may hold, by name."""
    fixed = (*BANKS, *FITTED, *RESULTS, *FAMILIES, *SPLITTERS)
    registered = (
        *LOSSES.values(),
        *JOINT_LOSSES.values(),
        *REGULARIZERS.values(),
        *SOLVERS.values(),
    )
    return ESTIMATORS | {cls.__name__: cls for cls in (*fixed, *registered)}


def _parameters(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of the arguments of a constructor."""
    return tuple(inspect.signature(cls).parameters)


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
        self._classes = known_classes()

    def encode(self, value: Any, where: str) -> Any:
        """Return the node of ``value``; ``where`` says in messages what it is."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Status):
            return {"status": str(value)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if isinstance(value, SCALARS):
            return str(value) if isinstance(value, str) else value
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, KernelSpec):
            return {"kernel": plain_kernel(value, where)}
        if self._classes.get(type(value).__name__) is type(value):
            return {type(value).__name__: self._object(value, where)}
        return self._container(value, where)

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

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        names = _parameters(type(value))
        if isinstance(value, BaseEstimator):
            fitted = tuple(name for name in vars(value) if name not in names)
            foreign = [name for name in fitted if not ATTRIBUTE.fullmatch(name)]
            if foreign:
                raise ModelFileError(f"The attributes {foreign} are not part of a model file; delete them first.")
            names += fitted
        # What a fit called on its way is code, and no part of what it found.
        kept = {name: None if name == CALLBACK else getattr(value, name) for name in names}
        return {name: self.encode(item, f"{where}.{name}".lstrip(".")) for name, item in kept.items()}

    def _array(self, value: Array, where: str) -> dict[str, Any]:
        if value.dtype.kind in "OT":
            return {"labels": self._labels(value, where)}
        if value.dtype.kind not in PLAIN_KINDS:
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


class Decoder:
    """Turns nodes back into values.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        What the nodes refer to.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        self._classes = known_classes()
        self._depth = 0
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "array": lambda content: self._arrays[content],
            "dict": lambda content: {self.decode(key): self.decode(item) for key, item in content},
            "float": lambda content: float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[content]),
            "kernel": spec_from_dict,
            "labels": self._labels,
            "slice": lambda content: slice(*(self.decode(end) for end in content)),
            "status": Status,
            "table": lambda content: pd.DataFrame({name: self.decode(column) for name, column in content.items()}),
            "tuple": lambda content: tuple(self.decode(item) for item in content),
        }

    def decode(self, node: Any) -> Any:
        """Return the value of a node; ``ValueError`` and its kin say that it has none."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        if len(node) != 1:
            raise ValueError(f"an object with the keys {sorted(node)[:5]} means nothing")
        ((kind, content),) = node.items()
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise ValueError(f"its values lie more than {MOST_DEEP} levels deep")
        value = self._kinds[kind](content) if kind in self._kinds else self._object(kind, content)
        self._depth -= 1
        return value

    def _object(self, kind: str, content: Any) -> Any:
        if kind not in self._classes:
            raise ValueError(f"{kind!r} is no part of a model known to this version")
        cls, values = self._classes[kind], {name: self.decode(item) for name, item in content.items()}
        fitted = {}
        if kind in ESTIMATORS:
            fitted = {name: values.pop(name) for name in set(values).difference(_parameters(cls))}
        value = cls(**values)
        for name, item in fitted.items():
            # Nothing of a class may be hidden by an attribute of the same name.
            if not ATTRIBUTE.fullmatch(name) or hasattr(cls, name):
                raise ValueError(f"its attributes add {name!r}")
            setattr(value, name, item)
        check_parts(value)
        return value

    def _labels(self, content: Any) -> Array:
        labels = np.empty(len(content), dtype=object)
        labels[:] = [self.decode(item) for item in content]
        return labels


def _refusal(value: Any, where: str) -> str:
    """Return the reason why a value cannot be part of a model file."""
    if callable(value):
        return (
            f"{where} is a function ({getattr(value, '__name__', type(value).__name__)}), and a model file holds no "
            "code. Give columns by name or position and kernels by name, or pickle the estimator."
        )
    return f"{where} is a {type(value).__name__}, which a model file cannot hold. Use plain values, or pickle instead."


FORMAT = "manykernels model"
FORMAT_VERSION = 2
# What values of wrong types and shapes raise when they are put together.
BROKEN = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
KEYS = {"format", "format_version", "library_version", "model", "metadata"}


def save_model(estimator: Any, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file that anyone can open without running code from it.

    The file is a zip archive of ``model.json`` and NumPy arrays, without pickle. It holds the parameters, the active
    kernels with their normalization, the support samples, and the solution with its certificate and history: all
    that prediction and inspection need. Support samples are rows of the training data, so treat the file like them.

    Parameters
    ----------
    estimator : an estimator of this library
        Fitted. The last step of a pipeline is saved by itself: what other libraries fit has no place in the file.
    path : str or Path
        File to write. An existing file is replaced once the new one is complete.
    metadata : mapping of str to JSON value, optional
        Anything to keep along with the model, for instance the name of the target; see :func:`read_metadata`.

    Raises
    ------
    ModelFileError
        If the estimator holds something that is no plain data (a function, an object of your own class), or the file
        cannot be written. Nothing is written then.
    NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    load_model : The inverse.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from manykernels import MKLRegressor, load_model, save_model
    >>> X = np.linspace(0, 3, 30)[:, None]
    >>> model = MKLRegressor().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder) / "sine.mkl")
    ...     same = load_model(Path(folder) / "sine.mkl")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise ModelFileError(
            f"A model file holds one of {', '.join(ESTIMATORS)}, not a {type(estimator).__name__}. Save the fitted "
            "estimator itself (the last step of a pipeline, best_estimator_ of a search)."
        )
    check_is_fitted(estimator)
    encoder = Encoder()
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": version("manykernels"),
        "model": encoder.encode(estimator, ""),
        "metadata": encoder.encode(dict(metadata or {}), "metadata"),
    }
    write_archive(path, document, encoder.arrays)


def load_model(path: str | Path) -> Any:
    """Open a model file; nothing in it is executed.

    Parameters
    ----------
    path : str or Path
        File written by :func:`save_model`.

    Returns
    -------
    estimator
        Fitted, of the class that was saved; it predicts exactly what the saved estimator predicted.

    Raises
    ------
    ModelFileError
        If the file cannot be read, is no model file, is damaged or inconsistent, or was written by a newer version;
        the message says which.

    See Also
    --------
    save_model : The inverse, with an example of both.

    Examples
    --------
    >>> from manykernels import ModelFileError, load_model
    >>> try:
    ...     load_model("no such file.mkl")
    ... except ModelFileError as error:
    ...     print(error)
    The model file 'no such file.mkl' cannot be read: No such file or directory.
    """
    document, arrays = _open(path)
    try:
        if not isinstance(document["model"], dict) or not set(document["model"]) <= set(ESTIMATORS):
            raise ValueError(f"{str(document['model'])[:40]} is no estimator known to this version")
        return Decoder(arrays).decode(document["model"])
    except InvalidInputError as error:
        raise damaged(path, str(error).rstrip(".")) from error
    except BROKEN as error:
        raise damaged(path, f"its content does not make a model ({type(error).__name__}: {error})") from error


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return what was saved along with a model.

    Parameters
    ----------
    path : str or Path
        File written by :func:`save_model`.

    Returns
    -------
    dict
        The metadata given to :func:`save_model`, with ``library_version`` and ``estimator`` added.

    Raises
    ------
    ModelFileError
        As :func:`load_model`.
    """
    document, arrays = _open(path)
    try:
        metadata = dict(Decoder(arrays).decode(document["metadata"]))
        (estimator,) = document["model"]
        return {**metadata, "library_version": str(document["library_version"]), "estimator": str(estimator)}
    except BROKEN as error:
        raise damaged(path, f"its metadata cannot be read ({error})") from error


def _open(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return document and arrays of a file of this format and of no newer version."""
    document, arrays = read_archive(path)
    if document.get("format") != FORMAT:
        raise not_a_model(path, "its document has another format")
    found = document.get("format_version")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise damaged(path, f"its format version is {found!r}")
    if found > FORMAT_VERSION:
        raise ModelFileError(
            f"The model file {str(path)!r} has format version {found}, written by manykernels "
            f"{document.get('library_version')}; this is manykernels {version('manykernels')}, which reads "
            f"version {FORMAT_VERSION}. Update manykernels."
        )
    if found < FORMAT_VERSION:
        raise ModelFileError(
            f"The model file {str(path)!r} has format version {found}, of a manykernels before its first release; this "
            f"one reads version {FORMAT_VERSION}. Fit the model again and save it, or open it where it was written."
        )
    if set(document) != KEYS:
        raise damaged(path, f"its document lacks or adds {sorted(set(document) ^ KEYS)}")
    return document, arrays
