"""Named kernels on the columns of a table, with parameters learned from training rows."""
