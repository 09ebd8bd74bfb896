"""Learners at fixed kernel weights: one kernel machine on the weighted sum."""
