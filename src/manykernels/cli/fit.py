"""``manykernels fit``: from a table to a certified model in a file, judged on rows held out."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import typer
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, StratifiedGroupKFold, train_test_split

from manykernels import estimators
from manykernels.cli.console import (
    SCORE_NAMES,
    Data,
    Encoding,
    Na,
    Outcome,
    Seed,
    add_tests,
    importances,
    report_tables,
    stage,
    tell,
    verbosity,
)
from manykernels.cli.tables import check_new, quote_names, read_table
from manykernels.cli.targets import SURVIVAL, LabeledTable, split_columns
from manykernels.cli.words import MissingWords
from manykernels.estimators.parameters import PARAMETERS, check_parameters, place_of
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport, save_model
from manykernels.inspection.reports.fitted_rows import fingerprints, record_of
from manykernels.inspection.reports.order import date_order, is_sorted_by_target
from manykernels.inspection.reports.scores import constant_scores, nearly_perfect, no_better
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.constructors import read_toml
from manykernels.kernels.bank.grids import DefaultKernels
from manykernels.kernels.tables.encoding import some
from manykernels.solvers import Status
from manykernels.validation.arrays import Array

# Banks for the command line: presets, TOML files, and views named in a file.


PRESETS = ("auto", "columns", "simplemkl")


def bank_named(kernels: str, columns: Sequence[str]) -> KernelBank:
    """Return a preset bank, or the bank of a TOML file."""
    if kernels == "columns":
        return KernelBank([DefaultKernels(apart=tuple(columns))], standardize="robust")
    if kernels in PRESETS:
        return KernelBank.from_dict({"preset": kernels})
    if not Path(kernels).is_file():
        raise InvalidInputError(
            f"--kernels must be one of {', '.join(map(repr, PRESETS))} or a TOML file; there is no file {kernels!r}."
        )
    return KernelBank.from_dict(read_toml(kernels))


def bank_for(kernels: str, views: Path | None, columns: Sequence[str], missing: str) -> KernelBank:
    """Return the bank of ``--kernels`` or ``--views`` for a table with the given columns.

    ``missing`` other than "error" overrides the setting of a file.
    """
    if views is None:
        bank = bank_named(kernels, columns)
        return bank if missing == "error" else bank.replace(missing=missing)
    if kernels != "auto":
        raise InvalidInputError("--views and --kernels exclude one another; a TOML file of --kernels has [views] too.")
    return KernelBank.from_views(read_views(views, columns), missing=missing)


def columns_in_views(path: Path, columns: Sequence[str], outcome: Outcome) -> set[str]:
    """Return the columns of all views; a note names the unused columns."""
    used = set().union(*read_views(path, columns).values())
    idle = [name for name in columns if name not in used]
    if idle:
        outcome.note(f"{len(idle)} column(s) are in no view and are not used: {quote_names(idle)}.")
    return used


def read_views(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of every view named in a TOML file: ``name = ["column", "pattern*"]``, or a single text."""
    content = read_toml(path)
    views: Mapping[str, object] = content.get("views", content)
    if not isinstance(views, dict) or not views:
        raise InvalidInputError(f'--views: {str(path)!r} names no view; write lines such as rna = ["gene1", "gene2"].')
    return {name: _members(name, chosen, columns) for name, chosen in views.items()}


def _members(name: str, chosen: object, columns: Sequence[str]) -> list[str]:
    wanted = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(wanted, list) or not wanted or not all(isinstance(pattern, str) for pattern in wanted):
        raise InvalidInputError(
            f"--views: the view {name!r} must be a list of column names or patterns, got {chosen!r}."
        )
    members: list[str] = []
    for pattern in wanted:
        fitting = [pattern] if pattern in columns else [column for column in columns if fnmatchcase(column, pattern)]
        if not fitting and set(pattern) & set("*?["):
            raise InvalidInputError(
                f"--views: no column fits {pattern!r} of the view {name!r}. Use columns of the table: "
                f"{some(list(columns))}."
            )
        members += fitting or [pattern]
    members = list(dict.fromkeys(members))
    absent = [member for member in members if member not in columns]
    if absent:
        raise InvalidInputError(
            f"--views: the view {name!r} names {quote_names(absent)}, which the table does not offer."
        )
    return members


