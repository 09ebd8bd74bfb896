"""Estimators whose kernels are found while learning."""
