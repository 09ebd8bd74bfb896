"""What a notebook shows of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import GaussianMKL, KernelBank, MKLClassifier, MKLRegressorCV

X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
BANK = KernelBank.per_feature(widths=[1.0])


@pytest.mark.filterwarnings("ignore:The best strength")
@pytest.mark.parametrize(
    "model",
    [MKLClassifier(BANK), MKLRegressorCV(BANK, cv=2, alphas=[0.1, 0.05, 0.01], tol=1e-3), GaussianMKL()],
    ids=lambda model: type(model).__name__,
)
def test_a_fitted_estimator_shows_its_card_above_the_diagram(model) -> None:
    y = X[:, 0] > 0 if isinstance(model, MKLClassifier) else np.sin(X[:, 0])
    shown = model.fit(X, y)._repr_mimebundle_()
    html = shown["text/html"]
    assert html.index("relative duality gap") < html.index("sk-top-container")
    assert "relative duality gap" in model._repr_html_()
    assert shown["text/plain"] == repr(model)


def test_before_the_fit_and_within_a_pipeline_the_diagram_is_shown() -> None:
    assert "relative duality gap" not in MKLClassifier()._repr_html_()
    pipeline = make_pipeline(StandardScaler(), MKLClassifier(BANK)).fit(X, X[:, 0] > 0)
    assert "MKLClassifier" in pipeline._repr_html_()


def test_text_where_diagrams_are_switched_off() -> None:
    with config_context(display="text"):
        model = MKLClassifier(BANK).fit(X, X[:, 0] > 0)
        assert set(model._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(model, "_repr_html_")
