"""Machines at fixed kernel weights."""
