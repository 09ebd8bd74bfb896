"""Where the samples come from: a folder of archives, OpenML, or Breiman's generators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

from manykernels.datasets import make_ringnorm, make_twonorm, make_waveform

Array = NDArray[Any]

OPENML_IDS = {"pima": 37, "ionosphere": 59, "sonar": 40}  # that of liver has no class, that of wpbc is a regression
WAVEFORM_POSITIVE = 2  # of Breiman's three classes: the one that the benchmark tells from the other two
SETS_OF_FIGURES = ("ringnorm", "splice", "twonorm", "waveform")
FILES = {"splice": "splice_ida"}


def load_table(name: str, folder: str | None) -> tuple[Array, Array] | None:
    """Return a set of Table 4 without incomplete rows and constant columns, or None if it is nowhere to be had.

    Parameters
    ----------
    name : str
        liver, pima, ionosphere, wpbc or sonar.
    folder : str or None
        Folder with ``name.npz`` (arrays ``X``, ``y``); None for OpenML.

    Returns
    -------
    X : ndarray of shape (n, p), float64
    y : ndarray of shape (n,), -1 and +1
    """
    if folder is not None:
        path = Path(folder) / f"{name}.npz"
        return cleaned(*_archive(path)) if path.exists() else None
    if name not in OPENML_IDS:
        return None
    table = fetch_openml(data_id=OPENML_IDS[name], as_frame=True, read_csv_kwargs={"dtype": None})
    codes = table.target.astype("category").cat.codes.to_numpy()
    return cleaned(table.data.to_numpy(dtype=float), np.where(codes > 0, 1.0, -1.0))


def cleaned(X: Array, y: Array) -> tuple[Array, Array]:
    """Return the complete rows and the columns that vary (wpbc has 4 incomplete rows, ionosphere a constant column)."""
    complete = np.isfinite(X).all(axis=1)
    X, y = X[complete], y[complete]
    return X[:, np.ptp(X, axis=0) > 0], y


def draw_samples(name: str, n_samples: int, folder: str | None, seed: int) -> tuple[Array, Array] | None:
    """Return random samples: rows of an archive if there is one, else freshly made; None of splice without one.

    Parameters
    ----------
    name : str
        One of ``SETS_OF_FIGURES``.
    n_samples : int
    folder : str or None
        Folder that may hold ``name.npz``.
    seed : int

    Returns
    -------
    X : ndarray of shape (n_samples, p), float64
    y : ndarray of shape (n_samples,), -1 and +1
    """
    path = Path(folder or ".") / f"{FILES.get(name, name)}.npz"
    if folder is not None and path.exists():
        X, y = _archive(path)
        rows = np.random.default_rng(seed).permutation(len(y))[:n_samples]
        return X[rows], y[rows]
    if name in FILES:
        return None
    if name == "waveform":
        X, classes = make_waveform(n_samples, random_state=seed)
        return X, np.where(classes == WAVEFORM_POSITIVE, 1.0, -1.0)
    make = {"ringnorm": make_ringnorm, "twonorm": make_twonorm}[name]
    return make(n_samples, random_state=seed)


def _archive(path: Path) -> tuple[Array, Array]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["X"].astype(np.float64), archive["y"].astype(np.float64)
