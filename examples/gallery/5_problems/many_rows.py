"""
A hundred thousand rows
=======================

Matrices of rows by rows would take 61 GB a kernel here, where every pixel of two photographs is a
row, and three color values must say which picture it is from. The estimator holds its 45 kernels
as factors instead, unasked, and its gap still counts for the exact ones.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_sample_images
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier
from manykernels.inspection import ShapeDisplay

temple, flower = (image.reshape(-1, 3)[::5] / 255 for image in load_sample_images().images)
pixels = pd.DataFrame(np.concatenate([temple, flower]), columns=["red", "green", "blue"])
picture = np.repeat(["temple", "flower"], [len(temple), len(flower)])
X, X_test, y, y_test = train_test_split(pixels, picture, test_size=0.2, random_state=0)

bank = KernelBank.per_feature(widths=list(np.geomspace(0.1, 5, 15)), standardize=True)
started = time.perf_counter()
model = MKLClassifier(bank, alpha="0.01*max", tol=1e-3).fit(X, y)
seconds = time.perf_counter() - started
print(f"{len(y):,} rows, kernels held {model.representation_}, {seconds:.1f} s")
print(f"relative duality gap {model.dual_gap_:.0e}")
print(f"held-out accuracy {model.score(X_test, y_test):.3f}; selected:")
print(model.weights_frame()[["name", "weight"]].to_string(index=False))

curves = ShapeDisplay.from_estimator(model, X_test).frame()
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for color, curve in curves.groupby("column"):
    axis.plot(curve["x"], curve["effect"], color=color, label=color)
axis.set(xlabel="value of the color", ylabel="speaks for the temple")
axis.legend()

# %%
# Such a model keeps a function a kernel and no training row, so that its file and its predictions
# do not grow with them. Where Gram matrices are still the faster way, and what a pass over the rows
# costs, is in :doc:`/large`; ``MKLClassifierCV`` chooses the strength on factors, too.
