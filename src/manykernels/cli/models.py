"""Commands on a model file: ``predict`` for new rows, ``inspect``, ``export`` and ``report``."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier

from manykernels.cli import console, tables
from manykernels.cli.targets import LabeledTable, split_columns, strata_of, survival_of
from manykernels.cli.words import MissingWords
from manykernels.estimators import MKLSurvival
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import (
    ConvergenceDisplay,
    MKLReport,
    export_model,
    load_model,
    plot_overview,
    read_metadata,
    report,
)
from manykernels.inspection.files import render_csv, replacing, save_figure
from manykernels.inspection.reports.fitted_rows import Split, fingerprints, split_as_fitted
from manykernels.inspection.reports.scores import score_held_out
from manykernels.kernels.tables.encoding import level_text
from manykernels.validation.parameters import printable

REPORT = Path("report.html")
PICTURES = (".png", ".svg", ".pdf")
FITTED, HELD_OUT = ", on the rows it was fitted on", ", on rows it was not fitted on"
NewRows = Annotated[bool, typer.Option("--new-rows", help="State that the model was fitted on no row of the table.")]
WAY_OUT = "Give the whole table of the fit, or pass --new-rows if the model was fitted on no row of this table."


@dataclass(frozen=True)
class PredictOptions:
    """Options of ``manykernels predict``."""

    model: console.ModelFile
    data: console.Data
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file to write.")] = None
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False
    at: Annotated[
        list[float] | None,
        typer.Option(help="Survival: add the probability of no event up to this time; may be repeated.", min=0.0),
    ] = None
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column to copy; may be repeated.")] = None
    force: console.Force = False
    chunk_rows: Annotated[
        int | None, typer.Option(min=1, help="Number of rows to read, predict and write at a time.")
    ] = None
    encoding: console.Encoding = None
    na: console.Na = None
    new_rows: NewRows = False


def _check_options(options: PredictOptions, model: Any) -> None:
    if options.proba and isinstance(model, BaseMKL) and not hasattr(model, "predict_proba"):
        raise InvalidInputError("--proba needs a classifier fitted with --loss logistic; leave it out or fit again.")
    if options.at and not isinstance(model, MKLSurvival):
        raise InvalidInputError("--at needs a model fitted with --time and --event; leave it out.")
    tables.check_new(options.output, "--output", options.force, [options.model, options.data])


def _print_scores(targets: Sequence[str], scores: Mapping[str, Any]) -> None:
    """Print scores against target columns to stderr, by the rows they are of."""
    listed = f"column{'s' * (len(targets) > 1)} {', '.join(repr(printable(name)) for name in targets)}"
    for rows, own in scores.items():
        shown = ", ".join(f"{name} {value}" for name, value in console.score_facts(own).items())
        console.errors().print(f"Against the {listed}{rows}: {shown}", soft_wrap=True)


def run_predict(options: PredictOptions, outcome: console.Outcome) -> None:
    """Predict the rows of a table with a saved model; CSV on stdout, or --output."""
    model, metadata = load_model(options.model), read_metadata(options.model)
    _check_options(options, model)
    if options.chunk_rows is not None:
        _predict_chunks(options, model, metadata, outcome)
        return
    with console.stage(f"reading {options.data}"):
        words = _words(model, metadata, options.na)
        frame = tables.read_table(options.data, options.encoding, words, outcome.note)
    copied = list(options.ids or ())
    tables.check_columns(frame, copied, "--id")
    features = features_of(model, frame, _orders(metadata))
    targets = _targets(metadata)
    predictions = _predictions(model, features, targets, options, _strata(frame, metadata, options))
    apart, doubt = ({}, "") if options.new_rows else _scores_apart(model, metadata, frame)
    if doubt:
        outcome.note(f"No scores: {doubt} {WAY_OUT}")
    known = None if apart or doubt else _scores(model, features, frame, targets, metadata.get("strata_levels"))
    table = pd.concat([frame[copied], predictions], axis=1)
    _write_predictions(table, options, outcome)
    _print_scores(targets, apart or ({"": known} if known else {}))
    outcome.result = {
        "model": options.model,
        "data": options.data,
        "n_rows": len(table),
        "columns": {str(name): table[name].tolist() for name in table.columns},
        "scores": apart.get(HELD_OUT) if apart else known,
        "fitted_scores": apart.get(FITTED),
        "output": options.output,
    }


def _write_predictions(table: pd.DataFrame, options: PredictOptions, outcome: console.Outcome) -> None:
    if options.output is not None:
        tables.write_table(table, options.output)
        outcome.show(f"{len(table)} predictions written to {options.output}")
    elif not outcome.as_json:
        console.write_data(render_csv(table))


def _predict_chunks(
    options: PredictOptions, model: BaseEstimator, metadata: Mapping[str, Any], outcome: console.Outcome
) -> None:
    """Predict a table in chunks into a CSV file, with bounded memory."""
    path = options.output
    if path is None or path.suffix.lower() in tables.PARQUET or path.suffix.lower() == ".gz":
        raise InvalidInputError("--chunk-rows writes CSV as it goes; give --output a name that ends in .csv or .tsv.")
    copied, n_rows, separator = list(options.ids or ()), 0, "\t" if path.suffix.lower() == ".tsv" else ","
    words, orders, remarks = _words(model, metadata, options.na), _orders(metadata), set[str]()
    with replacing(path) as file:
        for frame in tables.read_chunks(options.data, options.chunk_rows or 1, options.encoding, words):
            tables.check_columns(frame, copied, "--id")
            strata = _strata(frame, metadata, options)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                features = features_of(model, frame, orders)
                predictions = _predictions(model, features, _targets(metadata), options, strata)
            for warning in caught:  # one note a kind of remark, of the first rows that give reason to it
                kind, _, _ = str(warning.message).partition(":")
                if kind not in remarks:
                    remarks.add(kind)
                    outcome.note(f"From row {n_rows + 1}: {warning.message}")
            table = pd.concat([frame[copied], predictions], axis=1)
            file.write(render_csv(table, separator, header=n_rows == 0).encode("utf-8"))
            n_rows += len(frame)
    outcome.result = {"model": options.model, "data": options.data, "n_rows": n_rows, "output": path}
    outcome.show(f"{n_rows} predictions written to {path}")


def _words(model: BaseEstimator, metadata: Mapping[str, Any], na: Sequence[str] | None) -> MissingWords:
    """Return the missing-value words of a CSV for a model: the words of the fit by default, except levels."""
    kept = metadata.get("na", ())
    extra = kept if na is None and isinstance(kept, (list, tuple)) else na or ()
    levels: dict[str, set[str]] = {}
    names = getattr(model, "feature_names_in_", None)
    if isinstance(model, BaseMKL) and model._expansion.bank.on_columns and names is not None:
        kernels = model._expansion.bank.table
        columns = zip(kernels.used, kernels.encodings or (), strict=bool(kernels.encodings))
        levels = {str(names[j]): set(map(level_text, own.levels)) for j, own in columns if own.levels}
    classes, strata = np.ravel(getattr(model, "classes_", ())), metadata.get("strata_levels")
    strata = strata if isinstance(strata, (list, tuple)) else ()
    for name, texts in ((metadata.get("target"), classes), (metadata.get("strata"), strata)):
        # A column of which all entries are numbers was read as numbers.
        if isinstance(name, str) and pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce").isna().any():
            levels[name] = set(map(str, texts))
    return MissingWords(tuple(map(str, extra)), levels)


def _orders(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the orders of day and month in the columns of dates of the fit."""
    kept = metadata.get("date_orders")
    return {str(name): str(order) for name, order in kept.items()} if isinstance(kept, Mapping) else {}


