"""Factored stacks: the inherited contract, and every bound against brute force."""

from __future__ import annotations

import gc
import weakref
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.base import GramStack
from manykernels.grams.factored import (
    ColumnTable,
    CompositeStack,
    ExplicitStack,
    FactoredStack,
    FourierStack,
    NystroemStack,
    ScanStack,
    factored_stack,
    served_by,
)
from manykernels.grams.factored.fourier import LeadingDirections
from manykernels.grams.factored.fourier_factor import FourierPlan, coarser
from manykernels.grams.factored.grid import GridStack
from manykernels.grams.factored.landmarks import pivoted_cholesky
from manykernels.grams.factored.loops import ORDER, add_moments
from manykernels.grams.factored.window import WindowStack
from manykernels.kernels import (
    Binned,
    Gaussian,
    Interaction,
    KernelBank,
    KernelSpec,
    Landmarks,
    Laplacian,
    Linear,
    Matern,
    Missing,
    Ordinal,
    Overlap,
    Periodic,
    Polynomial,
)
from manykernels.testing.kernels import GramStackContract

Array = NDArray[Any]

SPECS: dict[type[FactoredStack], list[tuple[KernelSpec, tuple[int, ...]]]] = {
    FourierStack: [(Gaussian(0.3), (0,)), (Gaussian(2.0), (0,)), (Gaussian(0.7), (1,)), (Gaussian(8.0), (2,))],
    ScanStack: [(Laplacian(0.5), (0,)), (Matern(1.0, 0.5), (1,)), (Matern(0.8, 1.5), (1,)), (Matern(2.0, 2.5), (2,))],
    ExplicitStack: [
        (Linear(), (0, 1)),
        (Polynomial(3), (1,)),
        (Polynomial(2, 0.0, 2.0), (0,)),
        (Overlap(), (2,)),
        (Ordinal(), (2,)),
        (Periodic(2.0, 0.7), (0,)),
        (Periodic(9.0, 0.1), (1,)),
        (Landmarks(Matern(1.0, 0.5), points=((0.0, 1.0), (1.0, 0.5), (2.0, 2.0)), units=(1.0, 0.5)), (0, 1)),
    ],
    NystroemStack: [
        (Matern(1.0, 1.5), (0, 1)),
        (Laplacian(2.0), (0, 1, 2)),
        (Laplacian(1.0), (1, 2)),
        (Polynomial(2), (0, 2)),
    ],
}
BINS = {"edges": (-0.5, 0.4, 1.5), "shares": (0.2, 0.3, 0.3, 0.2)}
STEPS = Binned(Laplacian(0.3), **BINS)
SPECS[GridStack] = [
    (STEPS, (1,)),
    (Interaction(((STEPS, (0,)), (Binned(Gaussian(0.2), **BINS), (1,)))), (0, 1)),
    (Interaction(((Binned(Gaussian(0.2), **BINS), (1,)), (STEPS, (0,)))), (0, 1)),
    (Interaction(((Binned(Gaussian(0.5), 5, center=False), (0,)), (Overlap(), (1,)))), (1, 2)),
    (Interaction(((STEPS, (2,)), (STEPS, (0,)), (Binned(Laplacian(0.1), 3), (1,)))), (0, 1, 2)),
]
if find_spec("finufft"):
    SPECS[WindowStack] = [
        (Gaussian(w), at) for w, at in ((1.0, (0, 1)), (2.0, (0, 1)), (2.0, (0, 2)), (2.0, (0, 1, 2)))
    ]
SPECS[CompositeStack] = [SPECS[kind][slot] for slot in (1, 3) for kind in (NystroemStack, FourierStack, ScanStack)]


def rows(rng: np.random.Generator, n: int) -> Array:
    """Columns that are light-tailed, skewed and tied."""
    X = rng.normal(size=(n, 3))
    X[:, 1] = np.exp(0.7 * X[:, 1])
    X[:, 2] = np.round(3 * X[:, 2])
    return X


