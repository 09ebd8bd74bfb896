"""The report as one file: everything computed, put into a template that escapes every text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from inspect import signature
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.plotting import cut_text
from manykernels.inspection.files import write_file
from manykernels.inspection.functions.shape import ShapeDisplay, active_columns
from manykernels.inspection.functions.surface import SurfaceDisplay, active_pairs
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports import charts, contents, words
from manykernels.inspection.reports.caveats import Case, caveats_of
from manykernels.inspection.reports.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Plot, nice_ticks
from manykernels.inspection.reports.evaluation import FOLDS, HELD_OUT, TRAINING, Evaluation, evaluate
from manykernels.inspection.reports.report import MKLReport
from manykernels.inspection.reports.scores import check_one_prediction
from manykernels.inspection.reports.tasks import SURVIVAL, task_of
from manykernels.kernels import KernelStack, Pairs, PrecomputedBank, Views
from manykernels.objective.losses.survival import check_survival
from manykernels.validation.arrays import check_count

# What a report draws of an additive model: curves of single columns, and surfaces of pairs of columns.


Array = NDArray[Any]

MOST_CURVES, MOST_SURFACES = 4, 3
POINTS, SIDE = 60, 16  # values of a column on a curve, and on each side of a surface
SHADES = 12  # of one color
MOST_LABELS, LONGEST, LONGEST_NAME = 5, 9, 24
FOOT = 0.15  # of the height, for the density of the rows


@dataclass(frozen=True)
class Cell:
    """Neighboring values of one row of a surface with one color."""

    x: float
    y: float
    width: float
    height: float
    color: str  # "orange" for what is added, "blue" for what is taken away
    opacity: float


@dataclass(frozen=True)
class Surface:
    """What a pair of columns adds, as colored cells in a box of ``WIDTH`` by ``HEIGHT``."""

    cells: list[Cell]
    x_ticks: list[tuple[float, str]]  # list of (float, str)
    y_ticks: list[tuple[float, str]]  # list of (float, str)
    x_label: str  # the text says in words what the picture shows
    y_label: str  # the text says in words what the picture shows
    title: str  # the text says in words what the picture shows
    text: str  # the text says in words what the picture shows


def functions_of(model: Any, X: Any) -> dict[str, Any]:
    """Return curves of the columns and surfaces of the pairs of the largest norms, and how many are left out.

    Nothing of models of several scores, or of kernels that read no columns of a table.
    """
    estimator, rows = unwrapped(model, X)
    if np.ndim(estimator.kernel_weights_) > 1 or not isinstance(rows, (np.ndarray, pd.DataFrame)):
        return {"curves": [], "surfaces": [], "more_curves": 0, "more_surfaces": 0}
    columns, pairs = active_columns(estimator), active_pairs(estimator)
    return {
        "curves": _curves(estimator, rows, columns[:MOST_CURVES]),
        "surfaces": _surfaces(estimator, rows, pairs[:MOST_SURFACES]),
        "more_curves": max(len(columns) - MOST_CURVES, 0),
        "more_surfaces": max(len(pairs) - MOST_SURFACES, 0),
    }


# --- curves ---------------------------------------------------------------------------------------------------------


def _curves(estimator: Any, rows: Any, columns: list[str]) -> list[Plot]:
    """Return the functions of single columns on one scale, above the density of the rows."""
    if not columns:
        return []
    frame = ShapeDisplay.from_estimator(estimator, rows, columns=columns, n_points=POINTS).frame()
    low, high = float(frame["effect"].min()), float(frame["effect"].max())
    high = high if high > low else low + 1.0
    low -= FOOT * (high - low)
    return [_curve(str(name), shape, low, high) for name, shape in frame.groupby("column", sort=False)]


def _curve(name: str, shape: pd.DataFrame, low: float, high: float) -> Plot:
    """Return one function: a line over numbers, a point for each category."""
    values = shape["x"].infer_objects().to_numpy()
    axis = _Axis.of(values, LEFT, WIDTH - RIGHT)
    x, y = axis.places, [_height(float(effect), low, high) for effect in shape["effect"]]
    dense = shape["density"].to_numpy() / float(shape["density"].max())
    foot = [(at, _height(low + FOOT * (high - low) * share, low, high)) for at, share in zip(x, dense, strict=True)]
    base = _height(low, low, high)
    outline = [(x[0], base), *foot, (x[-1], base)]
    points = list(zip(x, y, strict=True))
    return Plot(
        [] if axis.numeric else points,
        [_line(points)] if axis.numeric else [],
        _line(outline),
        None,
        axis.ticks,
        [(_height(tick, low, high), f"{tick:g}") for tick in nice_ticks(low, high)],
        cut_text(name, LONGEST_NAME),
        "added to the score",
        cut_text(name, LONGEST_NAME),
    )


# --- surfaces -------------------------------------------------------------------------------------------------------


def _surfaces(estimator: Any, rows: Any, pairs: list[tuple[str, str]]) -> list[Surface]:
    """Return what pairs of columns add, all in the same colors."""
    shown = [SurfaceDisplay.from_estimator(estimator, rows, columns=pair, n_points=SIDE).frame() for pair in pairs]
    size = max((float(frame["effect"].abs().max()) for frame in shown), default=0.0) or 1.0
    return [_surface(pair, frame, size) for pair, frame in zip(pairs, shown, strict=True)]


def _surface(pair: tuple[str, str], frame: pd.DataFrame, size: float) -> Surface:
    """Return the picture of what a pair adds, in full color at this size."""
    values = frame.pivot(index="z", columns="x", values="effect")
    across = _Axis.of(values.columns.to_numpy(), LEFT, WIDTH - RIGHT)
    up = _Axis.of(values.index.to_numpy(), HEIGHT - BOTTOM, TOP)
    effects = values.to_numpy()
    first, second = (cut_text(name, LONGEST_NAME) for name in pair)
    ends: list[Any] = [frame.iloc[int(at)] for at in (frame["effect"].argmin(), frame["effect"].argmax())]
    least, most = (
        f"{end['effect']:+.2g} where {first} is {_label(end['x'])} and {second} is {_label(end['z'])}" for end in ends
    )
    return Surface(
        [cell for number, row in enumerate(effects) for cell in _cells(row / size, number, across, up)],
        across.ticks,
        up.ticks,
        first,
        second,
        cut_text(f"{first} and {second}", 2 * LONGEST_NAME),
        f"From {least} to {most}.",
    )


def _cells(row: Array, number: int, across: _Axis, up: _Axis) -> list[Cell]:
    """Return the cells of one row of values from -1 to 1, neighbors of one color as one."""
    shades = np.rint(SHADES * row).astype(int).tolist()
    bottom, top = up.edges[number : number + 2]
    found = []
    for shade, group in groupby(range(len(shades)), key=shades.__getitem__):
        members = list(group)
        start, end = across.edges[members[0]], across.edges[members[-1] + 1]
        box = (start, top, round(end - start, 1), round(bottom - top, 1))
        if shade:
            found.append(Cell(*box, "orange" if shade > 0 else "blue", round(abs(shade) / SHADES, 2)))
    return found


@dataclass(frozen=True)
class _Axis:
    """Where values lie on one side of a picture, where one ends and the next begins, and what is written there."""

    places: list[float]
    edges: list[float]
    ticks: list[tuple[float, str]]
    numeric: bool

    @classmethod
    def of(cls, values: Array, start: float, end: float) -> _Axis:
        """Return an axis from one place to another, each value in the middle of a part of it."""
        step = (end - start) / len(values)
        places = [float(round(start + (k + 0.5) * step, 1)) for k in range(len(values))]
        edges = [float(round(start + k * step, 1)) for k in range(len(values) + 1)]
        numeric = bool(np.issubdtype(values.dtype, np.number)) and len(values) > 1
        if numeric:
            low, high = float(values[0]), float(values[-1])
            span = places[-1] - places[0]
            ticks = [
                (float(round(places[0] + span * (tick - low) / (high - low), 1)), f"{tick:g}")
                for tick in (nice_ticks(low, high) if high > low else [])
            ]
        else:
            shown = np.unique(np.linspace(0, len(values) - 1, min(MOST_LABELS, len(values))).astype(int))
            ticks = [(places[at], _label(values[at])) for at in shown.tolist()]
        return cls(places, edges, ticks, numeric)


def _label(value: Any) -> str:
    """Return a value as it stands beside an axis."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return f"{value:.3g}" if number else cut_text(str(value)[:10], LONGEST)


