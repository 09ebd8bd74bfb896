"""Kernels by relevance: which columns they find, and that every fold learns them from its own rows."""

import numpy as np
import pytest

from manykernels import InvalidInputError, KernelBank, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.estimators.selection.relevance import MOST_ROWS, column_factors, learns_relevance, with_relevance
from manykernels.estimators.supervised.samples import Samples
from manykernels.inspection import export_model, load_model, save_model
from manykernels.kernels import ArdOverlap, Gaussian, Joint
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.grids import BY_RELEVANCE, DEFAULT_SPECS, OF_CODES, Relevant, RelevantCodes, project_entry
from manykernels.kernels.specs.categorical import indicators_of
from manykernels.objective.losses import Logistic, Squared

N = 150


def interaction(n=N, seed=0, columns=8):
    """Return rows whose first two columns matter together only, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, columns))
    return X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n)


def samples_of(X, y):
    return Samples.create(Table.wrap(X), np.asarray(y, dtype=np.float64).reshape(len(y), -1), np.ones(len(y)))


def widths_of(bank, X, y):
    (entry,) = [own for own in with_relevance(bank, samples_of(X, y), Squared()).kernels if isinstance(own, Relevant)]
    return np.array(entry.widths)


BANK = KernelBank([Joint(DEFAULT_SPECS), Relevant()], standardize=True)


def test_columns_that_matter_only_together_are_relevant():
    X, y = interaction()
    factors = column_factors(X, (y - y.mean())[:, None], np.arange(X.shape[1]))
    assert set(np.argsort(-factors)[:2].tolist()) == {0, 1}
    assert factors[2:].max() < 0.5 * factors[:2].min()


@pytest.mark.parametrize("y", [np.zeros(N), np.full(N, 1e-300)])
def test_without_signal_columns_are_alike(y):
    X, _ = interaction()
    np.testing.assert_allclose(np.ptp(widths_of(BANK, X, y)), 0.0, atol=1e-9)


def test_a_constant_column_has_a_finite_width():
    X, y = interaction()
    X[:, 3] = 1.0
    assert np.isfinite(widths_of(BANK, X, y)).all()


def test_units_do_not_matter():
    X, y = interaction()
    wanted = widths_of(BANK, X, y)
    np.testing.assert_allclose(widths_of(BANK, X * 1e3 + 5.0, 1e-4 * y), wanted, rtol=1e-6)


def test_only_few_rows_are_looked_at_and_the_same_ones():
    X, y = interaction(MOST_ROWS + 200)
    np.testing.assert_array_equal(widths_of(BANK, X, y), widths_of(BANK, X, y))


def test_classes_are_targets_too():
    X, y = interaction()
    labels = np.where(y > 0, 1.0, -1.0)
    assert learns_relevance(samples_of(X, labels), Logistic())
    assert set(np.argsort(widths_of(BANK, X, labels))[:2].tolist()) == {0, 1}


def test_a_search_finds_an_interaction_among_many_columns():
    X, y = interaction(columns=10)
    new, wanted = interaction(500, seed=1, columns=10)
    model = MKLRegressorCV(cv=3).fit(X, y)
    assert model.score(new, wanted) > 0.85
    assert "by relevance" in model.cv_frame()["kernels"][model.best_index_]
    names = {name for name, norm in zip(model.kernel_names_, model.kernel_norms_, strict=True) if norm > 0}
    assert all("by relevance" in name for name in names)
    assert set(np.argsort(-model.feature_importances_)[:2].tolist()) == {0, 1}


def test_rows_that_are_held_out_change_nothing():
    X, y = interaction()
    train, test = np.arange(100), np.arange(100, N)
    garbage = X.copy(), y.copy()
    garbage[0][test] = 1e3 * np.random.default_rng(1).normal(size=(50, 8))
    garbage[1][test] = -50.0
    kept = [
        Samples.create(Table.wrap(own[train]), y_own[train, None], np.ones(100)) for own, y_own in ((X, y), garbage)
    ]
    banks = [with_relevance(BANK, own, Squared()) for own in kept]
    assert banks[0].kernels == banks[1].kernels


def test_only_searches_that_choose_the_kernels_have_them():
    X, y = interaction(80)
    assert not any("by relevance" in name for name in MKLRegressor().fit(X, y).kernel_names_)
    given = MKLRegressorCV(KernelBank.joint(DEFAULT_SPECS, standardize=True), cv=3).fit(X, y)
    assert not any("by relevance" in name for name in given.kernel_names_)


@pytest.mark.parametrize("ending", [".py", ".onnx"])
def test_models_are_saved_and_exported(ending, tmp_path):
    X, y = interaction(100, columns=4)
    model = MKLRegressorCV(cv=3).fit(X, y)
    save_model(model, tmp_path / "model.mkl")
    np.testing.assert_allclose(load_model(tmp_path / "model.mkl").predict(X), model.predict(X))
    if ending == ".onnx":
        pytest.importorskip("onnx")
    assert export_model(model, tmp_path / f"model{ending}").max_error < 1e-4 * np.ptp(y)


def test_kernels_on_landmarks_are_kernels_by_relevance_too():
    X, y = interaction()
    (entry,) = with_relevance(BANK, samples_of(X, y), Squared()).kernels[1:]
    bank = BANK.replace(kernels=[project_entry(entry, 40)])
    model = MKLRegressor(bank, alpha=1e-4, resources={"representation": "factored"}).fit(X, y)
    assert model.score(X, y) > 0.9
    assert all("by relevance" in name and "40 landmarks" in name for name in model.kernel_names_)


def test_labels_are_searched_with_them():
    X, y = interaction(140, columns=6)
    model = MKLClassifierCV(cv=3).fit(X, np.where(y > 0, "up", "down"))
    assert any("by relevance" in name for name in model.kernel_names_)
    assert model.score(X, np.where(y > 0, "up", "down")) > 0.9


@pytest.mark.filterwarnings("ignore:No kernel was selected", "ignore:The kernels are not more strongly")
@pytest.mark.parametrize("seed", [0, 2])
def test_noise_is_measured_without_widths_learned_from_the_target(seed):
    # Widths that follow y relate a kernel to y more than to y in random order, also if y is noise.
    rng = np.random.default_rng(seed)
    model = MKLRegressorCV(cv=3, random_state=0).fit(rng.normal(size=(80, 20)), rng.normal(size=80))
    marks = dict(zip(model.kernel_names_, model.above_noise_.tolist(), strict=True))
    learned = [name for name in marks if BY_RELEVANCE in name]
    assert len(learned) == 3
    assert [marks[name] for name in learned] == [marks[name.replace(BY_RELEVANCE, "")] for name in learned]
    assert not any(marks[name] for name in learned)


# --- codes ---


def codes(n=N, seed=0, columns=12):
    """Return columns of codes 1 to 4 in no order, of which three matter, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 5, size=(n, columns)).astype(float)
    score = np.isin(X[:, 0], (1, 4)) * 2.0 + np.isin(X[:, 1], (2, 3)) + (X[:, 2] == 3)
    return X, np.where(score > 1.5, "site", "none")


