"""The report as one file: everything computed, put into a template that escapes every text."""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.selection.splits import CrossValidation
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.files import write_file
from manykernels.inspection.pipelines import last_step, unwrapped
from manykernels.inspection.reports import contents, pictures, summary
from manykernels.inspection.reports.caveats import Case, caveats_of
from manykernels.inspection.reports.evaluation import FOLDS, HELD_OUT, TRAINING, Evaluation, evaluate
from manykernels.inspection.reports.report import MKLReport
from manykernels.inspection.reports.scores import SURVIVAL, check_one_prediction, task_of
from manykernels.kernels import Pairs, PrecomputedBank, Views
from manykernels.kernels.precomputed.stack import as_kernel_stack
from manykernels.objective.losses.survival import check_survival
from manykernels.validation.arrays import TableLike, check_count

Array = NDArray[Any]


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
        Without Jinja2 or matplotlib (the extra ``report``).
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
    case = Case(estimator, facts, evaluation, X, read, y, task, test)
    content = {
        "title": title or f"{facts.estimator}: {facts.task}" + (f" of {name}" if name else ""),
        "question": question or contents.question_of(estimator, task, name),
        "today": date.today().isoformat(),
        "facts": facts,
        "data": contents.data_facts(X, 0 if test is None else len(test[1])) + contents.target_facts(y, task),
        "classes": contents.class_bars(y) if task == "classification" else None,
        "histogram": None
        if task == "classification"
        else pictures.histogram(contents.numbers_of(y, task), name or "y"),
        "palette": pictures.palette(),
        "caveats": caveats_of(case),
        "code": contents.code_of(model, name, test is not None, _not_default(options)),
        "versions": contents.versions(),
        **_performance(estimator, task, evaluation),
        **_selection(estimator, facts, evaluation),
        **pictures.functions_of(model, X, evaluation.importance),
    }
    return write_file(path, template.render(**content), "report")


def _not_default(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a report that have other values than its defaults."""
    usual = signature(report).parameters
    return {name: one for name, one in options.items() if one is not usual[name].default and one != usual[name].default}


def _template() -> Any:
    """Return the template, or say what to install."""
    try:
        import matplotlib  # noqa: F401 - of the pictures
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "report needs Jinja2 and matplotlib. Install them with: python -m pip install 'manykernels[report]'."
        ) from error
    source = files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = summary.number
    return environment.from_string(source)


def _checked(model: BaseEstimator, X: Any, y: ArrayLike, what: str) -> tuple[Any, Array, str]:
    """Return rows, targets as an array, and the name of the target."""
    kernels = None if isinstance(model, Pipeline) and len(model) > 1 else getattr(last_step(model), "kernels", None)
    if isinstance(kernels, PrecomputedBank) or (isinstance(kernels, str) and kernels == "precomputed"):
        X = as_kernel_stack(X)
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


def _performance(model: BaseEstimator, task: str, evaluation: Evaluation) -> dict[str, Any]:
    """Return scores, comparisons and pictures of the predictions."""
    first = evaluation.scores[0]
    told = [
        (rival.name, rival.score, summary.comparison_words(rival.name, rival.better_by, first.name))
        for rival in evaluation.rivals
    ]
    classifies = task == "classification"
    return {
        "how_scored": _how_scored(evaluation, task),
        "scores": evaluation.scores,
        "rivals": told,
        "beside": pictures.scores_beside(evaluation),
        "left_out": evaluation.left_out,
        "confusion": contents.confusion(evaluation.truth, evaluation.predicted) if classifies else None,
        "figures": [
            *pictures.predictions(evaluation, task, getattr(model, "target_names_", None)),
            *filter(None, [pictures.strength_curve(model)]),
        ],
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


def _selection(model: BaseEstimator, facts: MKLReport, evaluation: Evaluation) -> dict[str, Any]:
    """Return what was selected, how sure that is, and the certificate in summary."""
    kernels, counts = contents.kernel_bars(model, evaluation)
    return {
        "verb": "selected" if hasattr(model, "kernels") else "found",
        "importance": contents.importance_bars(evaluation),
        "importance_of": evaluation.importance_of,
        "views": contents.view_bars(model),
        "kernels": kernels,
        "has_refits": evaluation.selected_again is not None,
        "again": summary.again_words(counts, evaluation.n_folds),
        "certificate": summary.certificate_words(facts, model),
        "n_targets": 1 if np.ndim(model.kernel_weights_) == 1 else len(model.kernel_weights_),
    }
