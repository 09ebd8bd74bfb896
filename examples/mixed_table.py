"""A table as it comes: numbers, categories of 2 to 60 levels, an ordered grade, dates and 20 % gaps.

Run with ``python examples/mixed_table.py``.
"""

from sklearn.metrics import roc_auc_score

from manykernels import KernelBank, MKLClassifier
from manykernels.datasets import make_mixed_table

data = make_mixed_table(700, levels=(2, 8, 60), random_state=0)
X_train, X_test, y_train, y_test = data.X[:500], data.X[500:], data.y[:500], data.y[500:]
print(data.X.head(4).to_string())
print(f"missing entries: {data.X.isna().mean().mean():.0%}")

for missing in ("mask", "indicator"):
    bank = KernelBank.auto(missing=missing)
    model = MKLClassifier(bank).fit(X_train, y_train)
    auc = roc_auc_score(y_test, model.decision_function(X_test))
    print(f"{missing}: AUC {auc:.2f}, {len(model.kernel_names_)} kernels, gap {model.dual_gap_:.0e}")
print(f"the generator's own log odds: AUC {roc_auc_score(y_test, data.score[500:]):.2f}")
print("columns that matter by construction:", ", ".join(data.informative))
importance = model.importance_frame()[["name", "importance", "low", "high"]]
print(importance.head(8).round(3).to_string(index=False))

new = X_test.head(1).assign(code2="never seen", dose=None)
print(f"a category nobody has seen and no dose: {model.predict(new)[0]}, from what is known")
