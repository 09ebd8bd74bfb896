"""``manykernels fit``: from a table to a certified model in a file, judged on rows held out."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from manykernels.cli.console import Outcome, escaped, verbosity
from manykernels.cli.showing import report_tables
from manykernels.cli.tables import read_table
from manykernels.cli.targets import Samples, default_alpha, split_columns, target_unit
from manykernels.estimators import MKLClassifier, MKLRegressor
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport, save_model
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.file import read_toml

DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}
# Of "auto" widths in units of the standard deviation of the target, see `estimator_for`.
LOSS_WIDTHS = {"epsilon_insensitive": ("epsilon", 0.1), "huber": ("delta", 1.35)}


@dataclass(frozen=True)
class FitOptions:
    """What the user asked for; see ``manykernels fit --help``.

    Attributes
    ----------
    data, output : Path
    target, task, kernels, penalty, solver : str
    loss, memory_budget : str or None
    alpha : float or None
    test_size, tol : float
    max_iter, seed : int
    drop, ids : tuple of str
    drop_missing : bool
    """

    data: Path
    target: str
    task: str = "auto"
    kernels: str = "default"
    loss: str | None = None
    penalty: str = "l1"
    alpha: float | None = None
    test_size: float = 0.2
    tol: float = 1e-4
    max_iter: int = 200
    solver: str = "auto"
    seed: int = 0
    memory_budget: str | None = None
    output: Path = Path("model.mkl")
    drop: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    drop_missing: bool = False


def run_fit(options: FitOptions, outcome: Outcome) -> None:
    """Read, split, fit, judge, save and show.

    Parameters
    ----------
    options : FitOptions
    outcome : Outcome
        Gets the result, the notes and the exit code.
    """
    check_output(options.output)
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
    loss = options.loss or DEFAULT_LOSS[task]
    settings: dict[str, Any] = {
        "loss": loss,
        "penalty": options.penalty,
        "solver": options.solver,
        "tol": options.tol,
        "max_iter": options.max_iter,
        "memory_budget": options.memory_budget,
        "random_state": options.seed,
        "verbose": verbosity(),
    }
    cls: Any = MKLClassifier if task == "classification" else MKLRegressor
    if task == "regression" and loss in LOSS_WIDTHS:
        name, width = LOSS_WIDTHS[loss]
        settings[name] = width * target_unit(y_train)
    alpha = options.alpha
    if alpha is None:
        alpha = default_alpha(loss, options.penalty, 1.5, y_train, task)
    return cls(bank, alpha=alpha, **settings)


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
    outcome.show(f"Saved to {escaped(options.output)}. Next: manykernels inspect {escaped(options.output)}")
