"""Survival: times until an event, with censoring, and models of hazards."""
