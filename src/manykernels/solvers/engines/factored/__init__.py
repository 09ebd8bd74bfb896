"""Group problems in the coefficients of factors: what the method for factored stacks is made of."""
