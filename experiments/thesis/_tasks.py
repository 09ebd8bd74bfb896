"""The two-class tasks of the thesis (its table 6.2 and 6.2.2): rows, sizes, random splits into three parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

Array = NDArray[Any]

# Name in the thesis: archive, name at OpenML (version 1), and the sizes of table 6.2 (training, validation, test).
SETS: dict[str, tuple[str, str | None, tuple[int, int, int]]] = {
    "banana": ("banana", "banana", (500, 1000, 2000)),
    "breast cancer": ("breast_cancer_ida", "breast-cancer", (105, 27, 131)),
    "diabetes": ("pima", "diabetes", (307, 77, 384)),
    "german": ("german_ida", "credit-g", (350, 150, 500)),
    "heart": ("heart_statlog", "heart-statlog", (108, 27, 135)),
    "image seg.": ("image_ida", None, (500, 500, 1000)),
    "ionosphere": ("ionosphere", "ionosphere", (140, 36, 175)),
    "ringnorm": ("ringnorm", "ringnorm", (500, 1000, 2000)),
    "sonar": ("sonar", "sonar", (83, 21, 104)),
    "splice": ("splice_ida", "splice", (500, 1000, 1491)),
    "thyroid": ("thyroid_ida", None, (86, 22, 107)),
    "waveform": ("waveform", None, (500, 1000, 2000)),
}
# The thesis names neither its 8 pairs of digits nor its 12 pairs of letters: these are alike to the eye.
DIGITS = {
    f"MNIST {first}-{second}": (first, second)
    for first, second in ((3, 8), (4, 7), (4, 9), (0, 6), (1, 7), (2, 3), (2, 9), (5, 8))
}
LETTERS = {
    f"Letter {pair}": (pair[0], pair[2])
    for pair in ("C-G", "D-O", "E-F", "H-N", "I-J", "K-X", "M-N", "M-W", "O-Q", "P-R", "U-V", "V-Y")
}
ARCHIVES = {"digits": ("mnist10k", "mnist_784"), "letters": ("letter", "letter")}  # file, and name at OpenML
DIGIT_SIZES, FEWER_DIGITS = (500, 1000, 2000), (500, 500, 1000)  # the archive has 1000 images a digit only
LETTER_SIZES = (300, 200, 1000)
AS_READ = {"dtype": None}  # classes that are numbers, as categories, are more than scikit-learn can read with pandas 3


def group_of(name: str) -> str:
    """Return which comparison a task belongs to: "digits", "letters" or "sets"."""
    return "digits" if name in DIGITS else "letters" if name in LETTERS else "sets"


@dataclass(frozen=True, eq=False)
class Task:
    """One random split, columns standardized by the training part; pixels and letters are left as they are.

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
        A key of ``SETS``, of ``DIGITS`` or of ``LETTERS``.
    folder : str or None
        Folder of archives; None for OpenML.

    Returns
    -------
    ((n, p) float64, (n,) float64) or None
    """
    if group_of(name) != "sets":
        return _pair(name, folder)
    archive, at_openml, _ = SETS[name]
    if folder is not None:
        path = Path(folder) / f"{archive}.npz"
        return _signed(*_read(path)) if path.exists() else None
    if at_openml is None:
        return None
    table = fetch_openml(at_openml, version=1, as_frame=True, read_csv_kwargs=AS_READ)
    numbers = table.data.apply(lambda column: column if column.dtype.kind in "fiu" else _codes(column))
    return _signed(numbers.to_numpy(dtype=float), _codes(table.target).to_numpy())


def _codes(column: Any) -> Any:
    return column.astype("category").cat.codes


def split(X: Array, y: Array, name: str, seed: int, cap: int | None = None) -> Task:
    """Return a random split in the sizes of the thesis, of which a cap keeps at most so many in every part.

    A set with fewer rows than the three sizes add up to gives the rest of its rows to the test.
    """
    sizes = _sizes(name, len(y))
    first, second, third = sizes if cap is None else (min(size, cap) for size in sizes)
    order = np.random.default_rng(seed).permutation(len(y))
    edges = np.cumsum([first, second, third])
    train, valid, test, _ = np.split(order, edges)
    if group_of(name) != "sets":
        return Task((X[train], y[train]), (X[valid], y[valid]), (X[test], y[test]))
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    Z = (X - mean) / np.where(scale > 0, scale, 1.0)
    return Task((Z[train], y[train]), (Z[valid], y[valid]), (Z[test], y[test]))


def _read(path: Path) -> tuple[Array, Array]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["X"].astype(np.float64), archive["y"]


def _named(path: Path) -> tuple[Array, Array]:
    """Return the rows and the names of their classes: those that the archive gives to its codes, or the codes."""
    X, y = _read(path)
    with np.load(path, allow_pickle=False) as archive:
        names = archive.get("target_names")
    return X, y.astype(str) if names is None else names[y]


def _signed(X: Array, y: Array) -> tuple[Array, Array]:
    kept = np.isfinite(X).all(axis=1)
    signs = np.where(y[kept] == np.max(y), 1.0, -1.0)
    return X[kept][:, np.ptp(X[kept], axis=0) > 0], signs


def _sizes(name: str, n_samples: int) -> tuple[int, int, int]:
    """Return the sizes of the three parts."""
    if name in LETTERS:
        return LETTER_SIZES
    if name in DIGITS:
        return DIGIT_SIZES if n_samples >= sum(DIGIT_SIZES) else FEWER_DIGITS
    return SETS[name][2]


def _pair(name: str, folder: str | None) -> tuple[Array, Array] | None:
    """Return the rows of two classes of an archive or of OpenML, the second one positive."""
    group, classes = group_of(name), (DIGITS | LETTERS)[name]
    file, at_openml = ARCHIVES[group]
    if folder is not None and not (Path(folder) / f"{file}.npz").exists():
        return None
    X, labels = _from_openml(at_openml) if folder is None else _named(Path(folder) / f"{file}.npz")
    kept = np.isin(labels, [str(each) for each in classes])
    return _signed(X[kept], (labels[kept] == str(classes[1])).astype(int))


@cache
def _from_openml(name: str) -> tuple[Array, Array]:
    """Return all rows and labels of a set of many classes, fetched once."""
    table = fetch_openml(name, version=1, as_frame=True, read_csv_kwargs=AS_READ)
    return table.data.to_numpy(dtype=float), table.target.to_numpy().astype(str)
