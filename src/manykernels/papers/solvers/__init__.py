"""Published solvers, one a file, by the names that their papers gave them."""
