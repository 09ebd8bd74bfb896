"""Real data that is installed along with scikit-learn, as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

LOADERS: dict[str, Callable[..., Any]] = {
    "breast_cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
REGRESSION = frozenset({"diabetes"})


def load_bundled(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return a data set that comes with scikit-learn; nothing is downloaded.

    Parameters
    ----------
    name : {"breast_cancer", "diabetes", "digits", "iris", "wine"}
        569 x 30, 442 x 10, 1797 x 64, 150 x 4 and 178 x 13 rows and columns.

    Returns
    -------
    X : DataFrame of shape (n_samples, n_features)
        Numbers, with the names of the columns.
    y : Series of shape (n_samples,)
        Names of the classes, or numbers (``"diabetes"``).

    Raises
    ------
    ValueError
        If there is no data set of that name.

    Examples
    --------
    >>> X, y = load_bundled("breast_cancer")
    >>> X.shape, y.value_counts().to_dict()
    ((569, 30), {'benign': 357, 'malignant': 212})
    """
    if name not in LOADERS:
        raise ValueError(f"Unknown data set {name!r}. Bundled: {', '.join(map(repr, LOADERS))}.")
    bunch = LOADERS[name](as_frame=True)
    y = bunch.target if name in REGRESSION else bunch.target.map(lambda code: str(bunch.target_names[code]))
    return bunch.data, y
