"""Atomic replacement of files, used by every writer of the library."""

import io
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from manykernels.exceptions import InvalidInputError

try:
    import fcntl
except ImportError:  # Windows, where nobody can delete a file that another process has open
    fcntl = None  # type: ignore[assignment]

MOST_BYTES = 255  # of a name, on every common file system
PREFIX = ".manykernels-"  # of files that are being written
FORMULA = re.compile(r"[=+\-@\t\r\n]")  # what a spreadsheet computes
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` at the end of the body, and is removed on failure.

    Readers see the old file or the new one, whole, after a power cut too. A link keeps the target. Permissions, and the
    owner where permitted, are copied from the replaced file. Leftovers of killed writers are removed first.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(f"{str(target)!r} is a folder or a device, no file")
    if not target.name or len(os.fsencode(target.name)) > MOST_BYTES:
        raise OSError("its name is empty or longer than file systems take")
    _remove_leftovers(target.parent)
    handle, temporary = _open_locked(target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _take_rights(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def _open_locked(folder: Path) -> tuple[int, str]:
    """Return a new file, locked while open; a lock ends with the process."""
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=PREFIX)
    if fcntl is None:
        return handle, temporary
    with suppress(OSError):  # where a file system has no locks, nobody takes the file for one that was left
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not os.path.exists(temporary):  # another process saw it before it was locked
            os.close(handle)
            return _open_locked(folder)
    return handle, temporary


def _remove_leftovers(folder: Path) -> None:
    """Remove leftovers of killed writers: matching files without a lock."""
    with suppress(OSError):
        for path in [Path(entry.path) for entry in os.scandir(folder) if entry.name.startswith(PREFIX)]:
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
                try:
                    if fcntl is not None and stat.S_ISREG(os.fstat(handle).st_mode):
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        path.unlink()
                finally:
                    os.close(handle)
                if fcntl is None:
                    path.unlink()


def write_file(path: str | Path, content: bytes | str, what: str) -> Path:
    """Write a file atomically, text as UTF-8, and return the path."""
    target = Path(path)
    try:
        with replacing(target) as file:
            file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"The {what} cannot be written to {str(path)!r}: {reason(error)}.") from error
    return target


def render_csv(frame: pd.DataFrame, separator: str = ",", *, header: bool = True) -> str:
    """Return a table as CSV in which no text is a formula; an apostrophe precedes formulas.

    Texts that begin with ``=``, ``+``, ``-``, ``@``, a tab or a line break are prefixed, except numbers.
    """
    safe = frame.apply(lambda column: column if is_numeric_dtype(column.dtype) else column.map(_no_formula))
    return safe.rename(columns=_no_formula).to_csv(index=False, sep=separator, header=header)


def _no_formula(value: object) -> Any:
    """Return a text safe from formulas in spreadsheets; other values unchanged."""
    formula = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
    return f"'{value}" if formula else value


def save_figure(figure: Any, path: str | Path, **options: object) -> Path:
    """Write a figure of matplotlib as the ending of the path says, whole or not at all."""
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, format=Path(path).suffix.lstrip(".").lower() or "png", **options)
    except ValueError as error:
        raise InvalidInputError(f"The picture cannot be written to {str(path)!r}: {error}.") from error
    return write_file(path, drawn.getvalue(), "picture")


def reason(error: Exception) -> str:
    """Return the message of the operating system, without number and path."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _take_rights(target: Path, temporary: str) -> None:
    """Copy permissions and owner from the replaced file, or use the defaults of a new file."""
    try:
        old = target.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        return
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _flush_folder(folder: Path) -> None:
    """Have the new name on the disk as well, where folders can be flushed."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