def features_of(model: BaseEstimator, frame: pd.DataFrame, orders: dict[str, str] | None = None) -> pd.DataFrame:
    """Return the checked columns of the fit in order; columns without a kernel may be absent.

    New entries in ``orders`` of day and month keep later parts of a file consistent.
    """
    if not isinstance(model, BaseMKL):
        raise InvalidInputError(
            f"The file holds a {type(model).__name__}, which the command cannot predict with; use Python."
        )
    if model.__sklearn_tags__().input_tags.pairwise:
        raise InvalidInputError("The model was fitted on precomputed kernels, not on a table; use Python.")
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        if frame.shape[1] != model.n_features_in_:
            raise InvalidInputError(
                f"The model was fitted on {model.n_features_in_} columns without names; the table has {frame.shape[1]}."
            )
        kernels = model._expansion.bank.table
        tables.check_entries(frame.iloc[:, list(kernels.used)], kernels.missing)
        return frame.set_axis(range(frame.shape[1]), axis=1)
    needed = [name for name in names[model.selected_features_] if name not in frame.columns]
    if needed:
        missing = [name for name in names if name not in frame.columns]
        raise InvalidInputError(
            f"The table lacks {len(missing)} of the {len(names)} columns that the model was fitted on: "
            f"{tables.quote_names(missing)}. Its kernels read {tables.quote_names(needed)}."
        )
    tables.check_entries(frame[list(names[model.selected_features_])], model._expansion.bank.table.missing)
    features = frame[[name for name in names if name in frame.columns]]
    return _parse_dates(model, features, {} if orders is None else orders)


