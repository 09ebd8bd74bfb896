"""
Unequal classes and weights
===========================

Twenty malignant tumors among three hundred: without weights the rare class is given up first.
``class_weight="balanced"`` gives both the same total; ``sample_weight`` sets each row's, through
pipelines and searches, too.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
rare = np.flatnonzero(y_train == 0)[:20]
rows = np.concatenate([rare, np.flatnonzero(y_train == 1)])
for weight in (None, "balanced"):
    model = MKLClassifier(class_weight=weight).fit(X_train.iloc[rows], y_train.iloc[rows])
    predicted = model.predict(X_test)
    found = recall_score(y_test, predicted, pos_label=0)
    balanced = balanced_accuracy_score(y_test, predicted)
    print(
        f"class_weight={weight!s:9} malignant found {found:.2f}, balanced accuracy {balanced:.2f}"
    )

# %%
# How ``sample_weight`` is routed through pipelines is said in :ref:`conventions
# <metadata_routing>`.
