"""Tables that are mostly zeros, read by kernels of inner products and of distances without being filled."""
