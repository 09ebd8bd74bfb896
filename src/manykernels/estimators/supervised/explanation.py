"""What a fitted model tells of itself as tables: weights of kernels, shares of columns, parts of predictions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.factored import Expansion
from manykernels.estimators.supervised.samples import Rows
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import Table
from manykernels.threads import blas_limit
from manykernels.validation.arrays import Array

INTERCEPT = "intercept"


class Explanations:
    """Tables of a fitted model; part of ``BaseMKL``."""

    kernel_weights_: Array
    kernel_norms_: Array
    kernel_names_: list[str]
    intercept_: Any
    n_features_in_: int
    _target_word: str
    _single: bool
    _expansion: Expansion
    _kernel_frame: pd.DataFrame

    @abstractmethod
    def _checked_rows(self, X: Any, *, reset: bool) -> Rows:
        """Return X as a bank takes it."""

    @abstractmethod
    def _target_labels(self) -> Array:
        """Return what classes or targets are called, (K,)."""

    @property
    @abstractmethod
    def _n_threads(self) -> int:
        """Number of threads that prediction may use."""

    def weights_frame(self, *, active_only: bool = True) -> pd.DataFrame:
        """Return the kernels with their weights, the heaviest first.

        Parameters
        ----------
        active_only : bool, default=True
            Only kernels with a positive weight.

        Returns
        -------
        DataFrame
            One row a kernel: ``name``, ``kernel``, ``columns``, ``weight`` (``d_m``), ``norm`` (``||f_m||``) and
            ``share`` (of the sum of norms) and ``above_noise`` (whether the kernel by itself is more strongly related
            to y than to any of 19 random orders of y, which 5 % of the kernels are of any noise; not there where
            kernels are found); with several classes or targets, a row for each, led by ``class`` or ``output``, unless
            they share their weights.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> model = MKLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
        >>> model.weights_frame().columns.tolist()
        ['name', 'kernel', 'columns', 'weight', 'norm', 'share', 'above_noise']
        """
        check_is_fitted(self)
        weights, norms = np.atleast_2d(self.kernel_weights_, self.kernel_norms_)
        marks = getattr(self, "above_noise_", None)
        above = [None] * len(weights) if marks is None else list(np.atleast_2d(marks))
        frames = [self._weights_of(*kernels) for kernels in zip(weights, norms, above, strict=True)]
        if self.kernel_weights_.ndim == 2:
            for label, frame in zip(self._target_labels(), frames, strict=True):
                frame.insert(0, self._target_word, label)
        frame = pd.concat(frames, ignore_index=True)
        return frame[frame["weight"] > 0].reset_index(drop=True) if active_only else frame

    def _weights_of(self, weights: Array, norms: Array, above: Array | None) -> pd.DataFrame:
        total = norms.sum()
        frame = self._kernel_frame.assign(weight=weights, norm=norms, share=norms / total if total > 0 else norms)
        frame = frame if above is None else frame.assign(above_noise=above)
        return frame.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    @property
    def selected_features_(self) -> Array:
        """Columns that prediction reads, ``(n_features_in_,)`` bool: those of active kernels.

        A DataFrame to predict needs no others: ``model.predict(X.loc[:, model.selected_features_])``. Not there for
        precomputed kernels.
        """
        read = np.zeros(self.n_features_in_, dtype=bool)
        read[self._columns_bank("selected_features_").used] = True
        return read

    @property
    def feature_importances_(self) -> Array:
        """Share of the kernel norms that falls on each column, ``(n_features_in_,)``.

        The norm ``||f_m||`` of a kernel of several columns is shared equally among them, so that a kernel on all
        columns counts a little for each; the shares sum to one, or are all zero for an empty model. With several
        classes or targets the mean over those that have kernels. Norms say how much a kernel bends the prediction, not
        what the prediction gains by it: for that, permute columns. Not there for precomputed kernels.
        """
        bank = self._columns_bank("feature_importances_")
        norms = np.atleast_2d(self.kernel_norms_)[:, self._expansion.active]
        norms = norms[norms.any(axis=1)]
        shares = (norms / norms.sum(axis=1, keepdims=True)).mean(axis=0) if len(norms) else np.zeros(norms.shape[1])
        importances = np.zeros(self.n_features_in_)
        for share, columns in zip(shares, bank.positions, strict=False):  # an empty model keeps a kernel, not active
            importances[list(columns)] += share / len(columns)
        return importances

    def _columns_bank(self, asked: str) -> FittedBank:
        """Return the active kernels, if they have columns."""
        check_is_fitted(self)
        bank: Any = self._expansion.bank
        if not isinstance(bank, FittedBank):
            raise AttributeError(f"{asked} is not defined for precomputed kernels and pairs, which have no columns.")
        return bank

    def decompose_frame(self, X: Any) -> pd.DataFrame:
        """Return what each active kernel adds to each prediction, as a table with names.

        The sum of a row is ``decision_function(X)``, or ``predict(X)`` of models without one.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        DataFrame
            One row a sample, with the index of X; one column for each kernel with a positive weight, in the order of
            ``kernel_names_``, and ``"intercept"``. With several classes or targets, columns of two levels, led by
            ``class`` or ``output``, so that ``frame[label]`` is the table of one of them.

        See Also
        --------
        decompose : The same as an array, over all kernels.

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import KernelBank, Linear, MKLRegressor
        >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0], "age": [1.0, 0.0, 0.0, 1.0]}, index=list("abcd"))
        >>> model = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.1).fit(X, [0.0, 1.0, 2.0, 3.0])
        >>> parts = model.decompose_frame(X)
        >>> parts.columns.tolist(), parts.index.tolist()
        (['dose: linear()', 'intercept'], ['a', 'b', 'c', 'd'])
        >>> parts.sum(axis=1).round(1).tolist() == model.predict(X).round(1).tolist()
        True
        """
        check_is_fitted(self)
        rows = self._checked_rows(X, reset=False)
        index = rows.data.index if isinstance(rows, Table) and isinstance(rows.data, pd.DataFrame) else None
        with blas_limit(self._n_threads):
            parts = self._expansion.active_contributions(rows)
        intercepts = np.broadcast_to(self.intercept_, parts.shape[2])
        own = np.broadcast_to(self._expansion.weights > 0, (parts.shape[2], len(parts)))
        names = np.array(self.kernel_names_, dtype=object)[self._expansion.active]
        frames = [
            pd.DataFrame(np.vstack([parts[active, :, k], np.full(parts.shape[1], intercepts[k])]).T, index=index)
            for k, active in enumerate(own)
        ]
        for frame, active in zip(frames, own, strict=True):
            frame.columns = pd.Index([*names[active], INTERCEPT])
        if self._single:
            return frames[0]
        labels = self._target_labels()
        return pd.concat(frames, axis=1, keys=labels.tolist(), names=[self._target_word, "kernel"])

    def _contributions(self, X: Any) -> Array:
        """Return what every kernel adds to every score, (M, n) or (M, n, K)."""
        check_is_fitted(self)
        rows = self._checked_rows(X, reset=False)
        with blas_limit(self._n_threads):
            parts = self._expansion.contributions(rows)
        return parts[:, :, 0] if self._single else parts
