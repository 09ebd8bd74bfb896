"""``manykernels fit``: from a table to a certified model in a file, judged on rows held out."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from manykernels.cli.console import Outcome, verbosity
from manykernels.cli.showing import report_tables
from manykernels.cli.tables import read_table
from manykernels.cli.targets import Samples, default_alpha, split_columns, target_unit
from manykernels.estimators import MKLClassifier, MKLRegressor
from manykernels.estimators.parameters import PARAMETERS, check_parameters, shape_of
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport, save_model
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.file import read_toml
from manykernels.objective.losses import LOSSES

IN_UNITS = ("alpha", "epsilon", "delta")  # whose defaults are in the unit of the target


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
    settings : mapping of str to value
        Parameters of the estimators, by the names of their table; None is a default in the unit of the target.
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
    bank = bank_named(options.kernels)
    samples = split_columns(
        read_table(options.data),
        options.target,
        task=options.task,
        drop=options.drop,
        ids=options.ids,
        drop_missing=options.drop_missing,
    )
    for note in samples.notes:
        outcome.note(note)
    X_train, X_test, y_train, y_test = hold_out(samples, options.test_size, options.seed)
    estimator = estimator_for(options, samples.task, bank, y_train).fit(X_train, y_train)
    save_model(estimator, options.output, metadata=_metadata(options, samples))
    report = MKLReport.from_estimator(estimator, X_test, y_test)
    outcome.settle(report.status)
    outcome.result = {
        **report.to_dict(),
        "data": str(options.data),
        "target": options.target,
        "task_reason": samples.reason,
        "features": list(samples.features.columns),
        "model": str(options.output),
    }
    _show(options, samples, report, outcome)


def bank_named(kernels: str) -> KernelBank:
    """Return the bank called ``default`` or ``simplemkl``, or the one in a TOML file.

    Kernels get unit mean diagonals unless the file says otherwise, so that one ``--alpha`` means the same for few and
    for many rows.
    """
    presets = {"default": KernelBank.default, "simplemkl": KernelBank.simplemkl}
    if kernels in presets:
        return presets[kernels](normalize="mean_diagonal")
    if not Path(kernels).is_file():
        raise InvalidInputError(
            f"--kernels must be 'default', 'simplemkl' or a TOML file, but there is no file {kernels!r}."
        )
    return KernelBank.from_dict({"normalize": "mean_diagonal", **read_toml(kernels)})


def estimator_for(options: FitOptions, task: str, bank: KernelBank, y_train: NDArray[Any]) -> Any:
    """Return the estimator, not fitted; what depends on the unit of the target is set from its training values."""
    estimator: Any = MKLClassifier(bank) if task == "classification" else MKLRegressor(bank)
    estimator.set_params(random_state=options.seed, verbose=verbosity())
    given = {name: value for name, value in options.settings.items() if value is not None}
    known = estimator.get_params(deep=False)
    foreign = [name for name, value in given.items() if name not in known and value != PARAMETERS[name].default]
    if foreign:
        option = foreign[0].replace("_", "-")
        raise InvalidInputError(f"--{option} is not for {task}; leave it out, or choose another --task.")
    estimator.set_params(**{name: value for name, value in given.items() if name in known})
    for name in set(shape_of(LOSSES[estimator.loss])).intersection(IN_UNITS).difference(given):
        estimator.set_params(**{name: PARAMETERS[name].default * target_unit(y_train)})
    if "alpha" not in given:
        estimator.set_params(alpha=default_alpha(estimator.loss, estimator.penalty, estimator.q, y_train, task))
    return estimator


def hold_out(samples: Samples, test_size: float, seed: int) -> tuple[pd.DataFrame, Any, Any, Any]:
    """Return training and test rows, classes in equal shares; without test rows if ``test_size`` is 0."""
    if test_size == 0:
        return samples.features, None, samples.target, None
    stratify = samples.target if samples.task == "classification" else None
    try:
        parts = train_test_split(
            samples.features, samples.target, test_size=test_size, stratify=stratify, random_state=seed
        )
    except ValueError as error:
        raise InvalidInputError(
            f"The rows cannot be split for --test-size {test_size:g}: {error} Choose another --test-size; 0 fits on "
            "all rows."
        ) from error
    return tuple(parts)


def check_output(path: Path) -> None:
    """Raise ``InvalidInputError`` if writing a model there would lose something else, or is impossible."""
    if path.is_dir() or (path.exists() and not zipfile.is_zipfile(path)):
        raise InvalidInputError(f"--output: {str(path)!r} exists and is no model file; choose another name.")
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"--output: there is no folder {str(path.parent)!r}.")


def _metadata(options: FitOptions, samples: Samples) -> dict[str, Any]:
    return {
        "target": options.target,
        "data": options.data.name,
        "left_out": [*options.drop, *options.ids],
        "test_size": options.test_size,
        "seed": options.seed,
    }


def _show(options: FitOptions, samples: Samples, report: MKLReport, outcome: Outcome) -> None:
    facts = {
        "table": f"{options.data}: {len(samples.target)} rows, {samples.features.shape[1]} columns to learn from",
        "task": f"{samples.task}, since {samples.reason}" if options.task == "auto" else samples.task,
        options.target: samples.describe_target(),
        "rows": f"{report.n_samples} to fit, {report.n_test} held out",
    }
    outcome.show(*report_tables(report, facts), "")
    outcome.show(f"Saved to {options.output}. Next: manykernels inspect {options.output}")
