"""Named kernels on the columns of a table, and what is learned about them from training rows."""
