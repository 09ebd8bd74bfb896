"""A bank opened on rows as factors, and the functions of its kernels without these rows."""
