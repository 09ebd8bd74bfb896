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
    Case(
        "4",
        "report on a search over rows sorted by date: what to distrust",
        """
X = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=90), "x": rng.normal(size=90)}); y = X["x"] ** 2
model = made(MKLRegressorCV, kernels=KernelBank.per_feature(widths=[1.0], standardize=True), cv=3).fit(X, y)
path = os.path.join(tempfile.mkdtemp(), "r.html"); report(model, X, y, path, n_draws=20, baselines=False)
print("rows in the order of time" if "order of time" in open(path, encoding="utf-8").read() else "nothing about order")
""",
        "tests/inspection/test_order.py",
    ),
    Case(
        "4",
        "the advice of a run that makes no progress at a gap of 5 %",
        """
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.solvers import Solution; from manykernels.solvers.run import Run
from manykernels.solvers.solution import Limits
stuck = Solution(np.zeros(1), np.ones(1), 0.0, Certificate.from_values(2.0, 1.9, 2.0, KKTResiduals(*[0.0] * 5)))
print(Run(Limits(), "run").follow(iter([stuck] * 3)).solution().message.split("tol ")[1].partition(". ")[2])
""",
        "tests/solvers/test_run.py",
    ),
    Case(
        "4",
        "a kernel that is zero at all samples: the reason for an empty model",
        """
from manykernels.kernels import KernelSpec
class Zero(KernelSpec):
    kind = "zero"
    def __call__(self, A, B=None): return np.zeros((len(A), len(A if B is None else B)))
    def diag(self, A): return np.zeros(len(A))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    made(MKLRegressor, kernels=KernelBank([("a", Zero(), [0])])).fit(np.eye(9), np.arange(9.0))
print(str(caught[0].message).partition(": ")[2])
""",
        "tests/estimators/test_strength.py",
    ),
    Case(
        "4",
        "a kernel whose values k(x, x) are negative: the reason",
        """
from manykernels.kernels import KernelSpec
class Negative(KernelSpec):
    kind = "negative"
    def __call__(self, A, B=None): return -np.asarray(A) @ np.asarray(A if B is None else B).T
    def diag(self, A): return -np.square(np.asarray(A)).sum(axis=1)
made(MKLRegressor, kernels=KernelBank([("a", Negative(), [0])])).fit(np.arange(1.0, 10.0)[:, None], np.arange(9.0))
""",
        "tests/kernels/test_bank.py",
    ),
    Case(
        "4",
        "report on a search whose folds are blocks of rows sorted by a numeric target: what to distrust",
        """
X = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"]).sort_values("a", ignore_index=True); y = X["a"] ** 3
model = made(MKLRegressorCV, kernels=KernelBank.per_feature(widths=[1.0], standardize=True), cv=3).fit(X, y)
path = os.path.join(tempfile.mkdtemp(), "r.html"); report(model, X, y, path, n_draws=20, baselines=False)
text = open(path, encoding="utf-8").read()
print("the order of the rows" if "sorted by the target" in text else "nothing about order")
""",
        "tests/inspection/test_order.py",
    ),
)