def bank(kind: type[FactoredStack], **options: Any) -> KernelBank:
    entries = [(f"{number}", spec, list(columns)) for number, (spec, columns) in enumerate(SPECS[kind])]
    return KernelBank(entries, **{"normalize": "trace", **options})


def stack_of(kind: type[FactoredStack], X: Array, **options: Any) -> FactoredStack:
    whole = factored_stack(X, bank(kind, **options))
    assert isinstance(whole, CompositeStack)
    return whole if kind is CompositeStack else whole.parts[0]


def grams_of(kind: type[FactoredStack], X: Array, **options: Any) -> Array:
    fitted, prepared = bank(kind, **options).fit_prepare(X)
    return fitted.block(prepared, prepared)


class FactoredContract(GramStackContract):
    """The laws of every Gram stack; sums of transforms are good to 1e-10."""

    rtol: ClassVar[float] = 1e-10
    n: ClassVar[int] = 23

    def create(self, rng: np.random.Generator) -> GramStack:
        return stack_of(self.stack_class, rows(rng, self.n), normalize="mean_diagonal")  # type: ignore[arg-type]

    def dense(self, rng: np.random.Generator) -> Array:
        return grams_of(self.stack_class, rows(rng, self.n), normalize="mean_diagonal")  # type: ignore[arg-type]

    def test_quad_each(self) -> None:
        """One pass for several vectors has the error of a pass: values lie between its bounds."""
        stack, _, rng = self.pair()
        columns = rng.normal(size=(stack.n_samples, 3))
        for found, column in zip(stack.quad_each(columns).T, columns.T, strict=True):
            low, high = stack.quad_bounds(np.ascontiguousarray(column))  # type: ignore[attr-defined]
            assert (found >= low * (1 - 1e-12)).all()
            assert (found <= high * (1 + 1e-12)).all()

    def test_squares_each(self) -> None:
        """Sets of vectors have the errors of their passes in sum."""
        stack, _, rng = self.pair()
        sets = rng.normal(size=(stack.n_samples, 4, 3))
        for found, own in zip(stack.squares_each(sets).T, sets.transpose(1, 2, 0), strict=True):
            bounds = [stack.quad_bounds(np.ascontiguousarray(vector)) for vector in own]  # type: ignore[attr-defined]
            low, high = np.sum(bounds, axis=0)
            assert (found >= low * (1 - 1e-12)).all()
            assert (found <= high * (1 + 1e-12)).all()
        single = stack.squares_each(sets[:, :, :1])
        self.check_close(single, stack.quad_each(sets[:, :, 0]))


class TestFourier(FactoredContract):
    stack_class = FourierStack


class TestScan(FactoredContract):
    stack_class = ScanStack


class TestExplicit(FactoredContract):
    stack_class = ExplicitStack


class TestNystroem(FactoredContract):
    stack_class = NystroemStack


@pytest.mark.skipif(WindowStack not in SPECS, reason="finufft is not installed")
class TestWindow(FactoredContract):
    stack_class = WindowStack


class TestGrid(FactoredContract):
    stack_class = GridStack