def _height(value: float, low: float, high: float) -> float:
    """Return where a value lies from top to bottom."""
    return float(round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low), 1))


def _line(points: list[tuple[float, float]]) -> str:
    """Return coordinates as SVG reads them."""
    return " ".join(f"{x},{y}" for x, y in points)


MOST_OUTPUTS = 4  # with a picture of their own


def report(
    model: Any,
    X: Any,
    y: Any,
    path: str | Path = "report.html",
    *,
    X_test: Any = None,
    y_test: Any = None,
    cv: Any = 5,
    groups: Any = None,
    baselines: bool = True,
    title: str | None = None,
    question: str | None = None,
    n_draws: int = 1000,
    random_state: int = 0,
) -> Path:
    """Write all there is to say about a fitted model into one HTML file that needs no network.

    The file tells the question, the data, how well the model predicts beside simpler models, what was selected and how
    sure that is, what was proved about the optimization, what to distrust, and how to do it again.

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor, MKLSurvival, their CV variants, a search such as GaussianMKL, or a Pipeline
        Fitted. Of a pipeline that ends in one of these, all steps are refitted on the folds; kernels are those of the
        last step, with the names that the steps before it give its columns.
    X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
        What the model was fitted on. Rows of another number are taken as held out.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels, numbers, or the events and times of a survival model.
    path : str or Path, default="report.html"
        File to write; one that exists is replaced.
    X_test, y_test : array-like or None, default=None
        Rows that the model has not seen, to score it on. Without them, clones of the model are fitted on folds of X
        (for a CV estimator with all of its own search), which takes as many fits as there are folds.
    cv : int, splitter or None, default=5
        Folds. None scores the model on X itself, which the report then warns of.
    groups : array-like of shape (n_samples,) or None, default=None
        Given to the splitter.
    baselines : bool, default=True
        Whether to learn simpler models for comparison: the best constant, the plain sum of the kernels, and
        scikit-learn's support vector machine or kernel ridge with one tuned Gaussian kernel (for survival: a linear
        Cox regression with a tuned ridge penalty), where they are cheap.
    title, question : str or None, default=None
        Text for the head of the report.
    n_draws : int, default=1000
        Draws of the bootstrap behind the intervals.
    random_state : int, default=0
        Seed of folds and draws.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ImportError
        Without Jinja2 (the extra ``report``).
    InvalidInputError
        If X and y do not fit the model or each other, or the file cannot be written; the message says what to do.

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
    ...     "What to distrust" in path.read_text(encoding="utf-8")
    True
    """
    template = _template()
    options = {"cv": cv, "groups": groups, "baselines": baselines, "n_draws": n_draws, "random_state": random_state}
    check_is_fitted(model)
    check_one_prediction(last_step(model))
    check_count(n_draws, "n_draws")
    task = task_of(model)
    X, y, name = _checked(model, X, y, "X and y")
    test = None
    if X_test is not None or y_test is not None:
        if X_test is None or y_test is None:
            raise InvalidInputError("Give both X_test and y_test, or neither.")
        test = _checked(model, X_test, y_test, "X_test and y_test")[:2]
    evaluation = evaluate(
        model, task, X, y, test=test, cv=cv, groups=groups, baselines=baselines, n_draws=n_draws, seed=random_state
    )
    facts, (estimator, read) = MKLReport.from_estimator(model), unwrapped(model, X)
    case = Case(estimator, facts, evaluation, X, read, y, task)
    content = {
        "title": title or f"{facts.estimator}: {facts.task}" + (f" of {name}" if name else ""),
        "question": question or contents.question_of(estimator, task, name),
        "today": date.today().isoformat(),
        "facts": facts,
        "data": contents.data_facts(X, 0 if test is None else len(test[1])) + contents.target_facts(y, task),
        "target": contents.target_bars(y, task),
        "caveats": caveats_of(case),
        "code": contents.code_of(model, name, test is not None, _not_default(options)),
        "versions": contents.versions(),
        **_performance(estimator, task, evaluation),
        **_selection(estimator, facts, evaluation),
        **functions_of(model, X),
    }
    return write_file(path, template.render(**content), "report")


