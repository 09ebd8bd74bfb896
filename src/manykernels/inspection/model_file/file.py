"""The model file: a fitted estimator or a solution as arrays and a JSON document in a single file, safe to open.

A zip archive of a JSON document and NumPy arrays, read as untrusted input. Members are stored uncompressed, so a file
never expands; array headers are checked against the available bytes before allocation; nothing in the file is ever
executed.
"""

import io
import json
import math
import re
import stat
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError, ModelFileError
from manykernels.inspection.files import reason, replacing
from manykernels.inspection.model_file.values import (
    ESTIMATORS,
    PLAIN_KINDS,
    Decoder,
    Encoder,
    allowed_classes,
    is_known_estimator,
)
from manykernels.inspection.solutions import detach_solution
from manykernels.solvers import Solution
from manykernels.validation.arrays import Array

FORMAT = "manykernels model"
FORMAT_VERSION = 3
# What values of wrong types and shapes raise when they are put together.
BROKEN = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
DOCUMENT = "model.json"
SUFFIX = ".npy"
ZIP_START = b"PK\x03\x04"
HEADER = re.compile(
    rb"\{'descr': '(?P<descr>[<>|=][a-zA-Z]\d{0,9})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18}(?:, \d{1,18})*,?)?)\), \} *\n"
)
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes
KEYS = {"format", "format_version", "library_version", "model", "metadata"}


def save_model(
    estimator: BaseEstimator | Solution, path: str | Path, *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted estimator or a solution to a single file that opens without running code.

    The file is a zip archive of ``model.json`` and NumPy arrays, without pickle. The content is the parameters, the
    active kernels with their normalization, the support samples, and the solution with the certificate and history.
    Support samples are rows of the training data, so protect the file accordingly.

    Parameters
    ----------
    estimator : an estimator of the library, a Pipeline with such a step, or a Solution
        Fitted. Steps of other libraries are written by skops (the extra ``skops``), also without pickle. A solution
        keeps its functions, certificate and history; it is one of ``solve(bank, y, X=X, ...)``.
    path : str or Path
        File to write. An existing file is replaced after completion.
    metadata : mapping of str to JSON value, optional
        Anything to keep along with the model, for instance the name of the target; see :func:`read_metadata`.

    Raises
    ------
    ModelFileError
        If the estimator holds something besides plain data (a function, an object of a class without
        :func:`register_class`), or the file cannot be written. Nothing is written then.
    ImportError
        For a pipeline with steps of other libraries, if skops is missing.
    NotFittedError
        If the estimator is not fitted.
    IncompatibleError
        For a solution on kernels given as matrices; the message names what can be saved.

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
    model, encoder = _checked(estimator), Encoder()
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": version("manykernels"),
        "model": encoder.encode(model, ""),
        "metadata": encoder.encode(dict(metadata or {}), "metadata"),
    }
    write_archive(path, document, encoder.arrays)


def _checked(estimator: Any) -> Any:
    """Return a fitted model in the form of files."""
    name = type(estimator).__name__
    if isinstance(estimator, Solution):
        return detach_solution(estimator)
    if isinstance(estimator, Pipeline):
        if not any(allowed_classes().get(type(step).__name__) is type(step) for step in _steps(estimator)):
            raise ModelFileError("No step of the pipeline is an estimator of manykernels: skops saves those.")
    elif allowed_classes().get(name) is not type(estimator) or not is_known_estimator(name):
        advice = " An estimator of your own is registered with manykernels.inspection.register_class."
        raise ModelFileError(
            f"A model file holds one of {', '.join(ESTIMATORS)}, a Pipeline or a Solution, not a {name}. Save the "
            "fitted estimator itself (best_estimator_ of a search), or each Solution of a tuple."
            f"{advice if isinstance(estimator, BaseMKL) else ''}"
        )
    check_is_fitted(estimator)
    return estimator


