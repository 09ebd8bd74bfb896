"""Whether kernels of single columns are better held as Gram matrices or as factors: CPU seconds of a whole fit.

``python benchmarks/gram_or_factored.py [--smoke] [--output DIR]``

Twelve Gaussian kernels on four columns, logistic loss, the estimator's defaults, the better of two fits. This is what
``kernels_as="auto"`` goes by, see `manykernels.grams.plan.plan_kernels`.
"""

from __future__ import annotations

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLClassifier

SIZES, SMOKE_SIZES = (500, 1000, 2000, 5000), (100, 200)


def row(n_samples: int, seed: int) -> dict[str, float]:
    """Return seconds and gaps of both ways at one size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + rng.logistic(size=n_samples) > 0.5, 1, -1)
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], standardize=True)
    found: dict[str, float] = {"samples": n_samples}
    for way in ("gram", "factored"):
        model = MKLClassifier(bank, kernels_as=way)
        found[f"{way}_s"] = common.cpu_time(lambda model=model: model.fit(X, y), repeats=2).best
        found[f"{way}_gap"] = model.dual_gap_
    return found


def main() -> None:
    """Measure, print, save."""
    options = common.parser(str(__doc__).split("\n", 1)[0]).parse_args()
    record = common.environment()
    common.print_environment(record)
    frame = pd.DataFrame([row(n, options.seed) for n in (SMOKE_SIZES if options.smoke else SIZES)])
    frame["ratio"] = frame["gram_s"] / frame["factored_s"]
    formats = {"gram_s": ".2f", "factored_s": ".2f", "gram_gap": ".0e", "factored_gap": ".0e", "ratio": ".1f"}
    common.print_table(frame, "CPU seconds of a fit", formats)
    common.save(frame, record, options.output, "gram_or_factored")


if __name__ == "__main__":
    main()
