"""Reported faults that rounding or the number of rows brings out: section 0 of the report on right numbers."""

from _faults import Case

CASES = (
    Case(
        "0.1",
        "polynomial searches whose target is multiplied by 1 + 1e-15, 1e6 or 1e-9; expected are 0 that differ",
        """
differing, worst = 0, 0.0
for seed in range(8):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(40, 3))
    y = X[:, 0] * X[:, 1] - X[:, 2] + 0.3 * draws.normal(size=40)
    base = PolynomialMKL(2, n_steps=5).fit(X, y).predict(X)
    for unit in (1 + 1e-15, 1e6, 1e-9):
        other = PolynomialMKL(2, n_steps=5).fit(X, unit * y).predict(X) / unit
        change = float(np.abs(other - base).max() / np.abs(base).max())
        differing, worst = differing + (change > 1e-9), max(worst, change)
print(f"{differing} of 24 differ by more than 1e-9, the worst by {worst:.0e}")
""",
        "tests/discovery/test_family_norm.py",
    ),
    Case(
        "0.1",
        "searches of a target without noise in five units; expected is one number of candidates",
        """
draws = np.random.default_rng(0)
X = draws.normal(size=(60, 2))
y = X[:, 0] * X[:, 1] + X[:, 0]
units = (1.0, 1e-3, 1e-6, 1e-9, 1e-12)
print([len(made(MKLRegressorCV, cv=3, n_alphas=5, tol=1e-6).fit(X, unit * y).cv_frame()) for unit in units])
""",
        "tests/estimators/test_mixtures.py",
    ),
    Case(
        "0.2",
        "missing='indicator', 2,500 rows whose gaps are in categories only",
        """
n = 2500
X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "work": rng.choice(list("pqr"), n)})
y = X["a"] + (X["work"] == "p") + 0.3 * rng.normal(size=n)
X.loc[rng.random(n) < 0.1, "work"] = None
try:
    model = made(MKLRegressor, kernels=KernelBank.auto(missing="indicator")).fit(X, y)
    print(f"fitted, R2 {model.score(X, y):.2f}")
except Exception as error:
    print(f"{type(error).__name__}: {str(error)[:60]}")
""",
        "tests/grams/test_training.py",
    ),
)
