"""The container of a model file: one zip archive of a JSON document and NumPy arrays, read without trusting it.

Members are stored, not compressed, so that a file never unfolds into more than its own size; array headers are checked
against the bytes that follow before anything is allocated; nothing in the file is ever executed.
"""

import io
import json
import math
import re
import stat
import zipfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from manykernels.exceptions import ModelFileError
from manykernels.inspection.files import reason, replacing
from manykernels.validation.arrays import Array

DOCUMENT = "model.json"
SUFFIX = ".npy"
ZIP_START = b"PK\x03\x04"
PLAIN_KINDS = "biufSU"  # booleans, numbers, text: their bytes mean nothing but values
HEADER = re.compile(
    rb"\{'descr': '(?P<descr>[<>|=][a-zA-Z]\d{0,9})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18}(?:, \d{1,18})*,?)?)\), \} *\n"
)
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


def write_archive(path: str | Path, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a document and arrays to one file; an existing file is replaced only once the new one is complete."""
    target = _as_path(path)
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


def read_archive(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the document and the arrays of a file, or say what is wrong with it."""
    members = _read_members(_as_path(path))
    try:
        document = json.loads(members.pop(DOCUMENT).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its {DOCUMENT} cannot be read ({error})") from error
    if not isinstance(document, dict):
        raise damaged(path, f"its {DOCUMENT} is no object")
    return document, {name.removesuffix(SUFFIX): _read_array(data, path) for name, data in members.items()}


def _as_path(path: object) -> Path:
    """Return a path, or say that something else was given: a number would be taken for an open file."""
    if not isinstance(path, (str, PathLike)):
        raise ModelFileError(f"A model file is given by its path, as str or Path, not by a {type(path).__name__}.")
    return Path(path)


def not_a_model(path: str | Path, why: str) -> ModelFileError:
    """Return the error for a file of another kind."""
    return ModelFileError(f"{str(path)!r} is not a model file of manykernels: {why}.")


def damaged(path: str | Path, why: object) -> ModelFileError:
    """Return the error for a model file that cannot be trusted."""
    return ModelFileError(f"The model file {str(path)!r} is damaged: {why}. Save the model again.")


def _read_members(path: Path) -> dict[str, bytes]:
    """Return the bytes of every member, after all sizes were checked."""
    try:
        size, start = _size(path), _start_of(path)
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
    """Return the size of a regular file; devices and pipes, which may never end, are refused unopened."""
    try:
        status = path.stat()
    except ValueError as error:  # a name that no file system takes
        raise _unreadable(path, error) from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise not_a_model(path, "it is a device, a pipe or a socket")
    return status.st_size


def _unreadable(path: Path, error: Exception) -> ModelFileError:
    """Return the error for a file that the system does not give."""
    return ModelFileError(f"The model file {str(path)!r} cannot be read: {reason(error)}.")


def _start_of(path: Path) -> bytes:
    """Return the first bytes of a file, which say that it is an archive."""
    with path.open("rb") as file:
        return file.read(len(ZIP_START))


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Refuse foreign members, and members that unfold into more than the file."""
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
