"""Reported faults of curves with shapes, of bounds that cross, and of kernels of counts and of graphs."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "1g", "increasing and concave, knots without rows: the largest fall, and the largest bend upward",
        """
from manykernels.kernels import Shaped
x = np.array([0.0, 1.0, 3.0] * 10); grid = np.linspace(-1, 4, 51)[:, None]; y = x + 0.1 * rng.normal(size=30)
def curve(shape):
    bank = KernelBank([("a", Shaped(Gaussian(0.5), shape, points=(-1., 0., 1., 2., 3., 4.)), [0])], normalize=None)
    return made(MKLRegressor, kernels=bank, alpha=1e-3).fit(x[:, None], y).predict(grid)
print(f"{max(-np.diff(curve('increasing')).min(), 0):.1g}, {max(np.diff(curve('concave'), 2).max(), 0):.1g}")
""",
        "tests/testing/test_estimators.py",
    ),
    Case(
        "1h", "concave on cauchy ** 3, 134 rows: by how much the lower bound is above the objective",
        """
from manykernels.kernels import Shaped
rng = np.random.default_rng(19); x = rng.standard_cauchy((int(rng.integers(40, 200)), 1)) ** 3
y = np.sign(x[:, 0]) * np.log1p(abs(x[:, 0])) + rng.normal(size=len(x))
bank = KernelBank([("a", Shaped(Laplacian("median"), "concave"), [0])])
found = solve(bank, y, X=x, loss="squared", tol=1e-4, alpha="0.01*max", penalty="l1")
print(f"{found.status}, {max(found.certificate.dual / found.certificate.primal - 1, 0):.1g} of it")
""",
        "tests/estimators/test_landmarks_shaped.py",
    ),
    Case(
        "1n", "MinMax of counts 100 and 200",
        """
from manykernels.kernels import Fingerprint
print(round(float(Fingerprint("minmax")([{1: 100}, {1: 200}])[0, 1]), 3))
""",
        "tests/kernels/test_objects.py",
    ),
    Case(
        "1o", "a graph, and the same with its edges in both directions: the kernel between both",
        """
from manykernels.kernels import GraphFeatures
edges = [(0, 1), (1, 2)]
print(round(float(GraphFeatures()([(edges, {}), (edges + [(b, a) for a, b in edges], {})])[0, 1]), 3))
""",
        "tests/kernels/test_objects.py",
    ),
    Case(
        "3.4", "a tree of norms, two targets on matrices: a kernel that is a group by itself",
        """
from manykernels.grams import DenseStack
from manykernels.objective import Problem, Tree
rng = np.random.default_rng(17); n, T, M = int(rng.integers(15, 50)), int(rng.integers(2, 5)), int(rng.integers(4, 10))
F = rng.normal(size=(M, n, 3)); K = F @ F.transpose(0, 2, 1)
y = np.column_stack([F[rng.integers(M), :, 0] for _ in range(T)]) + 0.3 * rng.normal(size=(n, T))
order = rng.permutation(M); cut = sorted(rng.choice(np.arange(1, M), 2, replace=False))
groups = {f"g{i}": [f"k{m}" for m in part] for i, part in enumerate(np.split(order, cut))}
stack = DenseStack(K, names=[f"k{m}" for m in range(M)])
tree = Tree(1.0, groups, l1_ratio=float(rng.choice([0.2, 0.5, 0.9])))
penalty = Problem(stack, y, "huber", tree).at_fraction(float(rng.choice([0.3, 0.1, 0.01]))).regularizer
found = solve(stack, y, loss="huber", tol=1e-4, penalty=penalty, outputs="shared")
print(f"{found.status}, gap {found.certificate.relative_gap:.0e}")
""",
        "tests/solvers/test_set_weights_of_nodes.py",
    ),
    Case(
        "3.8", "a shape and one sample weight of 1e9, 1e15: status, gap, residual of the heavy row",
        """
X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
y = X["a"].to_numpy() + 0.3 * rng.normal(size=120)
for weight in (1e9, 1e15):
    w = np.ones(120); w[3] = weight
    model = made(MKLRegressor, kernels=KernelBank.auto(shape={"a": "increasing"}), time_limit=40.0)
    model.fit(X, y, sample_weight=w)
    print(f"{model.solution_.status}, gap {model.dual_gap_:.0e}, off by {abs(model.predict(X) - y)[3]:.0e};", end=" ")
""",
        "tests/solvers/factored/test_quadratic_formed_cones.py",
    ),
    Case(
        "3.8", "one sample weight of 1e15 with the Huber, quantile and Poisson loss: status, what the message names",
        """
X = rng.normal(size=(120, 2)); y = X[:, 0] + 0.3 * rng.normal(size=120); w = np.ones(120); w[3] = 1e15
for loss in ("huber", "quantile", "poisson"):
    model = made(MKLRegressor, loss=loss, representation="factored", time_limit=20.0)
    found = model.fit(X, np.round(np.exp(y)) if loss == "poisson" else y, sample_weight=w).solution_
    print(found.status, "weights" if "sample weights" in found.message else "others", end="; ")
""",
        "tests/solvers/test_base_fallback.py",
    ),
    Case(
        "3.10", "a list of sparse kernels; ragged kernels of new rows",
        """
from scipy.sparse import csr_array
X = rng.normal(size=(12, 2)); K = X @ X.T; raised = []
given = {"loss": "squared", "strength": 0.1, "penalty": "l1"}; found = solve(np.array([K, K * K]), X[:, 0], **given)
for program in (lambda: solve([csr_array(K)] * 2, X[:, 0], **given), lambda: found.decision_function([K[:5], K[:4]])):
    try: program()
    except Exception as error: raised.append(type(error).__name__)
print(*raised)
""",
        "tests/solvers/test_solve.py",
    ),
    Case(
        "3.10", "an indefinite kernel of a user's own in a bank: what fit raises or warns of",
        """
from manykernels.kernels import KernelSpec
class Crossed(KernelSpec):
    kind = "crossed"
    def __call__(self, A, B=None):
        apart = np.abs(A[:, None] - (A if B is None else B)).sum(axis=2)
        return np.where(apart == 0.0, 1.0, -np.exp(-(apart**2) / 2.0))
    def diag(self, A): return np.ones(len(A))
X = rng.normal(size=(20, 2)); kernels = [("a", Crossed(), [0]), ("b", Crossed(), [0, 1]), ("c", Gaussian(1.0), [1])]
made(MKLClassifier, kernels=KernelBank(kernels, normalize=None), alpha=0.001).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
print("fitted")
""",
        "tests/estimators/test_strength.py",
    ),
)  # fmt: skip
