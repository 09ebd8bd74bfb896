"""Reported faults of messages, metadata routing, targets and small defaults."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "4",
        "groups of a GroupKFold through a pipeline, metadata routing enabled",
        """
import sklearn
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
X = rng.normal(size=(60, 2)); sklearn.set_config(enable_metadata_routing=True)
model = made(MKLRegressorCV, kernels=KernelBank.per_feature(widths=[1.0]), cv=GroupKFold(3), penalty="l1")
make_pipeline(model).fit(X, X[:, 0], groups=np.arange(60) % 6); print("fitted")
""",
        "tests/estimators/test_routing.py",
    ),
    Case(
        "4",
        "exposures of 0: the message of MKLRegressor(loss='poisson')",
        """
X = rng.normal(size=(40, 2)); exposure = np.where(np.arange(40) % 20 == 3, 0.0, 2.0)
with np.errstate(all="ignore"): rates = rng.poisson(2.0, 40) / exposure
made(MKLRegressor, loss="poisson").fit(X, rates, sample_weight=exposure)
""",
        "tests/estimators/test_regressor_counts.py",
    ),
    Case(
        "4",
        "KernelAligner, target='auto', on y with 80 whole values and on 1e-3 * y: largest difference of the weights",
        """
X = rng.normal(size=(120, 3)); y = np.round(100 * X[:, 0] + 20 * rng.normal(size=120))
one, other = (KernelAligner().fit(X, target).kernel_weights_ for target in (y, 1e-3 * y))
print(f"{np.abs(one - other).max():.1e}")
""",
        "tests/alignment/test_alignment_metrics.py",
    ),
)
