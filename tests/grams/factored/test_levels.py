"""Kernels of categories of any number of levels: products, passes and functions beside matrices of kernel values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, Overlap
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.levels import FEW_LEVELS, LevelOperator
from manykernels.grams.factored.operators import DenseOperator
from manykernels.grams.rows.opening import open_rows

N = 700


def levels_of(count: int, seed: int = 0) -> Any:
    return pd.Categorical([f"s{number:04d}" for number in np.random.default_rng(seed).integers(0, count, N)])


def table(gaps: bool = False) -> pd.DataFrame:
    frame = pd.DataFrame({"site": levels_of(650), "person": levels_of(200, 1)})
    if gaps:
        frame.loc[::5, "site"] = np.nan
    return frame


BANK = KernelBank([("site", Overlap(), ["site"]), ("both", Overlap(), ["site", "person"])], missing="mask")


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_products_are_those_of_the_matrices(gaps: bool, chunked: bool) -> None:
    """Beyond 500 levels these kernels were held on landmarks, which left most of them out."""
    frame = table(gaps)
    codes = [frame[name].cat.codes.to_numpy() for name in frame]
    site, person = ((own[:, None] == own) & (own >= 0) for own in codes)
    known = np.outer(codes[0] >= 0, codes[0] >= 0)
    stack = factored_stack(open_rows(frame, chunk_rows=300) if chunked else frame, BANK)
    grams = np.array([site, 0.5 * (site + 1.0 * person) * known]) * stack.scales[:, None, None]
    R = np.random.default_rng(0).normal(size=(N, 2))
    low, high = stack.quads(R)
    np.testing.assert_allclose(low, np.einsum("ik,mij,jk->m", R, grams, R), rtol=1e-10)
    np.testing.assert_allclose(high, low, rtol=1e-8)
    weights = np.random.default_rng(1).random(N)
    for m, operator in enumerate(stack.operators([0], 1e-3) + stack.operators([1], 1e-3)):
        assert operator.matrix_free
        scores = np.zeros(N)
        operator.add_scores(operator.adjoint(R[:, 0]), scores)
        np.testing.assert_allclose(scores, grams[m] @ R[:, 0], atol=1e-12)
        Z = operator.rows(np.arange(N))
        np.testing.assert_allclose(Z @ Z.T, grams[m], atol=1e-12)
        np.testing.assert_allclose(operator.diagonal(weights), np.einsum("ir,i,ir->r", Z, weights, Z), atol=1e-12)
        np.testing.assert_allclose(operator.adjoint(R[:, 0]), Z.T @ R[:, 0], atol=1e-12)


def test_few_levels_are_an_array() -> None:
    frame = pd.DataFrame({"site": levels_of(FEW_LEVELS)})
    stack = factored_stack(frame, KernelBank([("site", Overlap(), ["site"])]))
    (few,) = stack.operators([0], 1e-3)
    assert isinstance(few, DenseOperator)
    stack = factored_stack(table(), BANK)
    (many,) = stack.operators([0], 1e-3)
    assert isinstance(many, LevelOperator)
    columns = many.adjoint(np.eye(N)[:, :3])
    np.testing.assert_array_equal(columns, many.rows(np.arange(3)).T)


@pytest.mark.parametrize("gaps", [False, True])
def test_functions_are_sums_of_what_each_level_adds(gaps: bool) -> None:
    """A level that no training row has adds nothing."""
    frame = table(gaps)
    stack = factored_stack(frame, BANK)
    rng = np.random.default_rng(0)
    for m, operator in enumerate(stack.operators([0], 1e-3) + stack.operators([1], 1e-3)):
        v, scores = rng.normal(size=operator.rank), np.zeros(N)
        operator.add_scores(v, scores)
        reading = stack.table.reading(stack.spec_of(m), stack.columns_of(m))
        function = stack.function(m, v, 1e-3)
        np.testing.assert_allclose(reading.masked(function(reading.points)), scores, atol=1e-12)
        spread = function.spec(reading.points, function.landmarks) @ function.coefficients
        np.testing.assert_allclose(function(reading.points), spread, atol=1e-12)
        assert not function(np.full((1, len(stack.columns_of(m))), 1e6)).any()
        rho = rng.normal(size=N)
        images = reading.masked(stack.expansion(m, rho)(reading.points))
        other = np.zeros(N)
        operator.add_scores(operator.adjoint(rho), other)
        np.testing.assert_allclose(images, other, atol=1e-10)
