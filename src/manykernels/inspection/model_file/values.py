"""Python values as JSON nodes plus arrays, and back: only values of registered classes, never code.

JSON scalars and lists stand for themselves. Everything else is an object with a single key for the kind::

    {"array": name}   {"tuple": [...]}   {"dict": [[key, value], ...]}   {"float": "inf"}   {"slice": [...]}
    {"labels": [...]} (an object array of text and numbers)   {"table": {column: [...]}}   {"kernel": {...}}
    {"pipeline": [[name, step], ...]}   {"skops": name} (a step of another library, as bytes that skops wrote)
    {"PerFeature": {parameter: ...}} (an object of a registered class)

An object is stored as constructor arguments, so the checks of the constructor apply to files; an estimator adds the
fitted attributes. Declared types are checked.
"""

import inspect
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn import model_selection
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from manykernels import discovery, estimators, kernels
from manykernels.alignment import AlignedWeights
from manykernels.discovery import KernelFamily
from manykernels.estimators.parameters import GROUPS, TakesGroups
from manykernels.estimators.selection.held_out import FoldModel
from manykernels.estimators.selection.mixtures import PenaltyFamily
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.deferred import QUESTIONS, Answer
from manykernels.estimators.supervised.posterior import Bands, Levels
from manykernels.exceptions import InvalidInputError, ModelFileError, optional_module
from manykernels.grams.expansion import Expansion
from manykernels.grams.factored.prediction import (
    CellFunction,
    FourierSeries,
    KernelPart,
    LandmarkFunction,
    LineFunction,
    SparseFunction,
)
from manykernels.inspection.model_file.checks import check_parts, check_types
from manykernels.kernels import FittedBank, KernelSpec, PreparedRows, spec_from_dict
from manykernels.kernels.bank.grids import DefaultViews, Relevant, RelevantCodes
from manykernels.kernels.bank.table_kernels import TableKernels, TablePoints
from manykernels.kernels.pairs.bank import MemberPairs, ProductKernels
from manykernels.kernels.precomputed.bank import StackKernels, StackSamples
from manykernels.kernels.specs.distances import SparsePoints
from manykernels.kernels.tables.encoding import Encoding
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import COUPLED_LOSSES, LOSSES
from manykernels.objective.regularizers import COMPOSED, REGULARIZERS
from manykernels.solvers import IterationRecord, Solution, Status
from manykernels.solvers.registry import SOLVERS
from manykernels.validation.arrays import Array

# Steps of a pipeline that other libraries fit, as bytes of skops: its list of trusted types decides what is opened,
# with the type of an array, which a fitted SimpleImputer keeps.
SAFE = ("numpy.dtype",)


def foreign_bytes(step: Any, where: str) -> bytes:
    """Return a fitted step in the format of skops, or raise an error with the reason."""
    io_of_skops = _skops(f"{where} is a {type(step).__name__} of another library")
    try:
        written = bytes(io_of_skops.dumps(step))
        # Functions without a name are written, but nobody can read them again.
        io_of_skops.loads(written, trusted=io_of_skops.get_untrusted_types(data=written))
    except Exception as error:  # whatever the methods of foreign objects raise
        raise ModelFileError(f"{where} ({type(step).__name__}) cannot be saved by skops: {error}") from error
    return written


def foreign_step(data: bytes, trusted: Sequence[str]) -> Any:
    """Return a step from the bytes, if all of the types are trusted."""
    io_of_skops = _skops("a step of the pipeline is of another library")
    trusted = [*SAFE, *trusted]
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > len(data):
                raise ValueError("a step of the pipeline unfolds into more than the file")
        unknown = sorted(set(io_of_skops.get_untrusted_types(data=data)) - set(trusted))
    except Exception as error:  # skops reads what it is given without checks of its own
        raise ValueError(f"a step of the pipeline cannot be read ({type(error).__name__}: {error})") from error
    if unknown:
        raise ModelFileError(
            f"The pipeline holds the types {', '.join(unknown)}, which skops does not know to be safe. If you trust "
            f"who wrote the file, load it with load_model(path, trusted={unknown!r})."
        )
    try:
        return io_of_skops.loads(data, trusted=trusted)
    except Exception as error:
        raise ValueError(f"a step of the pipeline cannot be read ({type(error).__name__}: {error})") from error


def _skops(why: str) -> Any:
    """Return the input and output module of skops."""
    return optional_module("skops.io", f"{why}, which model files hold by skops.", "skops")


