"""Claims of the SpicyMKL publication: verdicts follow the runs, also where runs are few or unfinished."""

from __future__ import annotations

import runpy

import pandas as pd
from tests.support.programs import EXPERIMENTS, own_modules

PAGES = EXPERIMENTS / "pages"


def claims(runs: pd.DataFrame) -> str:
    script = EXPERIMENTS / "spicymkl" / "_claims.py"
    with own_modules(script):
        return runpy.run_path(str(script))["table_claims"](runs).get("claims", "")


def test_a_claim_falls_with_the_runs_that_decide_it() -> None:
    runs = pd.read_csv(PAGES / "spicymkl_runs.csv")
    assert "| ElastMKL, logistic loss, is the fastest of all published methods | yes | 15 of 15 |" in claims(runs)
    slow = (runs["problem"] == "elastic logistic") & (runs["solver"] == "smooth_dual")
    slower = runs.assign(cpu_s=runs["cpu_s"].where(~slow, 1e3))
    assert "is the fastest of all published methods | no | 0 of 15 |" in claims(slower)
    unfinished = runs.assign(status=runs["status"].where(~slow, "time_limit"))
    assert "is the fastest of all published methods | no | 0 of 15 |" in claims(unfinished)


def test_runs_of_named_solvers_only_decide_nothing() -> None:
    runs = pd.read_csv(PAGES / "spicymkl_runs.csv")
    assert claims(runs[runs["solver"] == "spicymkl, gamma x 2"]) == ""
