"""One polynomial kernel whose columns have learned weights (NLMKL)."""
