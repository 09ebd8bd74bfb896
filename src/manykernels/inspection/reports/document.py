"""The report as a single file: computed values in a template with escaped text.

First the content as plain values: the question, the data, the selection, and the program.
"""

import inspect
import math
import platform
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.selection.splits import CrossValidation
from manykernels.exceptions import InvalidInputError, optional_module
from manykernels.inspection.displays.kernel_table import groups_of, kernel_table, summed_by
from manykernels.inspection.displays.plotting import cut_text, short_label
from manykernels.inspection.evidence.chi_squares import cauchy_combination, false_discovery_rates
from manykernels.inspection.evidence.kernel_tests import few_rows, kernel_tests
from manykernels.inspection.files import write_file
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports import pictures
from manykernels.inspection.reports.caveats import Case, caveats_of
from manykernels.inspection.reports.classes import LONGEST, MOST_CLASSES, confusion, label_rows, labels_of
from manykernels.inspection.reports.evaluation import FOLDS, HELD_OUT, TRAINING, Evaluation, as_frame, evaluate
from manykernels.inspection.reports.report import (
    MKLReport,
    again_words,
    certificate_words,
    comparison_words,
    interval,
    number,
)
from manykernels.inspection.reports.scores import LABELS, SURVIVAL, check_one_prediction, has_labels, task_of
from manykernels.kernels import Pairs, PrecomputedBank, Views
from manykernels.kernels.precomputed.stack import are_kernels, as_kernel_stack
from manykernels.objective.losses.survival import check_survival
from manykernels.validation.arrays import Array, TableLike, check_count
from manykernels.validation.parameters import listed, printable

MOST_VIEWS, MOST_KERNELS, MOST_COLUMNS = 10, 15, 8
MOST_LETTERS, MOST_IN_LINE = 10_000, 100  # of a model as a program, and of a line of it
PACKAGES = ("manykernels", "numpy", "scipy", "scikit-learn", "pandas", "numba")


@dataclass(frozen=True)
class Bar:
    """A name with a number, as a bar."""

    name: str
    width: float  # in percent of the longest
    text: str  # the number
    note: str = ""  # more about it


@dataclass(frozen=True)
class Bars:
    """The longest bars of several."""

    bars: list[Bar]
    n_more: int = 0  # bars that are not shown


def bars_of(values: pd.Series, most: int, texts: Sequence[str], notes: Sequence[str] | None = None) -> Bars:
    """Return the first values as bars."""
    largest = float(values.abs().max()) if len(values) else 1.0
    shown = [
        Bar(cut_text(str(name), LONGEST), round(100 * abs(value) / (largest or 1.0), 1), text, note)
        for name, value, text, note in zip(values.index, values, texts, notes or [""] * len(values), strict=True)
    ]
    return Bars(shown[:most], max(0, len(shown) - most))


def question_of(model: BaseEstimator, task: str, target: str) -> str:
    """Return the question answered by the model."""
    about = f'"{target}"' if target else "the target"
    if task == LABELS:
        return f"Which of {len(model.classes_)} labels does a sample have, and which kernels matter?"
    if task == "classification":
        labels = [str(label) for label in model.classes_]
        shown = listed((f'"{cut_text(label, 30)}"' for label in labels[:6]), len(labels))
        return f"Which class of {about} does a sample belong to: {shown}? And which kernels matter?"
    if task == SURVIVAL:
        return f"Who has the event{f' of {about}' if target else ''} earlier, and which kernels matter?"
    outputs = np.shape(model.intercept_)
    several = f" (in {outputs[0]} outputs)" if outputs else ""
    return f"What is the value of {about}{several} for a sample, and which kernels matter?"


