"""Descent over kernel weights on the simplex: points, programs, cuts and line searches."""
