"""Reported faults of solvers: certificates, kernel weights, interrupts and comparisons."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "3.3", "ten targets on float32 kernels of low rank under a weak ridge: warnings, status",
        """
F = rng.normal(size=(4, 60, 3)); K = (F @ F.transpose(0, 2, 1)).astype(np.float32)
Y = F[0] @ rng.normal(size=(3, 10)) + F[2] @ rng.normal(size=(3, 10)) + rng.normal(size=(60, 10))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = made(MKLRegressor, kernels="precomputed", penalty="ridge", alpha=1e-9).fit(K, Y)
states = [str(found.status) for found in model.solution_]
print(f"{len(caught)} warnings, {states.count('converged')} of 10 converged, largest gap {model.dual_gap_:.1e}")
""",
        "tests/grams/test_dense_definite.py",
    ),
    Case(
        "3.3", "compare on float32 kernels of low rank: warnings of indefinite kernels, methods without a score",
        """
from manykernels import compare
F = rng.normal(size=(4, 60, 8)); K = (F @ F.transpose(0, 2, 1)).astype(np.float32)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always"); table = compare(MKLRegressor("precomputed", penalty="ridge"), K, F[0, :, 0], cv=3)
print(sum("indefinite" in str(one.message) for one in caught), int(table["score"].isna().sum()))
""",
        "tests/inspection/test_comparison.py",
    ),
    Case(
        "3.6", "solve(KernelBank.auto(), y, X=table) on 6,000 rows x 4 columns: status, kernels beside the estimator's",
        """
X = rng.normal(size=(6000, 4)); y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=6000)
found = solve(KernelBank.auto(), y, X=X, loss="squared", penalty="l1", alpha=0.01, time_limit=20)
model = made(MKLRegressor, kernels=KernelBank.auto(), alpha=0.01).fit(X, y)
apart = abs(found.decision_function(X) - model.predict(X)).max()
print(f"{found.status}, gap {found.dual_gap:.0e}, scores differ by {apart:.0e}")
""",
        "tests/solvers/test_solve.py",
    ),
    Case(
        "3.6", "the same rows sorted, as table and as Parquet file: primal objectives, difference of scores",
        """
X = rng.normal(size=(6000, 4)); X = X[np.argsort(X[:, 0])]
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=6000)
path = os.path.join(tempfile.mkdtemp(), "r.parquet"); frame = pd.DataFrame(X, columns=list("abcd"))
frame.to_parquet(path, row_group_size=1000)
one, other = (
    solve(KernelBank.auto(), y, X=rows, loss="squared", penalty="l1", alpha=0.01, time_limit=20)
    for rows in (frame, path)
)
apart = abs(one.decision_function(frame) - other.decision_function(frame)).max()
print(f"{one.certificate.primal:.0f}, {other.certificate.primal:.0f}; scores differ by {apart:.0e}")
""",
        "tests/solvers/test_solve_chunks.py",
    ),
    Case(
        "3.6", "60,000 rows x 4 columns of a memory map, a budget that keeps them in chunks: gap, CPU seconds",
        """
X = rng.normal(size=(60_000, 4)); path = os.path.join(tempfile.mkdtemp(), "r.npy"); np.save(path, X)
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=len(X))
import time; started = time.process_time()
found = solve(
    KernelBank.auto(), y, X=np.load(path, mmap_mode="r"), loss="squared", penalty="l1", alpha=0.01,
    time_limit=150, memory_budget="5 MB",
)
print(f"{found.status}, gap {found.dual_gap:.0e}, {time.process_time() - started:.0f} s")
""",
        "tests/solvers/test_solve_chunks.py",
    ),
    Case(
        "3.7", "Ctrl-C inside compiled loops that return several values, 20 times: what is raised",
        """
import signal
from manykernels.compiled import compiled
signal.signal(signal.SIGALRM, signal.default_int_handler)
@compiled()
def loop(x, n):
    total = 0.0
    for i in range(n): total += np.sin(i)
    return x, total
loop(np.ones(2), 3); raised = []
for _ in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try: loop(np.ones(2), 3_000_000)
    except BaseException as error: raised.append(type(error).__name__)
print({name: raised.count(name) for name in sorted(set(raised))})
""",
        "tests/test_compiled.py",
    ),
    Case(
        "3.13", "compare_solvers where one of three solvers lacks its optional package",
        """
sys.modules["clarabel"] = None
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers import compare_solvers
F = rng.normal(size=(4, 30, 2)); K = F @ F.transpose(0, 2, 1)
problem = Problem(K, F[0, :, 0], get_loss("squared"), get_regularizer("l1", 1.0))
found = compare_solvers(problem, ["working_set", "conic", "pfbs"]).summary()
print(dict(zip(found["solver"], found["status"])))
""",
        "tests/solvers/test_registry_comparison.py",
    ),
    Case(
        "3.14", "a kernel without a penalty, kernels as factors, 30 fits with losses with a kink: status",
        """
ended = []
for seed in range(10):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 2)); y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=50)
    bank = KernelBank([("line", Linear(), [0, 1]), *((f"{j}", Gaussian(1.0), [j]) for j in range(2))], standardize=True)
    for loss, penalty in (("epsilon_insensitive", "l1"), ("quantile", "ridge"), ("epsilon_insensitive", "elasticnet")):
        own = {"loss": loss, "penalty": {"line": None, "*": penalty}, "alpha": 0.05, "tol": 1e-6}
        ended.append(str(made(MKLRegressor, kernels=bank, representation="factored", **own).fit(X, y).solution_.status))
print({status: ended.count(status) for status in sorted(set(ended))})
""",
        "tests/solvers/factored/test_fallback.py",
    ),
    Case(
        "-", "weights of citi, lpmkl and auto at tol 1e-2, 18 problems: farthest off the boundary of their set",
        """
from manykernels.objective import get_regularizer
from manykernels.testing.problems import random_problem
off = {"citi": 0.0, "lpmkl": 0.0, "auto": 0.0}
for seed in range(18):
    kind = ("elasticnet_ball", "lp_ball")[seed % 2]; small = random_problem(seed, loss="hinge", regularizer=kind)
    penalty = get_regularizer(kind, small.strength, **small.regularizer_params)
    for name in (("citi", "lpmkl")[seed % 2], "auto"):
        found = solve(small.kernels, small.y, loss="hinge", penalty=penalty, solver=name, tol=1e-2)
        theta, eta = small.strength * found.kernel_weights, small.regularizer_params.get("eta", 0.0)
        p = small.regularizer_params.get("p", 2.0)
        size = eta * theta.sum() + (1 - eta) * theta @ theta if seed % 2 == 0 else (theta**p).sum() ** (1 / p)
        off[name] = max(off[name], abs(size - 1))
print({name: f"{value:.0e}" for name, value in off.items()})
""",
        "tests/solvers/test_contract.py",
    ),
)  # fmt: skip
