"""Kernel specifications, in modules named after their families."""
