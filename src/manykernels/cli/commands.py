"""The commands: what each is called, and how its options come from its arguments and from the table of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from manykernels.cli.console import running
from manykernels.cli.demo import run_demo
from manykernels.cli.explore import run_compare, run_path, run_plan
from manykernels.cli.fit import run_fit
from manykernels.cli.models import run_export, run_inspect, run_predict, run_report
from manykernels.cli.warm import run_warm
from manykernels.estimators.parameters import DEFAULT_LOSS, PARAMETERS, Parameter

EPILOG = "Exit codes: 0 fine, 1 wrong input, 2 wrong usage, 3 the solver did not converge, 130 interrupted."

app = typer.Typer(
    name="manykernels",
    help="Learn from many kernels which of them matter.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"manykernels {version('manykernels')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Show the help or the version."""


NO_OPTIONS = ("random_state", "verbose", "callback")  # --seed, a flag of the terminal, and code
SETTINGS = tuple(name for name in PARAMETERS if name not in NO_OPTIONS)
DEFAULT_OF_TASK = {
    "loss": f"Default {' or '.join(DEFAULT_LOSS.values())}.",
    "penalty": "Default l1; with --cv, a search over mixtures.",
}
JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")],
)


def _option(parameter: Parameter) -> inspect.Parameter:
    """Return the option of one parameter of the estimators, with its default and its help."""
    default, text = parameter.default, parameter.help
    kind: Any = str if parameter.range is None else int if parameter.range.whole else float
    kind = {"fit_intercept": bool, "n_jobs": int}.get(parameter.name, kind)
    kind = str if isinstance(default, str) else kind  # a number will do as well, see ``_numbers_or_text``
    if parameter.choices:
        text += f" One of {', '.join(parameter.choices)}."
    if parameter.name in DEFAULT_OF_TASK:
        default, text = None, f"{text} {DEFAULT_OF_TASK[parameter.name]}"
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None if default is None else kind, typer.Option(help=text)],
    )


def _numbers_or_text(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the numbers that texts are, for parameters that may also be "auto"."""
    values = dict(settings)
    for name, value in settings.items():
        if isinstance(value, str) and PARAMETERS[name].range is not None:
            with suppress(ValueError):
                values[name] = float(value)
    return values


def _options_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the arguments of a function or a class, or its fields, that say what they are as options."""
    hints = get_type_hints(function, include_extras=True)
    return [
        part.replace(annotation=hints[part.name], kind=part.KEYWORD_ONLY)
        for part in inspect.signature(function).parameters.values()
        if get_origin(hints.get(part.name)) is Annotated
    ]


def command(name: str, run: Callable[..., None], settings: tuple[str, ...] = ()) -> None:
    """Register what runs a command, whose options are its own, or those of the class of its argument ``options``.

    Parameters of the estimators that are named in ``settings`` become options too; the first lines of ``run`` are the
    help.
    """
    options = get_type_hints(run).get("options")

    def started(as_json: bool, **given: object) -> None:
        chosen = {setting: given.pop(setting) for setting in settings}
        if options is not None:
            given = {"options": options(**given, **({"settings": _numbers_or_text(chosen)} if settings else {}))}
        with running(name, as_json=as_json) as outcome:
            run(**given, outcome=outcome)

    parts = [*_options_of(options or run), *(_option(PARAMETERS[setting]) for setting in settings), JSON]
    started.__signature__ = inspect.Signature(parts)  # type: ignore[attr-defined]  # what typer reads
    started.__annotations__ = {part.name: part.annotation for part in parts}
    app.command(name, help=inspect.getdoc(run), epilog=EPILOG)(started)


command("fit", run_fit, SETTINGS)
command("predict", run_predict)
command("inspect", run_inspect)
command("export", run_export)
command("report", run_report)
command("path", run_path, SETTINGS)
command("compare", run_compare, SETTINGS)
command("plan", run_plan, ("representation", "memory_budget"))
command("warm", run_warm)
command("demo", run_demo)