def _not_default(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a report that have other values than its defaults."""
    usual = signature(report).parameters
    return {name: one for name, one in options.items() if one is not usual[name].default and one != usual[name].default}


def _template() -> Any:
    """Return the template, or say what to install."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "report needs Jinja2. Install it with: python -m pip install 'manykernels[report]'."
        ) from error
    source = files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = words.number
    return environment.from_string(source)


def _checked(model: Any, X: Any, y: Any, what: str) -> tuple[Any, Array, str]:
    """Return rows, targets as an array, and the name of the target."""
    kernels = None if isinstance(model, Pipeline) and len(model) > 1 else getattr(last_step(model), "kernels", None)
    if isinstance(kernels, PrecomputedBank) or (isinstance(kernels, str) and kernels == "precomputed"):
        X = X if isinstance(X, KernelStack) else KernelStack(X)
    elif issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "iloc") and not isinstance(X, (Views, Pairs)):
        X = np.asarray(X)
    values = check_survival(y) if task_of(model) == SURVIVAL else np.asarray(y)
    n_rows = X.shape[0] if issparse(X) else len(X)
    if n_rows != len(values):
        raise InvalidInputError(f"{what} differ in length: {n_rows} rows and {len(values)} targets.")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return X, values, str(y.name) if isinstance(y, pd.Series) and y.name is not None else ""


