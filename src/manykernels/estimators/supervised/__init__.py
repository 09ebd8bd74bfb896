"""The classifier and the regressor on a bank of kernels, and their shared parts."""
