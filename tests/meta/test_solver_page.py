"""docs/solvers.md lists every registered solver, and what it says of each is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS
from manykernels.solvers import ALIASES, SOLVERS, Solver
from manykernels.solvers.registry import accepted

PAGE = (Path(__file__).parents[2] / "docs" / "solvers.md").read_text(encoding="utf-8")


def listed(solver: type[Solver], registry: dict[str, type]) -> str:
    """Return the names as a cell of the table, in the order of their registry."""
    chosen = accepted(solver, registry)
    return "all" if len(chosen) == len(registry) else ", ".join(f"`{name}`" for name in chosen)


def facts(solver: type[Solver]) -> tuple[str, str, str, str]:
    """Return the cells that the code decides: name, losses, regularizers, attainable gap."""
    losses, regularizers = listed(solver, LOSSES), listed(solver, REGULARIZERS)
    return f"`{solver.name}`", losses, regularizers, f"{solver.attainable_gap:.0e}"


def table(page: str) -> dict[str, list[str]]:
    """Return the cells of the rows that name a solver, by the first cell."""
    rows = [line.strip().strip("|").split("|") for line in page.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return {row[0]: row for row in cells if len(row) == 6}


ROWS = table(PAGE)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_is_on_the_page_as_it_is_in_the_code(name: str) -> None:
    first, losses, regularizers, gap = facts(SOLVERS[name])
    missing = f"add to docs/solvers.md: | {first} | ALGORITHM | {losses} | {regularizers} | {gap} | WHEN |"
    assert first in ROWS, missing
    found = ROWS[first]
    assert (found[2], found[3], found[4]) == (losses, regularizers, gap), missing
    assert all(found), "no cell may be empty"


def test_the_page_lists_what_exists_in_the_order_of_preference() -> None:
    assert list(ROWS) == [f"`{name}`" for name in SOLVERS]


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_on_the_page(alias: str) -> None:
    assert f'`"{alias}"`' in PAGE


def test_a_row_that_was_changed_is_noticed() -> None:
    first, *_ = facts(SOLVERS["working_set"])
    changed = table(PAGE.replace(f"| {first} |", "| `working_sets` |"))
    assert first not in changed
    assert "`working_sets`" in changed
