"""Shapes of columns: the kernel of lines between knots, and the bank that gives its kernels shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import Gaussian, KernelBank, Laplacian, Linear, Missing, Overlap
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.training import build_stack
from manykernels.kernels import Interaction, Shaped
from manykernels.kernels.specs.distances import MedianDistances

KNOTS = (-1.0, 0.0, 0.5, 2.0)
BEYOND = np.array([[-9.0], [-1.0], [-0.5], [0.0], [0.25], [1.0], [2.0], [9.0]])


def test_functions_are_lines_between_values_at_knots() -> None:
    at_knots = Gaussian(1.0)(np.array(KNOTS)[:, None])
    hats = np.array([np.interp(BEYOND[:, 0], KNOTS, unit) for unit in np.eye(4)]).T
    np.testing.assert_allclose(Shaped(Gaussian(1.0), "increasing", points=KNOTS)(BEYOND), hats @ at_knots @ hats.T)
    bent = Shaped(Gaussian(1.0), "convex", points=KNOTS)
    values = bent(np.array(KNOTS)[:, None], BEYOND)  # of four functions, each a line beyond the knots
    np.testing.assert_allclose(values[:, 1:-1], at_knots @ hats[1:-1].T)
    first, last = at_knots[:, 1] - at_knots[:, 0], (at_knots[:, 3] - at_knots[:, 2]) / 1.5
    np.testing.assert_allclose(values[:, 0], at_knots[:, 0] - 8.0 * first)
    np.testing.assert_allclose(values[:, -1], at_knots[:, 3] + 7.0 * last)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["increasing", "decreasing", "convex", "concave", ("concave", "increasing")])
def test_coefficients_in_the_cone_are_functions_of_the_shape(shape: Any, rng: np.random.Generator) -> None:
    spec = Shaped(Laplacian(0.5), shape, points=tuple(np.sort(rng.normal(size=9))))
    x = np.linspace(-6, 6, 4001)
    inside = 0
    for _ in range(400):
        slopes = rng.normal(size=8) + rng.choice([-3.0, 0.0, 3.0])
        slopes = rng.choice([-1, 1]) * (np.sort(slopes) if rng.random() < 0.8 else slopes)
        values = np.cumsum(np.r_[rng.normal(), slopes * np.diff(spec.points)])
        v = np.linalg.lstsq(spec.features(np.array(spec.points)[:, None]), values, rcond=None)[0]
        f = spec.features(x[:, None]) @ v
        noise = 1e-9 * np.abs(f).max()
        holds = {
            "increasing": (np.diff(f) >= -noise).all(),
            "decreasing": (np.diff(f) <= noise).all(),
            "convex": (np.diff(f, 2) >= -noise).all(),
            "concave": (np.diff(f, 2) <= noise).all(),
        }
        wanted = all(holds[word] for word in spec.shape.split(" and "))
        if (spec.constraints @ v >= -1e-12 * np.linalg.norm(v)).all():
            inside += 1
            assert wanted
        elif (spec.constraints @ v < -1e-6 * np.linalg.norm(v)).any():
            assert not wanted
    assert inside > 0


def test_knots_are_quantiles_or_all_values_there_are(rng: np.random.Generator) -> None:
    rows = rng.exponential(size=(500, 1))
    found = Shaped(Gaussian("median"), "increasing", 11).resolve(MedianDistances(rows))
    expected = np.quantile(rows, np.linspace(0, 1, 11), method="inverted_cdf")
    np.testing.assert_array_equal(found.points, expected)
    assert not found.base.pending
    few = Shaped(Linear(), "convex").resolve(MedianDistances(np.array([[3.0], [1.0], [3.0], [2.0]])))
    assert few.points == (1.0, 2.0, 3.0)
    assert len(few.constraints) == 0  # all lines are convex
    constant = Shaped(Gaussian(1.0), "increasing").resolve(MedianDistances(np.ones((4, 1))))
    np.testing.assert_allclose(constant(np.array([[0.0], [5.0]])), 1.0)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = {"age": rng.uniform(20, 80, 60), "dose": rng.gamma(2.0, size=60), "site": list("abc") * 20}
    return pd.DataFrame(values).astype({"site": "category"})


def test_a_bank_gives_the_kernels_of_a_column_its_shape() -> None:
    bank = KernelBank.per_feature(
        [Gaussian("median"), Linear()], ["age", "dose"], shape={"age": "increasing", "dose": ("concave", "increasing")}
    )
    kernels = bank.expand(table())
    assert [spec.shape for _, spec, _ in kernels] == ["increasing"] * 2 + ["increasing and concave"] * 2
    assert kernels[1][0] == "age: linear(), increasing"
    assert bank == bank.replace(normalize="mean_diagonal")
    assert "shape={'age': 'increasing', 'dose': 'increasing and concave'}" in repr(bank)
    assert bank.keeps_shapes
    assert not bank.replace(shape=None).keeps_shapes
    described = {"shape": {"age": "convex"}, "kernels": [{"kernel": "linear", "on": "each", "columns": ["age"]}]}
    (read,) = KernelBank.from_dict(described).expand(table())
    assert read[1] == Shaped(Linear(), "convex")


def test_the_default_bank_leaves_such_columns_out_of_kernels_of_several() -> None:
    rows = table().assign(weight=1.0 + np.arange(60), height=np.arange(60.0) ** 2)
    kernels = KernelBank.auto(shape={"age": "increasing"}).expand(rows)
    assert all(isinstance(spec, Shaped) == (positions == (0,)) for _, spec, positions in kernels)
    assert {positions for _, _, positions in kernels if len(positions) > 1} == {(1, 3, 4)}
    resolved = KernelBank.auto(shape={"age": "increasing"}).resolve(rows)
    assert [name for name, _, _ in resolved.expand(rows)] == [name for name, _, _ in kernels]


def test_kernels_of_missingness_have_no_shape() -> None:
    rows = table()
    rows.loc[3, "age"] = np.nan
    bank = KernelBank.per_feature([Gaussian(1.0)], ["age"], missing="indicator", shape={"age": "increasing"})
    assert [type(spec) for _, spec, _ in bank.expand(rows)] == [Shaped, Missing]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KernelBank.joint([Linear()], shape={"age": "increasing"}), "also acts on other columns"),
        (
            lambda: KernelBank.per_feature([Linear()], ["dose"], shape={"age": "increasing"}),
            r"\['age'\] have shapes but",
        ),
        (lambda: KernelBank.per_feature([Linear()], shape={"weight": "increasing"}), "Unknown column 'weight'"),
        (lambda: KernelBank.per_feature([Linear()], shape={"age": "rising"}), "must be one of 'increasing'.*'rising'"),
        (lambda: KernelBank.per_feature([Linear()], shape="increasing"), "shape must be a mapping of columns"),
        (
            lambda: KernelBank.per_feature([Linear()], shape={"age": "convex and concave"}),
            "be convex and concave",
        ),
        (
            lambda: KernelBank([("a", Shaped(Linear(), "convex"), ["age"])], shape={"age": "increasing"}),
            "its kernel 'a' is convex: give one shape",
        ),
        (
            lambda: KernelBank([("a", Linear(), ["age"])], normalize="unit_diagonal", shape={"age": "increasing"}),
            "normalize='unit_diagonal' divides",
        ),
        (
            lambda: KernelBank([("a", Shaped(Linear(), "convex") + Linear(), ["age"])]),
            "has a part with a shape, which the whole kernel does not keep",
        ),
        (
            lambda: KernelBank([("a", Interaction([(Shaped(Linear(), "convex"), [0])]), ["age"])]),
            "has a part with a shape, which the whole kernel does not keep",
        ),
        (
            lambda: KernelBank([("a", Shaped(Linear(), "convex"), ["age", "dose"])]),
            "which needs one column",
        ),
        (
            lambda: KernelBank.per_feature([Linear()], ["age"], shape={"age": "convex", 0: "concave"}),
            "has the shapes 'convex' and 'concave': give one",
        ),
    ],
)
def test_what_would_break_a_shape_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make().expand(table().drop(columns="site"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base": Missing()}, "must be a kernel of numbers"),
        ({"base": Shaped(Linear(), "convex")}, "must be a kernel of numbers without one"),
        ({"shape": ()}, "A shape must be one of"),
        ({"shape": None}, "A shape must be one of"),
        ({"knots": 501}, "knots must be at most 500"),
        ({"points": (1.0, 1.0)}, "must increase"),
    ],
)
def test_parameters_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Shaped(**({"base": Linear(), "shape": "increasing"} | values))


def test_categories_and_matrices_cannot_have_shapes() -> None:
    with pytest.raises(InvalidInputError, match="'site'"):
        KernelBank.per_feature([Overlap()], ["site"], shape={"site": "increasing"}).fit(table())
    bank = KernelBank.per_feature([Gaussian(1.0)], ["age"], shape={"age": "increasing"}).fit(table())
    with pytest.raises(IncompatibleError, match=r"'age: gaussian.*Gram matrices cannot represent"):
        build_stack(bank, table())
    with pytest.raises(InvalidInputError, match=r"knots .* are learned when its bank is fitted"):
        Shaped(Linear(), "convex").features([[1.0]])
