"""Algorithms as their papers print them, for comparison with the solvers of the library; nothing is improved."""
