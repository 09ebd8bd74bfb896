"""Surfaces of pairs of columns: what the display shows is what the model adds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLRegressor
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import SurfaceDisplay


@pytest.mark.parametrize("form", ["gram", "factored"])
def test_a_surface_is_what_a_pair_adds(form: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (200, 3)), columns=["a", "b", "c"])
    X["kind"] = rng.choice(["u", "v"], 200)
    y = 2 * X["a"] * X["c"] + np.where(X["kind"] == "u", X["b"], -X["b"]) + X["a"]
    bank = KernelBank.per_feature(widths=[0.5], columns=["a", "b", "c"]) + KernelBank.interactions(bins=8)
    model = MKLRegressor(bank, alpha="0.05*max", resources={"representation": form}, tol=1e-3).fit(X, y)
    display = SurfaceDisplay.from_estimator(model, X, n_points=11).plot()
    assert display.names == ("a", "c")
    found = display.frame()
    assert np.corrcoef(found["effect"], found["x"] * found["z"])[0, 1] > 0.9
    turned = SurfaceDisplay.from_estimator(model, X, columns=("c", "a"), n_points=11).frame()
    merged = found.merge(turned, left_on=["x", "z"], right_on=["z", "x"])
    np.testing.assert_allclose(merged["effect_x"], merged["effect_y"], atol=1e-12)
    mixed = SurfaceDisplay.from_estimator(model, X, columns=("b", "kind"), n_points=5).plot()
    sides = mixed.frame().pivot(index="x", columns="z", values="effect")
    assert sides["u"].iloc[-1] > sides["v"].iloc[-1]
    assert sides["u"].iloc[0] < sides["v"].iloc[0]
    assert (mixed.ax_.get_xlabel(), mixed.ax_.get_ylabel()) == ("b", "kind")
    assert mixed.frame()["z"].unique().tolist() == [label.get_text() for label in mixed.ax_.get_yticklabels()]
    by_position = SurfaceDisplay.from_estimator(model, X, columns=(0, 2), n_points=11)
    pd.testing.assert_frame_equal(by_position.frame(), found)
    for wrong in (("a", "d"), (0, 9)):
        with pytest.raises(InvalidInputError, match="the model has 4 columns: 'a', 'b', 'c', 'kind'"):
            SurfaceDisplay.from_estimator(model, X, columns=wrong)
    with pytest.raises(InvalidInputError, match="must be two columns"):
        SurfaceDisplay.from_estimator(model, X, columns="ab")
    with pytest.raises(InvalidInputError, match="No kernel on the columns"):
        SurfaceDisplay.from_estimator(model, X, columns=("a", "a"))
    alone = MKLRegressor(KernelBank.per_feature(widths=[0.5], columns=["a"]), alpha="0.1*max").fit(X, y)
    with pytest.raises(InvalidInputError, match="No kernel on two columns is active"):
        SurfaceDisplay.from_estimator(alone, X)


@pytest.mark.nightly
def test_a_slice_of_a_triple_is_what_its_kernels_and_those_of_the_pair_add() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (600, 4)), columns=["a", "b", "c", "d, e"])
    y = np.sign(X["a"] * X["b"] * X["d, e"]) + 0.5 * X["a"] * X["b"] + 0.1 * rng.normal(size=600)
    bank = KernelBank.interactions(bins=8) + KernelBank.interactions(order=3)
    model = MKLRegressor(bank, alpha="0.02*max", resources={"representation": "factored"}, tol=1e-3).fit(X, y)
    high, low = (SurfaceDisplay.from_estimator(model, X, at={"d, e": value}, n_points=9) for value in (0.5, -0.5))
    assert high.names == low.names == ("a", "b")
    product = high.frame()["x"] * high.frame()["z"]
    assert np.corrcoef(high.frame()["effect"], product)[0, 1] > 0.7
    assert np.corrcoef(low.frame()["effect"], product)[0, 1] < -0.3
    named = SurfaceDisplay.from_estimator(model, X, columns=("a", "b"), at={3: 0.5}, n_points=9)
    pd.testing.assert_frame_equal(named.frame(), high.frame())
    grid = high.frame()
    probe = pd.DataFrame({"a": grid["x"], "b": grid["z"], "c": 0.0, "d, e": 0.5})
    table = model.weights_frame().set_index("name")["columns"]
    own = [name in table.index and table[name] in ("a, b", "a, b, d, e") for name in model.kernel_names_]
    parts = model.decompose(probe)[np.flatnonzero(own)].sum(axis=0)
    np.testing.assert_allclose(grid["effect"], parts - parts.mean(), atol=1e-12)
    with pytest.raises(InvalidInputError, match="No kernel on two columns beside 'c' is active"):
        SurfaceDisplay.from_estimator(
            MKLRegressor(KernelBank.per_feature(widths=[0.5]), alpha="0.1*max").fit(X, y), X, at={"c": 0.0}
        )
    with pytest.raises(InvalidInputError, match="columns has 'z'"):
        SurfaceDisplay.from_estimator(model, X, at={"z": 0.0})