def data_facts(X: Any, n_test: int) -> list[tuple[str, str]]:
    """Return the size and the kinds of the columns, summarized."""
    n_rows = X.shape[0] if issparse(X) else len(X)
    facts = [("samples", f"{n_rows:,}" + (f", and {n_test:,} held out" if n_test else ""))]
    if are_kernels(X):
        return [*facts, ("kernels given", f"{len(X.names):,} precomputed")]
    if isinstance(X, Pairs):
        return [*facts, ("pairs", repr(X).removeprefix("Pairs(").removesuffix(")"))]
    if issparse(X):
        return [*facts, ("columns", f"{X.shape[1]:,}, sparse: {100 * X.nnz / np.prod(X.shape):.2g} % are stored")]
    table = as_frame(X)
    names = [str(name) if isinstance(X, (pd.DataFrame, Views)) else f"x{name}" for name in table.columns]
    more = f", and {len(names) - MOST_COLUMNS:,} more" if len(names) > MOST_COLUMNS else ""
    shown = ", ".join(cut_text(name, 30) for name in names[:MOST_COLUMNS])
    kinds = table.dtypes.astype(str).value_counts()
    constant = int((table.nunique(dropna=False) <= 1).sum())
    facts.append(("columns", f"{len(names):,} ({', '.join(f'{count:,} {kind}' for kind, count in kinds.items())})"))
    facts.append(("their names", shown + more))
    missing = int(table.isna().to_numpy().sum())
    facts.append(("missing values", f"{missing:,}" if missing else "none"))
    return facts + ([("constant columns", f"{constant:,}")] if constant else [])


def class_bars(y: np.ndarray) -> Bars:
    """Return the sizes of the classes."""
    counts = pd.Series(y).value_counts()
    return bars_of(counts, MOST_CLASSES, [f"{count:,} ({100 * count / len(y):.0f} %)" for count in counts])


def label_bars(y: np.ndarray, names: Sequence[Any]) -> Bars:
    """Return how many samples have each label, the most frequent first."""
    counts, shares = np.nansum(y, axis=0).astype(int), np.nanmean(y, axis=0)
    order = np.argsort(-counts, kind="stable")
    notes = [f"{counts[k]:,} ({100 * shares[k]:.0f} %)" for k in order]
    return bars_of(pd.Series(counts[order], index=[names[k] for k in order]), MOST_CLASSES, notes)


def numbers_of(y: np.ndarray, task: str) -> np.ndarray:
    """Return the numbers of the target, of survival the times."""
    return np.asarray(y["time"] if task == SURVIVAL else y, dtype=float).ravel()


def target_facts(y: np.ndarray, task: str) -> list[tuple[str, str]]:
    """Return facts beside the picture of the target: for survival, the number of events."""
    if task != SURVIVAL:
        return []
    events, strata = int(y["event"].sum()), len(np.unique(y["stratum"]))
    found = [("events", f"{events:,}; {len(y) - events:,} samples are censored")]
    return found + ([("strata", f"{strata:,}, each with a baseline hazard of its own")] if strata > 1 else [])


def view_bars(model: BaseEstimator) -> Bars:
    """Return the views, or columns, with their share of the model and how many of their kernels are used."""
    table = kernel_table(model)
    groups = groups_of(model, table, "view")
    values = table.set_index("name")[["norm_share"]].assign(used=(table["weight"] > 0).to_numpy(), all=1.0)
    sums = summed_by(values, groups).sort_values("norm_share", ascending=False, kind="stable")
    n_all, sums = len(sums), sums[sums["used"] > 0]
    sums.index = ["all columns" if name == "all" else name for name in sums.index]
    texts = [f"{100 * share:.1f} %" for share in sums["norm_share"]]
    notes = [f"{used:.0f} of {of:.0f}" for used, of in zip(sums["used"], sums["all"], strict=True)]
    shown = bars_of(sums["norm_share"], MOST_VIEWS, texts, notes)
    return Bars(shown.bars, n_all - len(shown.bars))


def importance_bars(evaluation: Evaluation) -> Bars | None:
    """Return the drop in score on unseen rows per view or column, if known."""
    table = evaluation.importance
    if table is None or table.empty:
        return None
    names = ["all columns" if name == "all" else str(name) for name in table["name"]]
    values = pd.Series(np.maximum(table["importance"].to_numpy(), 0.0), index=names)
    texts = [number(value) for value in table["importance"]]
    ends = zip(table["low"], table["high"], strict=True)
    notes = ["" if np.isnan(low) else f"{number(low)} to {number(high)}" for low, high in ends]
    return bars_of(values, MOST_VIEWS, texts, notes)


