"""The primal-dual Newton iteration, with one class a loss and one a regularizer."""
