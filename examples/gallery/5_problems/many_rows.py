"""
A hundred thousand rows
=======================

Estimators keep matrices of rows by rows. ``solve_factored`` does not: here every pixel of two
photographs is a row, and three color values must say which picture it is from. 45 kernels, and a
gap that counts for the exact ones.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from manykernels import KernelBank, solve_factored

images = load_sample_images().images
pixels = np.concatenate([image.reshape(-1, 3)[::5] for image in images]) / 255
y = np.repeat([-1.0, 1.0], len(pixels) // 2)
bank = KernelBank.per_feature(
    widths=list(np.geomspace(0.1, 5, 15)), columns=[0, 1, 2], standardize=True
)
started = time.perf_counter()
model = solve_factored(pixels, y, bank, loss="logistic", relative_strength=0.01, tol=1e-3)
seconds = time.perf_counter() - started
print(f"{len(y):,} rows, {3 * 15} kernels: gap {model.dual_gap:.0e}, {seconds:.1f} s")
print(f"accuracy {np.mean(model.predict(pixels) == y):.3f}; selected:")
print(model.weights_frame()[["name", "weight"]].to_string(index=False))

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for column, color in enumerate(["red", "green", "blue"]):
    curve = model.shape_functions(column)
    axis.plot(curve["x"], curve["effect"], color=color, label=color)
axis.set(xlabel="value of the color", ylabel="speaks for the flower")
axis.legend()

# %%
# Colors of the flower are reddish and dark; the temple is under a bright blue sky. What a pass
# over the rows costs is in :doc:`/large`.