def _parse_dates(model: BaseMKL, features: pd.DataFrame, orders: dict[str, str]) -> pd.DataFrame:
    """Return features with date columns parsed, in the known orders of day and month."""
    kernels, names = model._expansion.bank.table, model.feature_names_in_
    columns = zip(kernels.used, kernels.encodings or (), strict=bool(kernels.encodings))
    dated = [str(names[j]) for j, encoding in columns if encoding.centered]
    read = {name: tables.read_dates(features[name], orders.get(name)) for name in dated}
    orders.update({**tables.date_orders(features[dated]), **orders})
    return features.assign(**read) if read else features


def _targets(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the targets saved with the model, or none."""
    kept, event, strata = (metadata.get(name) for name in ("target", "event", "strata"))
    if isinstance(event, str):
        return str(kept), event, *([strata] if isinstance(strata, str) else [])
    return (kept,) if isinstance(kept, str) else tuple(str(name) for name in kept or ())


def _strata(frame: pd.DataFrame, metadata: Mapping[str, Any], options: PredictOptions) -> Any:
    """Return the strata of rows where survival curves need strata."""
    column, levels = metadata.get("strata"), metadata.get("strata_levels")
    if not options.at or not isinstance(column, str) or levels is None:
        return None
    if column not in frame.columns:
        raise InvalidInputError(
            f"--at needs the column {column!r}: every stratum has a separate baseline. Leave out --at for risk scores."
        )
    return strata_of(frame, column, [str(level) for level in levels])


def _predictions(
    model: BaseEstimator,
    features: pd.DataFrame,
    targets: Sequence[str],
    options: PredictOptions,
    strata: ArrayLike | None,
) -> pd.DataFrame:
    """Return predictions as columns, a column per target, named after the target where known."""
    rows = features if hasattr(model, "feature_names_in_") else features.to_numpy()
    if isinstance(model, MKLSurvival):
        return _hazards(model, rows, options.at or (), strata)
    values = model.predict(rows)
    if values.ndim == 2:
        known = targets if len(set(targets)) == values.shape[1] else getattr(model, "target_names_", None)
        endings = range(values.shape[1]) if known is None else known
        columns = {"prediction": values} | ({"probability": model.predict_proba(rows)} if options.proba else {})
        named = [pd.DataFrame(own, columns=[f"{word}_{each}" for each in endings]) for word, own in columns.items()]
        return pd.concat(named, axis=1)
    predictions = pd.DataFrame({"prediction": values})
    if options.proba:
        names = [f"probability_{label}" for label in model.classes_]
        predictions = pd.concat([predictions, pd.DataFrame(model.predict_proba(rows), columns=names)], axis=1)
    return predictions


def _hazards(model: BaseEstimator, rows: object, times: Sequence[float], strata: ArrayLike | None) -> pd.DataFrame:
    """Return risk scores, and the probabilities of no event up to given times, a column per time."""
    predictions = pd.DataFrame({"risk": model.predict(rows)})
    if not times:
        return predictions
    if strata is None and model.baseline_["stratum"].nunique() > 1:
        raise InvalidInputError(
            "The model has strata, and its file does not say of which column: use predict_survival_function."
        )
    curves = model.predict_survival_function(rows, list(times), strata)
    return predictions.assign(**{f"survival_{time:g}": curves[:, k] for k, time in enumerate(times)})


def _scores(
    model: BaseEstimator,
    features: pd.DataFrame,
    frame: pd.DataFrame,
    targets: Sequence[str],
    levels: Sequence[str] | None,
) -> dict[str, float | None] | None:
    """Return scores if the table has complete targets in the form of the fit."""
    listed, others = list(targets), set(frame.columns) - set(getattr(model, "feature_names_in_", ()))
    if not listed or not set(listed) <= others or frame[listed].isna().any(axis=None):
        return None
    if isinstance(model, MKLSurvival):
        if len(listed) < 2:
            return None
        known = survival_of(frame, listed[0], listed[1], listed[2] if levels else None, levels)
        return score_held_out(model, features, known)
    if is_classifier(model) and np.ndim(model.classes_) == 1:
        truth = frame[listed[0]]
        truth = truth.map(level_text) if model.classes_.dtype == object else truth
        return score_held_out(model, features, truth.to_numpy()) if set(truth) & set(model.classes_) else None
    numeric = all(pd.api.types.is_numeric_dtype(frame[name].dtype) for name in listed)
    if not numeric or len(listed) != model._expansion.n_targets:
        return None
    return score_held_out(model, features, frame[listed if len(listed) > 1 else listed[0]].to_numpy())


def rows_of_fit(model: BaseEstimator, metadata: Mapping[str, Any], frame: pd.DataFrame) -> tuple[LabeledTable, Split]:
    """Return the rows of a table with a target, and a mask of the training rows."""
    present = set(frame.columns)
    # Files of version 0.1 tell less.
    left_out, groups = metadata.get("left_out", ()), metadata.get("groups")
    event, strata = metadata.get("event"), metadata.get("strata")
    names = [str(name) for name in getattr(model, "feature_names_in_", present)]
    known = {*names, *_targets(metadata), event, strata, *left_out, groups}
    fitted = MKLReport.from_estimator(model)
    samples = split_columns(
        frame.loc[:, [name in known for name in frame]],
        metadata["target"],
        task=metadata.get("task", fitted.task),
        ids=tuple(name for name in left_out if name in present),
        drop_missing=metadata.get("drop_missing", False),
        missing=metadata.get("missing", "error"),
        groups=groups if groups in present else None,
        event=event,
        strata=strata,
        orders=_orders(metadata),
    )
    if "rows_of_fit" in metadata and (lacking := [name for name in names if name not in present]):
        doubt = (
            f"the table lacks {tables.quote_names(lacking)}, so that its rows cannot be compared with those of the fit."
        )
        return samples, Split(np.zeros(len(samples.target), dtype=bool), doubt)
    return samples, split_as_fitted(fingerprints(samples.features, samples.target), metadata.get("rows_of_fit"))


def _scores_apart(
    model: BaseEstimator, metadata: Mapping[str, Any], frame: pd.DataFrame
) -> tuple[dict[str, dict[str, float | None]], str]:
    """Return scores on the training rows and on all other rows, or the reason for none.

    Neither for a table without a row of the fit.
    """
    if "rows_of_fit" not in metadata or not {*_targets(metadata)} <= {*frame}:
        return {}, ""
    try:
        samples, split = rows_of_fit(model, metadata, frame)
    except InvalidInputError:  # targets of another kind: there is nothing to score
        return {}, ""
    if split.doubt or not split.fitted.any():
        return {}, split.doubt
    parts = {FITTED: split.fitted, HELD_OUT: ~split.fitted}
    X, y = features_of(model, samples.features), samples.target
    return {name: score_held_out(model, X[rows], y[rows]) for name, rows in parts.items() if rows.any()}, ""


def run_inspect(
    model: console.ModelFile, plot: console.Picture = None, force: console.Force = False, *, outcome: console.Outcome
) -> None:
    """Show the content of a model file: kernels, weights, duality gap, cost."""
    check_picture(plot, force, [model])
    estimator, metadata = load_model(model), read_metadata(model)
    if not isinstance(estimator, BaseMKL):
        kind = type(estimator).__name__
        raise InvalidInputError(f"The file holds a {kind}, which has no report; load_model and weights_frame show it.")
    summary = MKLReport.from_estimator(estimator)
    if plot is not None:
        save_figure(plot_overview(estimator, title=f"{model.name}: {_what(summary, metadata)}"), plot, dpi=100)
    history = ConvergenceDisplay.from_estimator(estimator).frame()
    outcome.result = {
        **summary.to_dict(),
        "model": model,
        "metadata": metadata,
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "classes": np.asarray(getattr(estimator, "classes_", ())).tolist(),
        "history": history.to_dict("records"),
        "plot": plot,
    }
    facts = {
        "file": f"{model}, written by manykernels {metadata['library_version']}",
        "task": _what(summary, metadata),
        "fitted on": f"{summary.n_samples} rows, {summary.n_features} columns",
    }
    outcome.show(*console.report_tables(summary, facts, importance=console.importances(estimator)))
    if plot is not None:
        outcome.show("", f"Drawn to {plot}")


def run_export(
    model: console.ModelFile,
    output: Annotated[Path, typer.Argument(help="File to write: .onnx, .sql, .py or .csv.")],
    tol: Annotated[float, typer.Option(min=0.0, help="Error of tabulated curves, as a share of the scores.")] = 1e-6,
    table: Annotated[str, typer.Option(help="SQL: name of the table.")] = "data",
    force: console.Force = False,
    *,
    outcome: console.Outcome,
) -> None:
    """Write a model as a program: .onnx, .sql, .py (NumPy alone) or .csv (a card)."""
    tables.check_new(output, "OUTPUT", force, [model])
    export = export_model(load_model(model), output, tol=tol, table=table)
    outcome.result = {
        "path": export.path,
        "max_error": export.max_error,
        "max_error_beyond": export.max_error_beyond,
        "measured_by": export.measured_by,
        "ranges": export.ranges,
        "columns": list(export.columns),
        "names": export.names,
    }
    differ = (
        f"scores differ from the model's by at most {export.max_error:.2g}, and by {export.max_error_beyond:.2g} far "
        f"beyond its ranges (run by {export.measured_by})"
    )
    outcome.show(f"Written to {export.path}: it reads {len(export.columns)} columns; {differ}.")


def check_picture(plot: Path | None, force: bool, inputs: Sequence[Path | None]) -> None:
    """Raise ``InvalidInputError`` if a picture cannot be written under the name."""
    tables.check_new(plot, "--plot", force, inputs)
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInputError(f"--plot: {str(plot)!r} must end in {', '.join(PICTURES)}.")


def _check_origin(model: Path, metadata: Mapping[str, Any]) -> None:
    """Raise ``InvalidInputError`` for a model file that the command did not write."""
    if "target" not in metadata or "test_size" not in metadata:
        raise InvalidInputError(
            f"{str(model)!r} was not written by 'manykernels fit'; use manykernels.report(model, X, y) in Python."
        )


def _check_targets(data: Path, frame: pd.DataFrame, metadata: Mapping[str, Any]) -> None:
    """Raise ``InvalidInputError`` for a table without a target to compare predictions with."""
    lacking = [name for name in _targets(metadata) if name not in frame.columns]
    if lacking:
        raise InvalidInputError(
            f"A report compares predictions with the target, but {str(data)!r} has no column "
            f"{tables.quote_names(lacking)}. Give a table that has it; 'manykernels predict' needs none."
        )


def run_report(
    model: console.ModelFile,
    data: Annotated[Path, typer.Argument(help="The table it was fitted to, or one of new rows with the target.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = REPORT,
    encoding: console.Encoding = None,
    na: console.Na = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    force: console.Force = False,
    new_rows: NewRows = False,
    *,
    outcome: console.Outcome,
) -> None:
    """Write a report on a saved model into an HTML file.

    Training rows are recognized by value; only the remaining rows are scored.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"--output: {str(output)!r} must end in .html.")
    tables.check_new(output, "--output", force, [model, data])
    estimator, metadata = load_model(model), read_metadata(model)
    _check_origin(model, metadata)
    with console.stage(f"reading {data}"):
        frame = tables.read_table(data, encoding, _words(estimator, metadata, na), outcome.note)
    _check_targets(data, frame, metadata)
    samples, split = rows_of_fit(estimator, metadata, frame)
    for note in samples.notes:
        outcome.note(note)
    rows, y, seen = features_of(estimator, samples.features), samples.target, split.fitted & (not new_rows)
    if split.doubt and not new_rows:
        raise InvalidInputError(f"There is no score to report: {split.doubt} {WAY_OUT}")
    if not seen.any():
        report(estimator, rows, y, output, title=title)
    elif not seen.all():
        report(estimator, rows[seen], y[seen], output, X_test=rows[~seen], y_test=y[~seen], title=title)
    elif len(rows) == MKLReport.from_estimator(estimator).n_samples:
        report(estimator, rows, y, output, title=title)
    else:
        raise InvalidInputError(
            f"All {len(rows)} rows of {str(data)!r} are among those that the model was fitted on, which were more: "
            "there is nothing to judge it by. Give the whole table of the fit, or other rows."
        )
    n_scored = 0 if seen.all() else int((~seen).sum())
    outcome.result = {"model": model, "data": data, "n_rows": len(rows), "n_held_out": n_scored, "report": output}
    outcome.show(f"Report on {len(rows)} rows, {n_scored} of them held out, written to {output}")


def _what(report: MKLReport, metadata: dict[str, Any]) -> str:
    if "target" not in metadata:
        return report.task
    kept = metadata["target"]
    return f"{report.task} of {kept!r}" if isinstance(kept, str) else f"{report.task} of {len(kept)} targets"