def _performance(model: Any, task: str, evaluation: Evaluation) -> dict[str, Any]:
    """Return scores, comparisons and pictures of the predictions."""
    first, rivals = evaluation.scores[0], evaluation.rivals
    places, ends = charts.intervals(
        [first, *(rival.score for rival in rivals)], None if task == "regression" else (0.0, 1.0)
    )
    rows = [("this model", first, places[0], "")]
    for rival, place in zip(rivals, places[1:], strict=True):
        rows.append((rival.name, rival.score, place, words.comparison_words(rival.name, rival.better_by, first.name)))
    classifies = task == "classification"
    return {
        "how_scored": _how_scored(evaluation, task),
        "scores": evaluation.scores,
        "comparison": rows,
        "ends": (words.number(ends[0]), words.number(ends[1])),
        "left_out": evaluation.left_out,
        "confusion": charts.confusion(evaluation.truth, evaluation.predicted) if classifies else None,
        "pictures": _pictures(evaluation, task, getattr(model, "target_names_", None)),
        "cv_curve": _cv_curve(model),
        "box": (charts.WIDTH, charts.HEIGHT, charts.LEFT, charts.RIGHT, charts.TOP, charts.BOTTOM),
    }


def _how_scored(evaluation: Evaluation, task: str) -> str:
    n = len(evaluation.truth)
    folds = "Simpler models learned from folds of these rows, since the training rows were not given."
    learned = f" {folds}" if evaluation.n_folds and evaluation.rivals else ""
    ways = {
        FOLDS: f"Every one of the {n:,} rows was predicted by a model that had not seen it: {evaluation.n_folds} "
        "refits, each on the rows of the other folds.",
        HELD_OUT: f"Scored on {n:,} rows that the model was not fitted on." + learned,
        TRAINING: f"Scored on the {n:,} rows that the model was fitted on: too good to be true of new ones.",
    }
    apart = " Risks are compared within folds." if task == SURVIVAL and evaluation.n_folds else ""
    intervals = "Intervals hold 95 % of the scores when these rows are drawn anew, with replacement."
    return f"{ways[evaluation.way]}{apart} {intervals}"


def _pictures(evaluation: Evaluation, task: str, names: Array | None) -> list[charts.Plot]:
    """Return predicted beside observed numbers, or what became of samples of low and high risk."""
    if task == SURVIVAL:
        return [charts.survival_of_groups(evaluation.truth, evaluation.predicted)]
    return [] if task == "classification" else _scatters(evaluation, names)


def _scatters(evaluation: Evaluation, names: Array | None) -> list[charts.Plot]:
    truth = np.asarray(evaluation.truth, dtype=float).reshape(len(evaluation.truth), -1)
    predicted = np.asarray(evaluation.predicted, dtype=float).reshape(len(truth), -1)
    titles = ["Predicted and observed"]
    if truth.shape[1] > 1:
        titles = [f"output {k}" for k in range(truth.shape[1])] if names is None else [str(name) for name in names]
    shown = range(min(truth.shape[1], MOST_OUTPUTS))
    return [charts.scatter(truth[:, k], predicted[:, k], titles[k]) for k in shown]


def _cv_curve(model: Any) -> charts.Plot | None:
    """Return the curve by which the strength was chosen, of the mixture that was chosen."""
    found = getattr(model, "cv_results_", None)
    if not isinstance(found, pd.DataFrame) or not {"alpha", "mean_score", "std_score"} <= set(found):
        return None
    mixtures = [
        name
        for name in (("kernels", "mixing") if "mixing" in found else ("l1_ratio", "mu", "kernel_penalties"))
        if name in found
    ]
    chosen = found.iloc[model.best_index_]
    same = np.all([found[name] == chosen[name] for name in mixtures], axis=0) if mixtures else np.ones(len(found), bool)
    part, at = found[same], int(np.count_nonzero(np.asarray(same)[: model.best_index_]))
    error = part["std_score"].to_numpy() / np.sqrt(max(model.n_folds_ - 1, 1))
    labels = ("strength alpha", "score", "Score of the folds (band: standard error)")
    return charts.curve(part["alpha"].to_numpy(), part["mean_score"].to_numpy(), error, at, labels)


def _selection(model: Any, facts: MKLReport, evaluation: Evaluation) -> dict[str, Any]:
    """Return what was selected, how sure that is, and the certificate in words."""
    kernels, counts = contents.kernel_bars(model, evaluation)
    return {
        "verb": "selected" if hasattr(model, "kernels") else "found",
        "importance": contents.importance_bars(evaluation),
        "importance_of": evaluation.importance_of,
        "views": contents.view_bars(model),
        "kernels": kernels,
        "has_refits": evaluation.selected_again is not None,
        "again": words.again_words(counts, evaluation.n_folds),
        "certificate": words.certificate_words(facts, model),
        "n_targets": 1 if np.ndim(model.kernel_weights_) == 1 else len(model.kernel_weights_),
    }