class TestComposite(FactoredContract):
    stack_class = CompositeStack


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("options", [{"standardize": True}, {"normalize": None}], ids=str)
def test_bounds_contain_the_quadratic_form_of_the_kernels(kind: type[FactoredStack], options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    X = rows(rng, 400)
    stack, grams = stack_of(kind, X, **options), grams_of(kind, X, **options)
    for rho in (rng.normal(size=400), np.ones(400), np.eye(400)[7], np.sign(X[:, 0])):
        exact = np.einsum("i,mij,j->m", rho, grams, rho)
        rounding = 3e-14 * np.abs(grams).max(axis=(1, 2)) * np.abs(rho).sum() ** 2
        low, high = stack.quad_bounds(rho)
        assert (low <= exact + rounding).all()
        assert (high >= exact - rounding).all()
        assert (np.abs(stack.quad(rho) - exact) <= stack.error_bound(rho) + rounding).all()
        for m in range(stack.n_kernels):
            value, error = stack.exact_quad(m, rho)
            assert abs(value - exact[m]) <= error + rounding[m]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_factors_leave_a_psd_rest_of_the_promised_trace(kind: type[FactoredStack]) -> None:
    X = rows(np.random.default_rng(4), 300)
    stack, grams = stack_of(kind, X, standardize=True), grams_of(kind, X, standardize=True)
    new = stack.table.like(X[:50])
    for m, gram in enumerate(grams):
        for tol in (1e-2, 1e-6):
            Z = stack.factor(m, tol)
            rest = gram - Z @ Z.T
            assert np.linalg.eigvalsh(rest)[0] >= -1e-13
            assert np.trace(rest) <= tol * np.trace(gram) + 1e-13
            np.testing.assert_allclose(stack.features(m, new, tol) @ Z.T, (Z @ Z.T)[:50], atol=1e-9 / 300)


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_operators_are_their_factors_and_finer_ones_continue_coarser_ones(kind: type[FactoredStack]) -> None:
    rng = np.random.default_rng(5)
    X = rows(rng, 200)
    stack = stack_of(kind, X, standardize=True)
    coarse, fine = (stack.operators(range(stack.n_kernels), tol) for tol in (1e-3, 1e-8))
    assert sorted(np.concatenate([operator.kernels for operator in fine])) == list(range(stack.n_kernels))
    for before, after in zip(coarse, fine, strict=True):
        Z = after.rows(np.arange(200))
        v, rho, out = rng.normal(size=Z.shape[1]), rng.normal(size=200), np.ones(200)
        after.add_scores(v, out)
        np.testing.assert_allclose(out, 1 + Z @ v, atol=1e-12)
        np.testing.assert_allclose(after.adjoint(rho), Z.T @ rho, atol=1e-12)
        np.testing.assert_allclose(after.rows(np.array([5, 17])), Z[[5, 17]], atol=1e-14)
        old = before.rows(np.arange(200))
        for slot in range(len(after.kernels)):
            first, rank = after.starts[slot], np.diff(before.starts)[slot]
            part = old[:, before.starts[slot] : before.starts[slot + 1]]
            # A direction of the share 1e-8 of the trace divides rounding by about as much.
            np.testing.assert_allclose(Z[:, first : first + rank], part, atol=10 * np.finfo(float).eps / 1e-8)


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_sums_and_largest_entries_of_diagonals_are_those_of_the_matrices(kind: type[FactoredStack]) -> None:
    rng = np.random.default_rng(6)
    X, weight = rows(rng, 40), rng.uniform(0.5, 2.0, size=40)
    X[3:9, 1] = np.nan
    options = {"missing": "mask", "normalize": "mean_diagonal"}
    diagonals = np.diagonal(grams_of(kind, X, **options), axis1=1, axis2=2)
    stack = factored_stack(X, bank(kind, **options))
    np.testing.assert_allclose(stack.diag_sums(weight), diagonals @ weight, rtol=1e-9)
    np.testing.assert_allclose(stack.largest, diagonals.max(axis=1), rtol=1e-9)


def test_error_constants_of_a_pass_follow_its_tolerance() -> None:
    rng = np.random.default_rng(6)
    X, rho = rows(rng, 300), rng.normal(size=300)
    errors = []
    for tol in (1e-4, 1e-8, 1e-12):
        stack = FourierStack(ColumnTable(X), np.zeros(4, int), np.array([0.1, 0.5, 3.0, 20.0]), np.ones(4), tol=tol)
        exact = np.einsum("i,mij,j->m", rho, stack.block(), rho)
        assert (np.abs(stack.quad(rho) - exact) <= stack.error_bound(rho)).all()
        assert (stack.error_constants <= 6 * tol + 1e-14).all()
        errors.append(float(np.abs(stack.quad(rho) - exact).max()))
    assert errors[0] > errors[1] > errors[2]


def test_exact_functions_near_a_factors_function_are_within_its_excess() -> None:
    """The norm and the scores of ``K alpha`` beside those of ``Z v``, with ``alpha = Z Lambda^-1 v``."""
    rng = np.random.default_rng(7)
    X = rows(rng, 250)
    stack = FourierStack.grid(X, [0.2, 1.0, 6.0], normalize="trace")
    grams = stack.block()
    checked = [m for m in range(stack.n_kernels) if not stack._is_narrow(m)]
    assert 4 <= len(checked) < stack.n_kernels
    for operator in stack.operators(checked, 1e-6):
        Z = operator.rows(np.arange(250))
        v = Z.T @ rng.normal(size=250)
        squares, scores = operator.excess(v)
        for slot, kernel in enumerate(operator.kernels):
            part = slice(operator.starts[slot], operator.starts[slot + 1])
            alpha = np.linalg.lstsq(stack.factor(kernel, 1e-6).T, v[part], rcond=None)[0]
            function = grams[kernel] @ alpha
            norm = alpha @ function
            assert norm <= v[part] @ v[part] * (1 + 1e-11) + squares[slot]
            assert np.abs(function - Z[:, part] @ v[part]).max() <= scores[slot] + 1e-12 * np.sqrt(norm)
            assert squares[slot] <= 1e-4 * norm


def test_functions_go_to_zero_outside_the_data() -> None:
    X = np.random.default_rng(8).normal(size=(200, 1))
    stack = FourierStack.grid(X, [0.3], normalize=None)
    new = np.array([[X.min() - 0.5], [X.max() + 1.0], [X.max() + 2.4], [1e6], X[3]])
    rho = np.random.default_rng(9).normal(size=200)
    Z, F = stack.factor(0, 1e-13), stack.features(0, stack.table.like(new), 1e-13)
    np.testing.assert_allclose(F @ (Z.T @ rho), stack.cross_apply(0, stack.table.like(new), rho), atol=2e-6)
    curve = stack.function(0, Z.T @ rho, 1e-13)(stack.table.like(new).points((0,)))
    np.testing.assert_allclose(curve, F @ (Z.T @ rho), atol=1e-10 * np.linalg.norm(Z.T @ rho))
    assert F[3].tolist() == [0.0] * F.shape[1]


def test_a_narrow_kernel_on_a_column_of_outliers_takes_landmarks() -> None:
    rng = np.random.default_rng(10)
    X = np.concatenate([rng.normal(size=150), [400.0, -300.0]])[:, None]
    stack = FourierStack.grid(X, [0.2, 5.0], standardize=False, normalize="trace")
    grams = stack.block()
    rho = rng.normal(size=152)
    assert (np.abs(stack.quad(rho) - np.einsum("i,mij,j->m", rho, grams, rho)) <= stack.error_bound(rho)).all()
    operators = stack.operators([0, 1], 1e-8)
    assert [(type(operator).__name__, operator.kernels.tolist()) for operator in operators] == [
        ("DenseOperator", [0, 1])
    ]
    for m in (0, 1):
        Z = stack.factor(m, 1e-8)
        rest = grams[m] - Z @ Z.T
        assert np.linalg.eigvalsh(rest)[0] >= -1e-13
        assert np.trace(rest) <= 1e-8
        np.testing.assert_allclose(stack.features(m, stack.table, 1e-8) @ Z.T, Z @ Z.T, atol=1e-10)


def test_leading_directions_are_few_and_finer_ones_begin_with_the_coarser() -> None:
    """A column of zeros, a few values and outliers; the rank is hardly above that of an eigendecomposition."""
    rng = np.random.default_rng(11)
    column = np.where(rng.random(600) < 0.6, 0.0, rng.standard_t(1.5, 600))
    table, spec = ColumnTable(column[:, None]), Gaussian(0.3)
    gram, coarser = spec(column[:, None]), None
    eigenvalues = np.linalg.eigvalsh(gram)[::-1]
    for tol in (1e-2, 1e-5):
        found = LeadingDirections.fit(spec, 0, table, tol, 600, coarser)
        Z = found.truncate(tol)(column[:, None])
        rest = gram - Z @ Z.T
        assert np.trace(rest) <= tol * 600
        assert np.linalg.eigvalsh(rest)[0] >= -1e-9
        assert Z.shape[1] <= 1.3 * (np.flatnonzero(600 - np.cumsum(eigenvalues) <= tol * 600)[0] + 1)
        if coarser is not None:
            first = coarser.truncate(1e-2)(column[:, None])
            np.testing.assert_allclose(Z[:, : first.shape[1]], first, atol=1e-7)
        coarser = found
    v = rng.normal(size=Z.shape[1])
    features = found.truncate(tol)
    np.testing.assert_allclose(spec(column[:, None], features.landmarks) @ features.weights(v), Z @ v, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_landmarks_of_a_smooth_kernel_leave_a_residual_that_is_psd(seed: int) -> None:
    """Where pivots fall to rounding, their order decides: in the order drawn, errors grew, and some fits ended."""
    rng = np.random.default_rng(seed)
    points = np.column_stack([rng.normal(size=160), rng.integers(0, 2, 160)])
    table, spec = ColumnTable(points), Gaussian(1.0)
    factor, landmarks = pivoted_cholesky(spec, table.reading(spec, (0, 1)), 1e-12, 160)
    rest = spec(points) - factor @ factor.T
    assert len(landmarks) == len(set(landmarks.tolist())) < 60
    assert np.linalg.eigvalsh(rest)[0] >= -1e-9
    assert np.trace(rest) <= 1e-8


def test_neighbors_are_the_next_widths_of_a_column() -> None:
    X = rows(np.random.default_rng(0), 50)
    stack = FourierStack.grid(X, [1.0, 0.1, 10.0])
    assert stack.neighbors[:3].tolist() == [[1, 2], [-1, 0], [0, -1]]
    composite = stack_of(CompositeStack, X)
    assert (composite.neighbors < composite.n_kernels).all()


def test_the_table_says_who_serves_a_kernel() -> None:
    assert served_by(Gaussian(1.0), 1) == "fourier"
    assert served_by(Laplacian(1.0), 1) == "scan"
    assert served_by(Linear(), 7) == served_by(Polynomial(3), 1) == "explicit"
    assert served_by(Periodic(7.0), 1) == served_by(Missing(), 2) == "explicit"
    assert served_by(Periodic(7.0, 0.001), 1) == served_by(Periodic(7.0), 2) == "nystroem"
    levels = [np.arange(3.0), np.arange(2.0)]
    assert served_by(Overlap(), 2, levels) == served_by(Ordinal(), 2, levels) == "explicit"
    assert served_by(Overlap(), 2) == served_by(Ordinal(), 1, [np.arange(501.0)]) == "nystroem"
    assert served_by(Polynomial(3), 2) == served_by(Gaussian(1.0), 4) == "nystroem"


def test_float32_columns_are_read_in_place() -> None:
    X = np.asfortranarray(rows(np.random.default_rng(1), 40), dtype=np.float32)
    table = ColumnTable(X)
    assert np.shares_memory(table.columns, X)
    np.testing.assert_allclose(
        FourierStack.grid(X, [1.0]).block(), FourierStack.grid(X.astype(np.float64), [1.0]).block(), rtol=1e-12
    )


def test_a_table_goes_with_its_stack_before_garbage_is_collected(rng: np.random.Generator) -> None:
    gc.disable()
    try:
        table = weakref.ref(factored_stack(rng.normal(size=(50, 2)), KernelBank.per_feature(Gaussian("median"))).table)
        assert table() is None
    finally:
        gc.enable()


def test_wrong_tables_and_banks_are_refused() -> None:
    X = rows(np.random.default_rng(1), 40)
    with pytest.raises(IncompatibleError, match="without centering"):
        factored_stack(X, KernelBank.per_feature(Linear(), center=True))
    with pytest.raises(IncompatibleError, match="normalize='unit_diagonal'"):
        factored_stack(X, KernelBank.per_feature(Linear(), normalize="unit_diagonal"))
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"NaN or infinite values.*first in column 1"):
        ColumnTable(bad)
    with pytest.raises(InvalidInputError, match="2 columns, but the model was fitted on 3"):
        ColumnTable(X).like(X[:, :2])
    many = rows(np.random.default_rng(1), 3000)
    many[3, 1] = 7e4
    with pytest.raises(InvalidInputError, match=r"Column 1: A column that spans .* bins.*Clip its outliers"):
        FourierStack.grid(many, [0.1], standardize=False).quad(np.ones(3000))


@pytest.mark.parametrize("far", [1e4, 1e9])
def test_few_rows_with_one_far_away_are_summed_by_values(far: float) -> None:
    X, rho = rows(np.random.default_rng(1), 40), np.random.default_rng(2).normal(size=40)
    X[3, 1] = far
    stack = FourierStack.grid(X, [0.1, 2.0], standardize=False)
    exact = np.array([[rho @ Gaussian(width)(X[:, [j]]) @ rho for width in (0.1, 2.0)] for j in range(3)]).ravel()
    low, high = stack.quad_bounds(rho)
    assert np.all((low <= exact) & (exact <= high))
    np.testing.assert_allclose(stack.quad(rho), exact, rtol=1e-9)
    np.testing.assert_allclose(stack.apply_each(rho)[2], Gaussian(0.1)(X[:, [1]]) @ rho, atol=1e-9)


@pytest.mark.parametrize("directly", [False, True])
def test_wider_kernels_have_bins_of_several_narrow_ones_and_the_bounds_hold(
    monkeypatch: pytest.MonkeyPatch, directly: bool
) -> None:
    """Short transforms in place of a long one; columns with the same periods are transformed together."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(120, 9))
    X[:, 8] = 30 * rng.random(120)
    stack = FourierStack.grid(X, [10.0, 0.1, 1.0, 3.0, 0.3], standardize=False)
    parts = [part for together in stack._layout for part in together.parts()]
    assert {part.members.shape[1] for part in parts} == {1, 2}  # 0.1 and 0.3, 1, 3 and 10
    assert len(stack._layout) < 9
    assert sorted(np.concatenate([one.members.ravel() for one in parts])) == list(range(45))
    bins = FourierPlan.directly
    # waves at every row for narrow kernels, and for wider ones the bins that rows would have had
    monkeypatch.setattr(
        FourierPlan, "directly", lambda self, n, k: (directly and self.spacing < 0.02) or bins(self, n, k)
    )
    rho = rng.normal(size=120)
    exact = np.einsum("i,mij,j->m", rho, stack.block(), rho)
    assert (np.abs(stack.quad(rho) - exact) <= stack.error_bound(rho)).all()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_moments_of_neighboring_bins_are_moments_of_all_of_them(count: int) -> None:
    rng = np.random.default_rng(0)
    x, rho = 10.0 * rng.random(500), rng.normal(size=500)
    fine, wide = np.zeros((2, 41, ORDER))
    add_moments(x, 0.0, 4.0, rho, fine)
    add_moments(x, 0.0, 4.0 / count, rho, wide)
    found = coarser(fine[None], count)[0]
    np.testing.assert_allclose(found, wide[: len(found)], atol=1e-12)
    assert not wide[len(found) :].any()
    np.testing.assert_allclose(found[:, 0].sum(), rho.sum(), atol=1e-12)
