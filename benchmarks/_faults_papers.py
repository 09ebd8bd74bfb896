"""Reported faults of methods of papers: constants, algorithms as printed, paths."""

from __future__ import annotations

from _faults import Case

CASES = (
    Case(
        "53.3",
        "SpicyMKL as printed (Table 1): outer iterations with gamma = 2^t to a gap of 1 %",
        """
from manykernels import papers
F = rng.normal(size=(20, 60, 3)); K = F @ F.transpose(0, 2, 1); y = np.sign(F[0, :, 0])
run = papers.solve_as_printed(papers.spicymkl(0.5).problem(K, y))
told = run.history
print(f"{len(told)} iterations, gamma {told.gamma.tolist()[:3]}, gap {told.relative_gap.iloc[-1]:.1e}")
""",
        "tests/papers/test_spicymkl_printed.py",
    ),
    Case(
        "53.6",
        "constants of papers in an installed package: Citi's problem with C = 10",
        """
from manykernels import papers
posed = papers.citi(10.0, 0.5)
print(f"{posed.regularizer}, factor {posed.factor:g}")
""",
        "tests/papers/test_problems.py",
    ),
    Case(
        "53.7",
        "a path of tau at fixed mu: strengths of the norms and of the squares at both ends",
        """
F = rng.normal(size=(6, 50, 3)); K = F @ F.transpose(0, 2, 1); y = F[0, :, 0] + 0.1 * rng.normal(size=50)
path = regularization_path(K, y, kernels="precomputed", ridge=0.1, n_alphas=5, fit_intercept=False, solver="pfbs")
print(f"tau {path.alphas[0]:.2g} to {path.alphas[-1]:.2g}, mu 0.1, kernels {path.summary()['n_active'].tolist()}")
""",
        "tests/estimators/test_path.py",
    ),
    Case(
        "53.9",
        "the support kernel machine to the letter: status at (eps1, eps2) = (1e-2, 1e-2) of the paper",
        """
X = rng.normal(size=(40, 4)); K = np.stack([np.exp(-((x[:, None] - x) ** 2) / 2) for x in X.T]); y = np.sign(X[:, 0])
from manykernels import papers
problem = papers.skm(1.0, np.ones(4)).problem(K, y)
found = papers.SupportKernelMachine(newton=False, rescale=False, epsilons=(1e-2, 1e-2)).solve(problem)
kappa = papers.sufficient_kappa(K, 1.0, 0.4, 1e-2)
print(f"{found.status} after {found.n_iter} stages; Corollary 1 asks for kappa {kappa:.1e}")
""",
        "tests/papers/test_skm_bounds.py",
    ),
)
