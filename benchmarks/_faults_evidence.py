"""Reported faults of bands, p-values and their cost."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "50.1", "columns of weights_frame for p-values",
        """
X = rng.normal(size=(80, 2))
model = MKLRegressor().fit(X, X[:, 0])
try:
    print(sorted({"p_value", "q_value"} & set(model.weights_frame(X, X[:, 0]))))
except TypeError as error:
    print(str(error)[-60:])
""",
        "tests/inspection/test_kernel_tests.py",
    ),
    Case(
        "50.2", "800 groups of 5 rows: median standard deviation of the effect of a group, frequent and rare ones",
        """
from manykernels import Overlap
codes = np.repeat(np.arange(800), 5)
y = rng.normal(size=800)[codes] + 0.3 * rng.normal(size=4000)
X = pd.DataFrame({"group": pd.Categorical([f"g{code:03d}" for code in codes])})
bank = KernelBank([("group", Overlap(), ["group"])], normalize=None)
model = made(MKLRegressor, kernels=bank, penalty="ridge", alpha=0.1 / 4000).fit(X, y)
try:
    found = np.sort(model.predict(X[::5], return_std=True)[1])
    print(f"{np.median(found[:400]):.3f} {np.median(found[-200:]):.3f}")
except InvalidInputError as error:
    print(str(error)[:60])
""",
        "tests/estimators/test_posterior.py",
    ),
    Case(
        "50.3", "ends of a curve of 3,000 rows: mean distance from the truth in standard deviations, six draws",
        """
from manykernels.inspection import ShapeDisplay
off = []
for _ in range(6):
    X = rng.uniform(-2, 2, size=(3000, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=3000)
    model = MKLRegressor(KernelBank.per_feature(widths=[0.3, 1.0])).fit(X, y)
    try:
        found = ShapeDisplay.from_estimator(model, X, columns=["x0"], bands=True).frame()
    except InvalidInputError as error:
        print(str(error)[:60])
        break
    truth = np.sin(2 * found["x"])
    away = (found["effect"] - truth + found["density"] @ truth) / found["std"]
    off += [abs(away.iloc[0]), abs(away.iloc[-1])]
else:
    print(f"{np.mean(off):.2f}")
""",
        "tests/estimators/test_posterior.py",
    ),
)  # fmt: skip
