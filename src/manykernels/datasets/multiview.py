"""Tables whose columns come in views, some of which are known to matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manykernels.datasets._checks import check_count, check_nonnegative

Array = NDArray[Any]

EFFECTS = ("radial", "linear")
TASKS = ("regression", "classification")


@dataclass(frozen=True, eq=False)
class MultiviewData:
    """A table of several views and the truth behind its target.

    Attributes
    ----------
    X : DataFrame of shape (n_samples, n_features)
        Columns named ``<view>_<number>``.
    y : ndarray of shape (n_samples,)
        Numbers, or -1.0 and +1.0.
    views : dict of str to list of str
        Columns of every view.
    informative : tuple of str
        Views that the target depends on.
    effects : DataFrame of shape (n_samples, n_informative)
        What every informative view adds to the score; columns are the informative views.
    noise : float
        Standard deviation of the noise in the score.
    """

    X: pd.DataFrame
    y: Array
    views: dict[str, list[str]]
    informative: tuple[str, ...]
    effects: pd.DataFrame
    noise: float

    @property
    def best_r2(self) -> float:
        """Expected coefficient of determination of the true score: effects are independent with variance 1."""
        n_informative = len(self.informative)
        return n_informative / (n_informative + self.noise**2)


def make_multiview(
    n_samples: int = 200,
    n_features: Sequence[int] = (5, 5, 5, 5),
    n_informative: int = 2,
    *,
    effect: str = "radial",
    task: str = "classification",
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> MultiviewData:
    """Draw independent standard normal views, of which only some decide about the target.

    The score is ``sum_v g(x_v) + noise * e`` over the informative views ``v``, with ``e`` standard normal and ``g`` of
    mean 0 and variance 1: ``(||x_v||^2 - p_v) / sqrt(2 p_v)`` (radial: uncorrelated with every column) or
    ``sum_j x_vj / sqrt(p_v)`` (linear). The target is the score or its sign.

    Parameters
    ----------
    n_samples : int
    n_features : sequence of int
        Columns ``p_v`` of every view; the views are named ``view0``, ``view1``, ...
    n_informative : int
        How many views, drawn at random, matter.
    effect : {"radial", "linear"}
    task : {"classification", "regression"}
    noise : float
        Standard deviation of the noise, non-negative.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    MultiviewData

    Raises
    ------
    ValueError
        If an argument has no meaning; the message says which.

    Examples
    --------
    >>> data = make_multiview(100, (2, 3, 4), n_informative=1, random_state=0)
    >>> data.X.shape, data.views["view0"], len(data.informative)
    ((100, 9), ['view0_0', 'view0_1'], 1)
    """
    sizes = [check_count(size, f"n_features[{v}]") for v, size in enumerate(n_features)]
    n, scale = check_count(n_samples, "n_samples"), check_nonnegative(noise, "noise")
    _check_choices(len(sizes), n_informative, effect, task)
    rng = np.random.default_rng(random_state)
    views = {f"view{v}": [f"view{v}_{j}" for j in range(size)] for v, size in enumerate(sizes)}
    X = pd.DataFrame(rng.standard_normal((n, sum(sizes))), columns=[name for names in views.values() for name in names])
    chosen = np.sort(rng.choice(len(sizes), size=n_informative, replace=False))
    informative = tuple(f"view{v}" for v in chosen)
    effects = pd.DataFrame({view: _effect(X[views[view]].to_numpy(), effect) for view in informative})
    score = effects.to_numpy().sum(axis=1) + scale * rng.standard_normal(n)
    y = score if task == "regression" else np.where(score > 0, 1.0, -1.0)
    return MultiviewData(X, y, views, informative, effects, scale)


def _effect(x: Array, effect: str) -> Array:
    p = x.shape[1]
    return ((x**2).sum(axis=1) - p) / np.sqrt(2.0 * p) if effect == "radial" else x.sum(axis=1) / np.sqrt(p)


def _check_choices(n_views: int, n_informative: int, effect: str, task: str) -> None:
    if check_count(n_informative, "n_informative") > n_views:
        raise ValueError(f"n_informative must be at most the number of views, {n_views}, got {n_informative}.")
    if effect not in EFFECTS:
        raise ValueError(f"effect must be one of {EFFECTS}, got {effect!r}.")
    if task not in TASKS:
        raise ValueError(f"task must be one of {TASKS}, got {task!r}.")