OF_ONE_CODE = KernelBank([Joint(DEFAULT_SPECS), RelevantCodes()], standardize=True)


def test_kernels_of_codes_are_gaussians_of_indicators():
    X, _ = codes(30, columns=3)
    new, _ = codes(20, seed=1, columns=3)
    new[0, 0] = 9.0  # a code that no row has
    widths = (0.5, 1.0, 3.0)
    indicators, owners = indicators_of(X)
    units = np.asarray(widths)[owners] * np.sqrt(2.0)
    np.testing.assert_allclose(ArdOverlap(widths)(X), Gaussian(1.0)(indicators / units), rtol=1e-12)
    by_hand = np.exp(
        [[-sum((a != b) / (2 * w**2) for a, b, w in zip(x, z, widths, strict=True)) for z in X] for x in new]
    )
    np.testing.assert_allclose(ArdOverlap(widths)(new, X), by_hand, rtol=1e-12)


@pytest.mark.parametrize("widths", [(), (1.0, 0.0), (1.0, -2.0), "abc"])
def test_unusable_widths_of_codes_are_rejected(widths):
    with pytest.raises(InvalidInputError, match="width"):
        ArdOverlap(widths)


def test_a_search_finds_the_codes_that_matter():
    X, y = codes(200)
    new, wanted = codes(600, seed=1)
    model = MKLClassifierCV(cv=3).fit(X, y)
    assert BY_RELEVANCE + OF_CODES in model.cv_frame()["kernels"][model.best_index_]
    assert model.score(new, wanted) > 0.95
    assert set(np.argsort(-model.feature_importances_)[:3].tolist()) == {0, 1, 2}


def test_only_codes_of_several_levels_have_kernels_of_codes():
    numbers, y = interaction(80)
    several, _ = codes(80)
    labels = several[:, 0] > 2
    for X, target, wanted in ((numbers, y > 0, False), (several > 2, labels, False), (several, labels, True)):
        model = MKLClassifierCV(cv=3).fit(X.astype(float), target)
        assert any(OF_CODES in name for name in model.kernel_names_) == wanted


@pytest.mark.parametrize("ending", [".py", ".onnx"])
@pytest.mark.parametrize("count", [None, 60])
def test_models_of_codes_are_saved_and_exported(ending, count, tmp_path):
    X, y = codes(120, columns=4)
    target = np.where(y == "site", 1.0, -1.0)
    (entry,) = with_relevance(OF_ONE_CODE, samples_of(X, target), Squared()).kernels[1:]
    bank = OF_ONE_CODE.replace(kernels=[entry if count is None else project_entry(entry, count)])
    representation = "gram" if count is None else "factored"
    model = MKLRegressor(bank, alpha=1e-3, resources={"representation": representation}).fit(X, target)
    save_model(model, tmp_path / "model.mkl")
    np.testing.assert_allclose(load_model(tmp_path / "model.mkl").predict(X), model.predict(X))
    if ending == ".onnx":
        pytest.importorskip("onnx")
    assert export_model(model, tmp_path / f"model{ending}").max_error < 1e-6 * np.ptp(target)
