"""What text files of programs have in common: names without control characters, and the names of scores."""

import re
from collections.abc import Sequence
from typing import Any

from manykernels.inspection.export.evaluate import texts_of
from manykernels.inspection.export.program import Program


def printable(text: str) -> str:
    r"""Return a text in one line: line breaks, control characters and marks of direction as escapes.

    Examples
    --------
    >>> printable("dose\n; DROP TABLE data; --")
    'dose\\n; DROP TABLE data; --'
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def score_names(program: Program) -> list[str]:
    """Return the names of the scores."""
    return ["score"] if not program.labels else [f"score_{label}" for label in program.labels]


def written_forms(levels: Sequence[Any]) -> dict[str, int]:
    """Return the position of every category by the texts that stand for it, such as "1" and "1.0" of a number."""
    forms = texts_of(levels)
    for text, place in list(forms.items()):
        if re.fullmatch(r"-?\d+", text):
            forms.setdefault(f"{text}.0", place)
        if isinstance(levels[place], bool):
            forms.setdefault(text.lower(), place)
    return forms
