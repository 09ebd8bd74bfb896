"""The ready-made ways to a bank: patterns over columns, protocols, files; each returns a plain KernelBank.

A bank is read from a dictionary or a TOML file; every error names the key that caused it.
"""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any, Self

import pandas as pd

from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank import grids
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.patterns import BankEntry, Joint, OnColumns, PerFeature, PerGroup, PerView
from manykernels.kernels.specs.base import KERNELS, KernelSpec, spec_from_dict
from manykernels.kernels.specs.inner import Linear
from manykernels.kernels.tables.kinds import refuse
from manykernels.kernels.tables.views import Views
from manykernels.validation.arrays import check_choice
from manykernels.validation.parameters import knows

OPTIONS = ("standardize", "normalize", "center", "missing", "landmarks_by", "shape")
PLACES = ("joint", "each", "views", "pairs")
# Parameters that are lists themselves: given once, not as a grid.
LIST_PARAMETERS = {
    "ard_gaussian": ("widths",),
    "sum": ("parts",),
    "product": ("parts",),
    "interaction": ("parts",),
    "binned": ("edges", "shares"),
    "shaped": ("points",),
    "landmarks": ("points", "units"),
    "pairwise": ("params",),
    "weighted_polynomial": ("weights",),
}


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"The kernel file {str(path)!r} cannot be read: {error.strerror}.") from error
    except RecursionError as error:
        raise InvalidInputError(
            f"The kernel file {str(path)!r} is not valid: its values are nested too deep."
        ) from error
    except ValueError as error:  # of TOML, of UTF-8, or of numbers with too many digits
        raise InvalidInputError(f"The kernel file {str(path)!r} is not valid TOML: {error}.") from error
    depth, level = 0, [content]
    deepest = 32  # tables and lists inside one another in a file of kernels
    while level:
        depth, level = depth + 1, [part for value in level for part in _parts(value)]
        if depth > deepest:
            raise InvalidInputError(f"The kernel file {str(path)!r} is not valid: its values are nested too deep.")
    return content


