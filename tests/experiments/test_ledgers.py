"""Pages of experiments say what their run tables hold: tables are made again from the rows that are kept beside."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from experiments.ledger import NUMERIC_REVISION, STALE, Ledger, fill, note_of_age, read
from tests.support.programs import EXPERIMENTS, own_modules

PAGES = Path(__file__).parents[2] / "experiments" / "pages"
KEPT = sorted(path.name for path in PAGES.glob("*_runs.csv"))


@cache
def makers() -> dict[str, Callable[[pd.DataFrame], dict[str, str]]]:
    """Return what makes the tables of a page from each run table, by the name of its file."""
    found: dict[str, Callable[[pd.DataFrame], dict[str, str]]] = {}
    for program in sorted(EXPERIMENTS.glob("*/[a-z]*.py")):
        with own_modules(program):
            own = runpy.run_path(str(program)).get("LEDGERS", {})
        assert not found.keys() & own.keys()
        found |= own
    return found


@cache
def made(ledger: str) -> dict[str, str]:
    """Return the tables that are made from a run table: two tests compare them with pages."""
    return makers()[ledger](read(PAGES / ledger))


def page_of(ledger: str) -> Path:
    """Return the page that says that its tables are made from a run table; the index names all of them."""
    (page,) = (path for path in PAGES.glob("*.md") if path.stem != "every_figure" and ledger in path.read_text())
    return page


@pytest.mark.parametrize("ledger", KEPT)
def test_the_tables_of_a_page_are_those_of_its_runs(ledger: str) -> None:
    page = page_of(ledger).read_text()
    tables = made(ledger)
    assert tables
    for table in tables.values():
        assert table.strip() in page


@pytest.mark.parametrize("page", sorted({page_of(ledger) for ledger in KEPT}), ids=lambda page: page.stem)
def test_a_page_says_which_of_its_runs_are_of_an_older_numeric_revision(page: Path) -> None:
    note = note_of_age({ledger: read(PAGES / ledger) for ledger in KEPT if page_of(ledger) == page})
    marked = re.search(rf"<!-- {STALE} -->(.*?)<!-- end of {STALE} -->", page.read_text(), re.DOTALL)
    assert marked is not None, f"{page.name} has no place for the note"
    assert marked.group(1).strip() == note


def test_the_note_counts_runs_and_is_empty_where_all_are_new() -> None:
    runs = pd.DataFrame({"numeric": [1, NUMERIC_REVISION]})
    assert "1 of 2 in [a_runs.csv](a_runs.csv)" in note_of_age({"a_runs.csv": runs})
    assert note_of_age({"a_runs.csv": runs[1:]}) == ""


def test_a_run_table_of_the_first_numeric_revision_goes_on_with_the_new_column(tmp_path: Path) -> None:
    path, keys, measured = tmp_path / "a_runs.csv", ("set", "repeat"), ("error", "cpu_s")
    path.write_text("set,repeat,error,cpu_s,revision,machine\na,0,0.5,1.0,12345678,x\n")
    ledger = Ledger(path, keys, measured)
    ledger.add({"set": "b", "repeat": 0, "error": 0.1, "cpu_s": 1.0})
    again = read(path)
    assert again["numeric"].tolist() == [1, NUMERIC_REVISION]
    assert again["revision"][0] == "12345678"


def results(page: str) -> list[str]:
    """Return the tables of a page that hold numbers that were measured: most of their cells begin with one."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        cells = [cell for line in table.splitlines()[2:] for cell in line.strip("| ").split(" | ")[1:]]
        numbers = [cell for cell in cells if re.match(r"[!>*\s]*-?\d", cell)]
        if 2 * len(numbers) > len(cells):
            found.append(table.strip())
    return found


@pytest.mark.parametrize(
    "page", [page for page in sorted(PAGES.glob("*.md")) if page.stem != "every_figure"], ids=lambda page: page.stem
)
def test_every_table_of_results_is_made_from_runs(page: Path) -> None:
    rebuilt: set[str] = set()
    for ledger in KEPT:
        if page_of(ledger) == page:
            rebuilt |= {table.strip() for table in made(ledger).values()}
    assert [table.splitlines()[0] for table in results(page.read_text()) if table not in rebuilt] == []


def test_tables_of_numbers_are_told_from_those_of_words() -> None:
    numbers, words = "| a | b |\n| --- | --- |\n| x | > 1.0 |\n", "| a | b |\n| --- | --- |\n| x | y, 2 |\n"
    assert results(f"{numbers}\n{words}") == [numbers.strip()]


def test_the_index_counts_its_verdicts() -> None:
    page = (PAGES / "every_figure.md").read_text()
    found = re.findall(r"^\|.*?\| (yes|no|in part|not comparable) \|", page, re.MULTILINE)
    counted = ", ".join(f"{found.count(word)} {word}" for word in ("yes", "in part", "no", "not comparable"))
    assert f"Verdicts: {counted}." in page
    rows = [line for line in page.splitlines() if line.startswith("| ") and "runs.csv" in line]
    unjudged = [row for row in rows if not re.search(r"\| (yes|no|in part|not comparable) \|", row)]
    assert [row.split(" | ")[0] for row in unjudged] == ["| (ours) the step rule"]


@pytest.mark.parametrize("ledger", KEPT)
def test_every_run_says_where_it_comes_from(ledger: str) -> None:
    runs = read(PAGES / ledger)
    assert runs[["revision", "machine", "repeat", "cpu_s"]].notna().all(axis=None)
    assert not runs["revision"].str.endswith("+").any()


def test_what_a_run_table_has_is_found_in_it_after_it_is_read_again(tmp_path: Path) -> None:
    keys, measured = ("set", "eta", "repeat"), ("error", "cpu_s")
    ledger = Ledger(tmp_path / "a_runs.csv", keys, measured)
    ledger.add({"set": "a", "eta": 0.1, "repeat": 0, "error": 1 / 3, "cpu_s": 1.0})
    ledger.add({"set": "b", "eta": 1, "repeat": 0, "error": 0.5, "cpu_s": 2.0})
    again = Ledger(tmp_path / "a_runs.csv", keys, measured)
    for table in (ledger, again):
        assert ("a", 0.1, 0) in table
        assert ("b", 1.0, 0) in table
        assert ("a", 0.1, 1) not in table
        assert table.find(set="a")[0]["error"] == 0.333333
    again.drop(set="a")
    assert Ledger(tmp_path / "a_runs.csv", keys, measured).frame()["set"].tolist() == ["b"]


def test_a_run_table_tells_seeds_and_seconds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no CPU seconds"):
        Ledger(tmp_path / "a_runs.csv", ("set", "repeat"), ("error",))


def test_a_page_is_filled_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Above\n\n<!-- one -->\nold\n<!-- end of one -->\n\nBelow\n")
    fill(page, "one", "new")
    fill(page, "two", "not there")
    assert page.read_text() == "Above\n\n<!-- one -->\n\nnew\n\n<!-- end of one -->\n\nBelow\n"
