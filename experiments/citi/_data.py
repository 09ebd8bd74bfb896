"""The data sets and the kernels on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml

from manykernels import Gaussian, KernelBank, Polynomial
from manykernels.grams import build_stack
from manykernels.kernels import Joint, PerFeature

OPENML = {"ionosphere": 59, "sonar": 40, "heart_statlog": 53, "wdbc": 1510}
COLUMN_WIDTHS = (0.5, 2.0)
JOINT_WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # times the square root of the number of columns


def load(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels -1 and +1 from a folder of archives or from OpenML, constant columns left out."""
    if folder is not None:
        with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as archive:
            X, labels = archive["X"].astype(float), archive["y"]
    else:
        table = fetch_openml(data_id=OPENML[name], as_frame=True, read_csv_kwargs={"dtype": None})
        X, labels = table.data.to_numpy(dtype=float), table.target.to_numpy()
    return X[:, X.std(axis=0) > 0], np.where(labels == np.unique(labels)[-1], 1.0, -1.0)


def bank_of(n_columns: int) -> KernelBank:
    """Return two Gaussians on every column, seven Gaussians and three polynomials on all, with unit mean diagonals."""
    joint = [Gaussian(width * np.sqrt(n_columns)) for width in JOINT_WIDTHS]
    kernels = [PerFeature(tuple(Gaussian(width) for width in COLUMN_WIDTHS)), Joint((*joint, *polynomials()))]
    return KernelBank(kernels, standardize=True, normalize="mean_diagonal")


def polynomials() -> tuple[Polynomial, ...]:
    """Return those of degree 1, 2 and 3."""
    return tuple(Polynomial(degree) for degree in (1, 2, 3))


def gram_matrices(X: np.ndarray) -> np.ndarray:
    """Return the kernels of the bank on all rows, (M, N, N)."""
    bank, prepared = bank_of(X.shape[1]).fit_prepare(X)
    return build_stack(bank, prepared, kind="dense", dtype=np.float64).block(None, None, None)
