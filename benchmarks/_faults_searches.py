"""Reported faults of searches, survival models, memory errors and memory plans."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "3.1", "search on a target without noise, where the weakest strength is best",
        """
X = rng.normal(size=(1500, 3)); y = X.sum(axis=1) + np.sin(X[:, 0])
model = made(MKLRegressorCV, kernels=KernelBank.joint(widths=[1.0, 2.0]), cv=3, representation="gram").fit(X, y)
print(f"fitted, R2 {model.score(X, y):.3f}")
""",
        "tests/estimators/test_mixtures.py",
    ),
    Case(
        "3.2", "the untouched survival model, 1,200 rows x 12 columns, with a kernel of all columns",
        """
X = rng.normal(size=(1200, 12)); risk = X[:, 0] + X[:, 1] ** 2 / 2 + 0.7 * np.sin(2 * X[:, 2])
time = rng.exponential(size=1200) * np.exp(-risk); censored = rng.exponential(size=1200) * 3 * np.median(time)
model = made(MKLSurvival).fit(X, survival_array(time <= censored, np.minimum(time, censored)))
print(f"{model.solution_.status}, gap {model.dual_gap_:.0e}")
""",
        "tests/solvers/factored/test_fallback.py",
    ),
    Case(
        "3.2", "strengths that MKLSurvivalCV tries, 90 rows x 4 columns: the score falls after the first ones",
        """
X = rng.normal(size=(90, 4)); y = survival_array(rng.random(90) < 0.7, rng.exponential(np.exp(-1.5 * X[:, 0])))
model = made(MKLSurvivalCV, kernels=KernelBank.per_feature(widths=[1.0]), cv=3).fit(X, y)
print(f"{np.isfinite(model.cv_frame()['mean_score']).sum()} of {len(model.cv_frame())}")
""",
        "tests/estimators/test_survival.py",
    ),
    Case(
        "3.2", "searches of five tables of 60 rows with a weak signal: concordance, beside that of untouched models",
        """
found = []
for seed in (2, 3, 7, 8, 9):
    rng = np.random.default_rng(seed); X = rng.normal(size=(60, 3)); bank = KernelBank.per_feature(widths=[1.0])
    y = survival_array(rng.random(60) < 0.8, rng.exponential(np.exp(-0.7 * X[:, 0]))); new = rng.normal(size=(500, 3))
    truth = survival_array(np.ones(500, bool), rng.exponential(np.exp(-0.7 * new[:, 0])))
    models = made(MKLSurvivalCV, kernels=bank, cv=3, random_state=0), made(MKLSurvival, kernels=bank, random_state=0)
    found.append([model.fit(X, y).score(new, truth) for model in models])
print(" beside ".join(f"{value:.3f}" for value in np.mean(found, axis=0)))
""",
        "tests/estimators/test_survival.py",
    ),
    Case(
        "3.2", "CPU seconds of MKLSurvivalCV on 400 rows x 12 columns",
        """
X = rng.normal(size=(400, 12)); time = rng.exponential(np.exp(-np.sin(2 * X[:, 0]) - X[:, 1] ** 2 / 2))
y = survival_array(time < 2, np.minimum(time, 2)); start = os.times(); made(MKLSurvivalCV).fit(X, y)
print(f"{sum(os.times()[:2]) - sum(start[:2]):.0f}")
""",
        "tests/objective/test_risk_inverse.py",
    ),
    Case(
        "3", "how a search of 4,500 rows x 11 columns holds the kernels of averages",
        """
X = rng.normal(size=(4500, 11)); y = X[:, 0] * X[:, 1]
print(made(MKLRegressorCV).plan(X, y).kind)
""",
        "tests/estimators/test_choice.py",
    ),
    Case(
        "3.5", "how a search with the hinge holds kernels of 1,546 rows x 1 column, every row twice",
        """
x = np.repeat(rng.normal(size=(773, 1)), 2, axis=0); y = np.sin(2 * x[:, 0]) > 0
print(made(MKLClassifierCV, loss="hinge").plan(x, y).kind)
""",
        "tests/grams/test_plan.py",
    ),
    Case(
        "3.11", "GaussianMKL and PolynomialMKL in 10 MB of address space: what they raise",
        """
X = rng.normal(size=(1000, 4)); y = X[:, 0] * X[:, 1]; raised = []
for kind in (GaussianMKL, PolynomialMKL): kind().fit(X[:30], y[:30])
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 10_000_000, resource.RLIM_INFINITY))
for kind in (GaussianMKL, PolynomialMKL):
    try: kind().fit(X, y)
    except MemoryError as error: raised.append(type(error).__name__)
print(", ".join(raised))
""",
        "tests/test_exceptions.py",
    ),
    Case(
        "3.12", "survival functions under separation, alpha = 1e-6: share of values that are no numbers",
        """
X = 20 + np.linspace(-1, 1, 40)[:, None]; y = survival_array(np.ones(40, dtype=bool), 1.0 + np.arange(40))
model = made(MKLSurvival, kernels=KernelBank.joint(Linear(), standardize=False), alpha=1e-6).fit(X, y)
print(f"{np.isnan(model.predict_survival_function(X)).mean():.2f}")
""",
        "tests/estimators/test_survival.py",
    ),
    Case(
        "3.15", "bytes of the machine where there is no os.sysconf, as on Windows; those of psutil",
        """
import psutil
from manykernels.grams.plan import total_memory
own = psutil.virtual_memory().total
del os.sysconf
print(f"{total_memory() / 2**30:.1f} of {own / 2**30:.1f} GiB")
""",
        "tests/grams/test_machine.py",
    ),
)  # fmt: skip
