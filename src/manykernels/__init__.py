"""Multiple kernel learning: a predictor, and which kernels matter, with a proof of optimality."""
