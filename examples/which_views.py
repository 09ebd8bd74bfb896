"""Eight views, two of them informative: which views matter, and how accurate is the model beside its rivals?"""

from __future__ import annotations

import warnings
from typing import Any

from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingClassifier

from manykernels import KernelBank, MKLClassifier, predictive_importance
from manykernels.datasets import make_multiview
from manykernels.inspection import IntervalDisplay

# 300 training samples with eight views of six columns each. The class depends on the lengths of two vectors, so that no
# column alone is correlated with it.
data = make_multiview(1300, [6] * 8, n_informative=2, noise=0.3, random_state=0)
X, y, X_test, y_test = data.X[:300], data.y[:300], data.X[300:], data.y[300:]
bank = KernelBank.from_views(data.views)  # four kernels for each view
model = MKLClassifier(bank).fit(X, y)
importance = predictive_importance(model, X_test, y_test, random_state=0)
print("informative views:", ", ".join(data.informative))
print(importance.round(3).head(4).to_string(index=False))


def accuracy(rival: Any) -> float:
    """Return the accuracy on the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # views without information warn, as they should
        return float(rival.fit(X, y).score(X_test, y_test))


scores = {
    "manykernels": accuracy(MKLClassifier(bank)),
    "plain sum of the kernels": accuracy(MKLClassifier(bank, penalty="ridge")),
    # The best of eight by the test rows themselves, which favors this rival.
    "best single view": max(
        accuracy(MKLClassifier(KernelBank.from_views({name: own}))) for name, own in data.views.items()
    ),
    "gradient boosting": accuracy(HistGradientBoostingClassifier(random_state=0)),
}
for name, value in scores.items():
    print(f"{name:25} accuracy {value:.2f}")
print(f"relative duality gap {model.dual_gap_:.0e}")


def picture(size: tuple[float, float], *, beside: bool) -> Figure:
    """Draw the importance of the views and the accuracy of the rivals."""
    figure = Figure(figsize=size, layout="constrained")
    first, second = figure.subplots(1, 2) if beside else figure.subplots(2, 1)
    label = "Drop in held-out accuracy"
    IntervalDisplay.from_frame(importance, label=label, title="Which views matter").plot(first)
    bars = second.barh(list(scores)[::-1], list(scores.values())[::-1], color=["0.75"] * 3 + ["C0"])
    second.bar_label(bars, fmt="%.2f", padding=3)
    second.set(title="Accuracy on 1,000 new samples", xlim=(0.5, 0.95))
    second.spines[["top", "right"]].set_visible(False)
    return figure


picture((10.0, 3.4), beside=True).savefig("which_views.png", dpi=100)
picture((4.6, 6.4), beside=False).savefig("which_views_narrow.png", dpi=100)
print("written to which_views.png")
