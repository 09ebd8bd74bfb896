"""Multiple kernel learning in time linear in the number of samples, certified for the exact kernels."""
