"""Machines for several targets at fixed kernel weights, and Newton's method over the weights."""
