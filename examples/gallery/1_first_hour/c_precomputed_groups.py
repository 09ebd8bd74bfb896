"""
Precomputed kernels, grouped folds
==================================

Is a patch of 40 x 40 pixels from the temple or from the flower? Three precomputed similarities of
patches: mean colors, spread of colors, and colors of the quarters. Neighboring patches look alike,
so patches of one region belong into one fold. Folds that ignore this give scores that are too good.
"""

import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from manykernels import Gaussian, KernelStack, MKLClassifier, PrecomputedBank

images = np.array(load_sample_images().images)[:, :400] / 255
patches = images.reshape(2, 10, 40, 16, 40, 3).swapaxes(2, 3).reshape(320, 2, 20, 2, 20, 3)
groups = [f"{n} {i // 4} {j // 4}" for n in (0, 1) for i in range(10) for j in range(16)]
y = np.repeat(["temple", "flower"], 160)
parts = patches.mean((1, 2, 3, 4)), patches.std((1, 2, 3, 4)), patches.mean((2, 4)).reshape(320, 12)
stack = KernelStack([Gaussian(2.0)(p / p.std()) for p in parts], ["colors", "spread", "quarters"])
model = MKLClassifier(PrecomputedBank("mean_diagonal")).fit(stack, y)
print(model.importance_frame("kernel")[["kernel", "importance", "low", "high"]].round(3))
random = cross_val_score(model, stack, y, cv=KFold(5, shuffle=True, random_state=0))
grouped = cross_val_score(model, stack, y, groups=groups, cv=GroupKFold(5))
print(f"random folds {random.mean():.3f}, grouped folds {grouped.mean():.3f}")

# %%
# The kernels are split on both axes, whatever the splitter; scales are learned on the training
# rows of every fold.
