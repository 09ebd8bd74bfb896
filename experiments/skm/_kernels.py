"""The experiment of the paper: nested sets of Gaussian kernels on random subsets of the columns, nested samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pandas import get_dummies
from sklearn.datasets import fetch_openml

from manykernels import Gaussian

FILES = {"ionosphere": "ionosphere", "breast cancer": "breast_cancer_wisconsin", "adult": "adult_a9a"}
OPENML = {"ionosphere": 59, "breast cancer": 15}
VARIANTS = {  # what makes the time on Adult grow faster: two of its properties taken from it, one given to another set
    "adult, jittered": "adult",
    "adult, labels by a linear rule": "adult",
    "breast cancer, noisy labels": "breast cancer",
}
JITTER, NOISE = 0.5, 0.16  # standard deviations of a column; share of labels that are drawn anew, as many as Adult's
ADULT = "adult"  # at OpenML as a table with categories, coded here as one column a category


def load(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a set, or one of `VARIANTS`: with noise in the columns, without or with noise in the labels."""
    X, y = complete(VARIANTS.get(name, name), folder)
    rng = np.random.default_rng(0)
    if name == "adult, jittered":  # columns of zeros and ones make rows that are nearly the same
        X = X + JITTER * rng.normal(size=X.shape)
    if name == "adult, labels by a linear rule":
        scores = X @ np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
        y = np.where(scores > np.quantile(scores, np.mean(y < 0)), 1.0, -1.0)
    if name == "breast cancer, noisy labels":
        y = np.where(rng.random(len(y)) < NOISE, -y, y)
    return X, y


def complete(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return standardized columns and labels -1 and +1; rows with missing values and constant columns are left out."""
    if folder is not None:
        with np.load(Path(folder) / f"{FILES[name]}.npz", allow_pickle=False) as archive:
            X, labels = archive["X"], archive["y"]
    else:
        given = {"data_id": OPENML[name]} if name in OPENML else {"name": ADULT, "version": 2}
        table = fetch_openml(**given, as_frame=True, read_csv_kwargs={"dtype": None})
        rows = table.data if name in OPENML else get_dummies(table.data)
        X, labels = rows.to_numpy(), table.target.to_numpy()
    X = np.asarray(X, dtype=float)
    whole = np.isfinite(X).all(axis=1)
    X, y = X[whole], np.where(labels == np.unique(labels)[-1], 1.0, -1.0)[whole]
    spread = X.std(axis=0)
    return (X[:, spread > 0] - X[:, spread > 0].mean(axis=0)) / spread[spread > 0], y


def draw(X: np.ndarray, y: np.ndarray, n_kernels: int, n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest set of kernels on samples in random order; every other problem is a corner of it.

    Kernels have unit diagonal and take a uniformly drawn number of columns; a width is the square root of that number
    times a factor between 0.3 and 3, uniform in its logarithm. (The paper does not print its distributions.)
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:n_samples]
    X, y = X[order], y[order]
    kernels = np.empty((n_kernels, len(y), len(y)))
    for m in range(n_kernels):
        columns = rng.choice(X.shape[1], rng.integers(1, X.shape[1] + 1), replace=False)
        width = np.sqrt(len(columns)) * 10 ** rng.uniform(-0.5, 0.5)
        kernels[m] = Gaussian(width)(X[:, columns], X[:, columns])
    return kernels, y