def _steps(pipeline: Pipeline) -> list[Any]:
    """Return the steps, including steps of nested pipelines."""
    steps = [step for _, step in pipeline.steps]
    return [part for step in steps for part in (_steps(step) if isinstance(step, Pipeline) else [step])]


def load_model(path: str | Path, *, trusted: Sequence[str] = ()) -> Any:
    """Open a model file; nothing in it is executed.

    Parameters
    ----------
    path : str or Path
        File written by :func:`save_model`.
    trusted : sequence of str, default=()
        Of a pipeline: names of types of other libraries to trust, beside the types trusted by skops (NumPy, SciPy,
        scikit-learn). The message of a refused file lists the types.

    Returns
    -------
    estimator, Pipeline or Solution
        Fitted, of the class saved, with identical predictions.

    Raises
    ------
    ModelFileError
        If the file cannot be read, is no model file, is damaged or inconsistent, was written by a newer version, or
        holds untrusted types; the message has the reason.
    ImportError
        If the file holds a pipeline with steps of other libraries, and skops (the extra ``skops``) is missing.

    See Also
    --------
    save_model : The inverse, with an example of both.

    Examples
    --------
    >>> from manykernels import load_model
    >>> from manykernels.exceptions import ModelFileError
    >>> try:
    ...     load_model("no such file.mkl")
    ... except ModelFileError as error:
    ...     print(error)
    The model file 'no such file.mkl' cannot be read: No such file or directory.
    """
    document, arrays = _open(path)
    try:
        (kind,) = document["model"]
        if kind not in ("pipeline", Solution.__name__) and not is_known_estimator(kind):
            raise ValueError(f"{kind!r} is no estimator known to this version; if it is of your own, import it first")
        model = Decoder(arrays, trusted).decode(document["model"])
        try:
            fitted = model.functions is not None if isinstance(model, Solution) else not check_is_fitted(model)
        except NotFittedError:
            fitted = False
        if not fitted:
            raise ValueError("it is not fitted")
        _check_used(document, arrays)
        return model
    except ModelFileError:
        raise
    except InvalidInputError as error:
        raise damaged(path, str(error).rstrip(".")) from error
    except BROKEN as error:
        raise damaged(path, f"its content does not make a model ({type(error).__name__}: {error})") from error


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return the metadata saved with a model.

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
        _check_used(document, arrays)
        return {**metadata, "library_version": str(document["library_version"]), "estimator": str(estimator)}
    except BROKEN as error:
        raise damaged(path, f"its metadata cannot be read ({error})") from error