def tests_of(model: Any, X: Any, y: Array, seed: int) -> tuple[list[tuple[str, str, str]], int] | None:
    """Return name, p-value and q-value of views or columns, the smallest first, and the number of rows.

    None for models with learned kernels, and for many or untestable kernels.
    """
    if (some := few_rows(model, X, y, seed)) is None:
        return None
    try:
        frame = kernel_tests(model, *some, by="view")
    except InvalidInputError:
        return None
    p_values = frame.groupby("name", sort=False)["p_value"].agg(cauchy_combination).sort_values(kind="stable")
    names = ["all columns" if name == "all" else cut_text(str(name), LONGEST) for name in p_values.index]
    rates = false_discovery_rates(p_values)
    told = [(*one,) for one in zip(names, map(_chance, p_values), map(_chance, rates), strict=True)]
    return told[:MOST_VIEWS], len(some[1])


def _chance(p: float) -> str:
    """Return a p-value as text."""
    return f"{p:.2g}" if p >= 1e-4 else f"{p:.0e}"


def kernel_bars(model: BaseEstimator, evaluation: Evaluation) -> tuple[Bars, list[int | None]]:
    """Return the selected kernels with the number of refits that selected them."""
    table = kernel_table(model)
    used = table[table["weight"] > 0].sort_values("norm_share", ascending=False, kind="stable")
    again = evaluation.selected_again
    counts = [None if again is None else again[name] for name in used["name"]]
    notes = ["" if count is None else f"{count} of {evaluation.n_folds}" for count in counts]
    values = used.set_index(used["name"].map(short_label))["norm_share"]
    texts = [f"{100 * share:.1f} %" for share in values]
    return bars_of(values, MOST_KERNELS, texts, notes), counts


def versions() -> list[tuple[str, str]]:
    """Return the versions of the software."""
    found = [("Python", platform.python_version()), ("system", f"{platform.system()} {platform.machine()}")]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found


def code_of(model: BaseEstimator, target: str, test: object, options: dict[str, Any]) -> str:
    """Return a program that repeats the fit and the report from the same table, with the same options."""
    given = "".join(f", {name}={_option(name, value)}" for name, value in options.items())
    given = (", X_test=X_test, y_test=y_test" if test is not None else "") + given
    try:
        imports, described = program_of(model)
        why = f"an expression of {len(described):,} letters" if len(described) > MOST_LETTERS else ""
    except NotAProgramError as error:
        why = str(error)
    if why:
        imports, described = ["from sklearn.base import clone", "from manykernels import load_model"], ""
    lines = [
        *imports,
        "from manykernels import report",
        "",
        f"# X: the table or kernels of this report; y: {cut_text(' '.join(target.split()), 60) or 'the target'}",
    ]
    if why:
        lines += [
            f'# The model has {why}, which is not written here: keep it by save_model(model, "model.mkl").',
            'model = clone(load_model("model.mkl"))',
        ]
    else:
        lines.append(f"model = {described}")
    groups = ", groups=groups" if _splits_by_groups(model) else ""
    return "\n".join([*lines, f"model.fit(X, y{groups})", f"report(model, X, y{given})"])


def _splits_by_groups(model: BaseEstimator) -> bool:
    """Return whether the folds of a search need groups."""
    routing = getattr(getattr(model, "cv", None), "get_metadata_routing", None)
    return routing is not None and bool(routing().split.requests.get("groups"))


def _option(name: str, value: object) -> str:
    """Return a number or None unchanged, and the name of anything else, known to the author of the report."""
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else name


# --- programs that make the same unfitted estimators ----------------------------------------------------------------


class NotAProgramError(ValueError):
    """An object without an expression; the message names the object."""


def program_of(value: object) -> tuple[list[str], str]:
    """Return lines of imports, and an expression that creates an object anew."""
    names: dict[str, set[str]] = {}
    expression = _expression(value, names)
    lines = [f"from {module} import {', '.join(sorted(used))}" for module, used in sorted(names.items()) if used]
    return (["import numpy as np"] if "np." in expression else []) + lines, expression


