"""Named numbers with intervals: what is drawn is the table, long names are whole, and what is unsure is gray."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

from manykernels import InvalidInputError
from manykernels.inspection import IntervalDisplay
from manykernels.inspection.displays.plotting import GRAY


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Leave no figure open."""
    yield
    pyplot.close("all")


def test_the_ends_are_those_of_the_table_or_of_its_standard_errors() -> None:
    table = pd.DataFrame({"name": ["a", "b"], "importance": [2.0, 0.1], "low": [1.0, -0.1], "high": [3.0, 0.3]})
    display = IntervalDisplay.from_frame(table).plot()
    assert display.reference == 0.0
    lines = [container.lines for container in display.ax_.containers]
    assert [line[0].get_xdata()[0] for line in lines] == [2.0, 0.1]
    np.testing.assert_allclose([bars[0].get_segments()[0][:, 0] for *_, bars in lines], [[1.0, 3.0], [-0.1, 0.3]])
    assert [to_hex(line[0].get_color()) == GRAY for line in lines] == [False, True]
    methods = pd.DataFrame({"method": ["x"], "score": [0.8], "standard_error": [0.1]})
    frame = IntervalDisplay.from_frame(methods).frame()
    assert frame[["low", "high"]].to_numpy()[0] == pytest.approx([0.8 - 0.196, 0.8 + 0.196])
    alone = IntervalDisplay.from_frame(pd.DataFrame({"name": ["x"], "value": [0.8]})).plot()
    assert alone.frame()[["low", "high"]].isna().all(axis=None)
    assert not alone.ax_.containers[0].has_xerr


def test_long_names_are_written_on_several_lines_and_the_rest_is_counted() -> None:
    names = ["support vector machine, one Gaussian kernel (scikit-learn, tuned)", *"abcdefghijklmn"]
    table = pd.DataFrame({"name": names, "value": np.arange(15.0)})
    labels = [label.get_text() for label in IntervalDisplay.from_frame(table).plot().ax_.get_yticklabels()]
    assert labels[0].replace("\n", " ") == names[0]
    assert labels[-1] == "and 3 more"
    assert len(labels) == 13
    small = IntervalDisplay.from_frame(table).plot(pyplot.subplots(figsize=(4, 2))[1]).ax_
    shown = len(small.containers)
    assert small.get_yticklabels()[-1].get_text() == f"and {15 - shown} more"


def test_a_table_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="needs a column name or method and a column importance, score, value"):
        IntervalDisplay.from_frame(pd.DataFrame({"alpha": [1.0]}))
