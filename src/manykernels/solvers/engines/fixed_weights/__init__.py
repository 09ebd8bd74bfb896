"""Learners at fixed kernel weights: one kernel method on the weighted sum."""
