"""Solutions of `solve` in model files and exports, beside the estimators on the same problem."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLRegressor, PairKernels, Pairs, load_model, open_rows, save_model, solve
from manykernels.exceptions import IncompatibleError, ModelFileError
from manykernels.grams.factored import factored_stack
from manykernels.inspection import export_model, read_metadata

SQUARED = {"loss": "squared", "penalty": "l1", "alpha": 0.01}
FORMS = ("gram", "factored")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(20, 80, 90), "dose": rng.uniform(0, 3, 90)})
    X["ward"] = np.array(["north", "south", "west"], dtype=object)[rng.integers(3, size=90)]
    X.loc[4, "dose"] = np.nan
    y = np.sin(X["age"] / 9) + X["dose"].fillna(0.0) + (X["ward"] == "north") + 0.1 * rng.normal(size=90)
    return X, y.to_numpy()


def bank(**options):
    return KernelBank.auto(missing="mask", **options)


def reloaded(found, folder):
    save_model(found, folder / "found.mkl", metadata={"target": "y"})
    return load_model(folder / "found.mkl")


def assert_same(found, loaded, X):
    np.testing.assert_array_equal(loaded.decision_function(X), found.decision_function(X))
    np.testing.assert_array_equal(loaded.decompose(X), found.decompose(X))
    pd.testing.assert_frame_equal(loaded.weights_frame(), found.weights_frame())
    pd.testing.assert_frame_equal(loaded.frame(), found.frame())
    assert loaded.certificate == found.certificate
    assert loaded.status == found.status


@pytest.mark.parametrize("representation", FORMS)
def test_a_loaded_solution_is_the_saved_one(table, tmp_path, representation):
    X, y = table
    found = solve(bank(), y, X=X, representation=representation, **SQUARED)
    assert_same(found, reloaded(found, tmp_path), X)
    assert read_metadata(tmp_path / "found.mkl")["estimator"] == "Solution"


@pytest.mark.parametrize("representation", FORMS)
def test_several_targets_with_shared_weights(table, tmp_path, representation):
    X, y = table
    Y = np.column_stack([y, -2 * y])
    found = solve(bank(), Y, X=X, outputs="shared", representation=representation, **SQUARED)
    assert_same(found, reloaded(found, tmp_path), X)
    told = export_model(found, tmp_path / "found.py")
    program = {}
    exec(told.path.read_text(), program)
    np.testing.assert_allclose(program["scores"](X), found.decision_function(X), atol=told.max_error)


def test_an_empty_model_is_saved_and_exported(table, tmp_path):
    X, y = table
    found = solve(bank(), y, X=X, loss="squared", penalty="l1", alpha="1.5*max")
    assert not found.active.size
    assert_same(found, reloaded(found, tmp_path), X)
    assert export_model(found, tmp_path / "empty.py").columns == ()


@pytest.mark.parametrize("representation", FORMS)
@pytest.mark.parametrize("ending", [".py", ".sql", ".csv"])
def test_exports_score_like_the_solution_and_the_estimator(table, tmp_path, representation, ending):
    X, y = table
    kernels = KernelBank.per_feature(widths=["median"], missing="mask")
    found = solve(kernels, y, X=X[["age", "dose"]], representation=representation, **SQUARED)
    told = export_model(found, tmp_path / f"found{ending}", X=X[["age", "dose"]])
    model = MKLRegressor(kernels, alpha=0.01, resources={"representation": representation})
    usual = export_model(model.fit(X[["age", "dose"]], y), tmp_path / f"usual{ending}", X=X[["age", "dose"]])
    spread = np.ptp(found.decision_function(X))
    assert told.columns == usual.columns
    assert set(told.ranges) == {"age", "dose"}
    assert (told.max_error < 1e-4 * spread) or ending == ".csv"


def test_onnx_scores_like_the_solution(table, tmp_path):
    pytest.importorskip("onnx")
    X, y = table
    found = solve(bank(), y, X=X, **SQUARED)
    told = export_model(found, tmp_path / "found.onnx")
    assert told.max_error < 1e-4 * np.ptp(found.decision_function(X))


def test_scores_of_a_classification_loss_are_no_probabilities(table, tmp_path):
    X, y = table
    found = solve(bank(), np.sign(y - np.median(y) + 1e-9), X=X, loss="logistic", penalty="l1", alpha=0.01)
    told = export_model(found, tmp_path / "found.py")
    program = {}
    exec(told.path.read_text(), program)
    assert "probabilities" not in program
    assert "Scores of a Solution" in told.path.read_text()
    np.testing.assert_allclose(program["predict"](X), found.decision_function(X), atol=told.max_error)


@pytest.mark.parametrize("missing", ["error", "mask"])
def test_a_solution_on_rows_in_chunks(table, tmp_path, missing):
    X, y = table
    X = X.assign(dose=X["dose"].fillna(1.0)) if missing == "error" else X
    pytest.importorskip("pyarrow")
    X.to_parquet(tmp_path / "rows.parquet", row_group_size=40)
    kernels = KernelBank.per_feature(widths=["median"], columns=["age", "dose"], standardize=True, missing=missing)
    stack = factored_stack(open_rows(tmp_path / "rows.parquet"), kernels)
    assert stack.table.chunked
    found = solve(stack, y, **SQUARED)
    loaded = reloaded(found, tmp_path)
    np.testing.assert_allclose(loaded.decision_function(X), found.decision_function(X), rtol=1e-12)
    told = export_model(found, tmp_path / "found.py", X=X)
    assert told.max_error < 1e-4 * np.ptp(found.decision_function(X))


def test_a_solution_on_pairs_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(8, 2)), rng.normal(size=(6, 2))
    pairs = Pairs(left, right, np.array([[i, j] for i in range(8) for j in range(6)]))
    found = solve(PairKernels(), rng.normal(size=48), X=pairs, **SQUARED)
    assert_same(found, reloaded(found, tmp_path), pairs)
    with pytest.raises(IncompatibleError, match="models of columns can"):
        export_model(found, tmp_path / "pairs.py")


@pytest.mark.parametrize("write", [save_model, export_model])
def test_kernels_given_as_matrices_are_rejected_with_what_works(tmp_path, write):
    found = solve(np.stack([np.eye(5), np.ones((5, 5))]), np.arange(5.0), **SQUARED)
    with pytest.raises(IncompatibleError, match=r"solve\(bank, y, X=X, ...\), or save an estimator"):
        write(found, tmp_path / "found.py")
    assert not list(tmp_path.iterdir())


def test_a_tuple_of_solutions_is_rejected_with_what_works(table, tmp_path):
    X, y = table
    found = solve(bank(), np.column_stack([y, -y]), X=X, **SQUARED)
    with pytest.raises(ModelFileError, match="each Solution of a tuple"):
        save_model(found, tmp_path / "found.mkl")


def test_a_file_whose_functions_do_not_fit_is_damaged(table, tmp_path):
    X, y = table
    found = solve(bank(), y, X=X, **SQUARED)
    other = replace(found, kernel_weights=np.r_[found.kernel_weights, 0.0])
    save_model(other, tmp_path / "other.mkl")
    with pytest.raises(ModelFileError, match="functions"):
        load_model(tmp_path / "other.mkl")
