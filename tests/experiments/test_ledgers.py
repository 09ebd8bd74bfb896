"""Pages of experiments say what their run tables hold: tables are made again from the rows that are kept beside."""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "experiments"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "thesis"))
    return importlib.import_module


def real_data(module: Callable[[str], ModuleType], runs: pd.DataFrame) -> list[str]:
    return [text for text, _, _ in module("real_data").tables(runs).values()]


def inner_search(module: Callable[[str], ModuleType], runs: pd.DataFrame) -> list[str]:
    made: list[str] = module("inner_search").tables(runs)
    return made


def beyond(module: Callable[[str], ModuleType], runs: pd.DataFrame) -> list[str]:
    made: list[str] = runpy.run_path(str(ROOT / "experiments" / "beyond" / "run.py"))["tables"](runs)
    return made


LEDGERS = {
    "beyond_runs.csv": ("beyond.md", beyond),
    "thesis_real_data_runs.csv": ("thesis_real_data.md", real_data),
    "thesis_inner_search_runs.csv": ("thesis_real_data.md", inner_search),
}


@pytest.mark.parametrize("ledger", LEDGERS)
def test_the_tables_of_a_page_are_those_of_its_runs(ledger: str, module: Callable[[str], ModuleType]) -> None:
    page, made = LEDGERS[ledger]
    text = (PAGES / page).read_text()
    tables = made(module, pd.read_csv(PAGES / ledger))
    assert tables
    for table in tables:
        assert table in text


@pytest.mark.parametrize("ledger", sorted(path.name for path in PAGES.glob("*_runs.csv")))
def test_every_run_says_where_it_comes_from(ledger: str) -> None:
    runs = pd.read_csv(PAGES / ledger, dtype={"revision": str})
    assert ledger in LEDGERS
    assert runs[["revision", "machine", "repeat", "cpu_s"]].notna().all(axis=None)
    assert not runs["revision"].str.endswith("+").any()
