"""Progress on the terminal: the relative gap of a run falling toward tol, or the number of runs done."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from manykernels.solvers.solution import IterationRecord, Limits


@contextmanager
def progress_of(limits: Limits) -> Iterator[Callable[[IterationRecord], None]]:
    """Yield a function that shows a record as the ``verbose`` of what runs asks."""
    if limits.verbose <= 0:
        yield lambda record: None
    elif limits.verbose == 1:
        with _bar(limits) as show:
            yield show
    else:
        console = Console(stderr=True)
        yield lambda record: console.print(_line(record), highlight=False)


@contextmanager
def count_to(total: int | None, name: str, verbose: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a line of text after each of ``total`` runs; None where nobody knows how many."""
    if verbose <= 0:
        yield lambda line: None
        return
    texts = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
    columns = (texts[0], BarColumn(), MofNCompleteColumn(), texts[1], *_times())
    with _shown_on_a_terminal(*columns) as progress:
        task = progress.add_task(name, total=total, text="")

        def advance(line: str) -> None:
            if verbose > 1:
                progress.console.print(line, highlight=False)
            progress.update(task, advance=1, text=line)

        yield advance


@contextmanager
def _bar(limits: Limits) -> Iterator[Callable[[IterationRecord], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), *_times())
    with _shown_on_a_terminal(*columns) as progress:
        task = progress.add_task(limits.name, total=1.0, text="")

        def show(record: IterationRecord) -> None:
            progress.update(task, completed=_fraction(record.relative_gap, limits.tol), text=_line(record))

        yield show


def _times() -> tuple[ProgressColumn, ...]:
    """Return the time since the beginning and, by the speed so far, until the end."""
    return TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()


def _shown_on_a_terminal(*columns: ProgressColumn) -> Progress:
    """Return a bar that vanishes when it is done; nothing in a file or a pipe, where it would leave blank lines."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter))


def _fraction(gap: float, tol: float) -> float:
    """How far the gap has come on a logarithmic scale from one to tol."""
    if gap <= tol:
        return 1.0
    return max(0.0, min(1.0, math.log(max(gap, 1e-300)) / math.log(tol))) if tol < 1 else 0.0


def _line(record: IterationRecord) -> str:
    return (
        f"iteration {record.iteration}  gap {record.relative_gap:.1e}  active {record.n_active}  "
        f"passes {record.passes:.1f}"
    )
