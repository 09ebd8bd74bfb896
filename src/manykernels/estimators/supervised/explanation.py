"""What a fitted model tells of itself as tables: weights of kernels, shares of columns, parts of predictions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.factored import Expansion, FactoredExpansion
from manykernels.estimators.supervised.leave_out import leave_out_drops
from manykernels.estimators.supervised.samples import Rows
from manykernels.grams.expansion import KernelExpansion
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import Table
from manykernels.objective.losses import Loss
from manykernels.threads import blas_limit
from manykernels.validation.arrays import Array

INTERCEPT = "intercept"
FRAME = ("name", "weight", "norm_share", "norm", "kernel", "columns")


class Explanations:
    """Tables of a fitted model; part of ``BaseMKL``."""

    kernel_weights_: Array
    kernel_norms_: Array
    kernel_names_: list[str]
    intercept_: Any
    n_features_in_: int
    _target_word: str
    _single: bool
    _loss: Any
    _support_targets: Array
    _support_weights: Array
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
            One row a kernel: ``name``, ``weight`` (``d_m``), ``norm_share`` (of the norm in the sum of norms), ``norm``
            (``||f_m||``), ``kernel`` and ``columns``; ``above_noise`` after the share (whether the kernel by itself is
            more strongly related to y than to any of 19 random orders of y, which 5 % of the kernels are of any noise;
            not there where kernels are found); with several classes or targets, a row for each, led by ``class``
            or ``output``, unless they share their weights. Norms say how much a kernel bends the function on the rows
            that were fitted, and are largest where a kernel can follow single rows (categories of many levels). What
            predictions gain by it is another question: see ``feature_importances_`` and
            :func:`~manykernels.predictive_importance`.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> model = MKLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
        >>> model.weights_frame().columns.tolist()
        ['name', 'weight', 'norm_share', 'above_noise', 'norm', 'kernel', 'columns']
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
        shares = norms / total if total > 0 else norms
        frame = self._kernel_frame.assign(weight=weights, norm_share=shares, norm=norms)[list(FRAME)]
        if above is not None:
            frame.insert(FRAME.index("norm_share") + 1, "above_noise", above)
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
        """What predictions of rows that were left out lose without each column, as shares, ``(n_features_in_,)``.

        Each training row is predicted by a model that has not seen it, in closed form (``leave_out.py``); a column is
        worth what the loss gains when the part of its kernels is replaced by the mean of that part. A kernel of several
        columns shares it equally among them. The shares sum to one, or are all zero for a model that predicts new rows
        no better with any column than without; of several classes or targets they are the mean. Kernel weights are
        those of all rows, which flatters columns that the target chose: for a judgment use
        :func:`~manykernels.predictive_importance` on rows that were not fitted.

        Not there for precomputed kernels and pairs, for losses with kinks and those that couple samples or outputs, and
        for kernels held as factors, of which a model keeps no rows: for these, permute columns of new rows.
        """
        bank = self._columns_bank("feature_importances_")
        importances = np.zeros(self.n_features_in_)
        if not self._expansion.active.size:
            return importances
        self._check_leave_out()
        units: dict[tuple[int, ...], list[int]] = {}
        for m, columns in enumerate(bank.positions):
            units.setdefault(tuple(columns), []).append(m)
        drops = leave_out_drops(
            self._expansion,  # type: ignore[arg-type]  # of samples, as was checked
            self._loss,
            self._support_targets,
            self._support_weights,
            np.atleast_1d(self.intercept_),
            units,
            fit_intercept=bool(getattr(self, "fit_intercept", True)),
        )
        for columns, drop in zip(units, np.maximum(drops, 0.0), strict=True):
            importances[list(columns)] += drop / len(columns)
        total = importances.sum()
        return importances / total if total > 0 else importances

    def _check_leave_out(self) -> None:
        """Raise ``AttributeError`` for models whose rows cannot be left out in closed form."""
        kept, loss = getattr(self, "_support_targets", None), self._loss
        if isinstance(self._expansion, KernelExpansion) and kept is not None and isinstance(loss, Loss) and loss.smooth:
            return
        held = (
            "kernels held as factors" if isinstance(self._expansion, FactoredExpansion) else f"the loss {loss.name!r}"
        )
        raise AttributeError(
            f"feature_importances_ is not defined for {held}, where rows cannot be left out in closed form. Use "
            "predictive_importance(model, X, y) on rows that were not fitted."
        )

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

    def variance_frame(self, X: Any) -> pd.DataFrame:
        r"""Return how the variance of the predictions of some rows falls to the active kernels and to what they share.

        With the parts ``f_m`` of the kernels over these rows,
        :math:`\operatorname{Var}(f) = \sum_m \operatorname{Var}(f_m) + \sum_{m \ne l} \operatorname{Cov}(f_m, f_l)`.
        For kernels that are centered and columns that are independent, ``variance`` is the Sobol share.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        DataFrame
            One row an active kernel, the largest first: ``name``, ``share`` (covariance of the part with the whole
            over the variance of the whole; sums to one), and the two parts of it, ``variance`` (of the part alone) and
            ``covariance`` (with the other parts). Led by ``class`` or ``output`` where there are several.

        Notes
        -----
        This is about what the model says, right or wrong, and not about what it gains by it.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, Linear, MKLRegressor
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> model = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.01).fit(X, 2 * X[:, 0] + X[:, 1])
        >>> frame = model.variance_frame(X)
        >>> frame["name"].tolist(), round(float(frame["share"].sum()), 6)
        (['x0: linear()', 'x1: linear()'], 1.0)
        """
        parts = self.decompose_frame(X)
        if self._single:
            return _variances(parts)
        labels = self._target_labels().tolist()
        found = {label: _variances(parts[label]) for label in labels}
        return pd.concat(found, names=[self._target_word]).reset_index(level=0).reset_index(drop=True)

    def _contributions(self, X: Any) -> Array:
        """Return what every kernel adds to every score, (M, n) or (M, n, K)."""
        check_is_fitted(self)
        rows = self._checked_rows(X, reset=False)
        with blas_limit(self._n_threads):
            parts = self._expansion.contributions(rows)
        return parts[:, :, 0] if self._single else parts


def _variances(parts: pd.DataFrame) -> pd.DataFrame:
    """Return shares of the variance of a sum that fall to its columns."""
    values = parts.drop(columns=INTERCEPT)
    centered = values.to_numpy() - values.to_numpy().mean(axis=0)
    whole = centered.sum(axis=1)
    total = float(whole @ whole)
    scale = total if total > 0 else 1.0
    share, own = whole @ centered / scale, (centered**2).sum(axis=0) / scale
    frame = pd.DataFrame({"name": values.columns, "share": share, "variance": own, "covariance": share - own})
    return frame.sort_values("share", ascending=False, kind="stable", ignore_index=True)
