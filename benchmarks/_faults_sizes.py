"""Reported faults beyond some hundred rows: the default strength, bands of factors, and messages without a way on."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "49.0", "bands of 900 rows, whose kernels are held as factors: standard deviation beside that of matrices",
        """
X = rng.uniform(-2, 2, size=(900, 2))
y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=900)
bank = KernelBank.per_feature(widths=[0.5, 1.0])
try:
    for form in ("auto", "gram"):
        model = made(MKLRegressor, kernels=bank, alpha="0.2*noise", representation=form).fit(X, y)
        print(f"{model.predict(X[:200], return_std=True)[1].mean():.4f}", end=" ")
except InvalidInputError as error:
    print(str(error)[:60])
""",
        "tests/estimators/test_posterior.py",
    ),
    Case(
        "49.0", "a curve of a model with kernels of several columns only: what the message names instead",
        """
from manykernels.inspection import ShapeDisplay
from manykernels.kernels import Linear
X = rng.normal(size=(60, 3))
try:
    ShapeDisplay.from_estimator(MKLRegressor(KernelBank.joint(Linear()), alpha=1e-3).fit(X, X[:, 0]), X)
except InvalidInputError as error:
    print(str(error)[-110:])
""",
        "tests/inspection/test_shape.py",
    ),
    Case(
        "49.7", "a smooth target with little noise, untouched: R2 on new rows",
        """
X = rng.uniform(-2, 2, size=(1200, 5))
f = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(2 * X[:, 3])
model = MKLRegressor().fit(X[:300], f[:300] + 0.1 * rng.normal(size=300))
print(round(model.score(X[300:], f[300:]), 3))
""",
        "tests/estimators/test_descent.py",
    ),
    Case(
        "49.5", "a row far out in a heavy tail: largest prediction in ranges of the target, fit and search",
        """
Z = rng.normal(size=(160, 3))
X = np.column_stack([np.exp(2 * Z[:, 0]), Z[:, 1:]])
y = np.tanh(Z[:, 0]) + np.sin(2 * Z[:, 1]) + 0.1 * rng.normal(size=160)
far = X * [100, 1, 1]
for model in (MKLRegressor(), MKLRegressorCV(cv=3)):
    print(f"{np.abs(model.fit(X, y).predict(far)).max() / np.ptp(y):.1f}", end=" ")
""",
        "tests/kernels/test_tails.py",
    ),
    Case(
        "49.0", "3,000 rows in 1,000 levels: mean deviation beside that of a normal likelihood for each level",
        """
codes = rng.integers(0, 1000, 3000)
X = pd.DataFrame({"group": pd.Categorical([f"g{code:03d}" for code in codes])})
y = rng.normal(size=1000)[codes] + 0.3 * rng.normal(size=3000)
bank = KernelBank([("group", Overlap(), ["group"])], normalize=None)
model = MKLRegressor(bank, penalty="ridge", alpha=0.1 / 3000).fit(X, y)
usual = 0.3 / np.sqrt(0.1 + np.bincount(codes)[codes])
print(f"{model.predict(X, return_std=True)[1].mean():.2f}, {usual.mean():.2f}")
""",
        "tests/estimators/test_posterior.py",
    ),
    Case(
        "49.5", "counts of 400 words in two views, 90 texts: accuracy on 600 new texts",
        """
shares = np.where(rng.random((3, 400)) < 0.1, 4.0, 1.0) / (10.0 + np.arange(400))
y = rng.integers(3, size=690)
X = np.array([rng.multinomial(40, shares[t] / shares[t].sum()) for t in y], dtype=float)
bank = KernelBank.from_views({"left": slice(0, 200), "right": slice(200, 400)}, Linear())
model = MKLClassifier(bank, penalty="ridge").fit(X[:90], y[:90])
print(f"{model.score(X[90:], y[90:]):.3f}")
""",
        "tests/kernels/test_normalization.py",
    ),
)  # fmt: skip
