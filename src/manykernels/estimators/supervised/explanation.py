"""Explanation of a fitted model as tables: weights of kernels, shares of columns, parts of predictions."""

from abc import abstractmethod
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.deferred import Answer
from manykernels.estimators.supervised.importance import IMPORTANCE, drops, keeps_rows, leave_out_support, units_of
from manykernels.estimators.supervised.samples import Rows
from manykernels.grams.expansion import Expansion
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import Table
from manykernels.threads import blas_limit
from manykernels.validation.arrays import Array, TableLike
from manykernels.validation.parameters import check_unit

INTERCEPT = "intercept"
LEAVE_OUT, FOLDS = "leave-out", "folds"
# Long texts in the middle, which narrow displays drop.
FRAME = ("name", "weight", "norm_share", "columns", "kernel", "norm")
IMPORTANCES = ("name", "importance", "low", "high", "columns", "n_kernels", "beyond_noise", "share", "n_rows")
TESTS = "manykernels.inspection:kernel_tests"  # by name, since inspection imports the estimators
MOST_LETTERS = 40  # of names of columns that stand for themselves


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
    _lost_by = Answer(IMPORTANCE)

    @abstractmethod
    def _check_rows(self, X: TableLike) -> Rows:
        """Return new rows in the form of a bank."""

    @abstractmethod
    def _target_labels(self) -> Array:
        """Return the names of classes or targets, (K,)."""

    @property
    @abstractmethod
    def _n_threads(self) -> int:
        """Number of threads for prediction."""

    def weights_frame(
        self,
        X: TableLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        active_only: bool = True,
    ) -> pd.DataFrame:
        """Return the kernels with their weights, the heaviest first.

        Parameters
        ----------
        X, y, sample_weight : the training rows or None, default=None
            Add the columns ``p_value`` and ``q_value`` of :func:`~manykernels.inspection.kernel_tests` on these rows,
            after ``norm_share``. A model keeps no training rows, and its fit computes no p-values. The q-values are
            those among all tested kernels; kernels that are always in have none.
        active_only : bool, default=True
            Only kernels with a positive weight.

        Returns
        -------
        DataFrame
            A row per kernel: ``name``, ``weight`` (``d_m``), ``norm_share`` (of the norm in the sum of norms), ``norm``
            (``||f_m||``), ``kernel`` and ``columns``; ``above_noise`` after the share (whether the kernel by itself is
            more strongly related to y than to 95 % of random orders of y, which 5 % of the kernels are of any noise;
            not there where kernels are found); with several classes or targets, a row for each, led by ``class`` or
            ``output``, unless they share their weights. Norms say how much a kernel bends the function on the rows
            fitted, and are largest where a kernel can follow single rows (categories of many levels). What predictions
            gain by it is another question: see ``feature_importances_`` and :func:`~manykernels.predictive_importance`.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> model = MKLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
        >>> model.weights_frame().columns.tolist()
        ['name', 'weight', 'norm_share', 'columns', 'kernel', 'above_noise', 'norm']
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
        if X is not None and y is not None:
            tests = resolve_name(TESTS)(self, X, y, sample_weight).drop(columns="statistic")
            tests = frame.merge(tests, how="left", on=[name for name in tests if name in frame])
            for number, name in enumerate(("p_value", "q_value"), 1):
                frame.insert(list(frame).index("norm_share") + number, name, tests[name])
        return frame[frame["weight"] > 0].reset_index(drop=True) if active_only else frame

    def _weights_of(self, weights: Array, norms: Array, above: Array | None) -> pd.DataFrame:
        total = norms.sum()
        shares = norms / total if total > 0 else norms
        frame = self._kernel_frame.assign(weight=weights, norm_share=shares, norm=norms)[list(FRAME)]
        if above is not None:
            frame.insert(FRAME.index("norm"), "above_noise", above)
        return frame.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    @property
    def replaced_kernels_(self) -> dict[str, float]:
        """Matrices that were indefinite by rounding, replaced by the nearest positive semidefinite matrices.

        Kernels by name; the value is by how much of the largest eigenvalue the smallest one of the kernel was negative.
        Values computed from the matrices as given differ from those told here.
        """
        check_is_fitted(self)
        model: Any = self
        solutions = model.solution_ if isinstance(model.solution_, tuple) else (model.solution_,)
        return {model.kernel_names_[m]: size for found in solutions for m, size in found.replaced_kernels.items()}

    @property
    def selected_features_(self) -> Array:
        """Columns that prediction reads, ``(n_features_in_,)`` bool: those of active kernels.

        A DataFrame to predict needs no others: ``model.predict(X.loc[:, model.selected_features_])``. Not there for
        precomputed kernels.
        """
        read = np.zeros(self.n_features_in_, dtype=bool)
        read[self._columns_bank("selected_features_").table.used] = True
        return read

    # --- importance -------------------------------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> Array:
        """What predictions of rows not fitted lose without every column, as shares, ``(n_features_in_,)``.

        The importance of a column is the increase in mean loss after replacing the part of the column's kernels by the
        mean (see `importance_frame`). The full value counts if one of the kernels is more strongly related to y than
        any kernel to 95% of random orders of y, otherwise the excess over two standard errors: noise columns pass the
        first criterion in 5% of data sets, and the second in about 2%. A kernel of several columns shares the
        importance equally. The shares sum to 1, or are all zero for a model without any predictive column; several
        classes or targets are averaged. ``importance_method_`` names the rows. Absent for precomputed kernels and
        pairs, without columns.
        """
        bank = self._columns_bank("feature_importances_")
        importances = np.zeros(self.n_features_in_)
        if not self._expansion.active.size:
            return importances
        lost = self._lost()["columns"]
        units = units_of(bank, len(lost))
        for members, worth in zip(units, self._worth(lost, [unit[0] for unit in units]), strict=True):
            columns = list(bank.table.positions[members[0]])
            importances[columns] += worth / len(columns)
        total = importances.sum()
        return importances / total if total > 0 else importances

    @property
    def importance_method_(self) -> str:
        """Which rows importances are measured on: "folds" of a search, or training rows by "leave-out".

        "folds": rows held out by cross-validation, at the chosen strength. "leave-out": every training row by a model
        without the row, a Newton step from the fitted model, in closed form; the curvature of the penalty measures the
        sensitivity of learned weights to single rows. The selection is fixed: ``feature_importances_`` and
        ``noise_p_value_`` account for selected noise.
        """
        check_is_fitted(self)
        return str(getattr(self, "_importance_method", LEAVE_OUT))

    def importance_frame(self, by: str = "view") -> pd.DataFrame:
        """Return what predictions of rows not fitted lose without every column, or without every kernel.

        Parameters
        ----------
        by : {"view", "kernel"}, default="view"
            "view" counts the kernels that read the same columns together; "kernel" lists the kernels of each view, the
            most important view first.

        Returns
        -------
        DataFrame
            A row a set of columns with a kernel (``name`` of the column, the view or the group, ``columns``,
            ``n_kernels``), or an active kernel (``columns``, ``kernel``, with the name): ``importance``, the increase
            of the mean loss of rows left out without it, ``low`` and ``high``, the ends of the 95 % interval over the
            rows, ``beyond_noise``, whether a kernel on the columns by itself is more strongly related to y than any
            kernel is to random orders of y, ``share``, as ``feature_importances_`` has it, and ``n_rows``, the number
            of rows left out: all of a small table, of a large one as many as take about a tenth of the fit, drawn with
            ``random_state``. Where columns tell the same, each is worth little by itself.

        Raises
        ------
        InvalidInputError
            For another ``by``.
        AttributeError
            For columns of precomputed kernels and pairs, and where rows cannot be left out.

        See Also
        --------
        manykernels.predictive_importance : The same by permutation of rows that you have.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLRegressor
        >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 3))
        >>> model = MKLRegressor(loss="quantile", tol=1e-2).fit(X, np.sin(2 * X[:, 1]))
        >>> frame = model.importance_frame()
        >>> frame["name"].iloc[0], frame.columns[1:4].tolist(), model.importance_method_
        ('x1', ['importance', 'low', 'high'], 'leave-out')
        """
        check_is_fitted(self)
        by = check_unit(by, ("view", "kernel"))
        names = self._kernel_frame.iloc[self._expansion.active].reset_index(drop=True)
        if by == "kernel":
            frame = names[["columns", "name"]].rename(columns={"name": "kernel"})
            firsts = list(range(len(names)))
        else:
            units = units_of(self._columns_bank("importance_frame"), len(names))
            firsts = [members[0] for members in units]
            frame = names.loc[firsts, ["columns"]].reset_index(drop=True)
            frame.insert(0, "name", unit_names(names.loc[firsts]))
            frame["n_kernels"] = [len(members) for members in units]
        found = self._lost() if len(frame) else {}
        lost = found.get("kernel" if by == "kernel" else "columns", np.zeros((0, 2)))
        worth = self._worth(lost, firsts)
        normal = 1.96
        frame["importance"], reach = lost[:, 0], normal * lost[:, 1]
        frame["low"], frame["high"] = lost[:, 0] - reach, lost[:, 0] + reach
        frame["beyond_noise"] = self._exceeds_noise(firsts)
        frame["share"] = worth / worth.sum() if worth.any() else worth
        frame["n_rows"] = int(found["rows"][0]) if "rows" in found else 0
        if by == "kernel":
            best = frame.groupby("columns", sort=False)["importance"].transform("max")
            order = np.lexsort((-frame["importance"], pd.factorize(frame["columns"])[0], -best))
            return frame.iloc[order].reset_index(drop=True)
        return frame[list(IMPORTANCES)].sort_values("importance", ascending=False, kind="stable", ignore_index=True)

    def _worth(self, lost: Array, members: Sequence[int]) -> Array:
        """Return the relevant part of the losses of units (u, 2), for units with active kernels."""
        evidence = 2.0  # standard errors that do not count of columns that are within what noise reaches by themselves
        return np.maximum(lost[:, 0] - np.where(self._exceeds_noise(members), 0.0, evidence) * lost[:, 1], 0.0)

    def _exceeds_noise(self, members: Sequence[int]) -> Array:
        """Return whether any kernel on the columns of the active kernels is beyond noise, (u,) bool."""
        known = getattr(self, "_beyond_noise", None)
        if known is None:  # of kernels that were found
            return np.zeros(len(members), dtype=bool)
        columns = self._kernel_frame["columns"].to_numpy()
        places = np.arange(len(columns)) if not self._expansion.bank.on_columns else columns
        found = set(places[known].tolist())
        return np.array([places[m] in found for m in self._expansion.active[list(members)]], dtype=bool)

    def _lost(self) -> dict[str, Array]:
        """Return the loss without every unit and the error, (u, 2), from stored values or stored rows."""
        kept: dict[str, Array] | None = getattr(self, "_lost_by", None)
        if kept is not None:
            return kept
        if not keeps_rows(self, [self._loss]):
            raise AttributeError(
                "Leave-one-out importances are not available for this model (pairs, or an overflow of hazards or "
                "kernels). Use predictive_importance(model, X, y) on other rows."
            )
        with blas_limit(self._n_threads):
            return drops(self._expansion.bank, leave_out_support(self))

    def _columns_bank(self, asked: str) -> FittedBank:
        """Return the active kernels, if on columns."""
        if not hasattr(self, "_expansion"):
            check_is_fitted(self)
        if not self._expansion.bank.on_columns:
            raise AttributeError(
                f"{asked} is not defined for precomputed kernels and pairs, which have no columns: "
                "importance_frame('kernel') has the importance of each precomputed kernel."
            )
        return self._expansion.bank

    def decompose_frame(self, X: TableLike) -> pd.DataFrame:
        """Return what each active kernel adds to every prediction, as a table with names.

        The sum of a row is ``decision_function(X)``, or ``predict(X)`` of models without one.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        DataFrame
            A row per sample, with the index of X; a single column for every kernel with a positive weight, in the order
            of ``kernel_names_``, and ``"intercept"``. With several classes or targets, columns of two levels, led by
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
        rows = self._check_rows(X)
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

    def variance_frame(self, X: TableLike) -> pd.DataFrame:
        r"""Return how the variance of the predictions of some rows falls to the active kernels and to what they share.

        With the parts ``f_m`` of the kernels over the rows, :math:`\operatorname{Var}(f) = \sum_m
        \operatorname{Var}(f_m) + \sum_{m \ne l} \operatorname{Cov}(f_m, f_l)`. For kernels centered and columns that
        are independent, ``variance`` is the Sobol share.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        DataFrame
            A row per active kernel, the largest first: ``name``, ``share`` (covariance of the part with the whole over
            the variance of the whole; sums to 1), and the two parts of it, ``variance`` (of the part alone) and
            ``covariance`` (with the other parts). Led by ``class`` or ``output`` where there are several.

        Notes
        -----
        The frame describes the model, not the importance for predictions.

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

    def decompose(self, X: TableLike) -> Array:
        """Return what every kernel adds to every score.

        Summed over kernels, and with ``intercept_`` added if any, this is ``decision_function(X)``, or ``predict(X)``
        of models without one.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        ndarray of shape (n_kernels, n_samples) or (n_kernels, n_samples, n_outputs)
            Zero for kernels of weight zero; an entry per class or target where there are several.

        See Also
        --------
        decompose_frame : The same of active kernels, as a table with names.

        Notes
        -----
        ``f_m(x) = d_m sum_i rho_i k_m(x, x_i)``, by the representer theorem: a function of the columns
        of kernel ``m``.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLRegressor
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = MKLRegressor().fit(X, [0.0, 1.0, 2.0, 3.0])
        >>> np.allclose(model.decompose(X).sum(axis=0) + model.intercept_, model.predict(X))
        True
        """
        check_is_fitted(self)
        rows = self._check_rows(X)
        with blas_limit(self._n_threads):
            parts = self._expansion.contributions(rows)
        return parts[:, :, 0] if self._single else parts


def unit_names(kernels: pd.DataFrame) -> list[str]:
    """Return a short name for the columns of every kernel: the part before the function in the name."""
    labels = zip(kernels["name"].astype(str), kernels["columns"].astype(str), strict=True)
    most_letters = 40  # of names of columns that stand for themselves
    return [name.rpartition(": ")[0] or (columns if len(columns) <= most_letters else name) for name, columns in labels]


def _variances(parts: pd.DataFrame) -> pd.DataFrame:
    """Return shares of the variance of a sum by column."""
    values = parts.drop(columns=INTERCEPT)
    centered = values.to_numpy() - values.to_numpy().mean(axis=0)
    whole = centered.sum(axis=1)
    total = float(whole @ whole)
    scale = total if total > 0 else 1.0
    share, own = whole @ centered / scale, (centered**2).sum(axis=0) / scale
    frame = pd.DataFrame({"name": values.columns, "share": share, "variance": own, "covariance": share - own})
    return frame.sort_values("share", ascending=False, kind="stable", ignore_index=True)


# How a notebook shows a fitted estimator: a card of what was learned, above scikit-learn's diagram.


# By name, since what looks at models imports what fits them and not the other way; only notebooks ever load it.
CARD = "manykernels.inspection:summary_html"


class NotebookCard:
    """Adds the card of a fitted estimator above the diagram of scikit-learn."""

    def _repr_html_inner(self) -> str:
        diagram = estimator_html_repr(self)
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return f"<div>{resolve_name(CARD)(self)}{diagram}</div>"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]  # of scikit-learn's base, beside this mixin
        return {**bundle, "text/html": self._repr_html_inner()} if "text/html" in bundle else bundle
