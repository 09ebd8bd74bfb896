"""Solvers on factors: proximal Newton steps, working sets, exact continuation."""