def _expression(value: object, names: dict[str, set[str]]) -> str:
    """Return an expression, and record the imported names by module."""
    if isinstance(value, np.generic):
        return _expression(value.item(), names)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, np.ndarray):
        most_numbers = 200  # of an array that is written into a program
        if value.size > most_numbers:
            raise NotAProgramError(f"an array of {value.size:,} numbers")
        kind = "object" if value.dtype == object else f'"{value.dtype.str}"'
        return f"np.array({_expression(value.tolist(), names)}, dtype={kind})"
    if isinstance(value, slice):
        return f"slice({', '.join(_expression(end, names) for end in (value.start, value.stop, value.step))})"
    if isinstance(value, (list, tuple, dict)) and type(value) in (list, tuple, dict):
        parts = [_expression(one, names) for one in value]
        if isinstance(value, dict):
            values = [_expression(one, names) for one in value.values()]
            return _join_parts("{", [f"{key}: {one}" for key, one in zip(parts, values, strict=True)], "}")
        if isinstance(value, list):
            return _join_parts("[", parts, "]")
        return f"({parts[0]},)" if len(parts) == 1 else _join_parts("(", parts, ")")
    if callable(value) and hasattr(value, "__name__"):  # a function or a class
        return _name(value, names)
    return _call(value, names)


def _call(value: object, names: dict[str, set[str]]) -> str:
    """Return the constructor call with the nondefault arguments."""
    arguments, signature = _arguments(value), inspect.signature(type(value)).parameters
    given = {
        name: one
        for name, one in arguments.items()
        if not _same(one, signature[name].default if name in signature else inspect.Parameter.empty)
    }
    parts = [f"{name}={_expression(one, names)}" for name, one in given.items()]
    return _join_parts(f"{_name(type(value), names)}(", parts, ")")


def _arguments(value: object) -> dict[str, Any]:
    """Return the constructor arguments of an object."""
    if isinstance(value, BaseEstimator):
        return dict(value.get_params(deep=False))
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    if isinstance(value, (BaseCrossValidator, BaseShuffleSplit)):
        return {name: getattr(value, name) for name in inspect.signature(type(value)).parameters}
    raise NotAProgramError(f"an object of the type {type(value).__name__}")


def _same(value: object, default: object) -> bool:
    """Tell whether an argument is the default of the parameter."""
    if type(value) is not type(default):
        return False
    try:
        return bool(value == default)
    except ValueError:  # arrays
        return False


def _name(thing: Callable[..., object], names: dict[str, set[str]]) -> str:
    """Return the name of a function or class, and record the outermost public module."""
    name, module = thing.__name__, str(thing.__module__)
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        at = ".".join(parts[:length])
        if at != "__main__" and getattr(sys.modules.get(at), name, None) is thing:
            names.setdefault(at, set()).add(name)
            return str(name)
    raise NotAProgramError(f"{name} of {module}, which cannot be imported")


def _join_parts(start: str, parts: list[str], end: str) -> str:
    """Return parts in a single line, or in a line each."""
    line = start + ", ".join(parts) + end
    if len(line) <= MOST_IN_LINE and "\n" not in line:
        return line
    return "\n    ".join([start, *(part.replace("\n", "\n    ") + "," for part in parts)]) + f"\n{end}"


