"""One reported fault; each `_faults_AREA.py` lists those of one part of the library as `CASES`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One fault: its number, what is tried, the program that prints what happened, and the test that keeps it fixed."""

    number: str
    tried: str
    program: str
    test: str
