"""Words of a CSV for a missing value: everywhere, or among numbers but not among levels."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from manykernels.kernels.tables.dates import date_order
from manykernels.validation.parameters import listed

# "None" and "NA" are levels in a column of text (no severity, North America) and gaps in a column of numbers or dates.
IN_NUMBERS = ("None", "NA", "N/A", "n/a")
EVERYWHERE = (
    "", "nan", "NaN", "-nan", "-NaN", "<NA>", "NULL", "null", "#N/A", "#N/A N/A", "#NA", "1.#IND", "1.#QNAN", "-1.#IND",
    "-1.#QNAN",
)  # fmt: skip


@dataclass(frozen=True)
class MissingWords:
    """The words of a CSV that are read as missing.

    Parameters
    ----------
    extra : tuple of str
        Missing-value words of every column, from ``--na``.
    levels : mapping of str to collection of str
        The columns read as levels or classes, with the levels, none of which is missing.
    """

    extra: tuple[str, ...] = ()
    levels: Mapping[str, Collection[str]] = field(default_factory=dict)

    def options(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the arguments of ``pandas.read_csv`` for a CSV with the given columns; columns of levels stay text."""
        every = [*EVERYWHERE, *IN_NUMBERS, *self.extra]
        if not self.levels:
            return {"keep_default_na": False, "na_values": every}
        known = {name: self.levels.get(name, ()) for name in names}
        return {
            "keep_default_na": False,
            "na_values": {
                name: [word for word in every if word in self.extra or word not in levels]
                for name, levels in known.items()
            },
            "dtype": {name: str for name, levels in known.items() if levels},
        }

    def settle(
        self, frame: pd.DataFrame, read: Callable[[list[int]], pd.DataFrame], note: Callable[[str], None] | None
    ) -> pd.DataFrame:
        """Return a table with missing-value words restored to levels; remarks name the words read as missing.

        ``read`` returns columns of the file by position, as the original text.
        """
        gaps = frame.isna()
        places = np.flatnonzero(gaps.any(axis=0).to_numpy()).tolist()
        if not places:
            return frame
        written, missing, kept = read(places), list[str](), dict[str, list[str]]()
        for at, place in enumerate(places):
            name, column = frame.columns[place], frame.iloc[:, place]
            words = written.iloc[:, at].where(gaps.iloc[:, place].to_numpy(), "").to_numpy(dtype=object)
            if name not in self.levels and _holds_levels(column):
                levels = np.isin(words.astype(str), [word for word in IN_NUMBERS if word not in self.extra])
                if levels.any():
                    frame[name] = column.astype(object).where(~levels, words)
                    for word, count in _counts(words[levels]).items():
                        kept.setdefault(word, []).append(f"{name!r} ({count} rows)")
                    words[levels] = ""
            missing += [f"{word!r} in {name!r} ({count} rows)" for word, count in _counts(words).items()]
        most_named = 6
        if note is not None and missing:
            note(f"Words read as missing values: {listed(missing[:most_named], len(missing))}.")
        if note is not None and kept:
            named = [f"{word!r} in {', '.join(columns[:most_named])}" for word, columns in kept.items()]
            options = " ".join(f"--na {word}" for word in kept)
            note(f"Words kept as levels: {'; '.join(named)}. To read them as missing values: {options}")
        return frame


BY_DEFAULT = MissingWords()


def _holds_levels(column: pd.Series) -> bool:
    """Return whether a column holds text other than dates."""
    present = column.dropna()
    return any(isinstance(value, str) for value in present.unique()) and date_order(present) is None


def _counts(words: Any) -> dict[str, int]:
    """Return the frequency of every word except the empty text."""
    return {str(word): int(count) for word, count in pd.Series(words).value_counts().items() if word}
