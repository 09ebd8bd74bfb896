"""
Which strength?
===============

``MKLClassifierCV`` fits whole paths on folds and takes the strength with the smallest mean loss on
rows that were held out (scores are its negative, as everywhere in scikit-learn). The curve shows
what was gained by looking, and the standard errors how sure that is: where the curve is flat, the
sparser end predicts as well.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score

from manykernels import MKLClassifier, MKLClassifierCV
from manykernels.inspection import CVCurveDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.filter(like="mean")
search = MKLClassifierCV(penalty="l1", cv=4, n_alphas=8).fit(X, y)
print(f"strength {search.alpha_:.3g}, mean score of its folds {search.best_score_:.3f}")
untouched = cross_val_score(MKLClassifier(), X, y, cv=4, scoring="neg_log_loss")
print(f"untouched, for comparison: {untouched.mean():.3f}")
CVCurveDisplay.from_estimator(search).plot()

# %%
# Numbers above the curve are active kernels, and the ring is the choice.
