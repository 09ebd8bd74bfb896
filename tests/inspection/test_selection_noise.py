"""Doubts about a selection, and how many kernels noise selects."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import InvalidInputError, KernelBank, MKLClassifier, MKLRegressor, MKLRegressorCV
from manykernels.inspection import noise_doubt, noise_selection, summary_html
from manykernels.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 5))
NOISE = RNG.normal(size=80)
TRUTH = 2.0 * X[:, 1] + NOISE
BANK = KernelBank.per_feature([Linear(), Gaussian(1.0)])


def test_a_model_of_noise_is_doubted_and_one_of_truth_is_not() -> None:
    with pytest.warns(UserWarning, match="not more strongly related to y than to y in random order"):
        noise = MKLRegressor(BANK).fit(X, NOISE)
    truth = MKLRegressor(BANK).fit(X, TRUTH)
    doubt = noise_doubt(noise)
    assert doubt is not None
    n_selected = int((noise.kernel_weights_ > 0).sum())
    assert f"about as many kernels as this fit, {n_selected} of 10" in doubt
    assert "pure noise would select" in summary_html(noise)
    assert noise_doubt(truth) is None
    clear = int((truth.above_noise_ & (truth.kernel_weights_ > 0)).sum())
    assert f"{clear} of the {int((truth.kernel_weights_ > 0).sum())} are" in summary_html(truth)


def test_a_model_without_kernels_is_not_doubted_again() -> None:
    with pytest.warns(UserWarning, match="No kernel was selected"):
        assert noise_doubt(MKLRegressor(BANK, alpha="2*max").fit(X, NOISE)) is None


def test_noise_selects_fewer_kernels_the_stronger_the_penalty() -> None:
    weak, strong = (
        noise_selection(MKLRegressor(BANK, alpha=alpha).fit(X, TRUTH), X, TRUTH, n_permutations=6, random_state=0)
        for alpha in ("0.2*noise", "0.9*noise")
    )
    assert len(weak) == 6
    assert weak.mean() > strong.mean()
    labels = np.where(TRUTH > 0, "yes", "no")
    model = MKLClassifier(BANK, alpha="3*noise").fit(X, labels)
    assert noise_selection(model, X, labels, n_permutations=3, random_state=1).tolist() == [0, 0, 0]


def test_a_strength_that_folds_chose_is_refused_in_words() -> None:
    model = MKLRegressorCV(BANK, cv=2).fit(X, TRUTH)
    with pytest.raises(InvalidInputError, match="MKLRegressor or MKLSurvival with the chosen alpha_"):
        noise_selection(model, X, TRUTH)


def test_groups_whose_targets_stay_together_select_more() -> None:
    """Samples of a group are alike in X and y: alone in random order, targets would have less to do with kernels."""
    groups = np.repeat(np.arange(12), 8)
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(12, 4))[groups] + 0.1 * rng.normal(size=(96, 4)), rng.normal(size=12)[groups]
    model = MKLRegressor(BANK, alpha="1.2*noise", tol=1e-2).fit(rows, y)
    alone = noise_selection(model, rows, y, n_permutations=8, random_state=0)
    together = noise_selection(model, rows, y, groups=groups, n_permutations=8, random_state=0)
    assert together.mean() > alone.mean() + 1
    with pytest.raises(InvalidInputError, match=r"groups has the shape \(7,\), but there are 96 targets"):
        noise_selection(model, rows, y, groups=groups[:7])
