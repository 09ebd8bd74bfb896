"""Published solvers, a file each, by the names in the papers."""
