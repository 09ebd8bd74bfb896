"""
A kernel for histograms
=======================

Histograms are compared by the chi-squared kernel, not by their Euclidean distance. A bank mixes
both kinds on the same columns, and the model says which it prefers: colors of patches of two
photographs.
"""

import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.model_selection import train_test_split

from manykernels import ChiSquared, Gaussian, KernelBank, Linear, MKLClassifier

places = [(n, i, j) for n in (0, 1) for i in range(0, 420, 30) for j in range(0, 630, 30)]
images = load_sample_images().images
patches = [images[n][i : i + 30, j : j + 30].reshape(-1, 3) for n, i, j in places]
colors = np.array([np.histogramdd(p, (4, 4, 4), [(0, 256)] * 3)[0].ravel() for p in patches]) / 900
y = np.array([["temple", "flower"][n] for n, _, _ in places])
train, test = train_test_split(np.arange(len(y)), train_size=300, stratify=y, random_state=0)

everything = slice(None)
kernels = [
    ("chi-squared", ChiSquared(), everything),
    ("gaussian", Gaussian(0.3), everything),
    ("linear", Linear(), everything),
]
model = MKLClassifier(KernelBank(kernels, normalize="mean_diagonal")).fit(colors[train], y[train])
print(f"held-out accuracy {model.score(colors[test], y[test]):.3f}")
print(
    model.weights_frame(active_only=False)[["name", "weight", "norm_share"]].to_string(index=False)
)

# %%
# All the weight goes to the kernel that was made for histograms.