def _parts(value: object) -> list[Any]:
    """Return the values inside a table or a list."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def read_description(description: Mapping[str, Any]) -> tuple[list[BankEntry], dict[str, Any]]:
    """Return the entries and the options of a bank from a dictionary."""
    _check_keys(description, (*OPTIONS, "preset", "views", "kernels"), "the kernel description")
    options = {key: description[key] for key in OPTIONS if key in description}
    if options.get("normalize") == "none":
        options["normalize"] = None
    entries = _preset(description["preset"]) if "preset" in description else []
    if "preset" in description:
        options.setdefault("standardize", "robust" if description["preset"] == "auto" else True)
    tables = description.get("kernels", [])
    if not isinstance(tables, (list, tuple)) or not all(isinstance(table, Mapping) for table in tables):
        raise InvalidInputError("'kernels' must be a list of tables, written [[kernels]] in TOML.")
    for number, table in enumerate(tables):
        entries.append(_entry(table, description.get("views"), f"kernels[{number}]"))
    if not entries:
        raise InvalidInputError("The kernel description has neither 'kernels' nor 'preset'.")
    return entries, options


def _preset(preset: object) -> list[BankEntry]:
    if preset == "auto":
        return [grids.DefaultKernels()]
    if preset == "simplemkl":
        return [PerFeature(grids.simplemkl_specs()), Joint(grids.simplemkl_specs())]
    raise InvalidInputError(f"'preset' must be 'auto' or 'simplemkl', got {preset!r}.")


def _entry(table: Mapping[str, Any], views: object, where: str) -> BankEntry:
    kind = check_choice(table.get("kernel"), sorted(KERNELS), f"{where}: 'kernel'")
    place = check_choice(table.get("on", "joint"), PLACES, f"{where}: 'on'")
    parameters = [field.name for field in fields(KERNELS[kind])]
    # Pairwise kernels have a parameter called name themselves.
    label = None if "name" in parameters else table.get("name")
    _check_keys(table, ("kernel", "on", "columns", "name", *parameters), where)
    try:
        specs = _grid(kind, {key: table[key] for key in parameters if key in table})
        return _place(specs, place, table.get("columns"), views, label)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from error


def _grid(kind: str, parameters: Mapping[str, Any]) -> list[KernelSpec]:
    whole = LIST_PARAMETERS.get(kind, ())
    choices = [
        value if isinstance(value, list) and name not in whole else [value] for name, value in parameters.items()
    ]
    return [
        spec_from_dict({"kernel": kind, **dict(zip(parameters, values, strict=True))}) for values in product(*choices)
    ]


def _place(specs: list[KernelSpec], place: str, columns: object, views: object, label: str | None) -> BankEntry:
    if label is not None:
        if place != "joint" or len(specs) != 1:
            raise InvalidInputError("'name' is for a single kernel with on = 'joint'; leave it out.")
        return OnColumns(label, specs[0], columns)
    if place == "each":
        return PerFeature(tuple(specs), columns)
    if place == "pairs":
        return grids.Interactions(tuple(specs), columns)
    if place == "joint":
        return Joint(tuple(specs), columns)
    if columns is not None or not isinstance(views, Mapping):
        raise InvalidInputError("on = 'views' needs a table [views] of column lists, and no 'columns'.")
    return PerView(tuple(specs), views)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise InvalidInputError(f"Unknown key {unknown[0]!r} in {where}; known keys: {', '.join(known)}.")


explained = knows(OPTIONS, "KernelBank")  # parameters that no bank has are refused with the one that is meant


class BankConstructors(ABC):
    """Class methods of :class:`KernelBank` for common banks."""

    @classmethod
    @abstractmethod
    def _build(cls, entries: Sequence[Any], options: Mapping[str, Any]) -> Self:
        """Return the bank of the entries and options."""

    @classmethod
    @explained
    def per_feature(cls, specs: object = (), columns: object = None, *, widths: object = (), **options: object) -> Self:
        """Return every kernel on every column by itself.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, default=()
        columns : column selection, default=None
            None is every column.
        widths : sequence, default=()
            Gaussian kernels of the widths are added: numbers, "median", "0.5*median".
        **options
            ``standardize``, ``normalize``, ``center``, ``missing``, ``landmarks_by``, ``shape``.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> len(KernelBank.per_feature(widths=[0.5, "median"]).expand([[1.0, 2.0], [3.0, 5.0]]))
        4
        """
        return cls._build([PerFeature(grids.add_gaussians(specs, widths), columns)], options)

    @classmethod
    @explained
    def per_view(cls, specs: object = (), views: object = None, *, widths: object = (), **options: object) -> Self:
        """Return every kernel on every view, a named selection of columns.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, default=()
        views : mapping of str to column selection, or None
            None is the views of the :class:`Views` that the bank is fitted on.
        widths : sequence, default=()
            Gaussian kernels of the widths are added.
        **options
            ``standardize``, ``normalize``, ``center``, ``missing``, ``landmarks_by``, ``shape``.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank, Linear
        >>> bank = KernelBank.per_view(Linear(), {"left": [0, 1], "right": [2]})
        >>> [name for name, _, _ in bank.expand([[1.0, 2.0, 3.0]])]
        ['left: linear()', 'right: linear()']
        """
        return cls._build([PerView(grids.add_gaussians(specs, widths), _columns_of(views))], options)

    @classmethod
    @explained
    def joint(cls, specs: object = (), columns: object = None, *, widths: object = (), **options: object) -> Self:
        """Return every kernel on all columns of a selection together.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, default=()
        columns : column selection, default=None
            None is every column.
        widths : sequence, default=()
            Gaussian kernels of the widths are added.
        **options
            ``standardize``, ``normalize``, ``center``, ``missing``, ``landmarks_by``, ``shape``.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank, Linear
        >>> KernelBank.joint(Linear(), widths=[0.5]).fit([[0.0, 1.0], [1.0, 0.0]]).names
        ('all: linear()', 'all: gaussian(width=0.5)')
        """
        return cls._build([Joint(grids.add_gaussians(specs, widths), columns)], options)

    @classmethod
    @explained
    def interactions(
        cls,
        specs: object = None,
        columns: object = None,
        *,
        order: int | None = 2,
        bins: int | None = None,
        widths: object = None,
        **options: object,
    ) -> Self:
        r"""Return products of a kernel per column, :math:`\prod_j k(x_j, z_j)`, for every set of ``order`` columns.

        Added to a bank of single columns they make the model additive with interactions: relevant interactions are
        found in the fit, under a common certificate, with or without main effects. By default kernels are on ranks,
        :class:`Binned`: exact as factors, with a single read of the rows per pass for any number of widths.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, optional
            Kernels of a single column; ``Binned(Gaussian(width))`` if not given. Categories get the overlap kernel.
        columns : column selection, default=None
            None is every column: p columns have p (p - 1) / 2 pairs.
        order : int or None, default=2
            Columns in a product. None is every number from two on, of at most 14 columns.
        bins : int, optional
            Bins per column. By default 24 for pairs, and for more columns at most 256 cells: 6 each of three columns, 4
            of four, 3 of five, 2 of more.
        widths : sequence of float, optional
            Of the Gaussian kernels, in units of ranks between 0 and 1. If not given, 0.08, whose steps are sharp, and
            0.4 for two columns, 0.25 for more.
        **options
            ``standardize``, ``normalize``, ``center``, ``missing``, ``landmarks_by``, ``shape``.

        Raises
        ------
        InvalidInputError
            If a kernel is not one of single columns, or there are too few columns or too many sets of them.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> bank = KernelBank.per_feature(widths=["median"]) + KernelBank.interactions(bins=8)
        >>> bank.fit([[1.0, 2.0, 0.0], [3.0, 5.0, 1.0]]).names[-1]
        'x1 x x2: gaussian(width=0.4) of 8 bins'
        >>> KernelBank.interactions(order=None).fit([[1.0, 2.0, 0.0], [3.0, 5.0, 1.0]]).names[-1]
        'x0 x x1 x x2: gaussian(width=0.25) of 6 bins'
        """
        return cls._build([grids.interactions(specs, columns, order, bins, widths)], options)

    @classmethod
    @explained
    def landmarks(
        cls,
        specs: object = None,
        columns: object = None,
        *,
        count: int = 300,
        stretched: object = None,
        stretch: float = 4.0,
        **options: object,
    ) -> Self:
        r"""Return kernels of all columns together, :class:`Landmarks`, whose functions are interactions of any order.

        Added to single columns and pairs, the kernels model effects of three and more columns. The rank is finite, so
        factors and certificate are exact. A single kernel has the columns unchanged, and further kernels stretch a
        column each.

        Parameters
        ----------
        specs : KernelSpec or sequence of KernelSpec, optional
            Kernels of several columns; ``Matern("median", 0.5)``, which is :math:`\exp(-r / w)`, if not given.
        columns : column selection, default=None
            None is every column of numbers.
        count : int, default=300
            Of landmarks, at most 2000.
        stretched : column selection, default=None
            Columns in which a separate kernel is sharper. None is all, if they are at most 30, else none; ``[]`` is
            none.
        stretch : float, default=4.0
            By how much.
        **options
            ``standardize``, ``normalize``, ``center``, ``missing``, ``landmarks_by``, ``shape``.

        Raises
        ------
        InvalidInputError
            If a parameter cannot be used, or a stretched column is not among the columns.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> bank = KernelBank.landmarks(count=10, stretched=[0])
        >>> bank.fit([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]]).names[1]
        'all, x0 times 4: matern(width=median, nu=0.5) on 10 landmarks'
        """
        return cls._build([grids.create_landmark_pattern(specs, columns, count, stretched, stretch)], options)

    @classmethod
    @explained
    def from_views(cls, views: object = None, specs: Any = None, **options: object) -> Self:
        """Return a bank of views; without kernels, Gaussians at 0.5, 1 and 2 median distances and a linear kernel each.

        Parameters
        ----------
        views : mapping of str to column selection, Views, mapping of str to DataFrame, or None
            Columns of a single table. For tables, and None, the views come from the :class:`Views` of the fit; default
            kernels suit the columns, see :class:`DefaultKernels`.
        specs : KernelSpec or sequence of KernelSpec, optional
        **options
            ``standardize`` (here "robust" unless given), ``normalize``, ``center``, ``missing``, ``landmarks_by``,
            ``shape``.

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import KernelBank, Views
        >>> views = Views({"left": pd.DataFrame({"a": [1.0, 2.0]}), "right": pd.DataFrame({"b": [3.0, 5.0]})})
        >>> KernelBank.from_views(views).fit(views).names[:2]
        ('left: gaussian(width=0.5*median)', 'left: gaussian(width=median)')
        """
        columns = _columns_of(views)
        if specs is None and columns is None:
            return cls.auto(**options)
        entry = grids.DefaultViews(views=columns) if specs is None else PerView(specs, columns)
        return cls._build([entry], {"standardize": "robust", **options})

    @classmethod
    @explained
    def from_groups(
        cls, groups: Any, specs: Any = None, *, least: int = 1, unknown: str = "error", **options: object
    ) -> Self:
        """Return a bank of groups of columns, of thousands, for example gene sets or regions; a linear kernel each.

        Parameters
        ----------
        groups : mapping of str to names or positions of columns
        specs : KernelSpec or sequence of KernelSpec, optional
        least : int, default=1
            Groups with fewer columns in the table are left out.
        unknown : {"error", "drop"}, default="error"
            Treatment of columns absent from the table.
        **options
            ``standardize`` (here True unless given), ``normalize``, ``center``, ``missing``, ``landmarks_by``,
            ``shape``.

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import KernelBank
        >>> genes = pd.DataFrame({"g1": [1.0, 2.0], "g2": [3.0, 5.0], "g3": [2.0, 2.5]})
        >>> sets = {"repair": ["g1", "g3"], "growth": ["g2", "g9"]}
        >>> KernelBank.from_groups(sets, unknown="drop").fit(genes).names
        ('repair: linear()', 'growth: linear()')
        """
        entry = PerGroup((Linear(),) if specs is None else specs, groups, least, unknown)
        return cls._build([entry], {"standardize": True, **options})

    @classmethod
    @explained
    def auto(cls, X: object = None, **options: object) -> Self:
        """Return kernels that suit the type of each column, see :class:`DefaultKernels`.

        The default bank of the estimators.

        Parameters
        ----------
        X : DataFrame, optional
            Decides now; the entries of the bank name the columns. Without it, the table that the bank is fitted on
            decides.
        **options
            ``standardize`` (here "robust" unless given), ``normalize``, ``center``, ``missing``, ``landmarks_by``,
            ``shape``.

        Raises
        ------
        InvalidInputError
            If there is no kernel for a column; the message names all of them.

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import KernelBank
        >>> table = pd.DataFrame({"age": [30, 40, 50], "city": ["Rome", "Oslo", "Rome"]})
        >>> [type(entry).__name__ for entry in KernelBank.auto(table)]
        ['PerFeature', 'PerFeature']
        >>> KernelBank.auto().fit(table).names[-1]
        'city: overlap()'
        """
        if X is None:
            return cls._build([grids.DefaultKernels()], {"standardize": "robust", **options})
        table = Table.wrap(X)
        refuse(grids.unusable_columns(table))
        return cls._build(grids.entries_by_type(table), {"standardize": "robust", **options})

    @classmethod
    @explained
    def simplemkl(cls, **options: object) -> Self:
        """Return the kernels of the SimpleMKL protocol, 27 (d + 1) for d columns.

        Gaussians of width 0.1, 0.25, 0.5, 0.75, 1, 2, ..., 20 and polynomials of degree 1, 2, 3, on every column and on
        all columns; unit mean diagonal, standardized columns. The paper has unit traces: ``normalize="trace"``.

        Parameters
        ----------
        **options
            ``standardize`` (here True unless given), ``normalize``, ``center``, ``missing``, ``landmarks_by``,
            ``shape``.

        Notes
        -----
        Suzuki and Tomioka, SpicyMKL (2011), section 6.2, after Rakotomamonjy et al., SimpleMKL (2008).

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> len(KernelBank.simplemkl().expand([[0.0] * 30]))
        837
        """
        specs = grids.simplemkl_specs()
        return cls._build([PerFeature(specs), Joint(specs)], {"standardize": True, **options})

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Self:
        """Return the bank that a dictionary describes; the schema is that of :meth:`from_toml`.

        Raises
        ------
        InvalidInputError
            Naming the key that is wrong.

        Examples
        --------
        >>> from manykernels.kernels import KernelBank
        >>> table = {"kernel": "gaussian", "width": [0.5, "median"], "on": "each"}
        >>> len(KernelBank.from_dict({"standardize": True, "kernels": [table]}).expand([[1.0, 2.0]]))
        4
        """
        entries, options = read_description(description)
        return cls._build(entries, options)

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Return the bank that a TOML file describes.

        ::

            standardize = true                 # optional, as are normalize, center and missing
            preset = "simplemkl"               # optional: "simplemkl" or "auto", before the kernels below

            [views]                            # optional, for on = "views"
            clinical = ["age", "bmi"]

            [[kernels]]
            kernel = "gaussian"                # a registered kernel
            width = [0.5, 1.0, "2*median"]     # the parameters; a list is a grid
            on = "each"                        # "each" column, "joint" (default), "views", or "pairs" of columns
            columns = ["age", "bmi"]           # optional: names or positions; default all
            name = "near"                      # optional, for a single joint kernel

        Raises
        ------
        InvalidInputError
            If the file cannot be read, is no TOML, or a key is wrong; the message names it.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from manykernels.kernels import KernelBank
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "bank.toml"
        ...     _ = path.write_text("kernels = [{kernel = 'gaussian', width = [0.5, 1.0]}]")
        ...     bank = KernelBank.from_toml(path)
        >>> bank.fit([[0.0], [1.0]]).names
        ('all: gaussian(width=0.5)', 'all: gaussian(width=1)')
        """
        return cls.from_dict(read_toml(path))


def _columns_of(views: object) -> Any:
    """Return the columns of every view; None for views as tables, with columns known at fit."""
    tables = isinstance(views, Mapping) and any(isinstance(table, pd.DataFrame) for table in views.values())
    return None if tables or isinstance(views, Views) else views
