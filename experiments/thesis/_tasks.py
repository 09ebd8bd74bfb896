"""The two-class tasks of the thesis (its table 6.2 and 6.2.2): rows, sizes, random splits into three parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

Array = NDArray[Any]

# Name in the thesis: archive, OpenML id, and the sizes of table 6.2 (training, validation, test).
SETS: dict[str, tuple[str, int | None, tuple[int, int, int]]] = {
    "banana": ("banana", 1460, (500, 1000, 2000)),
    "breast cancer": ("breast_cancer_ida", 13, (105, 27, 131)),
    "diabetes": ("pima", 37, (307, 77, 384)),
    "german": ("german", 31, (350, 150, 500)),
    "heart": ("heart_statlog", 53, (108, 27, 135)),
    "image seg.": ("image", None, (500, 500, 1000)),
    "ionosphere": ("ionosphere", 59, (140, 36, 175)),
    "ringnorm": ("ringnorm", 1496, (500, 1000, 2000)),
    "sonar": ("sonar", 40, (83, 21, 104)),
    "splice": ("splice", None, (500, 1000, 1491)),
    "thyroid": ("thyroid_ida", None, (86, 22, 107)),
    "waveform": ("waveform", None, (500, 1000, 2000)),
}
DIGITS = {"MNIST 3-8": (3, 8), "MNIST 4-7": (4, 7), "MNIST 4-9": (4, 9)}
DIGIT_SIZES = (500, 500, 1000)  # the archive has 1000 images a digit; the thesis takes 500, 1000 and 2000


@dataclass(frozen=True, eq=False)
class Task:
    """One random split, columns standardized by the training part; pixels are left as they are.

    Attributes
    ----------
    train, valid, test : tuple of ((n, p) float64, (n,) float64 of -1 and +1)
    """

    train: tuple[Array, Array]
    valid: tuple[Array, Array]
    test: tuple[Array, Array]


def load(name: str, folder: str | None) -> tuple[Array, Array] | None:
    """Return the rows and labels -1 and +1 of a task, or None if there are none.

    Parameters
    ----------
    name : str
        A key of ``SETS`` or of ``DIGITS``.
    folder : str or None
        Folder of archives; None for OpenML.

    Returns
    -------
    ((n, p) float64, (n,) float64) or None
    """
    if name in DIGITS:
        return None if folder is None else _digits(Path(folder) / "mnist10k.npz", DIGITS[name])
    archive, identifier, _ = SETS[name]
    if folder is not None:
        path = Path(folder) / f"{archive}.npz"
        return _signed(*_read(path)) if path.exists() else None
    if identifier is None:
        return None
    table = fetch_openml(data_id=identifier, as_frame=True)
    numbers = table.data.apply(lambda column: column if column.dtype.kind == "f" else _codes(column))
    return _signed(numbers.to_numpy(dtype=float), _codes(table.target).to_numpy())


def _codes(column: Any) -> Any:
    return column.astype("category").cat.codes


def split(X: Array, y: Array, name: str, seed: int, cap: int | None = None) -> Task:
    """Return a random split in the sizes of the thesis, of which a cap keeps at most so many in every part.

    A set with fewer rows than the three sizes add up to gives the rest of its rows to the test.
    """
    sizes = DIGIT_SIZES if name in DIGITS else SETS[name][2]
    first, second, third = sizes if cap is None else (min(size, cap) for size in sizes)
    order = np.random.default_rng(seed).permutation(len(y))
    edges = np.cumsum([first, second, third])
    train, valid, test, _ = np.split(order, edges)
    if name in DIGITS:
        return Task((X[train], y[train]), (X[valid], y[valid]), (X[test], y[test]))
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    Z = (X - mean) / np.where(scale > 0, scale, 1.0)
    return Task((Z[train], y[train]), (Z[valid], y[valid]), (Z[test], y[test]))


def _read(path: Path) -> tuple[Array, Array]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["X"].astype(np.float64), archive["y"]


def _signed(X: Array, y: Array) -> tuple[Array, Array]:
    kept = np.isfinite(X).all(axis=1)
    signs = np.where(y[kept] == np.max(y), 1.0, -1.0)
    return X[kept][:, np.ptp(X[kept], axis=0) > 0], signs


def _digits(path: Path, pair: tuple[int, int]) -> tuple[Array, Array] | None:
    if not path.exists():
        return None
    X, y = _read(path)
    kept = np.isin(y, pair)
    return _signed(X[kept], y[kept])