ESTIMATORS: dict[str, type[Any]] = {
    name: cls
    for name in estimators.__all__
    if isinstance(cls := getattr(estimators, name), type) and issubclass(cls, BaseEstimator)
}
BANKS = (
    kernels.KernelBank, kernels.PrecomputedBank, kernels.PairKernels, kernels.OnColumns, kernels.PerFeature,
    kernels.PerView, kernels.PerGroup, kernels.Joint,
    kernels.Spare, kernels.Interactions, kernels.OnLandmarks, kernels.DefaultKernels, DefaultViews, Relevant,
    RelevantCodes,
    Encoding, *GROUPS.values(),
)  # fmt: skip
FITTED = (
    Expansion, KernelPart, FourierSeries, LandmarkFunction, CellFunction, LineFunction, SparseFunction,
    FittedBank,
    PreparedRows, TableKernels, TablePoints, StackKernels, StackSamples, ProductKernels, MemberPairs,
    SparsePoints, AlignedWeights, PenaltyFamily, FoldModel, Bands, Levels,
)  # fmt: skip
RESULTS = (Solution, Certificate, KKTResiduals, IterationRecord)
FAMILIES = tuple(cls for _, cls in inspect.getmembers(discovery, inspect.isclass) if issubclass(cls, KernelFamily))
SPLITTERS = tuple(
    getattr(model_selection, name)
    for name in ("KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "ShuffleSplit", "LeaveOneOut",
                 "StratifiedShuffleSplit", "GroupShuffleSplit", "LeaveOneGroupOut", "TimeSeriesSplit")
)  # fmt: skip
PLAIN_KINDS = "biufSU"  # of arrays: booleans, numbers, text, whose bytes mean nothing but values
CALLBACK = "callback"  # of resources and solvers
SCALARS = (str, bool, int, float, type(None))
ATTRIBUTE = re.compile(r"_[a-z]\w*|[a-z]\w*_")  # what estimators call what they learned

OURS: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (*ESTIMATORS.values(), *BANKS, *FITTED, *RESULTS, *FAMILIES, *SPLITTERS)
}
# Names in files that were written before a class was renamed or became a part of another.
FORMER: dict[str, type[Any]] = {"KeptFold": FoldModel, "KernelExpansion": Expansion, "FactoredExpansion": Expansion}
RETIRED = {"Search": ("fold_kernels",)}  # arguments in such files that a class no longer takes
OF_USERS: dict[str, type[Any]] = {}  # filled by `register_class`
Class = TypeVar("Class", bound=type[Any])


def register_class(own: Class) -> Class:
    """Let model files hold objects of a class of yours: a loss, a regularizer, a solver, an estimator.

    A file has the name of the class and the constructor arguments, no code: import the registering module before
    loading. Kernels are registered by :func:`~manykernels.kernels.register_kernel` instead.

    Parameters
    ----------
    own : type
        A dataclass, or a subclass of an estimator of the library.

    Returns
    -------
    type
        The class, for use as a decorator.

    Raises
    ------
    InvalidInputError
        For a class of another kind, or a name in use.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from manykernels.inspection import register_class
    >>> from manykernels.objective import Squared
    >>> @register_class
    ... @dataclass(frozen=True)
    ... class MySquared(Squared):
    ...     pass
    """
    name = own.__name__
    if not (is_dataclass(own) or issubclass(own, BaseMKL)):
        raise InvalidInputError(f"{name} is neither a dataclass nor an estimator of this library, and cannot be saved.")
    other = allowed_classes().get(name)
    if other is not None and (other.__module__, other.__qualname__) != (own.__module__, own.__qualname__):
        taken = f"{other.__module__}.{other.__qualname__}"
        raise InvalidInputError(f"{name!r} is the name of {taken} already; take another.")
    OF_USERS[name] = own
    return own


def allowed_classes() -> dict[str, type[Any]]:
    """Return the classes allowed in a model file, by name."""
    registries = (LOSSES, COUPLED_LOSSES, REGULARIZERS, COMPOSED, SOLVERS)
    return {cls.__name__: cls for registry in registries for cls in registry.values()} | OURS | OF_USERS


def is_known_estimator(name: str) -> bool:
    """Return whether a name belongs to an estimator allowed in a model file."""
    return name in ESTIMATORS or issubclass(OF_USERS.get(name, object), BaseEstimator)


