"""The model file: a fitted estimator as arrays and a JSON document in one file that is safe to open."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError, ModelFileError
from manykernels.inspection.model_file.archive import damaged, not_a_model, read_archive, write_archive
from manykernels.inspection.model_file.values import ESTIMATORS, Decoder, Encoder, is_known_estimator, known_classes

FORMAT = "manykernels model"
FORMAT_VERSION = 3
# What values of wrong types and shapes raise when they are put together.
BROKEN = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
KEYS = {"format", "format_version", "library_version", "model", "metadata"}


def save_model(estimator: BaseEstimator, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file that anyone can open without running code from it.

    The file is a zip archive of ``model.json`` and NumPy arrays, without pickle. It holds the parameters, the active
    kernels with their normalization, the support samples, and the solution with its certificate and history: all
    that prediction and inspection need. Support samples are rows of the training data, so treat the file like them.

    Parameters
    ----------
    estimator : an estimator of this library, or a Pipeline with one among its steps
        Fitted. Steps of other libraries are written by skops (the extra ``skops``), which pickles nothing either.
    path : str or Path
        File to write. An existing file is replaced once the new one is complete.
    metadata : mapping of str to JSON value, optional
        Anything to keep along with the model, for instance the name of the target; see :func:`read_metadata`.

    Raises
    ------
    ModelFileError
        If the estimator holds something that is no plain data (a function, an object of a class that
        :func:`register_class` does not know), or the file cannot be written. Nothing is written then.
    ImportError
        For a pipeline with steps of other libraries, if skops is missing.
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
    name = type(estimator).__name__
    if isinstance(estimator, Pipeline):
        if not any(known_classes().get(type(step).__name__) is type(step) for step in _steps(estimator)):
            raise ModelFileError("No step of the pipeline is an estimator of manykernels: skops saves those.")
    elif known_classes().get(name) is not type(estimator) or not is_known_estimator(name):
        advice = " An estimator of your own is registered with manykernels.inspection.register_class."
        raise ModelFileError(
            f"A model file holds one of {', '.join(ESTIMATORS)} or a Pipeline, not a {name}. Save the fitted estimator "
            f"itself (best_estimator_ of a search).{advice if isinstance(estimator, BaseMKL) else ''}"
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


def _steps(pipeline: Pipeline) -> list[Any]:
    """Return the steps, those of pipelines inside as well."""
    steps = [step for _, step in pipeline.steps]
    return [part for step in steps for part in (_steps(step) if isinstance(step, Pipeline) else [step])]


def _checked(model: BaseEstimator) -> Any:
    """Return a model, or refuse one that is not fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError("it is not fitted") from error
    return model


def load_model(path: str | Path, *, trusted: Sequence[str] = ()) -> Any:
    """Open a model file; nothing in it is executed.

    Parameters
    ----------
    path : str or Path
        File written by :func:`save_model`.
    trusted : sequence of str, default=()
        Of a pipeline: names of types of other libraries that you trust, beside those that skops trusts (NumPy, SciPy,
        scikit-learn). The message of a refused file lists what it holds.

    Returns
    -------
    estimator or Pipeline
        Fitted, of the class that was saved; it predicts exactly what the saved estimator predicted.

    Raises
    ------
    ModelFileError
        If the file cannot be read, is no model file, is damaged or inconsistent, was written by a newer version, or
        holds types that nobody trusts; the message says which.
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
        if kind != "pipeline" and not is_known_estimator(kind):
            raise ValueError(f"{kind!r} is no estimator known to this version; if it is of your own, import it first")
        return _checked(Decoder(arrays, trusted).decode(document["model"]))
    except ModelFileError:
        raise
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
