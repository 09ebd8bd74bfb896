"""Parameters of banks under the names that scikit-learn's searches give them, such as ``kernels__normalize``."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

from manykernels.exceptions import InvalidInputError


class BankParameters:
    """``get_params`` and ``set_params`` of a frozen bank: setting returns another bank, since none ever changes."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor.

        Parameters
        ----------
        deep : bool, default=True
            Of no account: kernels have no parameters of their own.

        Returns
        -------
        dict

        Examples
        --------
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank("trace").get_params()
        {'normalize': 'trace', 'center': False}
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]  # a dataclass

    def set_params(self, **changes: Any) -> Self:
        """Return a bank with other arguments; this one stays as it is.

        Estimators of this package put the new bank in the place of the old one, so that ``GridSearchCV`` over
        ``kernels__normalize`` does what it does elsewhere.

        Parameters
        ----------
        **changes
            Arguments of the constructor.

        Returns
        -------
        KernelBank or PrecomputedBank

        Raises
        ------
        InvalidInputError
            If there is no argument of that name, or its value cannot be used.

        Examples
        --------
        >>> from manykernels import PrecomputedBank
        >>> PrecomputedBank().set_params(normalize="trace", center=True)
        PrecomputedBank(normalize='trace', center=True)
        """
        known = self.get_params()
        unknown = [name for name in changes if name not in known]
        if unknown:
            raise InvalidInputError(
                f"A {type(self).__name__} has no parameter {unknown[0]!r}; it has {', '.join(known)}."
            )
        return replace(self, **changes)  # type: ignore[type-var]  # a dataclass
