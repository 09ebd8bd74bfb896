"""Kernels of objects as sparse features: what the stack computes beside matrices, and models on it beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import Gaussian, KernelBank, MKLClassifier, MKLRegressor, load_model, save_model
from manykernels.grams import build_stack
from manykernels.grams.factored import sparse
from manykernels.grams.factored.banks import fit_factors
from manykernels.grams.factored.sparse import SparseStack
from manykernels.grams.rows.columns import ColumnTable
from manykernels.grams.seconds import factored_seconds
from manykernels.grams.training import object_sizes
from manykernels.kernels import Kmers
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.tables.encoding import MixedRows
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers import solve
from manykernels.solvers.factored.newton import minimize
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.testing import GramStackContract

KERNELS = [
    ("2", Kmers(2), "dna"),
    ("4", Kmers(4, normalized=False), "dna"),
    ("gaps", Kmers(4, gaps=1, reverse_complement=True), "dna"),
    ("near", Kmers(3, positional=True, shortest=1, shift=1, n_features=2**14), "dna"),  # four million by default
    ("age", Gaussian(1.0), "age"),
]
BANK = KernelBank(KERNELS)


def table(seed: int, n: int = 40) -> pd.DataFrame:
    """Return sequences of unequal length beside a column of numbers."""
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(list("ACGT"), size)) for size in rng.integers(2, 25, n)]
    return pd.DataFrame({"dna": texts, "age": rng.normal(size=n)})


def stacks(seed: int, n: int = 40) -> tuple[Any, Any]:
    """Return the same kernels as factors and as matrices."""
    X = table(seed, n)
    return factored_stack_of(X, BANK), build_stack(BANK.fit(X), X, kind="dense")


def factored_stack_of(X: pd.DataFrame, bank: KernelBank) -> Any:
    """Return the stack of a bank on rows, through the door of estimators."""
    return fit_factors(bank, X)[1]


class TestSparseStack(GramStackContract):
    """The laws of every Gram stack."""

    stack_class = SparseStack
    rtol = 1e-10
    bank = KernelBank([kernel for kernel in KERNELS if kernel[2] == "dna"])

    def create(self, rng: np.random.Generator) -> Any:
        whole = factored_stack_of(table(int(rng.integers(100))), self.bank)
        return getattr(whole, "parts", [whole])[0]

    def dense(self, rng: np.random.Generator) -> Any:
        fitted, prepared = self.bank.fit_prepare(table(int(rng.integers(100))))
        return fitted.block(prepared, prepared)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(20))
def test_the_stack_is_its_matrices(seed: int) -> None:
    """Quadratic forms, products, entries, diagonals and factors are those of the Gram matrices."""
    factors, grams = stacks(seed)
    rng = np.random.default_rng(seed)
    r, R = rng.normal(size=40), rng.normal(size=(40, 3))
    K, own = grams.array, np.arange(4)
    exact = np.einsum("i,mij,j->m", r, K, r)
    low, high = factors.quads(r)
    assert (low[:4] <= exact[:4] * (1 + 1e-12)).all()
    assert (exact[:4] <= high[:4] * (1 + 1e-12)).all()
    np.testing.assert_allclose(low[:4], exact[:4], rtol=1e-9)
    np.testing.assert_allclose(factors.apply_each(R, own), K[:4] @ R, atol=1e-12)
    np.testing.assert_allclose(factors.block(slice(3, 9), slice(None), own), K[:4, 3:9], atol=1e-13)
    np.testing.assert_allclose(factors.diag()[:4], grams.diag()[:4], atol=1e-13)
    np.testing.assert_allclose(factors.diag_sums(np.ones(40))[:4], grams.diag()[:4].sum(axis=1))
    for m in own.tolist():
        Z = factors.factor(m, 0.0)
        np.testing.assert_allclose(Z @ Z.T, K[m], atol=1e-13)
        assert factors.exact_quad(m, r)[0] == pytest.approx(exact[m])
        np.testing.assert_allclose(factors.cross_apply(m, factors.table, r), K[m] @ r, atol=1e-12)


@pytest.mark.sampled(34)
@pytest.mark.parametrize("seed", range(34))
@pytest.mark.parametrize(("loss", "regularizer"), [("squared", "l1"), ("logistic", "l1"), ("squared", "ridge")])
def test_problems_end_where_dense_solvers_end(seed: int, loss: str, regularizer: str) -> None:
    """Objectives agree to 1e-8 with those of the solvers of Gram matrices."""
    X, bank = table(seed), BANK.replace(kernels=KERNELS[:4])
    factors, grams = factored_stack_of(X, bank), build_stack(bank.fit(X), X, kind="dense")
    rng = np.random.default_rng(seed)
    y = rng.normal(size=40) if loss == "squared" else np.sign(rng.normal(size=40))
    options: dict[str, Any] = {"loss": loss, "penalty": regularizer, "alpha": "0.2*max", "tol": 1e-9}
    found, exact = solve(factors, y, **options), solve(grams, y, **options)
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=1e-8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("regularizer", ["l1", "elasticnet", "simplex"])
def test_steps_without_hessians_reach_the_same_minimum(loss: str, regularizer: str, monkeypatch: Any) -> None:
    """Proximal steps and conjugate gradients on many features: the gap is certified on the very features."""
    monkeypatch.setattr(sparse, "FEW_FEATURES", 10)
    X = table(3)
    stack = factored_stack_of(X, BANK.replace(kernels=KERNELS[:4]))
    rng = np.random.default_rng(0)
    y = rng.normal(size=40) if loss == "squared" else np.sign(rng.normal(size=40))
    problem = Problem(stack, y, get_loss(loss), get_regularizer(regularizer, 4.0))
    objective = FactoredObjective(problem, stack.operators(range(4), 0.0), 0.0)
    assert objective.matrix_free
    _, b = problem.zero_model()
    start = Point(np.zeros(objective.rank), b, problem.constant_scores(b))
    fit = minimize(objective, start, 1e-7, 300)
    assert fit.gap <= 1e-7
    grams = build_stack(BANK.replace(kernels=KERNELS[:4]).fit(X), X, kind="dense")
    exact = solve(grams, y, loss=loss, penalty=get_regularizer(regularizer, 4.0), tol=1e-9)
    assert objective.value(fit.point) == pytest.approx(exact.certificate.primal, abs=3e-7)


def test_a_model_on_factors_keeps_no_sequence_and_predicts_as_one_on_matrices(tmp_path: Any) -> None:
    """The model file holds weights of features; a missing sequence adds nothing."""
    X = table(1, 80)
    X.loc[4, "dna"] = None
    y = np.random.default_rng(0).normal(size=80) + X["dna"].str.count("AC").fillna(0.0)
    bank = BANK.replace(missing="mask")
    models = [
        MKLRegressor(bank, alpha=0.01, tol=1e-8, resources={"representation": kind}).fit(X, y)
        for kind in ("factored", "gram")
    ]
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-3)
    assert models[0].solution_.certificate.primal == pytest.approx(models[1].solution_.certificate.primal, rel=1e-7)
    save_model(models[0], tmp_path / "model.zip")
    np.testing.assert_array_equal(load_model(tmp_path / "model.zip").predict(X), models[0].predict(X))
    longest = max(X["dna"].dropna(), key=len)
    assert longest.encode() not in (tmp_path / "model.zip").read_bytes()


@pytest.mark.nightly
def test_several_classes_share_weights() -> None:
    """Three classes with one set of kernel weights on sparse features, certified."""
    X = table(2, 90)
    y = np.random.default_rng(1).integers(0, 3, 90)
    X["dna"] = [text + "ACGT"[c] * 6 for text, c in zip(X["dna"], y, strict=True)]
    options: dict[str, Any] = {"outputs": "shared", "alpha": 0.02, "tol": 1e-5}
    models = [
        MKLClassifier(BANK, **options, resources={"representation": kind}).fit(X, y) for kind in ("factored", "gram")
    ]
    assert max(model.dual_gap_ for model in models) <= 1e-5
    assert models[0].score(X, y) == models[1].score(X, y)


def test_a_table_keeps_what_kernels_share() -> None:
    """Letters are read once for all kernels of one alphabet; parts of a table hold their own objects."""
    X = table(0)
    bank, values = BANK.fit_columns(Table.wrap(X))
    assert isinstance(values, MixedRows)
    held = ColumnTable(values)
    first, second = (held.features_of(spec, 0) for spec in bank.specs[:2])
    assert first.codes is second.codes
    assert first is held.features_of(bank.specs[0], 0)
    parts = [part.features_of(bank.specs[0], 0).squares for _, part in held.chunks(7)]
    np.testing.assert_array_equal(np.concatenate(parts), first.squares)


# --- rows in chunks -------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_rows_in_chunks_make_the_same_model(tmp_path: Path) -> None:
    """Sequences are read row group after row group, and what is kept of the model is weights of features."""
    pytest.importorskip("pyarrow")
    X, rng = table(5, 120), np.random.default_rng(5)
    y = np.where(X["dna"].str.contains("AC") ^ (rng.random(120) < 0.1), 1.0, -1.0)
    X.to_parquet(tmp_path / "rows.parquet", row_group_size=37)
    posed: Any = {"loss": "logistic", "penalty": "l1", "strength": 1.0, "tol": 1e-8}
    whole, chunked = (solve(BANK, y, X=rows, **posed) for rows in (X, str(tmp_path / "rows.parquet")))
    assert chunked.certificate.relative_gap <= 1e-8
    assert chunked.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-7)
    np.testing.assert_allclose(chunked.kernel_weights, whole.kernel_weights, atol=2e-3)
    np.testing.assert_allclose(chunked.decision_function(X), whole.decision_function(X), atol=1e-3)


def test_many_vectors_are_read_together() -> None:
    """Quadratic forms of several vectors are those of each: rows are read once for all."""
    stack, _ = stacks(6)
    R = np.random.default_rng(6).normal(size=(stack.n_samples, 5))
    np.testing.assert_allclose(stack.quad_each(R), np.stack([stack.quad(r) for r in R.T], axis=1), rtol=1e-10)


def test_listed_features_are_those_counted_again() -> None:
    """Products with places at hand are those with sequences that are read again."""
    codes = table(7)["dna"].tolist()
    for _, spec, _ in KERNELS[:-1]:
        rows, again = spec.read(codes), spec.read(codes)
        assert rows.keep(0) == 0
        assert rows.keep(2**20) > 0
        w, r = np.random.default_rng(8).normal(size=spec.n_places), np.random.default_rng(9).normal(size=len(codes))
        np.testing.assert_allclose(rows.adjoint(r), again.adjoint(r), atol=1e-12)
        np.testing.assert_allclose(rows.scores(w), again.scores(w), atol=1e-12)


def test_plans_count_features_of_objects() -> None:
    """A bank of many k-mers is predicted to take longer, and to hold more, than one of as many columns."""
    features, held = object_sizes([("4", Kmers(4), (0,)), ("2", Kmers(2), (0,))], Table.wrap(table(4, 200)))
    letters = table(4, 200)["dna"].str.len().sum()
    assert features == pytest.approx(2 * letters, rel=0.1)
    assert held == pytest.approx(letters + 2 * 24 * 200, rel=0.1)
    assert factored_seconds(2, 200, 1, features=1e9) > factored_seconds(2, 200, 1) + 50