def report(
    model: BaseEstimator,
    X: TableLike,
    y: ArrayLike,
    path: str | Path = "report.html",
    *,
    X_test: TableLike | None = None,
    y_test: ArrayLike | None = None,
    cv: CrossValidation = 5,
    groups: ArrayLike | None = None,
    baselines: bool = True,
    title: str | None = None,
    question: str | None = None,
    n_draws: int = 1000,
    random_state: int = 0,
    target: Hashable = None,
) -> Path:
    """Write a complete report on a fitted model into a single offline HTML file.

    The report has the question, the data, scores beside simpler models, the selection with the stability, the
    certificate of the optimization, warnings, and a program to repeat the analysis.

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor, MKLSurvival, their CV variants, a search like GaussianMKL, or a Pipeline
        Fitted. All steps of a pipeline are refitted on the folds; the kernels of the last step use the column names of
        the earlier steps.
    X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
        The training rows. A different number of rows counts as held out.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Classes, numbers, columns of labels (0, 1 or missing), or the events and times of a survival model.
    path : str or Path, default="report.html"
        File to write; an existing file is replaced.
    X_test, y_test : array-like or None, default=None
        Unseen rows for scores. Without test rows, clones of the model are fitted on folds of X (including the search of
        a CV estimator).
    cv : int, splitter or None, default=5
        Folds. None scores the model on X itself, with a warning in the report.
    groups : array-like of shape (n_samples,) or None, default=None
        Given to the splitter; a number of folds keeps groups whole.
    baselines : bool, default=True
        Whether to learn simpler models for comparison: the best constant, the plain sum of the kernels, and
        scikit-learn's support vector machine or kernel ridge with one tuned Gaussian kernel (for survival: a linear Cox
        regression with a tuned ridge penalty), if cheap.
    title, question : str or None, default=None
        Text for the head of the report.
    n_draws : int, default=1000
        Draws of the bootstrap behind the intervals.
    random_state : int, default=0
        Seed of folds and draws.
    target : hashable, default=None
        Of several classes, labels or outputs, the one with curves and surfaces in the report; None for no curves.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ImportError
        Without Jinja2 or matplotlib (the extra ``report``).
    InvalidInputError
        If X and y do not match the model, or the file cannot be written; the message has a remedy.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from manykernels import MKLRegressor, report
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> y = np.sin(2 * X[:, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = report(MKLRegressor().fit(X, y), X, y, Path(folder) / "report.html", cv=3)
    ...     "Certificate" in path.read_text(encoding="utf-8")
    True
    """
    template = _template()
    options = {"cv": cv, "groups": groups, "baselines": baselines, "n_draws": n_draws, "random_state": random_state}
    options |= {"target": target}
    check_is_fitted(model)
    check_one_prediction(last_step(model))
    check_count(n_draws, "n_draws")
    task = LABELS if has_labels(model) else task_of(model)
    X, y, name = _check_data(model, X, y, "X and y")
    test = None
    if X_test is not None or y_test is not None:
        if X_test is None or y_test is None:
            raise InvalidInputError("Give both X_test and y_test, or neither.")
        test = _check_data(model, X_test, y_test, "X_test and y_test")[:2]
    evaluation = evaluate(
        model, task, X, y, test=test, cv=cv, groups=groups, baselines=baselines, n_draws=n_draws, seed=random_state
    )
    facts, (estimator, read) = MKLReport.from_estimator(model), unwrapped(model, X)
    case = Case(estimator, facts, evaluation, X, read, y, task, test)
    usual = {name: parameter.default for name, parameter in signature(report).parameters.items()}
    plain = (bool, int, float, str, type(None))  # others, such as arrays, may not be compared
    chosen = {name: one for name, one in options.items() if not isinstance(one, plain) or one != usual[name]}
    unnamed = "time" if task == SURVIVAL else "y"
    content = {
        "title": title or f"{facts.estimator}: {facts.task}" + (f" of {name}" if name else ""),
        "question": question or question_of(estimator, task, name),
        "today": date.today().isoformat(),
        "facts": facts,
        "data": data_facts(X, 0 if test is None else len(test[1])) + target_facts(y, task),
        **_target_picture(estimator, y, task, name or unnamed),
        "palette": pictures.palette(),
        "caveats": caveats_of(case),
        "code": code_of(model, name, test, chosen),
        "versions": versions(),
        **_performance(estimator, task, evaluation),
        **_selection(estimator, facts, evaluation),
        "tests": tests_of(estimator, read, y, random_state),
        **pictures.functions_of(model, X, evaluation.importance, target),
    }
    return write_file(path, printable(template.render(**content), "\n"), "report")


