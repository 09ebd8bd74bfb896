"""``outputs="shared"``: shapes, predictions, reports, model files, paths and cross-validation, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import estimator_checks_generator

from manykernels import (
    InvalidInputError,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    load_model,
    regularization_path,
    save_model,
)
from manykernels.exceptions import IncompatibleError
from manykernels.inspection import (
    ConvergenceDisplay,
    DecompositionDisplay,
    KernelWeightsDisplay,
    MKLReport,
    WeightMapDisplay,
)

# Of scikit-learn's checks, those that learn several classes or targets: with one, nothing is shared.
CHECKS = {
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_dict_unchanged",
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_regressor_multioutput",
    "check_supervised_y_2d",
}
CHECKED = [
    (estimator, check)
    for kind in (MKLClassifier, MKLRegressor)
    for estimator, check in estimator_checks_generator(kind(outputs="shared"))
    if getattr(check, "func", check).__name__ in CHECKS
]

X, CODES = (part[::2] for part in load_iris(return_X_y=True))
LABELS = np.array(["setosa", "versicolor", "virginica"])[CODES]
RNG = np.random.default_rng(0)
TARGETS = np.column_stack([np.sin(X[:, 2]), X[:, 3] ** 2, X[:, 2] - X[:, 3]]) + 0.1 * RNG.normal(size=(len(X), 3))


@pytest.fixture(scope="module")
def classifier():
    return MKLClassifier(outputs="shared", tol=1e-6).fit(X, LABELS)


@pytest.fixture(scope="module")
def regressor():
    return MKLRegressor(outputs="shared").fit(X, TARGETS)


def test_shapes_and_certificate(classifier):
    n_kernels, n_support = len(classifier.kernel_names_), len(classifier.support_)
    assert classifier.kernel_weights_.shape == classifier.kernel_norms_.shape == (n_kernels,)
    assert classifier.dual_coef_.shape == (3, n_support)
    assert classifier.intercept_.shape == (3,)
    assert classifier.dual_gap_ == classifier.solution_.certificate.relative_gap <= 1e-6
    np.testing.assert_array_equal(classifier.dual_coef_, classifier.solution_.dual_coef[classifier.support_].T)


def test_scores_probabilities_and_parts_belong_together(classifier):
    scores, probabilities = classifier.decision_function(X), classifier.predict_proba(X)
    np.testing.assert_allclose(classifier.decompose(X).sum(axis=0) + classifier.intercept_, scores, atol=1e-10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(probabilities[:, 0] / probabilities[:, 1]), scores[:, 0] - scores[:, 1])
    assert (classifier.predict(X) == classifier.classes_[scores.argmax(axis=1)]).all()
    assert classifier.score(X, LABELS) > 0.9
    # The probabilities of an unpenalized intercept add up to the frequencies of the classes.
    np.testing.assert_allclose(probabilities.sum(axis=0), 25.0, rtol=1e-4)


def test_the_table_of_kernels_has_no_column_of_classes(classifier):
    frame = classifier.weights_frame()
    assert frame.columns.tolist() == ["name", "weight", "norm_share", "columns", "kernel", "above_noise", "norm"]
    assert len(frame) == np.count_nonzero(classifier.kernel_weights_)


def test_pictures_and_reports_take_the_model(classifier):
    assert len(KernelWeightsDisplay.from_estimator(classifier).plot().frame()) == len(classifier.weights_frame())
    assert len(ConvergenceDisplay.from_estimator(classifier).plot().frame()) > 1
    assert len(WeightMapDisplay.from_estimator(classifier).plot().frame()) > 0
    assert MKLReport.from_estimator(classifier).n_active == len(classifier.weights_frame())
    parts = DecompositionDisplay.from_estimator(classifier, X, target="setosa").plot().frame()
    assert len(parts) > 0


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_model_files_keep_the_model(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    save_model(model, tmp_path / "model.mkl")
    same = load_model(tmp_path / "model.mkl")
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.outputs == "shared"
    assert same.solution_.certificate == model.solution_.certificate


def test_targets_are_predicted_together(regressor):
    assert regressor.predict(X).shape == TARGETS.shape
    assert regressor.score(X, TARGETS) > 0.8
    np.testing.assert_allclose(
        regressor.decompose(X).sum(axis=0) + regressor.intercept_, regressor.predict(X), atol=1e-10
    )


def test_counts_of_several_targets_are_predicted_as_means():
    counts = RNG.poisson(np.exp(np.column_stack([X[:, 2] / 3.0, X[:, 3]])))
    model = MKLRegressor(outputs="shared", loss="poisson").fit(X, counts)
    assert (model.predict(X) > 0).all()
    # The mean of the predictions is that of the counts, as an intercept without penalty makes it.
    np.testing.assert_allclose(model.predict(X).mean(axis=0), counts.mean(axis=0), rtol=1e-3)
    assert model.score(X, counts) > 0.3


def test_what_the_certificate_proves_to_be_zero_is_zero(classifier):
    assert classifier.proved_inactive_.shape == classifier.kernel_weights_.shape
    assert classifier.proved_inactive_.any()
    assert not classifier.kernel_weights_[classifier.proved_inactive_].any()


def test_targets_under_ridge_are_learned_by_one_factorization():
    several = MKLRegressor(penalty="ridge", alpha=0.1).fit(X, TARGETS, sample_weight=np.arange(1.0, len(X) + 1.0))
    assert several.kernel_weights_.shape[0] == len(several.solution_) == 3
    for t, solution in enumerate(several.solution_):
        one = MKLRegressor(penalty="ridge", alpha=0.1, tol=1e-9).fit(
            X, TARGETS[:, t], sample_weight=np.arange(1.0, len(X) + 1.0)
        )
        assert "by one factorization" in solution.message
        assert solution.certificate.relative_gap <= 1e-9
        np.testing.assert_allclose(several.predict(X)[:, t], one.predict(X), atol=1e-5)
        assert solution.certificate.primal == pytest.approx(one.solution_.certificate.primal, rel=1e-8)
    # Strengths that differ from target to target, or another solver, are learned one by one.
    apart = MKLRegressor(penalty="ridge", alpha=0.1, solver="interior_point").fit(X, TARGETS)
    assert "by one factorization" not in apart.solution_[0].message


def test_one_target_or_two_classes_have_nothing_to_share():
    one = MKLRegressor(outputs="shared").fit(X, TARGETS[:, 0])
    np.testing.assert_array_equal(one.dual_coef_, MKLRegressor().fit(X, TARGETS[:, 0]).dual_coef_)
    two = MKLClassifier(outputs="shared").fit(X[:50], LABELS[:50])
    np.testing.assert_array_equal(two.dual_coef_, MKLClassifier().fit(X[:50], LABELS[:50]).dual_coef_)
    column = MKLRegressor(outputs="shared").fit(X, TARGETS[:, :1])
    np.testing.assert_array_equal(column.predict(X)[:, 0], one.predict(X))


def test_weights_of_samples_and_classes_count():
    weight = np.where(np.arange(len(X)) % 3 == 0, 0.0, 1.0)
    weighted = MKLClassifier(outputs="shared", class_weight="balanced").fit(X, LABELS, sample_weight=weight)
    assert weighted.solution_.dual_coef.shape == (len(X), 3)
    assert not weighted.solution_.dual_coef[weight == 0].any()
    assert not np.isin(weighted.support_, np.flatnonzero(weight == 0)).any()


def test_cross_validation_and_path_share_too():
    chosen = MKLClassifierCV(outputs="shared", cv=2, n_alphas=3).fit(X, LABELS)
    assert chosen.kernel_weights_.ndim == 1
    assert clone(chosen).outputs == "shared"
    several = MKLRegressorCV(outputs="shared", cv=2, alphas=[0.01]).fit(X, TARGETS)
    assert several.dual_coef_.shape[0] == 3
    path = regularization_path(X, TARGETS, outputs="shared", n_alphas=4, tol=1e-6)
    assert path.weights.shape == (4, len(path.kernel_names))
    assert path.summary()["n_active"].iloc[0] == 0
    last = MKLRegressor(outputs="shared", alpha=float(path.alphas[-1]), tol=1e-6).fit(X, TARGETS)
    assert path.solutions[-1].certificate.primal == pytest.approx(last.solution_.certificate.primal, rel=1e-5)
    labels = regularization_path(X, LABELS, outputs="shared", loss="logistic", n_alphas=3)
    assert labels.solutions[-1].dual_coef.shape == (len(X), 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "penalty", ["elasticnet", "lq", "ridge", "simplex", "lp_ball", "elasticnet_ball", "group_elasticnet"]
)
def test_every_penalty_shares(penalty):
    model = MKLClassifier(outputs="shared", penalty=penalty, loss="squared_hinge").fit(X, LABELS)
    assert model.dual_gap_ <= 1e-4
    assert model.score(X, LABELS) > 0.9


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile"])
def test_losses_with_kinks_share_weights_on_factors_unasked(loss):
    # Which matrices of so few rows would otherwise be.
    kind, y = (MKLClassifier, LABELS) if loss == "hinge" else (MKLRegressor, TARGETS)
    model = kind(outputs="shared", loss=loss).fit(X, y)
    assert model.representation_ == "factored"
    assert model.dual_gap_ <= model.tol
    assert model.score(X, y) > 0.9


def test_what_cannot_be_shared_is_refused_in_words():
    with pytest.raises(InvalidInputError, match="outputs must be 'own'"):
        MKLClassifier(outputs="common").fit(X, LABELS)
    with pytest.raises(TypeError, match="Take outputs, such as outputs='shared'"):
        MKLClassifier(weights="shared")
    with pytest.raises(IncompatibleError, match=r"'hinge' has kinks. Use 'squared_hinge' or 'logistic'"):
        MKLClassifier(outputs="shared", loss="hinge", resources={"representation": "gram"}).fit(X, LABELS)
    with pytest.raises(IncompatibleError, match=r"Able: shared_newton"):
        MKLClassifier(outputs="shared", solver="pfbs").fit(X, LABELS)
    with pytest.raises(InvalidInputError, match="share one score already"):
        regularization_path(X[:50], LABELS[:50], outputs="shared", loss="logistic")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("estimator", "check"), CHECKED)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_no_check_of_scikit_learn_was_renamed():
    assert {getattr(check, "func", check).__name__ for _, check in CHECKED} == CHECKS
