"""Columns with heavy tails: which ones are compressed, and that models read them alike however rows are held."""

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLRegressor, MKLRegressorCV, solve
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import load_model, save_model
from manykernels.kernels import Gaussian, Linear, Periodic
from manykernels.kernels.bank.normalization import heavy_tails
from manykernels.kernels.tables.tails import compress_tails, expand_tails

N = 160


def heavy(seed=0, n=N):
    """Return a table whose first column has a heavy tail, and a target that saturates in it."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    X = np.column_stack([np.exp(2 * Z[:, 0]), Z[:, 1:]])
    return X, np.tanh(Z[:, 0]) + np.sin(2 * Z[:, 1]) + 0.1 * rng.normal(size=n)


def encodings(bank, X):
    return [own.tails is not None for own in bank.fit(X).table.encodings]


@pytest.mark.parametrize(
    ("name", "column", "found"),
    [
        ("lognormal", lambda rng: np.exp(2 * rng.normal(size=500)), True),
        ("mostly zero", lambda rng: np.where(rng.random(500) < 0.97, 0.0, rng.exponential(size=500)), True),
        ("normal", lambda rng: rng.normal(size=500), False),
        ("many normal values", lambda rng: rng.normal(size=200_000), False),
        ("uniform", lambda rng: rng.random(500), False),
        ("rare indicator", lambda rng: (np.arange(500) < 5).astype(float), False),
        ("constant", lambda rng: np.ones(500), False),
    ],
)
def test_heavy_tails_are_found(name, column, found):
    values = column(np.random.default_rng(0))
    assert bool(heavy_tails(values[:, None], [0])) == found, name


def test_compressed_values_are_bounded_increasing_and_expanded_again():
    values = np.array([-1e300, -50.0, -3.0, -0.5, 0.0, 1.0, 4.0, 1e5])
    compressed = compress_tails(values, 1.0, 2.0)
    assert (np.abs(compressed) <= 3.0).all()
    assert (np.diff(compressed) > 0).all()
    np.testing.assert_allclose(expand_tails(compressed[1:], 1.0, 2.0), values[1:], rtol=1e-9, atol=1e-12)


def test_the_default_bank_compresses_heavy_tails_and_nothing_else():
    X, _ = heavy()
    assert encodings(KernelBank.auto(), X) == [True, False, False]
    assert not KernelBank.auto(standardize=True).fit(X).table.encodings
    assert not KernelBank.auto().fit(X[:, 1:]).table.encodings
    frame = pd.DataFrame(X, columns=list("abc")).assign(d="level")
    assert encodings(KernelBank.auto(), frame) == [True, False, False, False]


def test_columns_of_other_kernels_keep_their_values():
    X, _ = heavy()
    entries = [("line", Linear(), [0]), ("year", Periodic(1.0), [0])]
    assert not KernelBank(entries, standardize="robust").fit(X).table.encodings
    assert encodings(KernelBank(entries[:1], standardize="robust"), X) == [True]
    with pytest.raises(InvalidInputError, match="standardize must be True or False"):
        KernelBank(entries, standardize="yes")


def test_banks_that_standardize_can_be_added():
    both = KernelBank.auto() + KernelBank([("line", Linear(), [0])], standardize=True)
    assert both.standardize == "robust"


def test_gaps_do_not_count():
    X, _ = heavy()
    X[::7, 0] = np.nan
    fitted = KernelBank.auto(missing="mask").fit(X)
    whole = KernelBank.auto().fit(X[~np.isnan(X[:, 0])])
    np.testing.assert_allclose(fitted.table.encodings[0].tails, whole.table.encodings[0].tails)


def test_units_do_not_matter():
    X, y = heavy()
    factors, shifts = np.array([1e4, 1e-3, 1.0]), np.array([7.0, 1.0, 0.0])
    one, other = MKLRegressor().fit(X, y), MKLRegressor().fit(X * factors + shifts, y)
    np.testing.assert_allclose(other.predict(X * factors + shifts), one.predict(X), atol=2e-4)


def test_predictions_far_out_stay_among_the_targets():
    X, y = heavy()
    far = X.copy()
    far[:, 0] = 100 * X[:, 0].max()
    for model in (MKLRegressor(alpha=1e-4), MKLRegressorCV(cv=3)):
        predicted = model.fit(X, y).predict(far)
        assert np.abs(predicted - y.mean()).max() < 3 * np.ptp(y)


@pytest.mark.parametrize("as_frame", [False, True])
def test_rows_are_read_alike_however_kernels_are_held(as_frame, tmp_path):
    X, y = heavy()
    bank = KernelBank.per_feature(Linear(), widths=[0.5, 1.0], standardize="robust")
    rows = pd.DataFrame(X, columns=list("abc")) if as_frame else X
    models = {
        form: MKLRegressor(bank, alpha=1e-2, tol=1e-7, resources={"representation": form}).fit(rows[:100], y[:100])
        for form in ("gram", "factored")
    }
    wanted = models["gram"].predict(rows[100:])
    np.testing.assert_allclose(models["factored"].predict(rows[100:]), wanted, atol=1e-4)
    for form, model in models.items():
        save_model(model, tmp_path / form)
        np.testing.assert_allclose(load_model(tmp_path / form).predict(rows[100:]), model.predict(rows[100:]))


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_solution_reads_them_as_an_estimator_does(as_frame):
    X, y = heavy()
    rows = pd.DataFrame(X, columns=list("abc")) if as_frame else X
    bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize="robust", normalize="mean_diagonal")
    found = solve(bank, y, X=rows, loss="squared", penalty="l1", alpha=1e-2, tol=1e-7, representation="factored")
    model = MKLRegressor(bank, alpha=1e-2, tol=1e-7).fit(rows, y)
    np.testing.assert_allclose(
        found.functions.scores(rows).ravel() + float(found.intercept), model.predict(rows), atol=1e-4
    )
    curve = found.functions.shape_functions(0)
    assert curve["x"].max() == pytest.approx(X[:, 0].max(), rel=1e-6)


def test_single_precision_is_compressed_as_double_precision_is():
    X, y = heavy()
    bank = KernelBank.per_feature(Gaussian(1.0), standardize="robust")
    models = [MKLRegressor(bank, alpha=1e-2).fit(own, y) for own in (X.astype(np.float32), X)]
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-3)
