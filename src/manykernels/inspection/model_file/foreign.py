"""Steps of a pipeline that other libraries fit, as bytes of skops: its list of trusted types decides what is opened."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

from manykernels.exceptions import ModelFileError

INSTALL = "Install it with: python -m pip install 'manykernels[skops]'."


def foreign_bytes(step: Any, where: str) -> bytes:
    """Return a fitted step as skops writes it, or say why it cannot be saved."""
    io_of_skops = _skops(f"{where} is a {type(step).__name__} of another library")
    try:
        written = bytes(io_of_skops.dumps(step))
        # Functions without a name are written, but nobody can read them again.
        io_of_skops.loads(written, trusted=io_of_skops.get_untrusted_types(data=written))
    except Exception as error:  # whatever the methods of foreign objects raise
        raise ModelFileError(f"{where} ({type(step).__name__}) cannot be saved by skops: {error}") from error
    return written


def foreign_step(data: bytes, trusted: Sequence[str]) -> Any:
    """Return a step from its bytes, if all of its types are trusted."""
    io_of_skops = _skops("a step of the pipeline is of another library")
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
        return io_of_skops.loads(data, trusted=list(trusted))
    except Exception as error:
        raise ValueError(f"a step of the pipeline cannot be read ({type(error).__name__}: {error})") from error


def _skops(why: str) -> Any:
    """Return the module of skops that reads and writes."""
    try:
        import skops.io as io_of_skops
    except ImportError as error:
        raise ImportError(f"{why}, which model files hold by skops. {INSTALL}") from error
    return io_of_skops
