"""``plan``, ``path`` and ``compare``: cost of a fit, selection per strength, value of learned weights."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.table import Table
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from manykernels.cli.console import Force, Outcome, Picture, TableFile, column_table, fact_table, verbosity
from manykernels.cli.fit import FoldOptions, LearningOptions, TableOptions, estimator_for, plain_or_in_folds, read_task
from manykernels.cli.models import check_picture
from manykernels.cli.tables import check_new, write_table
from manykernels.cli.targets import SURVIVAL, LabeledTable
from manykernels.estimators import RegularizationPath, regularization_path
from manykernels.estimators.parameters import DEFAULT_LOSS, PARAMETERS, check_parameters, place_of, shape_of
from manykernels.estimators.strength import AUTO, set_error_sizes
from manykernels.exceptions import InvalidInputError
from manykernels.grams.plan import format_bytes
from manykernels.inspection import PathDisplay, compare
from manykernels.inspection.evidence.comparison import LEARNED
from manykernels.inspection.files import save_figure
from manykernels.objective.losses import LOSSES, get_loss
from manykernels.objective.regularizers import REGULARIZERS
from manykernels.solvers import Status
from manykernels.validation.parameters import listed, printable

OF_RESOURCES = ("max_iter", "time_limit", "n_jobs", "representation", "memory_budget")
PASSED_ON = ("penalty", "solver", "tol", "fit_intercept", *OF_RESOURCES)


def run_plan(options: FoldOptions, outcome: Outcome) -> None:
    """Print the number of kernels of a fit, and the memory of the fit or a search."""
    samples, bank = read_task(options, outcome)
    names = [entry[0] for entry in bank.expand(samples.features)]
    n_classes = len(np.unique(samples.target)) if samples.task == "classification" else 1
    n_targets = 1 if n_classes == 2 else n_classes
    model = plain_or_in_folds(options, samples.task, bank)
    model.set_params(**{place_of(name): value for name, value in options.settings.items()})
    plan = model.plan(samples.features, samples.target)
    assert plan is not None
    outcome.result = {
        "data": options.data,
        "task": samples.task,
        **asdict(plan),
        "expected_nbytes": plan.expected_nbytes,
        "least_nbytes": plan.least_nbytes,
        "most_nbytes": plan.most_nbytes,
        "n_targets": n_targets,
    }
    stored = f", {format_bytes(plan.nbytes)} of it stored" if plan.nbytes else ""
    facts = {
        "table": f"{len(samples.target)} rows, {samples.features.shape[1]} columns to learn from",
        "task": f"{samples.task}, since {samples.reason}",
        "kernels": f"{len(names)}, such as {names[0]}",
        "kernels are held as": plan.reason,
        "memory": f"{plan.expected} by how many kernels take part{stored}; {format_bytes(plan.budget)} allowed",
    }
    outcome.show(fact_table(facts))


@dataclass(frozen=True, kw_only=True)
class PathOptions(TableOptions):
    """Options of ``manykernels path``."""

    n_alphas: Annotated[int, typer.Option(min=1, help="Number of strengths.")] = 25
    output: TableFile = None
    plot: Picture = None
    force: Force = False


def run_path(options: PathOptions, outcome: Outcome) -> None:
    """Show the order in which kernels enter as the penalty weakens, with a model per strength on all rows."""
    check_new(options.output, "--output", options.force, options.files)
    check_picture(options.plot, options.force, [*options.files, options.output])
    samples, bank = read_task(options, outcome)
    path = regularization_path(
        samples.features,
        _numbers(samples),
        kernels=bank,
        n_alphas=options.n_alphas,
        verbose=verbosity(),
        **_settings(options, samples),
    )
    table = _table_of_path(path)
    if options.output is not None:
        write_table(path.frame(), options.output)
    if options.plot is not None:
        save_figure(PathDisplay.from_path(path).plot().figure_, options.plot, dpi=100, bbox_inches="tight")
    outcome.settle(Status.CONVERGED if (path.summary()["status"] == "converged").all() else Status.MAX_ITER)
    outcome.result = {
        "data": options.data,
        "target": options.column,
        "task": samples.task,
        "alpha_max": path.alpha_max,
        "path": table.to_dict("records"),
        "output": options.output,
        "plot": options.plot,
    }
    outcome.show(_show(table))
    for written in (options.output, options.plot):
        if written is not None:
            outcome.show(f"Written to {written}")


def _table_of_path(path: RegularizationPath) -> pd.DataFrame:
    """Return a row per strength, with the kernels that enter there."""
    entry, names = path.entry_alphas, np.array(path.kernel_names, dtype=object)
    table = path.summary()[["alpha", "n_active", "primal", "relative_gap", "status"]]
    return table.assign(enters=[names[entry == alpha].tolist() for alpha in path.alphas])


def _numbers(samples: LabeledTable) -> Any:
    """Return the target for the path: -1 and 1 for two classes, else unchanged."""
    if samples.task != "classification":
        return samples.target
    classes = np.unique(samples.target)
    if len(classes) < 2:
        raise InvalidInputError(f"The target has only one class, {classes.tolist()[0]!r}: there is nothing to learn.")
    if len(classes) > 2:
        numbers = np.issubdtype(classes.dtype, np.number)
        as_they_are = " --task regression takes these numbers as they are." if numbers else ""
        raise InvalidInputError(
            f"A path needs a target with two classes or numbers, but this one has {len(classes)} classes; use fit "
            f"--cv.{as_they_are}"
        )
    return np.where(samples.target == classes[1], 1.0, -1.0)


def _settings(options: TableOptions, samples: LabeledTable) -> dict[str, Any]:
    """Return the arguments of the path from the options."""
    given = options.explicit_settings
    penalty = given.get("penalty", PARAMETERS["penalty"].default)
    shapes = {name: given[name] for name in shape_of(REGULARIZERS[penalty]) if name in given}
    if samples.task == SURVIVAL:
        if "loss" in given:
            raise InvalidInputError(f"--loss is not for {SURVIVAL}; leave it out.")
        passed = {name: given[name] for name in PASSED_ON if name in given and name != "fit_intercept"}
        return {**passed, "loss": "cox", "penalty_parameters": shapes}
    loss = given.get("loss", DEFAULT_LOSS[samples.task])
    sizes = {name: given[name] for name in shape_of(LOSSES[loss]) if name in given and given[name] != AUTO}
    passed = {name: given[name] for name in PASSED_ON if name in given}
    passed["loss"] = set_error_sizes(get_loss(loss, **sizes), given, samples.target, np.ones(len(samples.target)))
    return {**passed, "penalty_parameters": shapes}


def _show(table: pd.DataFrame) -> Table:
    """Return the table for people."""
    shown = column_table("From the empty model down", ("alpha", "kernels", "gap", "enter here"), texts=["enter here"])
    shown_names = 2
    for row in table.to_dict("records"):
        entering = listed(map(printable, row["enters"][:shown_names]), len(row["enters"]))
        shown.add_row(f"{row['alpha']:.4g}", str(row["n_active"]), f"{row['relative_gap']:.1e}", entering)
    return shown


@dataclass(frozen=True, kw_only=True)
class CompareOptions(LearningOptions):
    """Options of ``manykernels compare``."""

    folds: Annotated[int, typer.Option(min=2, help="Number of folds to compare on.")] = 5
    output: TableFile = None
    force: Force = False


def run_compare(options: CompareOptions, outcome: Outcome) -> None:
    """Compare learned weights with simpler weights in cross-validation."""
    check_new(options.output, "--output", options.force, options.files)
    check_parameters(options.explicit_settings)
    samples, bank = read_task(options, outcome)
    estimator = estimator_for(options, samples.task, bank)
    splits = _splits(samples, options.folds, options.seed)
    table = compare(estimator, samples.features, samples.target, cv=splits, groups=samples.groups, verbose=verbosity())
    if options.output is not None:
        write_table(table, options.output)
    outcome.result = {
        "data": options.data,
        "target": options.column,
        "task": samples.task,
        "folds": options.folds,
        "score": _score_name(options, samples.task),
        "methods": table.astype(object).where(table.notna(), None).to_dict("records"),
        "output": options.output,
    }
    outcome.show(_show_comparison(table, outcome.result["score"], options.folds))
    if options.output is not None:
        outcome.show(f"Written to {options.output}")


def _show_comparison(frame: pd.DataFrame, score: str, folds: int) -> Any:
    """Return a comparison as a table for the terminal."""
    names = ("kernel weights", score, "difference", "p", "kernels", "CPU s a fold")
    shown = column_table(f"Mean {score} in {folds} folds", names, texts=names[:1])
    for row in frame.to_dict("records"):
        known = not np.isnan(row["score"])
        shown.add_row(
            row["method"],
            f"{row['score']:.3f} +- {row['standard_error']:.3f}" if known else "undefined",
            f"{row['difference']:+.3f}" if known and row["method"] != LEARNED else "",
            "" if np.isnan(row["p_value"]) else f"{row['p_value']:.2g}",
            f"{row['n_kernels']:.1f}" if known else "",
            f"{row['cpu_seconds']:.2f}" if known else "",
        )
    return shown


def _splits(samples: LabeledTable, folds: int, seed: int) -> list[Any]:
    """Return the folds: shuffled, classes in equal shares, groups as a whole."""
    equal = samples.task != "regression"
    kind = StratifiedKFold if equal else KFold
    if samples.groups is not None:
        kind = StratifiedGroupKFold if equal else GroupKFold
    shared = samples.target["event"] if samples.task == SURVIVAL else samples.target
    try:
        splitter = kind(folds, shuffle=True, random_state=seed)
        return list(splitter.split(samples.features, shared, samples.groups))
    except ValueError as error:
        raise InvalidInputError(f"The rows cannot be split for --folds {folds}: {error}") from error


def _score_name(options: TableOptions, task: str) -> str:
    """Return the name of the score of the estimators."""
    if task == SURVIVAL:
        return "concordance"
    loss = options.settings.get("loss") or DEFAULT_LOSS[task]
    return "accuracy" if task == "classification" else "R2" if LOSSES[loss]().support == "real" else "D2"
