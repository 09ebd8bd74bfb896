"""Patterns, protocols and kernel files expand to the kernels that they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from manykernels import solve
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import size_bank
from manykernels.kernels import (
    ArdGaussian,
    Gaussian,
    Joint,
    KernelBank,
    Laplacian,
    Linear,
    MedianWidth,
    Pairwise,
    PerFeature,
    PerView,
    Polynomial,
    Views,
    width_grid,
)
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.distances import median_distance


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(15, 3)) * [1.0, 3.0, 9.0], columns=["age", "bmi", "dose"])


def names(bank: KernelBank, X: Any) -> list[str]:
    return [name for name, _, _ in bank.expand(X)]


def test_width_grid_is_geometric() -> None:
    grid = width_grid(0.5, 8.0, 5)
    np.testing.assert_allclose(grid, [0.5, 1, 2, 4, 8], rtol=1e-14)
    assert width_grid(2.0, 2.0, 1) == (2.0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0, 3), "low must be a finite positive"),
        ((2.0, 1.0, 3), "low must be at most high, got low=2 and high=1"),
        ((1.0, 2.0, 0), "n must be an integer of at least 1, got 0"),
    ],
)
def test_bad_grids_are_explained(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        width_grid(*arguments)


def test_patterns_name_and_order_their_kernels(frame: pd.DataFrame) -> None:
    one = KernelBank.per_feature([Linear()], ["dose", "age"], widths=[0.5])
    assert names(one, frame) == [
        "dose: linear()",
        "dose: gaussian(width=0.5)",
        "age: linear()",
        "age: gaussian(width=0.5)",
    ]
    assert [positions for _, _, positions in one.expand(frame)] == [(2,), (2,), (0,), (0,)]
    assert names(KernelBank.joint(widths="median"), frame) == ["all: gaussian(width=median)"]
    views = KernelBank.per_view(Linear(), {"body": ["age", "bmi"], "drug": [2]})
    assert [(name, positions) for name, _, positions in views.expand(frame)] == [
        ("body: linear()", (0, 1)),
        ("drug: linear()", (2,)),
    ]
    assert names(KernelBank.per_feature(Linear()), frame.to_numpy()) == ["x0: linear()", "x1: linear()", "x2: linear()"]
    assert len(KernelBank.from_views({"body": ["age", "bmi"], "drug": "dose"}).expand(frame)) == 8
    assert KernelBank([PerFeature([Linear()], ["age"])]) == KernelBank.per_feature(Linear(), ("age",))


def test_simplemkl_is_the_protocol_of_the_papers(frame: pd.DataFrame) -> None:
    bank = KernelBank.simplemkl()
    kernels = bank.expand(frame)
    assert len(kernels) == 27 * 4
    assert bank.standardize
    assert bank.normalize == "mean_diagonal"
    per_column = [spec for _, spec, positions in kernels if positions == (1,)]
    assert [spec.width for spec in per_column[:24]] == [0.1, 0.25, 0.5, 0.75, *range(1, 21)]  # type: ignore[attr-defined]
    assert per_column[24:] == [Polynomial(1), Polynomial(2), Polynomial(3)]
    assert [spec for _, spec, positions in kernels if positions == (0, 1, 2)] == per_column
    fitted, rows = bank.fit_prepare(frame)
    np.testing.assert_allclose(fitted.diag(rows).mean(axis=1), 1.0, rtol=1e-12)


def test_the_default_bank_stays_moderate(rng: np.random.Generator) -> None:
    sizes = {d: len(KernelBank.auto().expand(rng.normal(size=(5, d)))) for d in (1, 3, 200, 201, 1000)}
    assert sizes == {1: 4, 3: 16, 200: 804, 201: 205, 1000: 1004}


def test_median_widths_are_learned_from_standardized_training_rows(frame: pd.DataFrame) -> None:
    bank = KernelBank([PerFeature(Gaussian(MedianWidth(2.0))), Joint([Laplacian("median")])], standardize=True)
    fitted = bank.fit(frame)
    X = ((frame - frame.mean()) / frame.std(ddof=0)).to_numpy()
    expected = [2 * np.median(pdist(X[:, [j]])) for j in range(3)] + [np.median(pdist(X, "cityblock"))]
    np.testing.assert_allclose([spec.width for spec in fitted.table.specs], expected, rtol=1e-12)  # type: ignore[attr-defined]
    assert fitted.names[0] == "age: gaussian(width=2*median)"
    assert fitted.frame()["kernel"][0].startswith("gaussian(width=")


def test_the_median_distance_in_one_column_is_that_of_all_pairs(rng: np.random.Generator) -> None:
    for n in (2, 3, 4, 5, 20, 61, 400):
        normal = rng.normal(size=n)
        columns = [
            normal, 1e-9 * normal + 1e6, np.exp(9 * normal), 1e-145 * normal, rng.integers(0, 3, n) / 0.7,
            np.round(normal, 1), np.where(rng.random(n) < 0.9, 0.3, normal), np.arange(n) // 2 * 1.0,
        ]  # fmt: skip
        for column in columns:
            distances = pdist(column[:, None])
            positive = distances[distances > 0]
            expected = np.median(distances) or (np.median(positive) if positive.size else 1.0)
            assert median_distance(column[:, None]) == expected
            assert median_distance(column[:, None], "cityblock") == expected


def test_the_median_distance_in_several_columns_is_that_of_all_pairs(rng: np.random.Generator) -> None:
    for n in (2, 3, 40, 150):
        normal = rng.normal(size=(n, 3))
        for points in (normal, np.exp(3 * normal), np.round(normal), rng.integers(0, 2, (n, 3)) / 0.7):
            distances = pdist(points)
            positive = distances[distances > 0]
            assert median_distance(points) == (np.median(distances) or (np.median(positive) if positive.size else 1.0))


def test_the_median_distance_is_deterministic_and_survives_ties(rng: np.random.Generator) -> None:
    many = rng.normal(size=(3000, 2))
    assert median_distance(many) == median_distance(many)
    np.testing.assert_allclose(median_distance(many), np.median(pdist(many)), rtol=0.05)
    assert median_distance(np.array([[0.0]] * 20 + [[4.0]])) == 4.0
    assert median_distance(np.zeros((5, 2))) == 1.0
    assert median_distance(np.zeros((1, 2))) == 1.0


FILE = """
standardize = true
normalize = "mean_diagonal"
[views]
body = ["age", "bmi"]
drug = ["dose"]
[[kernels]]
kernel = "gaussian"
width = [0.5, "2*median"]
on = "each"
columns = ["dose"]
[[kernels]]
kernel = "matern"
width = [1.0, 2.0]
nu = [0.5, 2.5]
[[kernels]]
kernel = "linear"
on = "views"
[[kernels]]
kernel = "ard_gaussian"
widths = [1.0, 2.0, 3.0]
name = "ard"
[[kernels]]
kernel = "pairwise"
name = "rbf"
params = { gamma = 0.5 }
"""


def test_a_kernel_file_describes_a_bank(tmp_path: Path, frame: pd.DataFrame) -> None:
    path = tmp_path / "kernels.toml"
    path.write_text(FILE)
    bank = KernelBank.from_toml(path)
    assert (bank.standardize, bank.normalize, bank.center) == (True, "mean_diagonal", False)
    kernels = bank.expand(frame)
    assert [spec for _, spec, _ in kernels[:2]] == [Gaussian(0.5), Gaussian(MedianWidth(2.0))]
    assert [positions for _, _, positions in kernels[:2]] == [(2,), (2,)]
    assert len(kernels) == 2 + 4 + 2 + 1 + 1
    assert [name for name, _, _ in kernels[6:9]] == ["body: linear()", "drug: linear()", "ard"]
    assert kernels[8][1] == ArdGaussian((1.0, 2.0, 3.0))
    assert kernels[9][1] == Pairwise("rbf", {"gamma": 0.5})
    bank.fit(frame)


def test_presets_can_be_extended() -> None:
    extra = {"kernel": "dirichlet", "degree": 1, "frequency": 2.0}
    bank = KernelBank.from_dict({"preset": "simplemkl", "kernels": [extra], "normalize": "none"})
    assert bank.normalize is None
    assert bank.standardize
    assert len(bank.expand(np.eye(2))) == 27 * 3 + 1
    assert KernelBank.from_dict({"preset": "auto"}) == KernelBank.auto()


BAD = [
    ({}, "neither 'kernels' nor 'preset'"),
    ({"kernel": []}, "Unknown key 'kernel' in the kernel description; known keys: standardize"),
    ({"kernels": {"kernel": "linear"}}, "'kernels' must be a list of tables"),
    ({"kernels": [{"kernel": "gausian"}]}, "kernels\\[0\\]: 'kernel' must be one of 'ard_gaussian'.*got 'gausian'"),
    (
        {"kernels": [{"kernel": "linear"}, {"kernel": "linear", "on": "all"}]},
        "kernels\\[1\\]: 'on' must be one of 'joint'",
    ),
    ({"kernels": [{"kernel": "gaussian", "widht": 1.0}]}, "Unknown key 'widht' in kernels\\[0\\]"),
    ({"kernels": [{"kernel": "gaussian"}]}, "kernels\\[0\\]: Kernel 'gaussian' cannot be built"),
    ({"kernels": [{"kernel": "gaussian", "width": [1.0, -1.0]}]}, "kernels\\[0\\]: width must be a finite positive"),
    ({"kernels": [{"kernel": "gaussian", "width": []}]}, "kernels\\[0\\]: .*empty"),
    ({"kernels": [{"kernel": "linear", "on": "views"}]}, "needs a table \\[views\\]"),
    ({"kernels": [{"kernel": "linear", "name": "a", "on": "each"}]}, "'name' is for a single kernel"),
    ({"preset": "all"}, "'preset' must be 'auto' or 'simplemkl', got 'all'"),
    ({"preset": "auto", "normalize": "x"}, "normalize must be one of"),
]


@pytest.mark.parametrize(("description", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_descriptions_name_the_key(description: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        KernelBank.from_dict(description)


def test_bad_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        KernelBank.from_toml(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("kernels = [")
    with pytest.raises(InvalidInputError, match="is not valid TOML"):
        KernelBank.from_toml(broken)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PerFeature([]), "Give at least one kernel"),
        (lambda: PerFeature("gaussian"), "Expected a kernel such as"),
        (lambda: Joint([1.0]), "Expected kernels such as Gaussian\\(1.0\\), got 1.0"),
        (lambda: PerView(Linear(), {}), "views must name at least one"),
        (lambda: KernelBank.per_feature(), "Give at least one kernel"),
        (lambda: Joint(Linear(), columns=object()), "Columns are a name"),
    ],
)
def test_bad_patterns_are_explained(build: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_named_views_have_the_kernels_of_views() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 4)), columns=list("abcd"))
    named = KernelBank.from_views({"left": ["a", "b"], "right": ["c", "d"], "one": ["a"]}).fit(X)
    views = Views({"left": X[["a", "b"]], "right": X[["c", "d"]]})
    of_views = KernelBank.from_views().fit(views)
    assert named.names[:8] == of_views.names
    np.testing.assert_allclose(named.diag(named.prepare(X))[:8], of_views.diag(of_views.prepare(views)))
    assert [name for name in named.names if name.startswith("one: ")] == [
        f"one: {label}"
        for label in ("gaussian(width=0.5*median)", "gaussian(width=median)", "gaussian(width=2*median)")
    ] + ["one: linear()"]


def test_named_views_of_many_rows_are_on_landmarks() -> None:
    X = np.random.default_rng(0).normal(size=(6000, 5))
    bank = size_bank(KernelBank.from_views({"left": [0, 1], "right": [2, 3], "one": [4]}), X)
    names = bank.expand(Table.wrap(X))
    assert {name for name, _, columns in names if len(columns) > 1 and "gaussian" in name} == {
        name for name, _, _ in names if "landmarks" in name
    }
    assert not any("landmarks" in name for name, _, _ in names if name.startswith("one: "))


def test_columns_of_two_values_have_one_kernel(rng: np.random.Generator) -> None:
    n = 150
    X = pd.DataFrame({
        "number": rng.normal(size=n), "two": rng.integers(2, size=n) * 3.0, "three": rng.integers(3, size=n),
        "gap": rng.integers(2, size=n).astype(float), "late": np.repeat([0.0, 1.0, 2.0], [70, 70, 10]),
    })  # fmt: skip
    X.loc[120, "gap"] = np.nan
    counts = pd.Series(
        [name.partition(": ")[0] for name in KernelBank.auto(missing="mask").fit(X).names]
    ).value_counts()
    assert counts.to_dict() == {"number": 4, "two": 1, "three": 4, "gap": 4, "late": 4, "complete numbers": 4}


def test_other_kernels_of_two_values_are_never_selected(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.normal(size=60), rng.integers(2, size=60) * 3.0])
    y = X[:, 1] + np.sin(X[:, 0])
    every = KernelBank.per_feature([Linear(), *(Gaussian(MedianWidth(f)) for f in (0.5, 1.0, 2.0))], standardize=True)
    found = solve(every, y, X=X, loss="squared", penalty="l1", alpha=0.01, tol=1e-8)
    two = [name for name in found.weights_frame()["name"] if name.startswith("x1")]
    assert two == ["x1: linear()"]
