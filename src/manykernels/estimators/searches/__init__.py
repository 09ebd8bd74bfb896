"""Estimators with learned kernels."""