def _target_picture(model: BaseEstimator, y: Array, task: str, name: str) -> dict[str, Any]:
    """Return the sizes of the classes or labels as bars, or a histogram of numbers."""
    if task == LABELS:
        return {"classes": label_bars(y, model._target_labels().tolist()), "histogram": None}
    if task == "classification":
        return {"classes": class_bars(y), "histogram": None}
    return {"classes": None, "histogram": pictures.histogram(numbers_of(y, task), name)}


def _template() -> Any:
    """Return the template, or raise an error with the extra to install."""
    for module in ("jinja2", "matplotlib"):
        optional_module(module, f"report needs {module}.", "report")
    return _compiled_template()


@cache
def _compiled_template() -> Any:
    """Return the compiled template, cached."""
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "interval": interval}
    return environment.from_string(source)


def _check_data(model: BaseEstimator, X: Any, y: ArrayLike, what: str) -> tuple[Any, Array, str]:
    """Return rows, targets as an array, and the name of the target."""
    kernels = None if isinstance(model, Pipeline) and len(model) > 1 else getattr(last_step(model), "kernels", None)
    if isinstance(kernels, PrecomputedBank) or (isinstance(kernels, str) and kernels == "precomputed"):
        X = as_kernel_stack(X)
    elif issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "iloc") and not isinstance(X, (Views, Pairs)):
        X = np.asarray(X)
    values = labels_of(model, y) if has_labels(model) else np.asarray(y)
    values = check_survival(y) if task_of(model) == SURVIVAL else values
    n_rows = X.shape[0] if issparse(X) else len(X)
    if n_rows != len(values):
        raise InvalidInputError(f"{what} differ in length: {n_rows} rows and {len(values)} targets.")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return X, values, str(y.name) if isinstance(y, pd.Series) and y.name is not None else ""


def _performance(model: BaseEstimator, task: str, evaluation: Evaluation) -> dict[str, Any]:
    """Return scores, comparisons and pictures of the predictions."""
    first = evaluation.scores[0]
    told = [
        (rival.name, rival.score, comparison_words(rival.name, rival.better_by, first.name))
        for rival in evaluation.rivals
    ]
    classifies = task == "classification"
    n = len(evaluation.truth)
    folds = "Simpler models learned from folds of these rows, since the training rows were not given."
    learned = f" {folds}" if evaluation.n_folds and evaluation.rivals else ""
    ways = {
        FOLDS: f"Each of the {n:,} rows was predicted by a model that was not fitted on it: {evaluation.n_folds} "
        "refits, each on the rows of the other folds.",
        HELD_OUT: f"Scored on {n:,} rows that the model was not fitted on." + learned,
        TRAINING: f"Scored on the {n:,} training rows: scores on new rows will be worse.",
    }
    apart = " Risks are compared within folds." if task == SURVIVAL and evaluation.n_folds else ""
    intervals = "Intervals are 95% bootstrap intervals over these rows."
    return {
        "how_scored": f"{ways[evaluation.way]}{apart} {intervals}",
        "scores": evaluation.scores,
        "rivals": told,
        "beside": pictures.scores_beside(evaluation),
        "left_out": evaluation.left_out,
        "labels": None if evaluation.labels is None else label_rows(evaluation.labels),
        "confusion": confusion(evaluation.truth, evaluation.predicted) if classifies else None,
        "figures": [
            *pictures.predictions(evaluation, task, getattr(model, "target_names_", None)),
            *filter(None, [pictures.strength_curve(model)]),
        ],
    }


def _selection(model: BaseEstimator, facts: MKLReport, evaluation: Evaluation) -> dict[str, Any]:
    """Return the selection with the stability, and the certificate in words."""
    kernels, counts = kernel_bars(model, evaluation)
    return {
        "verb": "selected" if hasattr(model, "kernels") else "found",
        "importance": importance_bars(evaluation),
        "importance_of": evaluation.importance_of,
        "views": view_bars(model),
        "kernels": kernels,
        "has_refits": evaluation.selected_again is not None,
        "again": again_words(counts, evaluation.n_folds),
        "certificate": certificate_words(facts, model),
        "n_targets": 1 if np.ndim(model.kernel_weights_) == 1 else len(model.kernel_weights_),
    }