def _open(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return document and arrays of a file of the format and of no newer version."""
    members = _read_members(_check_path(path))
    try:
        document = json.loads(members.pop(DOCUMENT).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its {DOCUMENT} cannot be read ({error})") from error
    if not isinstance(document, dict):
        raise damaged(path, f"its {DOCUMENT} is no object")
    arrays = {name.removesuffix(SUFFIX): _read_array(data, path) for name, data in members.items()}
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


def _check_used(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` with the name of an array without a reference in the document."""
    nodes: list[Any] = [document["model"], document["metadata"]]
    names: set[str] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            names |= {node[kind] for kind in ("array", "skops") if isinstance(node.get(kind), str)}
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node
    if unused := sorted(set(arrays) - names):
        raise ValueError(f"nothing refers to its member {unused[0] + SUFFIX!r}")


# --- the archive ------------------------------------------------------------------------------------------------------


def write_archive(path: str | Path, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a document and arrays to a file; an existing file is replaced only after completion."""
    target = _check_path(path)
    text = json.dumps(document, allow_nan=False, indent=1, ensure_ascii=False)
    try:
        with replacing(target) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(DOCUMENT, EPOCH), text)
            for name, array in arrays.items():
                buffer = io.BytesIO()
                npy.write_array(buffer, array, version=(1, 0), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(name + SUFFIX, EPOCH), buffer.getvalue())
    except (OSError, ValueError) as error:
        # ValueError: text without bytes in UTF-8, or a path that no file system takes.
        raise ModelFileError(f"The model cannot be written to {str(path)!r}: {reason(error)}.") from error


def _check_path(path: object) -> Path:
    """Return a path; reject numbers, which would be taken for an open file."""
    if not isinstance(path, (str, PathLike)):
        raise ModelFileError(f"A model file is given by its path, as str or Path, not by a {type(path).__name__}.")
    return Path(path)


def not_a_model(path: str | Path, why: str) -> ModelFileError:
    """Return the error for a file of another kind."""
    return ModelFileError(f"{str(path)!r} is not a model file of manykernels: {why}.")


def damaged(path: str | Path, why: object) -> ModelFileError:
    """Return the error for a damaged model file."""
    return ModelFileError(f"The model file {str(path)!r} is damaged: {why}. Save the model again.")


def _read_members(path: Path) -> dict[str, bytes]:
    """Return the bytes of every member, after all sizes were checked."""
    try:
        size = _size(path)
        with path.open("rb") as file:
            start = file.read(len(ZIP_START))
        if not zipfile.is_zipfile(path):
            if start == ZIP_START:
                raise damaged(path, "its end is missing, as after an interrupted copy")
            raise not_a_model(path, "it has another format")
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive.infolist(), size)
            return {member.filename: archive.read(member) for member in archive.infolist()}
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, OverflowError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise damaged(path, error) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _size(path: Path) -> int:
    """Return the size of a regular file; reject devices and pipes unopened."""
    try:
        status = path.stat()
    except ValueError as error:  # a name that no file system takes
        raise _unreadable(path, error) from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise not_a_model(path, "it is a device, a pipe or a socket")
    return status.st_size


def _unreadable(path: Path, error: Exception) -> ModelFileError:
    """Return the error for an unreadable file."""
    return ModelFileError(f"The model file {str(path)!r} cannot be read: {reason(error)}.")


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Reject foreign members, and members that expand beyond the file."""
    names = [member.filename for member in members]
    if DOCUMENT not in names:
        raise not_a_model(path, f"the archive has no {DOCUMENT}")
    foreign = [name for name in names if name != DOCUMENT and not name.endswith(SUFFIX)]
    if foreign or len(set(names)) < len(names):
        raise damaged(path, f"it has repeated or foreign members, such as {(foreign or names)[0]!r}")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise damaged(path, "its members are compressed, but a model file stores them as they are")
    declared = sum(member.file_size for member in members)
    if declared > size:
        raise damaged(path, f"its members declare {declared} bytes, but the file has {size}")


def _read_array(data: bytes, path: str | Path) -> Array:
    """Return an array of plain values."""
    stream = io.BytesIO(data)
    try:
        if npy.read_magic(stream) != (1, 0):
            raise ValueError("an array has an unknown version")
        # NumPy's own reader takes every Python literal, and lets out what the tokenizer of Python says of broken ones.
        header = HEADER.fullmatch(stream.read(int.from_bytes(stream.read(2), "little")))
        if header is None:
            raise ValueError("the header of an array is not one that NumPy writes")
        shape = tuple(int(length) for length in header["shape"].split(b",") if length.strip())
        dtype, available = np.dtype(header["descr"].decode("ascii")), len(data) - stream.tell()
        if dtype.hasobject or dtype.kind not in PLAIN_KINDS or dtype.itemsize == 0:
            raise ValueError(f"an array of dtype {dtype} cannot be part of a model")
        if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != available:
            raise ValueError(f"an array declares shape {shape}, but {available} bytes follow")
        flat = np.frombuffer(data, dtype=dtype, offset=stream.tell(), count=math.prod(shape))
        # A copy, since arrays of a fitted model may be written to, and bytes may not.
        return flat.reshape(shape, order="F" if header["fortran"] == b"True" else "C").copy(order="K")
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise damaged(path, error) from error
