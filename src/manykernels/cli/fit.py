"""``manykernels fit``: from a table to a certified model in a file, judged on rows held out."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, StratifiedGroupKFold, train_test_split

from manykernels.cli.console import Outcome, verbosity
from manykernels.cli.showing import report_tables
from manykernels.cli.tables import read_table
from manykernels.cli.targets import SURVIVAL, Samples, split_columns
from manykernels.cli.views import bank_for
from manykernels.estimators import (
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    MKLSurvivalCV,
)
from manykernels.estimators.parameters import PARAMETERS, check_parameters
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport, save_model
from manykernels.kernels import KernelBank
from manykernels.validation.arrays import Array

TUNED = ("alpha", "l1_ratio")  # what --cv chooses


@dataclass(frozen=True)
class FitOptions:
    """What the user asked for; see ``manykernels fit --help``.

    Attributes
    ----------
    data, output : Path
    target, task, kernels : str
    test_size : float
    seed : int
    drop, ids : tuple of str
    drop_missing : bool
    missing : {"error", "mask", "indicator"}
        What is done with missing values.
    cv : int or None
        Folds in which the strength of the penalty is chosen; None takes ``alpha``.
    groups : str or None
        Column whose rows of one value stay together, in the split and in the folds; no feature.
    views : Path or None
        TOML file that names groups of columns; each gets kernels of its own.
    event : str or None
        Column that says whether the event was seen; ``target`` is the column of times then.
    strata : str or None
        Survival: column whose values have baseline hazards and risk sets of their own; no feature.
    settings : mapping of str to value
        Parameters of the estimators, by the names of their table; None is their default.
    """

    data: Path
    target: str
    task: str = "auto"
    kernels: str = "default"
    test_size: float = 0.2
    seed: int = 0
    output: Path = Path("model.mkl")
    drop: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    drop_missing: bool = False
    missing: str = "error"
    cv: int | None = None
    groups: str | None = None
    views: Path | None = None
    event: str | None = None
    strata: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def run_fit(options: FitOptions, outcome: Outcome) -> None:
    """Read, split, fit, judge, save and show.

    Parameters
    ----------
    options : FitOptions
    outcome : Outcome
        Gets the result, the notes and the exit code.
    """
    check_output(options.output)
    check_parameters({name: value for name, value in options.settings.items() if value is not None})
    samples = read_samples(options, outcome)
    bank = bank_for(options.kernels, options.views, list(samples.features.columns), outcome, options.missing)
    train, test = hold_out(samples, options.test_size, options.seed)
    X_train, y_train = samples.features.iloc[train], samples.target[train]
    X_test, y_test = (None, None) if test is None else (samples.features.iloc[test], samples.target[test])
    estimator = estimator_for(options, samples.task, bank)
    routed = {} if options.cv is None or samples.groups is None else {"groups": samples.groups[train]}
    estimator.fit(X_train, y_train, **routed)
    save_model(estimator, options.output, metadata=_metadata(options, samples))
    report = MKLReport.from_estimator(estimator, X_test, y_test)
    outcome.settle(report.status)
    outcome.result = {
        **report.to_dict(),
        "data": str(options.data),
        "target": options.target,
        **survival_columns(options),
        "task_reason": samples.reason,
        "features": list(samples.features.columns),
        "model": str(options.output),
    }
    _show(options, samples, report, outcome)


def read_samples(options: FitOptions, outcome: Outcome, frame: pd.DataFrame | None = None) -> Samples:
    """Return the rows of the table to learn from, or of one that was read; remarks on them go to the outcome."""
    samples = split_columns(
        read_table(options.data) if frame is None else frame,
        options.target,
        task=options.task,
        drop=options.drop,
        ids=options.ids,
        drop_missing=options.drop_missing,
        missing=options.missing,
        groups=options.groups,
        event=options.event,
        strata=options.strata,
    )
    for note in samples.notes:
        outcome.note(note)
    return samples


def estimator_for(options: FitOptions, task: str, bank: KernelBank) -> Any:
    """Return the estimator, not fitted."""
    estimator = untrained(options, task, bank)
    estimator.set_params(random_state=options.seed, verbose=verbosity())
    given = {name: value for name, value in options.settings.items() if value is not None}
    known = estimator.get_params(deep=False)
    foreign = [name for name, value in given.items() if name not in known and value != PARAMETERS[name].default]
    if foreign:
        option = foreign[0].replace("_", "-")
        if options.cv is not None and foreign[0] in TUNED:
            raise InvalidInputError(f"--{option} is chosen by --cv; leave one of them out.")
        other = "." if task == SURVIVAL else ", or choose another --task."
        raise InvalidInputError(f"--{option} is not for {task}; leave it out{other}")
    estimator.set_params(**{name: value for name, value in given.items() if name in known})
    return estimator


def untrained(options: FitOptions, task: str, bank: KernelBank) -> Any:
    """Return the estimator of a task: at a given strength, or with one chosen in folds."""
    classification = task == "classification"
    if task == SURVIVAL:
        folds: Any = options.cv if options.groups is None else GroupKFold(options.cv or 2)
        return MKLSurvival(bank) if options.cv is None else MKLSurvivalCV(bank, cv=folds)
    if options.cv is None:
        return MKLClassifier(bank) if classification else MKLRegressor(bank)
    if options.groups is None:
        folds = options.cv
    else:
        folds = StratifiedGroupKFold(options.cv) if classification else GroupKFold(options.cv)
    return MKLClassifierCV(bank, cv=folds) if classification else MKLRegressorCV(bank, cv=folds)


def hold_out(samples: Samples, test_size: float, seed: int) -> tuple[Array, Array | None]:
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
        by_task = {"classification": samples.target, "regression": None, SURVIVAL: _events(samples.target)}
        stratify = by_task[samples.task]
        return tuple(train_test_split(rows, test_size=test_size, stratify=stratify, random_state=seed))
    except ValueError as error:
        raise InvalidInputError(
            f"The rows cannot be split for --test-size {test_size:g}: {error} Choose another --test-size; 0 fits on "
            "all rows."
        ) from error


def _events(target: Array) -> Array | None:
    """Return which samples of a survival target have the event."""
    return target["event"] if target.dtype.names else None


def survival_columns(options: FitOptions) -> dict[str, str]:
    """Return the names of the columns of events and strata, where they were given."""
    given = {"event": options.event, "strata": options.strata}
    return {name: column for name, column in given.items() if column is not None}


def check_output(path: Path) -> None:
    """Raise ``InvalidInputError`` if writing a model there would lose something else, or is impossible."""
    if path.is_dir() or (path.exists() and not zipfile.is_zipfile(path)):
        raise InvalidInputError(f"--output: {str(path)!r} exists and is no model file; choose another name.")
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"--output: there is no folder {str(path.parent)!r}.")


def _metadata(options: FitOptions, samples: Samples) -> dict[str, Any]:
    return {
        "target": options.target,
        **survival_columns(options),
        **({} if samples.levels is None else {"strata_levels": list(samples.levels)}),
        "data": options.data.name,
        "left_out": [*options.drop, *options.ids],
        "groups": options.groups,
        "task": samples.task,
        "drop_missing": options.drop_missing,
        "missing": options.missing,
        "test_size": options.test_size,
        "seed": options.seed,
    }


def _show(options: FitOptions, samples: Samples, report: MKLReport, outcome: Outcome) -> None:
    facts = {
        "table": f"{options.data}: {len(samples.target)} rows, {samples.features.shape[1]} columns to learn from",
        "task": f"{samples.task}, since {samples.reason}" if options.task == "auto" else samples.task,
        ", ".join([options.target, *survival_columns(options).values()]): samples.describe_target(),
        "rows": f"{report.n_samples} to fit, {report.n_test} held out",
    }
    outcome.show(*report_tables(report, facts), "")
    outcome.show(f"Saved to {options.output}. Next: manykernels inspect {options.output}")