NO_MODEL = (Status.STALLED, Status.NUMERICAL_ERROR)  # saved with --force only
ESTIMATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "classification": (estimators.MKLClassifier, estimators.MKLClassifierCV),
    "regression": (estimators.MKLRegressor, estimators.MKLRegressorCV),
    SURVIVAL: (estimators.MKLSurvival, estimators.MKLSurvivalCV),
}
TUNED = ("alpha", "l1_ratio")  # what --cv chooses


class Task(StrEnum):
    """The kind of target."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Gaps(StrEnum):
    """The treatment of missing values."""

    ERROR = "error"
    MASK = "mask"
    INDICATOR = "indicator"


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of every command that reads a table."""

    data: Data
    encoding: Encoding = None
    na: Na = None
    target: Annotated[
        list[str] | None, typer.Option(help="Column to predict; of fit, may be repeated for several at once.")
    ] = None
    time: Annotated[str | None, typer.Option(help="Survival: column of times, in place of --target.")] = None
    event: Annotated[str | None, typer.Option(help="Survival: column that is true where the event was observed.")] = (
        None
    )
    strata: Annotated[str | None, typer.Option(help="Survival: column of groups with separate baseline hazards.")] = (
        None
    )
    task: Annotated[Task, typer.Option(help="'auto' depends on the target.")] = Task.AUTO
    kernels: Annotated[
        str,
        typer.Option(
            metavar="<auto|columns|simplemkl|FILE>",
            help="'auto': by type, on each column and on all together. 'columns': on each column alone (an additive "
            "model). 'simplemkl': 27 kernels on each column and on all. FILE: a TOML file.",
        ),
    ] = "auto"
    views: Annotated[Path | None, typer.Option(help="TOML file of views: rna = ['gene1', 'rna_*'].")] = None
    drop: Annotated[list[str] | None, typer.Option(help="Column to ignore; may be repeated.")] = None
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="Column of row names, not a feature; may be repeated.")
    ] = None
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Drop rows with missing values.")] = False
    missing: Annotated[
        Gaps,
        typer.Option(
            help="Missing values: raise an error, leave the row out of the kernels of that column, or do so and add "
            "kernels of missingness."
        ),
    ] = Gaps.ERROR
    settings: Mapping[str, Any] = field(default_factory=dict)  # parameters of estimators

    groups: ClassVar[str | None] = None
    several: ClassVar[bool] = False  # whether there may be several targets

    def __post_init__(self) -> None:
        if (self.time is None) != (self.event is None) or (not self.target) == (self.time is None):
            raise typer.BadParameter("Name what to predict: --target COLUMN, or --time COLUMN and --event COLUMN.")
        if self.strata is not None and self.event is None:
            raise typer.BadParameter("--strata is for survival, with --time and --event.")
        if self.time is not None and self.task != "auto":
            raise typer.BadParameter("--time and --event are for survival; leave out --task.")
        if len(self.columns) > 1 and not self.several:
            raise typer.BadParameter("Several targets are for manykernels fit; here, give one --target.")

    @property
    def columns(self) -> list[str]:
        """The columns to predict: the targets, or the times."""
        return list(self.target or [self.time or ""])

    @property
    def column(self) -> str | list[str]:
        """The column to predict, or a list of several."""
        return self.columns if len(self.columns) > 1 else self.columns[0]

    @property
    def files(self) -> list[Path | None]:
        """The files read by the command."""
        return [self.data, self.views, Path(self.kernels)]

    @property
    def explicit_settings(self) -> dict[str, Any]:
        """The settings without defaults."""
        return {name: value for name, value in self.settings.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class FoldOptions(TableOptions):
    """Options of cross-validation."""

    cv: Annotated[
        int | None, typer.Option(min=2, help="Choose strength and mixture by cross-validation in N folds.")
    ] = None
    groups: Annotated[  # type: ignore[misc]  # a constant of the other commands
        str | None, typer.Option(help="Column of groups of rows that stay together; not a feature.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class LearningOptions(FoldOptions):
    """Options of commands that fit an estimator."""

    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class FitOptions(LearningOptions):
    """Options of ``manykernels fit``."""

    several: ClassVar[bool] = True

    test_size: Annotated[float, typer.Option(min=0.0, max=0.99, help="Share of rows to hold out; 0 for none.")] = 0.2
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.mkl")
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file of --output; save a model also if its fit stalled.")
    ] = False


def _check_output(options: FitOptions) -> None:
    if options.output.is_dir() or (options.output.exists() and not zipfile.is_zipfile(options.output)):
        raise InvalidInputError(f"--output: {str(options.output)!r} exists and is not a model file; use another name.")
    check_new(options.output, "--output", options.force, options.files)


def run_fit(options: FitOptions, outcome: Outcome) -> None:
    """Fit a model to a table, score it on held-out rows, and save it."""
    _check_output(options)
    check_parameters(options.explicit_settings)
    samples, bank = read_task(options, outcome)
    train, test = hold_out(samples, options.test_size, options.seed)
    X_train, y_train = samples.features.iloc[train], samples.target[train]
    X_test, y_test = (None, None) if test is None else (samples.features.iloc[test], samples.target[test])
    estimator = _fit_rows(options, samples, bank, train)
    report = add_tests(MKLReport.from_estimator(estimator, X_test, y_test), estimator, X_train, y_train, options.seed)
    constant = {} if y_test is None else constant_scores(estimator, y_train, y_test)
    importance = importances(estimator)
    outcome.settle(report.status)
    saved = options.force or report.status not in NO_MODEL
    if saved:
        save_model(estimator, options.output, metadata=_metadata(options, samples, train))
    outcome.result = {
        **report.to_dict(),
        "constant_scores": constant,
        "importance": [] if importance is None else importance.to_dict("records"),
        **_origin(options, samples),
        "model": options.output if saved else None,
    }
    outcome.show(*report_tables(report, _facts(options, samples, report), constant, importance), "")
    _note_doubts(options, samples, report, constant, outcome)
    if saved:
        outcome.show(f"Saved to {options.output}. Next: manykernels inspect {options.output}")
        return
    outcome.note(
        f"The fit ended as {report.status!r}, at a relative gap of {report.relative_gap:.1e}, and is not saved. "
        "Save it anyway with --force, or use other --kernels, a larger --alpha or a larger --tol."
    )


def _fit_rows(options: FitOptions, samples: LabeledTable, bank: KernelBank, train: Array) -> Any:
    """Return the estimator of the options, fitted to some rows."""
    estimator = estimator_for(options, samples.task, bank)
    routed = {} if options.cv is None or samples.groups is None else {"groups": samples.groups[train]}
    tell(f"Fitting {len(train)} rows of {samples.features.shape[1]} columns")
    return estimator.fit(samples.features.iloc[train], samples.target[train], **routed)


def _origin(options: FitOptions, samples: LabeledTable) -> dict[str, Any]:
    """Return the table and the columns of a fit, for the result in JSON."""
    return {
        "data": options.data,
        "target": options.column,
        **survival_columns(options),
        "task_reason": samples.reason,
        "features": list(samples.features.columns),
    }


def _facts(options: FitOptions, samples: LabeledTable, report: MKLReport) -> dict[str, str]:
    """Return the table, the task, the target and the numbers of rows, as printed above a report."""
    return {
        "table": f"{options.data}: {len(samples.target)} rows, {samples.features.shape[1]} columns to learn from",
        "task": f"{samples.task}, since {samples.reason}" if options.task == "auto" else samples.task,
        ", ".join([*options.columns, *survival_columns(options).values()]): samples.describe_target(),
        "rows": f"{report.n_samples} to fit, {report.n_test} held out",
    }


def _note_doubts(
    options: FitOptions, samples: LabeledTable, report: MKLReport, constant: dict[str, float | None], outcome: Outcome
) -> None:
    """Note scores that are no better than a constant, nearly perfect, or of sorted rows held out at random."""
    if report.n_active and no_better(report.scores, constant):
        outcome.note(
            f"On the {report.n_test} held-out rows the model is no better than a constant: the selected kernels may be "
            "noise. Choose the strength by cross-validation (--cv 5), or see the warnings of manykernels report."
        )
    if name := nearly_perfect(report.scores):
        outcome.note(
            f"A held-out {SCORE_NAMES[name]} of {report.scores[name]:.4f} is nearly perfect: check that no column "
            "follows from the target, was recorded after it, or numbers rows that are sorted by it."
        )
    if options.cv is not None and (order := file_order(samples)):
        outcome.note(
            f"The rows are sorted by {order}. If rows follow each other in time or in groups, scores of rows that were "
            "held out at random are too good: hold out the last rows, or keep groups whole (--groups)."
        )


def file_order(samples: LabeledTable) -> str:
    """Return the column by which the rows of a table are sorted, a date or the target; "" for unsorted rows."""
    sorted_by_target = is_sorted_by_target(samples.target, samples.task)
    return date_order(samples.features) or ("the target" if sorted_by_target else "")


def _metadata(options: FitOptions, samples: LabeledTable, train: Array) -> dict[str, Any]:
    return {
        "target": options.column,
        **survival_columns(options),
        **({} if samples.levels is None else {"strata_levels": list(samples.levels)}),
        "data": options.data.name,
        "rows_of_fit": record_of(fingerprints(samples.features, samples.target), train),
        "left_out": [*(options.drop or ()), *(options.ids or ())],
        "groups": options.groups,
        "task": samples.task,
        "drop_missing": options.drop_missing,
        "missing": options.missing.value,
        "na": list(options.na or ()),
        "date_orders": dict(samples.orders),
        "test_size": options.test_size,
        "seed": options.seed,
    }


def read_task(options: TableOptions, outcome: Outcome) -> tuple[LabeledTable, KernelBank]:
    """Return the training rows of the table and the kernels; remarks go to the outcome."""
    with stage(f"reading {options.data}"):
        frame = read_table(options.data, options.encoding, MissingWords(tuple(options.na or ())), outcome.note)
    views = options.views
    read = None if views is None else lambda columns: columns_in_views(views, columns, outcome)
    samples = split_columns(
        frame,
        options.column,
        task=options.task.value,
        drop=options.drop or (),
        ids=options.ids or (),
        drop_missing=options.drop_missing,
        missing=options.missing.value,
        groups=options.groups,
        event=options.event,
        strata=options.strata,
        read=read,
    )
    for note in samples.notes:
        outcome.note(note)
    columns = list(samples.features.columns)
    return samples, bank_for(options.kernels, options.views, columns, options.missing.value)


def plain_or_in_folds(options: FoldOptions, task: str, bank: KernelBank) -> Any:
    """Return an estimator at a given strength, or a cross-validated estimator with whole groups per fold."""
    at_a_strength, in_folds = ESTIMATORS[task]
    if options.cv is None:
        return at_a_strength(bank)
    single = len(options.columns) == 1
    grouped = StratifiedGroupKFold if task == "classification" and single else GroupKFold
    return in_folds(bank, cv=options.cv if options.groups is None else grouped(options.cv))


def estimator_for(options: LearningOptions, task: str, bank: KernelBank) -> Any:
    """Return the unfitted estimator with the requested settings."""
    estimator = plain_or_in_folds(options, task, bank)
    estimator.set_params(random_state=options.seed, resources__verbose=verbosity())
    known = estimator.get_params()
    others = {name: value for name, value in options.explicit_settings.items() if place_of(name) not in known}
    foreign = [name for name, value in others.items() if value != PARAMETERS[name].default]
    if foreign:
        option = foreign[0].replace("_", "-")
        if options.cv is not None and foreign[0] in TUNED:
            raise InvalidInputError(f"--{option} is chosen by --cv; leave one of them out.")
        other = "." if task == SURVIVAL else ", or choose another --task."
        raise InvalidInputError(f"--{option} is not for {task}; leave it out{other}")
    estimator.set_params(
        **{place_of(name): value for name, value in options.explicit_settings.items() if place_of(name) in known}
    )
    return estimator


def hold_out(samples: LabeledTable, test_size: float, seed: int) -> tuple[Array, Array | None]:
    """Return the positions of training and test rows, None for no test rows.

    Classes, and samples with and without the event, are held out in equal shares, groups as a whole.
    """
    rows = np.arange(len(samples.target))
    if test_size == 0:
        return rows, None
    try:
        if samples.groups is not None:
            splitter = GroupShuffleSplit(1, test_size=test_size, random_state=seed)
            return next(splitter.split(rows, samples.target, samples.groups))
        labels = samples.target if samples.task == "classification" and np.ndim(samples.target) == 1 else None
        stratify = samples.target["event"] if samples.task == SURVIVAL else labels
        return tuple(train_test_split(rows, test_size=test_size, stratify=stratify, random_state=seed))
    except ValueError as error:
        why = str(error).rstrip(".")
        if samples.task == "classification" and np.issubdtype(samples.target.dtype, np.number):
            classes = len(np.unique(samples.target))
            why += f". The {classes} numbers are taken for classes; --task regression takes them as they are"
        raise InvalidInputError(
            f"The rows cannot be split for --test-size {test_size:g}: {why}. Choose another --test-size; 0 "
            "fits on all rows."
        ) from error


def survival_columns(options: TableOptions) -> dict[str, str]:
    """Return the names of the given columns of events and strata."""
    columns = {"event": options.event, "strata": options.strata}
    return {name: column for name, column in columns.items() if column is not None}
