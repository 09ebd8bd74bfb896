"""Parameters of the bank of an estimator, ``kernels__normalize`` and the like: a bank is replaced, never changed."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, clone

from manykernels.grams.training import as_bank
from manykernels.kernels import KernelBank, PairKernels, Pairs
from manykernels.kernels.bank.columns import Table

PREFIX = "kernels__"


class SettableBank(BaseEstimator):
    """An estimator with a bank under ``kernels``, whose parameters can be searched like its own."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, and by ``kernels__name`` those of its bank.

        Parameters
        ----------
        **params
            ``kernels__normalize``, ``kernels__center`` and so on give the estimator another bank; the one that was
            passed in stays as it is, and no bank counts as the default one.

        Returns
        -------
        estimator
            This estimator.

        Raises
        ------
        InvalidInputError
            If the bank has no such parameter, or its value cannot be used.

        Examples
        --------
        >>> from manykernels import KernelBank, MKLRegressor
        >>> MKLRegressor(KernelBank.auto()).set_params(kernels__normalize="trace", tol=1e-3).kernels.normalize
        'trace'
        """
        of_bank = {name.removeprefix(PREFIX): value for name, value in params.items() if name.startswith(PREFIX)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(PREFIX)})
        if of_bank:
            self.kernels: Any = as_bank(self.kernels).set_params(**of_bank)
        return self


def with_kernels_of(estimator: Any, X: Any) -> Any:
    """Return a clone whose list of kernels is decided by these rows, for whoever fits it on parts of them.

    An estimator without a bank, or behind other steps of a pipeline, is cloned as it is.
    """
    again, own = clone(estimator), getattr(estimator, "kernels", None)
    if isinstance(own, (KernelBank, PairKernels)) or (own is None and hasattr(estimator, "representation")):
        rows = X if isinstance(X, (Pairs, Table)) else Table.of(X, sparse=True)
        again.set_params(kernels=as_bank(own, rows).resolve(rows))
    return again
