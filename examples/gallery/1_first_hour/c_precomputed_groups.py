"""
Precomputed kernels, grouped folds
==================================

Is a patch of 40 x 40 pixels from the temple or from the flower? Three similarities of patches, computed beforehand:
mean colors, spread of colors, and the coarse image. Neighbors look alike, so that patches of one region belong into
one fold: folds that ignore this promise more than new pictures would keep.
"""

import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from manykernels import KernelStack, MKLClassifier, PrecomputedBank

images = np.array(load_sample_images().images)[:, :400] / 255
patches = images.reshape(2, 10, 40, 16, 40, 3).swapaxes(2, 3).reshape(320, 40, 40, 3)
groups = [f"{n} {i // 4} {j // 4}" for n in (0, 1) for i in range(10) for j in range(16)]
y = np.repeat(["temple", "flower"], 160)
parts = patches.mean(axis=(1, 2)), patches.std(axis=(1, 2)), patches[:, ::8, ::8].reshape(320, -1)
stack = KernelStack([rbf_kernel(part / part.std()) for part in parts], names=["colors", "spread", "coarse image"])
model = MKLClassifier(PrecomputedBank("mean_diagonal"))
print(f"random folds  {cross_val_score(model, stack, y, cv=KFold(5, shuffle=True, random_state=0)).mean():.3f}")
print(f"grouped folds {cross_val_score(model, stack, y, groups=groups, cv=GroupKFold(5)).mean():.3f}")
print(model.fit(stack, y).weights_frame()[["name", "weight", "share"]].to_string(index=False))

# %%
# The kernels are split on both axes, whatever the splitter; scales are learned on the training rows of every fold.
