"""The default solvers on matrices: primal-dual iterations, working sets, the smooth dual."""
