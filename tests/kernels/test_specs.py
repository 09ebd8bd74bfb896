"""Every registered kernel obeys the laws of kernels; each formula is recomputed entry by entry."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import chi2_kernel, cosine_similarity, laplacian_kernel, pairwise_kernels, rbf_kernel

from manykernels.exceptions import InvalidInputError
from manykernels.kernels import (
    KERNELS,
    ArdGaussian,
    ArdOverlap,
    Binned,
    ChiSquared,
    ColumnPower,
    Cosine,
    Dirichlet,
    FromCallable,
    Gaussian,
    Interaction,
    KernelSpec,
    Landmarks,
    Laplacian,
    Linear,
    Matern,
    MedianWidth,
    Missing,
    ObjectKernel,
    Ordinal,
    Overlap,
    Pairwise,
    Periodic,
    Polynomial,
    Product,
    Scaled,
    Shaped,
    Sum,
    Tanimoto,
    WeightedPolynomial,
    register_kernel,
    spec_from_dict,
)
from manykernels.kernels.specs.distances import MedianDistances, shuffled_by_content


def minimum(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.minimum(A[:, None, :], B[None, :, :]).sum(axis=2)


EXAMPLES: dict[str, list[KernelSpec]] = {
    "gaussian": [Gaussian(0.7), Gaussian(20)],
    "laplacian": [Laplacian(1.3)],
    "matern": [Matern(0.8, 0.5), Matern(0.8, 1.5), Matern(2.0, 2.5)],
    "ard_gaussian": [ArdGaussian((0.5, 1.0, 7.0))],
    "linear": [Linear()],
    "column_power": [ColumnPower(2), ColumnPower(3, 0.7, -0.2, 1.5)],
    "polynomial": [Polynomial(1), Polynomial(3), Polynomial(2, offset=0.0, scale=0.5), Polynomial(9)],
    "cosine": [Cosine()],
    "tanimoto": [Tanimoto()],
    "chi_squared": [ChiSquared(0.4)],
    "dirichlet": [Dirichlet(1, 2.0), Dirichlet(3, 0.7), Dirichlet(2, 0.0)],
    "pairwise": [Pairwise("rbf", {"gamma": 0.3}), Pairwise("poly", {"degree": 2, "coef0": 1.0}), Pairwise("linear")],
    "callable": [FromCallable(minimum, "minimum")],
    "overlap": [Overlap()],
    "ard_overlap": [ArdOverlap((0.5, 1.0, 7.0))],
    "ordinal": [Ordinal()],
    "binned": [
        Binned(Laplacian(0.3), edges=(0.5, 1.0, 2.0), shares=(0.1, 0.3, 0.4, 0.2)),
        Binned(Gaussian(0.2), 4, center=False, edges=(0.5, 1.0), shares=(0.1, 0.3, 0.6)),
    ],
    "landmarks": [
        Landmarks(Matern(1.0, 0.5), 3, points=((0.0, 1.0, 2.0), (1.0, 0.5, 0.1)), units=(1.0, 0.5, 0.0)),
        Landmarks(Gaussian(1.0), stretched=1, center=False, points=((0.3, 1.0, 2.0), (1.0, 0.5, 3.0)), units=(1, 1, 2)),
    ],
    "missing": [Missing()],
    "periodic": [Periodic(2.0), Periodic(0.7, 0.3)],
    "sum": [Gaussian(1.0) + Linear(), Gaussian(1.0) + Matern(2.0)],
    "product": [Gaussian(1.0) * Polynomial(2), Linear() * Polynomial(2)],
    "interaction": [
        Interaction(((Linear(), (0,)), (Linear(), (2,)), (Linear(), (2,)))),
        Interaction(((Gaussian(1.0), (1,)), (Gaussian(1.0), (1,)), (Linear(), (0, 2)), (Linear(), (1,)))),
        Interaction(((Gaussian(0.5), (0, 1)), (Laplacian(2.0), (2,)))),
        Interaction(((ColumnPower(2, 1.2, 0.5), (1,)), (Linear(), (0,)))),
        Interaction(()),
    ],
    "weighted_polynomial": [
        WeightedPolynomial(1, (0.5, 0.0, 2.0)),
        WeightedPolynomial(3, (1.0, 0.2, 0.0), 0.7),
        WeightedPolynomial(2, (1.0, 0.2, 0.0), 0.7, Gaussian(1.5)),
    ],
    "shaped": [
        Shaped(Gaussian(1.0), "increasing", points=(0.3, 0.8, 1.7, 2.2)),
        Shaped(Linear(), ("concave", "decreasing"), 3, points=(0.5, 1.0, 2.0)),
    ],
    "scaled": [0.5 * Linear(), Gaussian(1.0) * 3, 2 * (Gaussian(1.0) + Gaussian(2.0))],
}
SPECS = [spec for specs in EXAMPLES.values() for spec in specs]
laws = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.label)


def test_a_row_with_an_unknown_level_is_like_itself_alone() -> None:
    spec, rows = ArdOverlap((1.0, 2.0)), np.array([[np.nan, 1.0], [np.nan, 1.0], [3.0, 1.0]])
    kernel = spec(rows)
    np.testing.assert_array_equal(np.diag(kernel), spec.diag(rows))
    np.testing.assert_allclose(kernel[np.triu_indices(3, 1)], np.exp(-0.5), rtol=1e-15)
    assert np.linalg.eigvalsh(kernel).min() >= 0


@pytest.fixture
def points(rng: np.random.Generator) -> np.ndarray:
    X = rng.random((23, 3)) * 3
    X[7] = X[3]
    X.flags.writeable = False
    return X


def concrete(cls: type) -> set[type]:
    found = {cls} if not inspect.isabstract(cls) else set()
    return found.union(*(concrete(sub) for sub in cls.__subclasses__()))


def test_every_public_kernel_is_registered_and_has_examples() -> None:
    shipped = {cls for cls in concrete(KernelSpec) if cls.__module__.startswith("manykernels.kernels.")}
    registered = {kind: cls for kind, cls in KERNELS.items() if cls.__module__.startswith("manykernels.kernels.")}
    assert shipped == set(registered.values())
    assert set(EXAMPLES) == {kind for kind, cls in registered.items() if not issubclass(cls, ObjectKernel)}
    assert all(type(spec) is KERNELS[kind] for kind, specs in EXAMPLES.items() for spec in specs)


def test_a_kind_can_be_taken_once() -> None:
    @dataclass(frozen=True)
    class Impostor(Linear):
        pass

    with pytest.raises(InvalidInputError, match="'linear' is already taken by Linear"):
        register_kernel(Impostor)
    assert KERNELS["linear"] is Linear


@laws
def test_symmetric_matrices_are_exactly_symmetric(spec: KernelSpec, points: np.ndarray) -> None:
    K = spec(points)
    assert K.shape == (23, 23)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, K.T)


@laws
def test_matrices_are_positive_semidefinite(spec: KernelSpec, points: np.ndarray) -> None:
    eigenvalues = np.linalg.eigvalsh(spec(points))
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


@laws
def test_diagonal_is_that_of_the_matrix(spec: KernelSpec, points: np.ndarray) -> None:
    np.testing.assert_allclose(spec.diag(points), np.diag(spec(points)), rtol=1e-12)
    if spec.unit_diagonal:
        np.testing.assert_array_equal(spec.diag(points), 1.0)


@laws
def test_cross_matrix_is_a_block_of_the_whole(spec: KernelSpec, points: np.ndarray) -> None:
    whole, cross = spec(points), spec(points[:5], points[5:])
    np.testing.assert_allclose(cross, whole[:5, 5:], rtol=1e-12, atol=1e-12 * np.abs(whole).max())


@laws
def test_input_may_be_read_only_lists_or_float32_and_is_not_changed(spec: KernelSpec, points: np.ndarray) -> None:
    before = points.copy()
    single = points.astype(np.float32)
    np.testing.assert_array_equal(spec(points.tolist()), spec(points))
    np.testing.assert_array_equal(spec(single), spec(single.astype(np.float64)))
    np.testing.assert_array_equal(points, before)


@laws
def test_specs_are_frozen_hashable_and_survive_pickling(spec: KernelSpec) -> None:
    copy = pickle.loads(pickle.dumps(spec))
    assert copy == spec
    assert hash(copy) == hash(spec)
    assert len({spec, copy}) == 1
    with pytest.raises(FrozenInstanceError, match="cannot assign"):
        spec.width = 2.0  # type: ignore[attr-defined]


@laws
def test_dictionary_round_trip(spec: KernelSpec) -> None:
    if isinstance(spec, FromCallable):
        with pytest.raises(InvalidInputError, match=r"'minimum' is a Python function.*Use a named kernel"):
            spec.to_dict()
        return
    assert spec_from_dict(spec.to_dict()) == spec


def test_different_kernels_differ() -> None:
    assert len(set(SPECS)) == len(SPECS)
    assert len({spec.label for spec in SPECS}) == len(SPECS)
    assert Gaussian(1) == Gaussian(1.0)
    assert Gaussian(1.0) != Matern(1.0)


def entrywise(function: Any, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.array([[function(a, b) for b in B] for a in A])


def dirichlet_ratio(degree: int, frequency: float) -> Any:
    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        t = frequency * (a - b)
        return float(np.prod(np.sin((degree + 0.5) * t) / np.sin(t / 2)))

    return kernel


def matern(nu: float, width: float) -> Any:
    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        r = math.sqrt(2 * nu) * float(np.linalg.norm(a - b)) / width
        return {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[nu] * math.exp(-r)

    return kernel


FORMULAS = [
    (Gaussian(0.7), lambda a, b: math.exp(-sum((a - b) ** 2) / (2 * 0.7**2))),
    (Laplacian(1.3), lambda a, b: math.exp(-sum(abs(a - b)) / 1.3)),
    (Polynomial(3, 0.5, 2.0), lambda a, b: (2.0 * float(a @ b) + 0.5) ** 3),
    (Polynomial(12), lambda a, b: (float(a @ b) + 1) ** 12),
    (Linear(), lambda a, b: float(a @ b)),
    (ColumnPower(3, 0.7, -0.2, 1.5), lambda a, b: float(((a / 0.7) ** 3 + 0.2) @ ((b / 0.7) ** 3 + 0.2)) / 2.25),
    (Dirichlet(1, 2.0), lambda a, b: float(np.prod(1 + 2 * np.cos(2.0 * (a - b))))),
    (Dirichlet(3, 0.7), dirichlet_ratio(3, 0.7)),
    (ArdGaussian((0.5, 1.0, 7.0)), lambda a, b: math.exp(-sum(((a - b) / np.array([0.5, 1, 7])) ** 2) / 2)),
    (Matern(0.8, 0.5), matern(0.5, 0.8)),
    (Matern(0.8, 1.5), matern(1.5, 0.8)),
    (Matern(0.8, 2.5), matern(2.5, 0.8)),
    (ChiSquared(0.4), lambda a, b: math.exp(-0.4 * sum((a - b) ** 2 / (a + b)))),
    (Cosine(), lambda a, b: float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))),
    (Tanimoto(), lambda a, b: float(a @ b) / float(a @ a + b @ b - a @ b)),
    (2 * (Linear() + Gaussian(1.0)), lambda a, b: 2 * (float(a @ b) + math.exp(-sum((a - b) ** 2) / 2))),
    (
        Interaction(((Linear(), (0,)), (Gaussian(2.0), (1, 2)), (Linear(), (0,)))),
        lambda a, b: float(a[0] * b[0]) ** 2 * math.exp(-float(((a - b)[1:] ** 2).sum()) / 8),
    ),
    (Interaction(()), lambda a, b: 1.0),
    (Ordinal(), lambda a, b: float(np.mean(np.maximum(0.0, 1.0 - np.abs(a - b))))),
    (Periodic(0.7, 0.5), lambda a, b: math.exp(-8 * float((np.sin(np.pi * (a - b) / 0.7) ** 2).sum()))),
    (
        WeightedPolynomial(3, (0.5, 0.0, 2.0), 0.25),
        lambda a, b: float(0.5 * a[0] * b[0] + 2.0 * a[2] * b[2] + 0.25) ** 3,
    ),
    (Linear() * Gaussian(1.0), lambda a, b: float(a @ b) * math.exp(-sum((a - b) ** 2) / 2)),
]


@pytest.mark.parametrize(("spec", "formula"), FORMULAS, ids=[spec.label for spec, _ in FORMULAS])
def test_values_are_those_of_the_formula(spec: KernelSpec, formula: Any, rng: np.random.Generator) -> None:
    A, B = rng.random((4, 3)), rng.random((5, 3)) + 0.1
    np.testing.assert_allclose(spec(A, B), entrywise(formula, A, B), rtol=1e-11)


def test_values_are_those_of_scikit_learn(points: np.ndarray) -> None:
    A, B = points[:9].copy(), points[9:].copy()
    np.testing.assert_allclose(Gaussian(0.7)(A, B), rbf_kernel(A, B, gamma=1 / (2 * 0.7**2)), rtol=1e-10)
    np.testing.assert_allclose(Laplacian(2.0)(A, B), laplacian_kernel(A, B, gamma=0.5), rtol=1e-10)
    np.testing.assert_allclose(Cosine()(A, B), cosine_similarity(A, B), rtol=1e-10)
    np.testing.assert_allclose(ChiSquared(0.4)(A, B), chi2_kernel(A, B, gamma=0.4), rtol=1e-10)
    np.testing.assert_array_equal(Pairwise("rbf", {"gamma": 2.0})(A, B), pairwise_kernels(A, B, "rbf", gamma=2.0))


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_dirichlet_on_one_column_is_the_closed_form(degree: int) -> None:
    x = np.linspace(0.1, 3.0, 7)[:, None]
    t = 1.7 * x[:, 0]
    expected = np.sin((degree + 0.5) * t) / np.sin(t / 2)
    np.testing.assert_allclose(Dirichlet(degree, 1.7)(x, [[0.0]])[:, 0], expected, rtol=1e-11, atol=1e-12)


def test_tanimoto_is_the_jaccard_similarity_of_bits(rng: np.random.Generator) -> None:
    bits = rng.random((12, 20)) < 0.3
    bits[3] = False
    both, either = bits[:, None] & bits, bits[:, None] | bits
    expected = both.sum(axis=2) / np.maximum(either.sum(axis=2), 1)
    np.testing.assert_allclose(Tanimoto()(bits.astype(float)), expected, rtol=1e-14)
    signs = rng.normal(size=(30, 4))  # definite on negative numbers too
    assert np.linalg.eigvalsh(Tanimoto()(signs))[0] > -1e-12


@given(width=st.floats(1e-3, 1e3), x=st.floats(-1e3, 1e3), z=st.floats(-1e3, 1e3))
def test_radial_kernels_lie_between_zero_and_one(width: float, x: float, z: float) -> None:
    for spec in (Gaussian(width), Laplacian(width), Matern(width, 0.5), Matern(width, 1.5), Matern(width, 2.5)):
        assert 0 <= spec([[x]], [[z]])[0, 0] <= 1


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.family == "squared_distance"], ids=lambda s: s.label)
def test_from_squared_distance_writes_into_out(spec: Any, points: np.ndarray) -> None:
    scaled = points / np.array(spec.column_widths or 1.0)
    D = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    before, out = D.copy(), np.full(D.shape, np.nan)
    assert spec.from_squared_distance(D, out=out) is out
    np.testing.assert_allclose(out, spec(points), rtol=1e-12)
    np.testing.assert_array_equal(spec.from_squared_distance(D), out)
    np.testing.assert_array_equal(D, before)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.family == "inner_product"], ids=lambda s: s.label)
def test_from_inner_product_writes_into_out(spec: Any, points: np.ndarray) -> None:
    G = points @ points.T
    before, out = G.copy(), np.full(G.shape, np.nan)
    assert spec.from_inner_product(G, out=out) is out
    np.testing.assert_array_equal(out, spec(points))
    np.testing.assert_array_equal(spec.from_inner_product(G), out)
    np.testing.assert_array_equal(G, before)


def test_sums_and_products_are_flat_and_share_a_family_only_if_their_parts_do() -> None:
    assert (Gaussian(1.0) + Gaussian(2.0) + Linear()).parts == (Gaussian(1.0), Gaussian(2.0), Linear())  # type: ignore[attr-defined]
    assert isinstance(Gaussian(1.0) * Gaussian(2.0) + Linear(), Sum)
    assert isinstance((Gaussian(1.0) + Linear()) * Linear(), Product)
    assert isinstance(Linear() * 2, Scaled)
    assert (Gaussian(1.0) + Matern(1.0)).family == "squared_distance"
    assert (Gaussian(1.0) + Linear()).family == "other"
    assert (ArdGaussian((1.0, 2.0)) * Gaussian(1.0)).family == "other"
    assert (ArdGaussian((1.0, 2.0)) * ArdGaussian((1.0, 2.0))).column_widths == (1.0, 2.0)


def test_bins_hold_equal_counts_and_values_that_are_equal() -> None:
    x = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    for most, edges, shares in (
        (2, (0.5,), (0.5, 0.5)),
        (3, (0.5, 2.5), (0.5, 0.2, 0.3)),
        (9, (0.5, 1.5, 2.5, 3.5, 4.5), (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)),
    ):
        spec: Any = Binned(Laplacian(0.3), most).resolve(MedianDistances(x[:, None]))
        np.testing.assert_allclose(spec.edges, edges)
        np.testing.assert_allclose(spec.shares, shares)
        np.testing.assert_allclose(spec(x[:, None]).sum(axis=0), 0.0, atol=1e-12)
    ranks = np.array([0.25, 0.25, 0.25, 0.25, 0.25, 0.6, 0.6, 0.85, 0.85, 0.85])
    spec = Binned(Laplacian(0.3), 3, center=False).resolve(MedianDistances(x[:, None]))
    np.testing.assert_allclose(spec(x[:, None]), Laplacian(0.3)(ranks[:, None]))
    near = np.array([1.0, np.nextafter(1.0, 2.0)])
    spec = Binned(Laplacian(0.3)).resolve(MedianDistances(near[:, None]))
    assert spec.codes(near).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base": 3}, "base of a binned kernel must be a kernel of numbers"),
        ({"bins": 501}, "bins must be at most 500"),
        ({"bins": 1}, "bins must be"),
        ({"center": 2}, "center must be True or False"),
        ({"edges": (1.0,)}, "both edges and shares"),
        ({"edges": (1.0, 0.0), "shares": (0.2, 0.3, 0.5)}, "edges must increase"),
        ({"edges": (0.0,), "shares": (0.2, 0.3)}, "sum to one"),
    ],
)
def test_bins_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Binned(**{"base": Laplacian(0.3)} | arguments)


@pytest.mark.parametrize("text", ["median", " 0.5*median", "2 * median"])
def test_median_widths_are_resolved_from_training_points(text: str, points: np.ndarray) -> None:
    factor = {"median": 1.0, " 0.5*median": 0.5, "2 * median": 2.0}[text]
    distances = [np.linalg.norm(points[i] - points[j]) for i in range(23) for j in range(i)]
    spec = Gaussian(text)
    assert spec.pending
    assert spec == Gaussian(MedianWidth(factor))
    resolved = (spec + Linear()).resolve(MedianDistances(points))
    assert not resolved.pending
    np.testing.assert_allclose(resolved.parts[0].width, factor * np.median(distances), rtol=1e-12)  # type: ignore[attr-defined]
    city = [np.abs(points[i] - points[j]).sum() for i in range(23) for j in range(i)]
    np.testing.assert_allclose(Laplacian("median").resolve(MedianDistances(points)).width, np.median(city), rtol=1e-12)
    with pytest.raises(InvalidInputError, match="only known after fitting"):
        spec(points)


BAD = [
    (lambda: Gaussian(0), "width must be a finite positive number, got 0"),
    (lambda: Gaussian(-1.0), "width must be a finite positive number"),
    (lambda: Gaussian(np.nan), "width must be a finite positive number"),
    (lambda: Gaussian(True), "width must be a positive number, got True"),
    (lambda: Gaussian("wide"), "'median' or 'FACTOR\\*median', got 'wide'"),
    (lambda: Gaussian("0*median"), "'FACTOR\\*median'"),
    (lambda: Gaussian("1e*median"), "'FACTOR\\*median'"),
    (lambda: Gaussian(1e-200), "between 1e-150 and 1e\\+150"),
    (lambda: MedianWidth(0), "the factor of a median width must be a finite positive"),
    (lambda: Laplacian(None), "width must be a positive number, got None"),
    (lambda: Matern(1.0, nu=2), "nu must be 0.5, 1.5 or 2.5, got 2"),
    (lambda: Matern(0.0), "width must be"),
    (lambda: ArdGaussian((1.0, 0.0)), "every width must be"),
    (lambda: ArdGaussian(()), "non-empty sequence"),
    (lambda: ArdGaussian((1.0, "median")), "only known after fitting"),
    (lambda: Polynomial(0), "degree must be an integer of at least 1, got 0"),
    (lambda: Polynomial(2.5), "degree must be an integer"),
    (lambda: Polynomial(2, offset=-1.0), "offset must be a finite non-negative"),
    (lambda: Polynomial(2, scale=0.0), "scale must be"),
    (lambda: Dirichlet(0, 1.0), "degree must be"),
    (lambda: Dirichlet(1, -1.0), "frequency must be"),
    (lambda: ChiSquared(0.0), "gamma must be"),
    (lambda: ChiSquared()([[-1.0]]), "needs data >= 0.*got -1"),
    (lambda: Pairwise("rbg"), "has no kernel 'rbg'; it has chi2"),
    (lambda: Pairwise("sigmoid"), "'sigmoid' is not positive semidefinite"),
    (lambda: Pairwise("rbf", {"gama": 1.0})([[1.0]]), "kernel sklearn rbf\\(gama=1.0\\) failed"),
    (lambda: FromCallable("rbf"), "must be callable"),
    (lambda: FromCallable(lambda A, B: np.ones(3))([[1.0]]), "returned shape \\(3,\\).*must return \\(1, 1\\)"),
    (lambda: FromCallable(lambda A, B: A * np.nan)([[1.0]]), "The kernel 'callable' contains 1 NaN"),
    (lambda: FromCallable(lambda A, B: A + 0 * B.T)([[1.0], [2.0]]), "'callable' is not symmetric.*differ by up to 1"),
    (lambda: Sum(()), "needs at least one"),
    (lambda: Product((Linear(), 3)), "must be kernels, got 3"),
    (lambda: -1.0 * Linear(), "the factor of a kernel must be"),
    (lambda: WeightedPolynomial(2, ()), "non-empty sequence"),
    (lambda: WeightedPolynomial(2, (-1.0,)), "every weight must be"),
    (lambda: WeightedPolynomial(2, (0.0, 0.0)), "all of them are zero"),
    (lambda: WeightedPolynomial(2, (1.0, 2.0))([[1.0]]), "2 weights for 1 column"),
    (lambda: Interaction((Linear(),)), r"pair \(kernel, column positions\).*got Linear"),
    (lambda: Interaction(((Linear(), (-1,)),)), "positions counted from 0; got .*-1"),
    (lambda: Interaction(((Linear(), ()),)), "pair \\(kernel, column positions\\)"),
    (lambda: Interaction(((ArdGaussian((1.0, 2.0)), (0,)),)), "2 widths for 1 column"),
    (lambda: Interaction(((Linear(), (3,)),))([[1.0, 2.0]]), "column position 3, but it has 2 column"),
    (lambda: Scaled(3, 2.0), "Only a kernel can be multiplied"),
    (lambda: Linear()([1.0, 2.0]), "A must have two dimensions"),
    (lambda: Linear()([[1.0]], [[1.0, 2.0]]), "A has 1 column\\(s\\) and B has 2"),
    (lambda: ArdGaussian((1.0, 2.0))([[1.0]]), "2 widths for 1 column"),
    (
        lambda: spec_from_dict({"kernel": "gausian", "width": 1.0}),
        "Unknown kernel 'gausian'; known kernels: ard_g",
    ),
    (lambda: spec_from_dict({"kernel": "gaussian"}), "Kernel 'gaussian' cannot be built from"),
    (lambda: spec_from_dict({"kernel": "gaussian", "widht": 1.0}), "has no parameter 'widht'; its parameters: width"),
]


@pytest.mark.parametrize(("build", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_hyper_parameters_are_explained(build: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_an_interaction_names_its_columns_and_knows_when_it_is_a_monomial() -> None:
    mixed = Interaction(((Linear(), (0,)), (Gaussian(2.0), (1,)), (Linear(), (0,))))
    assert mixed.named(["age", "dose"]) == "age x gaussian(width=2)[dose] x age"
    assert Interaction(((Linear(), (1,)), (Linear(), (0,)))).named(["age", "dose"]) == "dose x age"
    assert not mixed.is_monomial
    assert Interaction(()).is_monomial
    power = Interaction(((Linear(), (0,)), (ColumnPower(2, center=1.0), (1,))))
    assert power.is_monomial
    assert power.named(["age", "dose"]) == "age x dose x dose"
    np.testing.assert_array_equal(power.features([[2.0, 3.0]]), [16.0])
    np.testing.assert_array_equal(Interaction(((Linear(), (1,)), (Linear(), (1,)))).features([[2.0, 3.0]]), [9.0])
    assert spec_from_dict(json.loads(json.dumps(mixed.to_dict()))) == mixed


def test_median_widths_of_an_interaction_are_those_of_its_own_columns(points: np.ndarray) -> None:
    spec = Interaction(((Gaussian("median"), (1,)), (Gaussian("median"), (0, 2))))
    assert spec.pending
    resolved = spec.resolve(MedianDistances(points))
    expected = [np.median(pdist(points[:, columns])) for columns in ([1], [0, 2])]
    np.testing.assert_allclose([part.width for part, _ in resolved.parts], expected, rtol=1e-12)  # type: ignore[attr-defined]


def test_only_kernels_and_numbers_combine() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        Linear() + 1  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
        Linear() * "2"


def test_rows_are_shuffled_by_what_they_hold_and_not_by_where_they_stand() -> None:
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=400), rng.integers(0, 2, 400)])
    points[200:] = points[:200]  # every row twice
    drawn, moved = points[shuffled_by_content(points)], rng.permutation(400)
    np.testing.assert_array_equal(points[moved][shuffled_by_content(points[moved])], drawn)
    np.testing.assert_array_equal((points + 1e-14)[shuffled_by_content(points + 1e-14)], drawn + 1e-14)
    assert 120 < len(np.unique(drawn[:200], axis=0)) < 180  # as of a draw, 150 on average
    assert abs(np.corrcoef(np.arange(400), drawn[:, 0])[0, 1]) < 0.15


def test_what_was_computed_of_a_kernel_is_no_part_of_it() -> None:
    """Copies and hashes of parameters are the same before a fit and after it."""
    fresh, used = Gaussian("median"), Gaussian("median")
    _ = used.pending, used.label
    assert vars(used) != vars(fresh)
    assert pickle.dumps(used) == pickle.dumps(fresh)
    assert vars(copy.deepcopy(used)) == vars(fresh)
