"""
Three omics views
=================

Messenger RNA, micro RNA and proteins of the same 220 patients, reduced to their leading
components. They are simulated here, so that the truth is known: two views carry the classes, one
is noise. Each view gets Gaussian kernels of three widths and a linear one; the model says which
views it needs.
"""

from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifierCV
from manykernels.datasets import make_multiview
from manykernels.inspection import KernelWeightsDisplay

cohort = make_multiview(220, (30, 20, 25), n_informative=2, effect="linear", random_state=0)
views = dict(zip(["mrna", "mirna", "protein"], cohort.views.values(), strict=True))
X_train, X_test, y_train, y_test = train_test_split(
    cohort.X, cohort.y, train_size=150, random_state=0
)

bank = KernelBank.from_views(views, normalize="mean_diagonal")
model = MKLClassifierCV(bank, penalty="l1", cv=4, n_alphas=8).fit(X_train, y_train)
print(f"the truth: {cohort.informative}; held-out accuracy {model.score(X_test, y_test):.2f}")
print(KernelWeightsDisplay.from_estimator(model, by="view", value="norm_share").plot().frame())

# %%
# The two views that carry the classes have most of the share. With so few patients some of it
# goes to noise: look at several splits before believing a view.
