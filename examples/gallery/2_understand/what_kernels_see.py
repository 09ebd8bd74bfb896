"""
What does a kernel see?
=======================

A Gram matrix with its samples sorted by class: a kernel that tells the classes apart has bright
blocks. The alignment of two kernels says how much they say the same; its first row, how much a
kernel says about the target by itself.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from manykernels import KernelBank
from manykernels.inspection import AlignmentDisplay, GramDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
y = y.map({0: "Barolo", 1: "Grignolino", 2: "Barbera"})
bank = KernelBank.per_feature(widths=["median"], standardize=True) + KernelBank.joint(
    widths=["median"], standardize=True
)

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, name in zip(axes, ["flavanoids", "ash"], strict=True):
    GramDisplay.from_bank(bank, X, f"{name}: gaussian(width=median)", y=y).plot(axis)

# %%
display = AlignmentDisplay.from_bank(bank, X, y=y, top=10).plot()
print(display.frame().iloc[0].round(2).to_string())
