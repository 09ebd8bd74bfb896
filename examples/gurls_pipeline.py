"""The pipeline of rls_dual_mkl: a LIBSVM file of two classes, paths for several mixtures, RMSE with its deviation."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_svmlight_file
from sklearn.model_selection import ShuffleSplit, train_test_split

from manykernels import Gaussian, KernelBank, Linear, MKLRegressorCV, regularization_path

# Any file of the LIBSVM page of binary sets is read like this one, which comes from scikit-learn's tumors.
X, y = load_breast_cancer(return_X_y=True)
with TemporaryDirectory() as folder:
    path = Path(folder) / "tumors.libsvm"
    dump_svmlight_file(X, np.where(y == 1, 1, -1), str(path), zero_based=False)
    columns, labels = load_svmlight_file(str(path))
X_train, X_test, y_train, y_test = train_test_split(columns.toarray(), labels, train_size=200, random_state=0)

KINDS = {"gaussian": Gaussian(1.0), "linear": Linear()}
kernels = [(f"{name} {j}", kind, [j]) for j in range(10) for name, kind in KINDS.items()]
kernels.append(("all", Gaussian(4.0), None))
bank = KernelBank(kernels, standardize=True, normalize="mean_diagonal")
settings = {"penalty": "elasticnet", "solver": "pfbs", "fit_intercept": False, "tol": 1e-3}
splits = ShuffleSplit(3, test_size=0.25, random_state=0)
search = {"l1_ratios": (0.5, 0.9), "n_alphas": 8, "cv": splits, "scoring": "neg_root_mean_squared_error"}
model = MKLRegressorCV(bank, **search, **settings)
model.fit(X_train, y_train)

table = model.cv_results_.assign(rmse=-model.cv_results_["mean_score"]).rename(columns={"std_score": "deviation"})
print("RMSE over the splits, with its standard deviation:")
print(table[["l1_ratio", "alpha", "rmse", "deviation", "n_active"]].round(4).to_string(index=False))
scores = model.predict(X_test)
error = np.sqrt(np.mean((scores - y_test) ** 2))
print(f"chosen: alpha {model.alpha_:.3g}, l1_ratio {model.l1_ratio_:g}; held-out RMSE {error:.3f}", end=", ")
print(f"accuracy of the sign {np.mean(np.sign(scores) == y_test):.3f}")

given = {"penalty": "elasticnet", "penalty_parameters": {"l1_ratio": model.l1_ratio_}, "n_alphas": 5}
path = regularization_path(X_train, y_train, kernels=bank, cv=splits, solver="pfbs", fit_intercept=False, **given)
columns = ["alpha", "n_active", "relative_gap", "rmse", "rmse_std"]  # the path, and what it is worth on the splits
print(path.summary()[columns].round(4).to_string(index=False))