def _parameters(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of the arguments of a constructor."""
    return tuple(inspect.signature(cls).parameters)


class Encoder:
    """Converts values to nodes and collects the referenced arrays; repeated arrays are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[int, str] = {}
        self._written: list[Array] = []  # kept, since arrays are told apart by their place in memory
        self._classes = allowed_classes()

    def encode(self, value: object, where: str) -> Any:
        """Return the node of ``value``; ``where`` names the value in messages."""
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
        if isinstance(value, Pipeline):
            return {"pipeline": [[name, self._step(step, f"step {name!r}")] for name, step in value.steps]}
        return self._container(value, where)

    def _step(self, step: Any, where: str) -> Any:
        """Return the node of a step of a pipeline; skops writes steps of other libraries."""
        ours = isinstance(step, (str, Pipeline, type(None))) or type(step).__name__ in self._classes
        if ours or isinstance(step, BaseMKL):
            return self.encode(step, where)
        written = np.frombuffer(foreign_bytes(step, where), dtype=np.uint8)
        self._written.append(written)
        return {"skops": self._array(written, f"{where}.skops")["array"]}

    def _container(self, value: object, where: str) -> Any:
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

    def _object(self, value: object, where: str) -> dict[str, Any]:
        names = _parameters(type(value))
        if isinstance(value, BaseEstimator):
            fitted = tuple(name for name in value.__getstate__() if name not in (*names, "_sklearn_version"))
            foreign = [name for name in fitted if not ATTRIBUTE.fullmatch(name)]
            if foreign:
                raise ModelFileError(f"The attributes {foreign} are not part of a model file; delete them first.")
            names += fitted
        # What a fit called on its way is code, and no part of what it found.
        kept = {name: None if name == CALLBACK else getattr(value, name) for name in names}
        if isinstance(value, TakesGroups):  # a group that is a dictionary may hold such code too
            kept |= {name: value._group(name) for name in value._groups if kept[name] is not None}
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
    """Return a kernel as plain JSON, or raise an error with the reason."""
    try:
        return json.loads(json.dumps(kernel.to_dict(), allow_nan=False))
    except InvalidInputError as error:
        raise ModelFileError(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{where}: the kernel {kernel.label!r} cannot be saved: {error}.") from error


class Decoder:
    """Turns nodes with references to arrays back into values.

    Steps of a pipeline may hold types trusted by skops, and the ``trusted`` types.
    """

    def __init__(self, arrays: Mapping[str, Array], trusted: Sequence[str] = ()) -> None:
        self._arrays = arrays
        self._trusted = trusted
        self._classes = FORMER | allowed_classes()
        self._depth = 0
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "array": lambda content: self._arrays[content],
            "dict": lambda content: {self.decode(key): self.decode(item) for key, item in content},
            "float": lambda content: float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[content]),
            "kernel": spec_from_dict,
            "labels": self._labels,
            "pipeline": lambda content: Pipeline([(str(name), self.decode(step)) for name, step in content]),
            "skops": lambda content: foreign_step(self._arrays[content].tobytes(), self._trusted),
            "slice": lambda content: slice(*(self.decode(end) for end in content)),
            "status": Status,
            "table": lambda content: pd.DataFrame({name: self.decode(column) for name, column in content.items()}),
            "tuple": lambda content: tuple(self.decode(item) for item in content),
        }

    def decode(self, node: Any) -> Any:
        """Return the value of a node, or raise ``ValueError`` and related errors for invalid nodes."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        if len(node) != 1:
            raise ValueError(f"an object with the keys {sorted(node)[:5]} means nothing")
        ((kind, content),) = node.items()
        self._depth += 1
        most_deep = 100  # nodes inside one another
        if self._depth > most_deep:
            raise ValueError(f"its values lie more than {most_deep} levels deep")
        value = self._kinds[kind](content) if kind in self._kinds else self._object(kind, content)
        self._depth -= 1
        return value

    def _object(self, kind: str, content: Any) -> Any:
        if kind not in self._classes:
            raise ValueError(f"{kind!r} is no part of a model known to this version")
        retired = RETIRED.get(kind, ())
        cls = self._classes[kind]
        values = {name: self.decode(item) for name, item in content.items() if name not in retired}
        fitted = {}
        if is_known_estimator(kind):
            fitted = {name: values.pop(name) for name in set(values).difference(_parameters(cls))}
        value = cls(**values)
        for name, item in fitted.items():
            # Nothing of a class may be hidden by an attribute of the same name.
            # What a fit puts off is kept under the name by which it is asked for.
            hidden = hasattr(cls, name) and not isinstance(getattr(cls, name), Answer)
            if not ATTRIBUTE.fullmatch(name) or name == QUESTIONS or hidden:
                raise ValueError(f"its attributes add {name!r}")
            setattr(value, name, item)
        check_types(value)
        check_parts(value)
        return value

    def _labels(self, content: Any) -> Array:
        labels = np.empty(len(content), dtype=object)
        labels[:] = [self.decode(item) for item in content]
        return labels


def _refusal(value: object, where: str) -> str:
    """Return the reason why a value cannot be part of a model file."""
    if callable(value):
        return (
            f"{where} is a function ({getattr(value, '__name__', type(value).__name__)}), and a model file holds no "
            "code. Give columns by name or position and kernels by name, or pickle the estimator."
        )
    name = type(value).__name__
    if is_dataclass(value):
        return (
            f"{where} is a {name}, a class that model files do not know. Decorate it with "
            "manykernels.inspection.register_class, and import its module before the file is loaded."
        )
    return f"{where} is a {name}, which a model file cannot hold. Use plain values, or pickle instead."
