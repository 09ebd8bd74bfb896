"""The path plot shows every kernel, names the largest and marks the choice."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.estimators.selection.path import RegularizationPath, regularization_path
from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.curves import PathDisplay


@pytest.fixture(scope="module")
def path() -> RegularizationPath:
    X = np.random.default_rng(0).uniform(-2, 2, (40, 3))
    return regularization_path(X, np.sin(2 * X[:, 1]) + X[:, 0], n_alphas=6)


@pytest.mark.parametrize("value", ["norm", "weight"])
def test_curves_are_those_of_the_path(path: RegularizationPath, value: str) -> None:
    display = PathDisplay.from_path(path, value=value, top=1, chosen=path.alphas[2]).plot()
    expected = path.norms if value == "norm" else path.weights
    np.testing.assert_array_equal(display.frame().to_numpy(), expected)
    peaks = expected.max(axis=0)
    assert display.named == [path.kernel_names[m] for m in np.argsort(-peaks, kind="stable")[:1]]
    lines = display.ax_.get_lines()
    assert len(lines) == 2
    drawn = {tuple(line.get_ydata()) for line in lines[:-1]}
    drawn |= {tuple(segment[:, 1]) for segment in display.ax_.collections[0].get_segments()}
    assert drawn == {tuple(curve) for curve in expected.T if curve.any()}
    np.testing.assert_array_equal(lines[-1].get_xdata(), [path.alphas[2]] * 2)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert len(texts) == 3
    assert texts[-2:] == [f"chosen: {path.alphas[2]:.3g}", f"and {np.count_nonzero(peaks) - 1} more (gray)"]
    left, right = display.ax_.get_xlim()
    assert left > right


def test_an_unknown_value_is_refused(path: RegularizationPath) -> None:
    with pytest.raises(InvalidInputError, match="value must be one of 'norm', 'weight', got 'size'"):
        PathDisplay.from_path(path, value="size")
