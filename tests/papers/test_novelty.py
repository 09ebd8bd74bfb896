"""One-class MKL: scikit-learn's machine for one kernel, a conic program for several, and its own certificate."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import OneClassSVM

from manykernels import Gaussian, KernelBank
from manykernels.exceptions import InvalidInputError
from manykernels.papers import MKLNovelty


def points(n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(n - 5, 3)), 4 + rng.normal(size=(5, 3))])


def bank(*widths: float) -> KernelBank:
    return KernelBank([(f"width {w}", Gaussian(w), None) for w in widths], standardize=False)


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_one_kernel_is_the_machine_of_scikit_learn(nu: float) -> None:
    X = points()
    new = np.random.default_rng(1).normal(size=(20, 3)) * 2
    model = MKLNovelty(bank(1.5), nu=nu, tol=1e-7).fit(X)
    other = OneClassSVM(nu=nu, gamma=0.5 / 1.5**2, tol=1e-9).fit(X)
    scale = other.dual_coef_.sum()  # scikit-learn's coefficients add up to nu N
    np.testing.assert_allclose(model.score_samples(new), other.score_samples(new) / scale, atol=2e-4)
    assert model.dual_gap_ <= 1e-7
    assert model.dual_coef_.sum() == pytest.approx(1.0)
    outside = np.mean(model.decision_function(X) < -1e-6)
    assert outside <= nu <= np.mean(model.dual_coef_ > 1e-9) + 1e-9


def test_several_kernels_reach_the_optimum_of_a_cone_program() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    X, nu = points(30), 0.2
    widths = (0.5, 1.0, 3.0)
    kernels = np.stack([np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * w**2)) for w in widths])
    model = MKLNovelty("precomputed", nu=nu, tol=1e-6).fit(kernels)
    alpha, top = cvxpy.Variable(30), cvxpy.Variable()
    roots = [np.linalg.cholesky(gram + 1e-10 * np.eye(30)).T for gram in kernels]
    inside = [alpha >= 0, alpha <= 1 / (nu * 30), cvxpy.sum(alpha) == 1]
    inside += [cvxpy.sum_squares(root @ alpha) <= top for root in roots]
    best = cvxpy.Problem(cvxpy.Minimize(top / 2), inside).solve(solver=cvxpy.CLARABEL)
    squares = [float(model.dual_coef_ @ gram @ model.dual_coef_) for gram in kernels]
    assert max(squares) / 2 == pytest.approx(best, rel=1e-4)
    assert model.kernel_weights_.sum() == pytest.approx(1.0)
    assert (model.dual_coef_ <= 1 / (nu * 30) + 1e-12).all()
    scores = np.tensordot(model.kernel_weights_, kernels, 1) @ model.dual_coef_
    norms = model.kernel_weights_ * np.sqrt(squares)
    losses = np.maximum(model.offset_ - scores, 0.0).sum() / (nu * 30)
    primal = norms.sum() ** 2 / 2 - model.offset_ + losses
    assert (primal + max(squares) / 2) / abs(primal) == pytest.approx(model.dual_gap_, abs=1e-9)
    np.testing.assert_allclose(model.score_samples(kernels[:, :4]), scores[:4], atol=1e-12)


def test_rows_and_matrices_give_the_same_model() -> None:
    X = points()
    own = bank(0.7, 2.0)
    fitted = own.fit(X)
    kernels = np.stack([fitted.block(fitted.prepare(X), fitted.prepare(X), [m])[0] for m in range(2)])
    rows, matrices = MKLNovelty(own, nu=0.1).fit(X), MKLNovelty("precomputed", nu=0.1).fit(kernels)
    np.testing.assert_allclose(rows.decision_function(X), matrices.decision_function(kernels), atol=1e-3)
    assert rows.fit_predict(X).tolist().count(-1) <= 6
    assert rows.kernel_names_ == ("width 0.7", "width 2.0")


def test_errors() -> None:
    X = points()
    with pytest.raises(InvalidInputError, match="nu must be"):
        MKLNovelty(bank(1.0), nu=0.0).fit(X)
    with pytest.raises(InvalidInputError, match="kernels must be a KernelBank, 'precomputed' or None"):
        MKLNovelty("gaussian").fit(X)
    model = MKLNovelty("precomputed").fit(np.eye(10)[None])
    with pytest.raises(InvalidInputError, match=r"kernels of shape \(1, n, 10\)"):
        model.predict(np.ones((3, 10)))
