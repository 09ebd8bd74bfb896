"""Choosing the strength: regularization paths and cross-validation."""
